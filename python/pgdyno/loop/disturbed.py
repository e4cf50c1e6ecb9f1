"""Finds what disturbed a run: its machine or other sessions, and not the server or the load."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from pgdyno.analysis.verdicts import (
    MACHINE_DOUBTS,
    OUTSIDE_DOUBTS,
    DatabaseFacts,
    Doubt,
    LoadFacts,
    MachineFacts,
    RunFacts,
    doubts,
)
from pgdyno.loop.counter_growth import counters_of, deltas_of, grown, load_backends
from pgdyno.loop.load_numbers import LoadNumbers
from pgdyno.observe.catalogue import collector_named
from pgdyno.observe.host.cpu import CpuCollector, ThrottlingCollector
from pgdyno.observe.processes.backends import LOAD
from pgdyno.observe.sql.waits import PARALLEL_WORKER, UNSEEN
from pgdyno.observe.sql.wal import CheckpointerCollector
from pgdyno.store.parquet import Arrays
from pgdyno.store.stored_run import StoredRun

_OF_ALL_PROGRAMS = ("user_ns", "nice_ns", "system_ns")
_OF_PROGRAMS = ("cpu_user_ns", "cpu_system_ns")
_CPU_MODES = tuple(c.name for c in CpuCollector.columns if c.nature == "counter")


def machine_facts(stored: StoredRun, numbers: LoadNumbers, *, is_same_host: bool) -> MachineFacts:
    """Return what is known of the engine's threads, and of the CPU time that was taken away."""
    threads = numbers.summary.engine.threads
    return MachineFacts(
        thread_busy_ratio=max((thread.busy_ratio for thread in threads), default=None),
        timer_lag_p99_ns=max((thread.timer_lag_ns_p99 for thread in threads), default=None),
        steal_ratio=_steal_ratio(stored, numbers),
        throttled_ns=_throttled_ns(stored, numbers),
        other_programs_ratio=other_programs_ratio_of(stored, numbers),
        is_same_host=is_same_host,
    )


def disturbed_by(stored: StoredRun, numbers: LoadNumbers) -> tuple[Doubt, ...]:
    """Return the doubts because of which a trial of a load says nothing about the server.

    The tail of the latency decides a trial, so late timers are compared with it.
    """
    tail_ns = numbers.latency.percentiles["p99"].value * 1e6
    load = replace(_load(numbers), latency_p50_ns=tail_ns)
    facts = RunFacts(load, machine_facts(stored, numbers, is_same_host=False))
    return tuple(doubt for doubt in doubts(facts) if doubt.kind in MACHINE_DOUBTS)


def disturbed_from_outside(stored: StoredRun, numbers: LoadNumbers) -> tuple[Doubt, ...]:
    """Return the doubts that another run of the same load may not have."""
    facts = RunFacts(
        _load(numbers),
        machine_facts(stored, numbers, is_same_host=False),
        DatabaseFacts(others_ratio=others_ratio_of(stored, numbers)),
    )
    return tuple(doubt for doubt in doubts(facts) if doubt.kind in OUTSIDE_DOUBTS)


def _load(numbers: LoadNumbers) -> LoadFacts:
    """Return the facts of a load whose clients do not count."""
    completed = numbers.counts.completed
    return LoadFacts(measured_seconds=numbers.seconds, client_count=1, completed_count=completed)


def has_timed_checkpoint(stored: StoredRun, numbers: LoadNumbers) -> bool:
    """Return whether checkpoint_timeout began a checkpoint in the measured time."""
    rows = deltas_of(stored, "checkpointer", CheckpointerCollector.columns, "")
    return bool(grown(rows, "checkpoints_timed", *numbers.span_ns))


FOR_SOMEBODY = ("client backend", "parallel worker")
"""The types of backends that work for a client. The server's own maintenance serves the load."""


def inside_phase(waits: Arrays, numbers: LoadNumbers) -> npt.NDArray[np.bool_]:
    """Return which samples are in the measured phase."""
    time_ns = np.asarray(waits["time_ns"], dtype=np.int64)
    return (time_ns >= numbers.began_ns) & (time_ns < numbers.ended_ns)


def others_ratio_of(stored: StoredRun, numbers: LoadNumbers) -> float | None:
    """Return the share of the server's active sessions that were not the load's; None = unknown.

    Sessions that work for a client count, in all databases. Autovacuum does not count, because it
    serves the load. If foreign sessions are not visible, the share is not known.
    """
    waits = stored.waits()
    inside = inside_phase(waits, numbers)
    backend_type = np.asarray(waits["backend_type"])
    if (inside & (backend_type == UNSEEN)).any():
        return None
    is_active = inside & (np.asarray(waits["state"]) == "active")
    is_somebodys = is_active & np.isin(backend_type, FOR_SOMEBODY)
    count = np.asarray(waits["count"], dtype=np.int64)
    total = int(count[is_somebodys].sum())
    others = int(count[is_somebodys & (np.asarray(waits["ours"]) != 1)].sum())
    return others / total if total else None


def cpu_ns_by_mode(stored: StoredRun, numbers: LoadNumbers, table: str = "cpu") -> dict[str, float]:
    """Return the time of all cores by mode in the measured phase; empty if not measured."""
    whole = deltas_of(stored, table, CpuCollector.columns, "all")
    by_mode = {mode: grown(whole, mode, *numbers.span_ns) for mode in _CPU_MODES}
    known = {mode: value for mode, value in by_mode.items() if value is not None}
    return known if len(known) == len(_CPU_MODES) else {}


def other_programs_ratio_of(stored: StoredRun, numbers: LoadNumbers) -> float | None:
    """Return the share of all cores that other programs than server and pgdyno used.

    Returns: None if not known. Processes that live shorter than a second are not counted as the
    server's. So it is not known with parallel workers, or with a connection for each transaction.
    A standby or another node may be on the same host, so it is not known with these either.
    """
    by_mode = cpu_ns_by_mode(stored, numbers)
    of_server = counters_of(stored, "backends")
    work = (stored.document("job.json") or {}).get("work", {})
    is_short_lived = work.get("connect", {}).get("each_transaction", False)
    is_short_lived |= bool((np.asarray(stored.waits()["backend_type"]) == PARALLEL_WORKER).any())
    kinds = {growth.key["backend_type"] for growth in of_server}
    has_nodes = any(collector_named(name).scope == "node" for name in stored.collectors())
    is_alone = "walsender" not in kinds and not has_nodes
    if not by_mode or LOAD not in kinds or is_short_lived or not is_alone:
        return None
    load = load_backends(stored)
    known = [growth for growth in of_server if growth.key["backend_type"] != LOAD]
    own_ns = [grown(growth, "run_ns", *numbers.span_ns) for growth in (load, *known)]
    if own_ns[0] is None:
        return None
    if stored.telemetry("load_cpu") is None:  # The load's programs are on the same host.
        programs = counters_of(stored, "programs")
        own_ns += [grown(g, mode, *numbers.span_ns) for g in programs for mode in _OF_PROGRAMS]
    used_ns = sum(by_mode[mode] for mode in _OF_ALL_PROGRAMS)
    others_ns = used_ns - sum(ns for ns in own_ns if ns is not None)
    return max(0.0, others_ns / sum(by_mode.values()))


def _steal_ratio(stored: StoredRun, numbers: LoadNumbers) -> float | None:
    """Return the larger steal ratio of two hosts: the server's and the load's."""
    ratios = []
    for table in ("cpu", "load_cpu"):
        by_mode = cpu_ns_by_mode(stored, numbers, table)
        if total := sum(by_mode.values()):
            ratios.append(by_mode["steal_ns"] / total)
    return max(ratios, default=None)


def _throttled_ns(stored: StoredRun, numbers: LoadNumbers) -> int | None:
    totals = [
        grown(
            deltas_of(stored, "throttling", ThrottlingCollector.columns, program),
            "throttled_ns",
            *numbers.span_ns,
        )
        for program in ("lab", "server")
    ]
    known = [total for total in totals if total is not None]
    return int(max(known)) if known else None
