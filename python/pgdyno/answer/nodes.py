"""The nodes of a distributed server in a run: doubts, and what their sessions waited for."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

import numpy as np

from pgdyno.analysis.verdicts import Doubt
from pgdyno.loop.counter_growth import counters_of, grown
from pgdyno.loop.load_numbers import LoadNumbers
from pgdyno.quantities import counted, percent
from pgdyno.store.stored_run import StoredRun

# Statements that need several shards beyond this share make a run one of their coordination.
_SEVERAL_RATIO_MAX = 0.2
Waits = tuple[tuple[str, float], ...]


def doubts_of_nodes(stored: StoredRun, numbers: LoadNumbers) -> Iterator[Doubt]:
    """Yield the doubts about a run in which a node was lost or shards were moved."""
    rows = stored.telemetry("nodes")
    if rows is not None:
        time_ns = np.asarray(rows["time_ns"], dtype=np.int64)
        is_silent = np.asarray(rows["answers"]) == 0
        is_silent &= (time_ns >= numbers.began_ns) & (time_ns <= numbers.ended_ns)
        names = np.asarray(rows["node"])
        for name in sorted(set(names[is_silent].tolist())):
            first_ns = int(time_ns[is_silent & (names == name)].min())
            yield Doubt(
                "node_lost",
                "not_valid",
                f"The node {name} did not answer the coordinator"
                f" {(first_ns - numbers.began_ns) / 1e9:.1f} s after the beginning of the measured"
                " time.",
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
    nodes = counters_of(stored, "nodes")
    alone = sum(float(growth.by_column["deadlocks"].sum()) for growth in nodes)
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
    rows = stored.telemetry("nodes")
    if rows is None:
        return 0
    names, roles = np.asarray(rows["node"]), np.asarray(rows["role"])
    return len(set(names[roles == "worker"].tolist()))


def waits_of_nodes(stored: StoredRun, numbers: LoadNumbers) -> dict[str, Waits]:
    """Return what the sessions at work on each worker waited for, the largest share first.

    Returns: by node, wait events with their shares of the samples; nothing if nothing was sampled.
    """
    rows = stored.telemetry("node_waits")
    if rows is None:
        return {}
    time_ns = np.asarray(rows["time_ns"], dtype=np.int64)
    inside = (time_ns >= numbers.began_ns) & (time_ns <= numbers.ended_ns)
    counts: dict[str, Counter[str]] = {}
    columns = (np.asarray(rows[name])[inside].tolist() for name in ("node", "wait_event"))
    sessions = np.asarray(rows["sessions"], dtype=np.int64)[inside].tolist()
    for node, event, count in zip(*columns, sessions, strict=True):
        counts.setdefault(node, Counter())[event] += count
    return {
        node: tuple((event, count / math.fsum(of.values())) for event, count in of.most_common())
        for node, of in counts.items()
    }


def processors_of_nodes(stored: StoredRun, numbers: LoadNumbers) -> dict[str, float]:
    """Return the share of the processors of each worker's host that were at work."""
    rows = stored.telemetry("node_hosts")
    if rows is None:
        return {}
    names = np.asarray(rows["node"])
    cores = {name: int(np.asarray(rows["cores"])[names == name][0]) for name in names.tolist()}
    shares = {}
    for growth in counters_of(stored, "node_hosts"):
        busy_ns = grown(growth, "busy_ns", *numbers.span_ns)
        if busy_ns is not None:
            name = growth.key["node"]
            shares[name] = busy_ns / (numbers.seconds * 1e9 * max(cores[name], 1))
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
