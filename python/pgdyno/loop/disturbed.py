"""Finds what disturbed a run: its machine, and not the server or the load."""

from __future__ import annotations

from pgdyno.analysis.verdicts import (
    MACHINE_DOUBTS,
    Doubt,
    LoadFacts,
    MachineFacts,
    RunFacts,
    doubts,
)
from pgdyno.loop.counter_growth import deltas_of, grown
from pgdyno.loop.load_numbers import LoadNumbers
from pgdyno.observe.host.cpu import CpuCollector, ThrottlingCollector
from pgdyno.store.stored_run import StoredRun

_CPU_MODES = tuple(c.name for c in CpuCollector.columns if c.nature == "counter")


def machine_facts(stored: StoredRun, numbers: LoadNumbers, *, is_same_host: bool) -> MachineFacts:
    """Return what is known of the engine's threads, and of the CPU time that was taken away."""
    threads = numbers.summary.engine.threads
    return MachineFacts(
        thread_busy_ratio=max((thread.busy_ratio for thread in threads), default=None),
        timer_lag_p99_ns=max((thread.timer_lag_ns_p99 for thread in threads), default=None),
        steal_ratio=_steal_ratio(stored, numbers),
        throttled_ns=_throttled_ns(stored, numbers),
        is_same_host=is_same_host,
    )


def disturbed_by(stored: StoredRun, numbers: LoadNumbers) -> tuple[Doubt, ...]:
    """Return the doubts because of which a trial of a load says nothing about the server.

    The tail of the latency decides a trial, so late timers are compared with it.
    """
    facts = RunFacts(
        LoadFacts(
            measured_seconds=numbers.seconds,
            client_count=1,
            completed_count=numbers.counts.completed,
            latency_p50_ns=numbers.latency.percentiles["p99"].value * 1e6,
        ),
        machine_facts(stored, numbers, is_same_host=False),
    )
    return tuple(doubt for doubt in doubts(facts) if doubt.kind in MACHINE_DOUBTS)


def cpu_ns_by_mode(stored: StoredRun, numbers: LoadNumbers, table: str = "cpu") -> dict[str, float]:
    """Return the time of all cores by mode in the measured phase; empty if not measured."""
    whole = deltas_of(stored, table, CpuCollector.columns, "all")
    by_mode = {mode: grown(whole, mode, *numbers.span_ns) for mode in _CPU_MODES}
    known = {mode: value for mode, value in by_mode.items() if value is not None}
    return known if len(known) == len(_CPU_MODES) else {}


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
