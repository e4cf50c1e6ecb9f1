"""From a run's summary to what is known of its connections."""

from __future__ import annotations

from pgdyno.analysis.connections import ConnectionFindings
from pgdyno.engine.records import Distribution
from pgdyno.loop.load_numbers import LoadNumbers, of_distribution
from pgdyno.spec.experiment import Workload

_PERCENTS = {"p50": 50.0, "p95": 95.0, "p99": 99.0}
_NS_PER_MS = 1e6


def connections_of(numbers: LoadNumbers, workload: Workload, clients: int) -> ConnectionFindings:
    """Return how the load of a run was connected.

    Args: clients, of the run: those of a sweep have more or less than the workload says.
    """
    summary = numbers.summary
    connect, wait = summary.distribution("connect"), summary.distribution("connection_wait")
    shared = workload.active_connections
    gap, idle = summary.longest_gap, summary.idle
    return ConnectionFindings(
        opened_count=connect.count if connect is not None else 0,
        connect_ms=_percentiles(connect) if connect is not None else {},
        is_per_transaction=workload.connect_each_transaction,
        shared_count=None if shared is None else min(shared, clients),
        wait_ms=None
        if wait is None or wait.count == 0
        else {"mean": wait.sum_ns / wait.count / _NS_PER_MS, **_percentiles(wait)},
        idle_opened_count=None if idle is None else idle.opened_count,
        idle_alive_count=None if idle is None else idle.alive_count,
        lost_count=summary.connections_lost,
        reconnected_count=summary.reconnects,
        commits_in_doubt_count=summary.commits_in_doubt,
        longest_gap_ms=None if gap is None else (gap.ended_ns - gap.began_ns) / _NS_PER_MS,
        longest_gap_began_s=None if gap is None else (gap.began_ns - numbers.began_ns) / 1e9,
    )


def _percentiles(found: Distribution) -> dict[str, float]:
    histogram = of_distribution(found)
    of = {name: histogram.percentile_ns(percent) for name, percent in _PERCENTS.items()}
    return {name: ns / _NS_PER_MS for name, ns in {**of, "max": found.max_ns}.items()}
