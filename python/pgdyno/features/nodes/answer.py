"""The nodes of a distributed server in a run: doubts, and what their sessions waited for."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

import numpy as np

from pgdyno.analysis.verdicts import Doubt
from pgdyno.analysis.where import NodeWork
from pgdyno.analysis.where_facts import NOT_INSTRUMENTED
from pgdyno.loop.counter_growth import counters_of, grown
from pgdyno.loop.load_numbers import LoadNumbers
from pgdyno.observe.collector import NoticeKind
from pgdyno.observe.host.cpu import ALL_CORES, MODES
from pgdyno.observe.rates import Deltas
from pgdyno.observe.sql.waits import ANSWERED
from pgdyno.quantities import counted, percent
from pgdyno.store.stored_run import StoredRun

# Statements that need several shards beyond this share make a run one of their coordination.
_SEVERAL_RATIO_MAX = 0.2
_LOST = NoticeKind.OBSERVER_LOST_NODE
_WRITTEN = ("buffers_checkpoint", "buffers_clean", "buffers_backend")
_NOT_AT_WORK = ("idle", "iowait", "steal")
Waits = tuple[tuple[str, float], ...]


def doubts_of_nodes(stored: StoredRun, numbers: LoadNumbers) -> Iterator[Doubt]:
    """Yield the doubts about a run in which a node was lost or shards were moved."""
    lost = [warning for warning in stored.warnings if warning["kind"] == _LOST]
    for name in sorted({str(warning["source"]) for warning in lost}):
        first_ns = min(warning["time_ns"] for warning in lost if warning["source"] == name)
        if first_ns <= numbers.ended_ns:
            yield Doubt(
                "node_lost",
                "not_valid",
                f"The {name} was lost {max(first_ns - numbers.began_ns, 0) / 1e9:.1f} s after the"
                " beginning of the measured time.",
                "start the node again and measure again; see its log for the reason",
            )
    yield from _rebalanced(stored)
    yield from _deadlocked(stored, numbers)
    several = several_shards_ratio(stored, numbers)
    if several is not None and several > _SEVERAL_RATIO_MAX:
        yield Doubt(
            "several_shards",
            "doubt",
            f"{percent(several)} of the statements needed several shards: the scripts find rows by"
            " another column than that of the distribution.",
            "distribute them by the column of the scripts, for pgbench's own: pgdyno init"
            " --distribute citus, or SELECT alter_distributed_table('pgbench_accounts',"
            " distribution_column => 'aid')",
        )


def _deadlocked(stored: StoredRun, numbers: LoadNumbers) -> Iterator[Doubt]:
    """Yield the doubt about deadlocks of the load that no node saw alone.

    Limits: the engine tries again after a deadlock and after a serialization failure, and counts
    both together. So with the latter among the failures, only failed transactions are counted.
    """
    failures = numbers.summary.failures
    retries = 0 if "40001" in failures else numbers.counts.retries
    failed = failures.get("40P01", 0) + retries
    nodes = counters_of(stored, "node_database")
    databases = (*nodes, *counters_of(stored, "database"))
    alone = sum(float(growth.by_column["deadlocks"].sum()) for growth in databases)
    if nodes and failed > alone:
        yield Doubt(
            "deadlocks_of_nodes",
            "doubt",
            f"{counted(round(failed - alone), 'deadlock')} went over several nodes. Citus looks for"
            " these only now and then, so sessions waited for seconds.",
            "change the rows of a transaction in the order of the distribution column, or look more"
            " often: citus.distributed_deadlock_detection_factor",
        )


def _rebalanced(stored: StoredRun) -> Iterator[Doubt]:
    rows = stored.telemetry("placements")
    if rows is None:
        return
    names, shards = np.asarray(rows["node"]), np.asarray(rows["shards"], dtype=np.int64)
    changed = [int(np.ptp(shards[names == name])) for name in sorted(set(names.tolist()))]
    arriving = int(np.asarray(rows["arriving"], dtype=np.int64).max(initial=0))
    moved = max([arriving, *changed], default=0)
    if moved:
        yield Doubt(
            "rebalanced",
            "doubt",
            f"Shards were moved between the nodes during the run: {counted(moved, 'shard')} or"
            " more.",
            "wait until the rebalancing has ended (SELECT * FROM citus_rebalance_status()), or stop"
            " it (SELECT citus_rebalance_stop()), and measure again",
        )


def worker_count(stored: StoredRun) -> int:
    """Return how many workers the server of a run had; 0 if it has no other nodes."""
    rows = stored.telemetry("node_database")
    return 0 if rows is None else len(set(np.asarray(rows["node"]).tolist()))


def active_ms_of_nodes(stored: StoredRun, numbers: LoadNumbers) -> dict[str, float]:
    """Return how long sessions of each worker executed statements in the measured phase.

    It is empty if the server has no workers, or if one of them did not answer all the time.
    """
    spent = {}
    for name, growth in _by_node(stored, "node_database", "scope", "ours").items():
        active_ns = grown(growth, "active_time_ns", *numbers.span_ns)
        if active_ns is None:
            return {}
        own_ns = grown(growth, "own_active_least_ns", *numbers.span_ns) or 0.0
        spent[name] = max(active_ns - own_ns, 0.0) / 1e6
    return spent


def nodes_of(stored: StoredRun, numbers: LoadNumbers) -> tuple[NodeWork, ...]:
    """Return what each worker did, the busiest first; nothing if `active_ms_of_nodes` is empty."""
    waits, processors = _waits(stored, numbers), _processors(stored, numbers)
    ended = numbers.counts.completed + numbers.counts.failed
    rates = _Rates(stored, numbers)
    nodes = (
        NodeWork(
            name,
            active_ms / max(ended, 1),
            waits.get(name, ()),
            processors.get(name),
            rates.of(name, "node_database", "xact_commit"),
            rates.of(name, "node_wal", "position_bytes"),
            rates.of(name, "node_database", "blks_read"),
            rates.of(name, "node_checkpointer", *_WRITTEN),
        )
        for name, active_ms in active_ms_of_nodes(stored, numbers).items()
    )
    return tuple(sorted(nodes, key=lambda node: -node.ms))


class _Rates:
    """Rates of counters by node, in the measured phase."""

    def __init__(self, stored: StoredRun, numbers: LoadNumbers) -> None:
        self._numbers = numbers
        self._growths = {
            "node_database": _by_node(stored, "node_database", "scope", "ours"),
            "node_wal": _by_node(stored, "node_wal"),
            "node_checkpointer": _by_node(stored, "node_checkpointer"),
        }

    def of(self, node: str, table: str, *counters: str) -> float | None:
        """Return the growth of the sum of some counters per second, None if it is not known."""
        growth = self._growths[table].get(node)
        amounts = [grown(growth, counter, *self._numbers.span_ns) for counter in counters]
        known = [amount for amount in amounts if amount is not None]
        return math.fsum(known) / self._numbers.seconds if len(known) == len(amounts) else None


def _by_node(
    stored: StoredRun, collector: str, key: str = "", value: str = ""
) -> dict[str, Deltas]:
    """Return the growth of a table's counters by node; of one value of a further key, if given."""
    return {
        growth.key["node"]: growth
        for growth in counters_of(stored, collector)
        if not key or growth.key[key] == value
    }


def _waits(stored: StoredRun, numbers: LoadNumbers) -> dict[str, Waits]:
    """Return what the sessions at work on each worker waited for, the largest share first."""
    rows = stored.telemetry("node_waits")
    if rows is None:
        return {}
    time_ns = np.asarray(rows["time_ns"], dtype=np.int64)
    chosen = (time_ns >= numbers.began_ns) & (time_ns <= numbers.ended_ns)
    chosen &= (np.asarray(rows["here"]) == 1) & (np.asarray(rows["state"]) == "active")
    counts: dict[str, Counter[str]] = {}
    columns = (np.asarray(rows[name])[chosen].tolist() for name in ("node", "wait_event", "count"))
    for node, event, count in zip(*columns, strict=True):
        word = NOT_INSTRUMENTED if event in ("", ANSWERED) else event
        counts.setdefault(node, Counter())[word] += count
    return {
        node: tuple((event, count / of.total()) for event, count in of.most_common())
        for node, of in counts.items()
    }


def _processors(stored: StoredRun, numbers: LoadNumbers) -> dict[str, float]:
    """Return the share of the processors of each worker's host that were at work."""
    shares = {}
    for name, growth in _by_node(stored, "node_cpu", "core", ALL_CORES).items():
        spent = {mode: grown(growth, f"{mode}_ns", *numbers.span_ns) or 0.0 for mode in MODES}
        total = math.fsum(spent.values())
        if total:
            shares[name] = 1 - math.fsum(spent[mode] for mode in _NOT_AT_WORK) / total
    return shares


def several_shards_ratio(stored: StoredRun, numbers: LoadNumbers) -> float | None:
    """Return the share of the coordinator's statements that needed several shards."""
    for growth in counters_of(stored, "node_connections"):
        single, several = (
            grown(growth, name, *numbers.span_ns) for name in ("single_shard", "multi_shard")
        )
        if single is not None and several is not None and single + several > 0:
            return several / (single + several)
    return None
