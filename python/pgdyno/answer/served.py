"""The connections of a run, and the fairness and cost of a variant, from stored runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgdyno.analysis.compare_findings import ServedRun, VariantMeans, served
from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.findings import ConnectionFindings, ServedByHost
from pgdyno.engine.records import HostFacts, TimeDistribution
from pgdyno.loop.counter_growth import counters_of, grown
from pgdyno.loop.journal import Visit
from pgdyno.loop.load_numbers import LoadNumbers, of_distribution
from pgdyno.observe.processes.backends import LOAD, BackendsCollector
from pgdyno.observe.processes.programs import POOLER, FootprintCollector, ProgramsCollector
from pgdyno.spec.experiment import Workload
from pgdyno.spec.variant import Variant
from pgdyno.store.stored_run import StoredRun


def served_by(
    runs: Sequence[Visit],
    numbers: Mapping[int, LoadNumbers],
    server_cpu_ms: Mapping[int, float | None],
) -> VariantMeans | None:
    """Return how the runs of one variant served their clients, and what a pooler took.

    Args: numbers and server_cpu_ms (of a transaction), by the number of the run.
    """
    of = ((visit, visit.planned.number) for visit in runs)
    return served([_of_run(visit, numbers[run], server_cpu_ms.get(run)) for visit, run in of])


def _of_run(visit: Visit, numbers: LoadNumbers, server_cpu_ms: float | None) -> ServedRun:
    pooler_cpu_ms, wait_ratio, busy_ratio = _pooler_times(visit.stored, numbers)
    fairness = numbers.summary.clients.fairness
    trips = numbers.summary.distribution("round_trip")
    return ServedRun(
        clients=visit.planned.cell.clients,
        max_ms=numbers.latency.max_ms,
        round_trip_ms=of_distribution(trips).percentile_ns(50) / 1e6 if trips else None,
        completed_min_count=fairness.completed_count_min if fairness else None,
        completed_max_count=fairness.completed_count_max if fairness else None,
        gini_ratio=fairness.gini_ratio if fairness else None,
        failed_count=numbers.counts.failed,
        session_count=_session_count(visit.stored, numbers),
        pooler_cpu_ms=pooler_cpu_ms,
        whole_cpu_ms=(
            None
            if pooler_cpu_ms is None or server_cpu_ms is None
            else pooler_cpu_ms + server_cpu_ms
        ),
        session_bytes=_session_bytes(visit.stored),
        pooler_wait_ratio=wait_ratio,
        pooler_busy_ratio=busy_ratio,
    )


def _pooler_times(
    stored: StoredRun, numbers: LoadNumbers
) -> tuple[float, float, float] | tuple[None, None, None]:
    """Return CPU time per transaction, ratio of waiting for a core, and how busy a process was.

    All processes of the pooler in the path; None if they are not seen.
    """
    growths = counters_of(stored, ProgramsCollector.name)
    poolers = [growth for growth in growths if growth.key["program"].startswith(POOLER)]
    spent_ns, waited_ns = (
        [ns for growth in poolers if (ns := grown(growth, column, *numbers.span_ns)) is not None]
        for column in ("run_ns", "wait_ns")
    )
    is_known = spent_ns and len(spent_ns) == len(waited_ns) == len(poolers)
    if not is_known or not numbers.counts.completed or not sum(spent_ns):
        return None, None, None
    wait_ratio = sum(waited_ns) / (sum(spent_ns) + sum(waited_ns))
    busy_ratio = max(spent_ns) / 1e9 / numbers.seconds
    return sum(spent_ns) / numbers.counts.completed / 1e6, wait_ratio, busy_ratio


def _session_bytes(stored: StoredRun) -> int | None:
    rows = stored.telemetry(FootprintCollector.name)
    if rows is None or not (is_of_load := rows["backend_type"] == LOAD).any():
        return None
    return int(rows["private_bytes"][is_of_load].max())


def _session_count(stored: StoredRun, numbers: LoadNumbers) -> int | None:
    """Return how many backends the load had at the same time in the measured phase, at most."""
    rows = stored.telemetry(BackendsCollector.name)
    if rows is None:
        return None
    began_ns, ended_ns = numbers.span_ns
    is_in = (rows["backend_type"] == LOAD) & (rows["time_ns"] > began_ns)
    is_in &= rows["time_ns"] <= ended_ns
    return int(rows["processes"][is_in].max()) if is_in.any() else None


_PERCENTS = {"p50": 50.0, "p95": 95.0, "p99": 99.0}
_NS_PER_MS = 1e6


def connections_of(numbers: LoadNumbers, workload: Workload, clients: int) -> ConnectionFindings:
    """Return the findings about the connections of a run's load.

    Args: clients, of this run; in a sweep they differ from the workload's number.
    """
    summary = numbers.summary
    connect, wait = summary.distribution("connect"), summary.distribution("connection_wait")
    shared = workload.active_connections
    gap, idle = summary.longest_gap, summary.connections.idle
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
        lost_count=summary.connections.lost_count,
        reconnected_count=summary.connections.reconnect_count,
        commits_in_doubt_count=summary.commits_in_doubt,
        longest_gap_ms=None if gap is None else (gap.ended_ns - gap.began_ns) / _NS_PER_MS,
        longest_gap_began_s=None if gap is None else (gap.began_ns - numbers.began_ns) / 1e9,
        hosts=_shares(summary.connections.hosts),
    )


def _shares(hosts: Sequence[HostFacts]) -> tuple[ServedByHost, ...]:
    total = sum(host.completed_count for host in hosts)
    return tuple(
        ServedByHost(
            host.host,
            host.port,
            host.opened_count,
            host.completed_count,
            host.completed_count / total if total else 0.0,
        )
        for host in hosts
    )


def _percentiles(distribution: TimeDistribution) -> dict[str, float]:
    histogram = of_distribution(distribution)
    of = {name: histogram.percentile_ns(percent) for name, percent in _PERCENTS.items()}
    return {name: ns / _NS_PER_MS for name, ns in {**of, "max": distribution.max_ns}.items()}


def cost_of(variant: Variant, tps: Estimate | None) -> Estimate | None:
    """Return the cost of 1,000 transactions a second of the variant, with the interval of `tps`.

    Returns: None without a price, or if it is not known which load the variant holds.
    """
    if variant.cost is None or tps is None or tps.unit != "tps" or tps.value <= 0:
        return None
    amount, unit = variant.cost
    if tps.censored:
        return None  # The variant may hold more than was offered.
    cost, ends = amount * 1000 / tps.value, (tps.high, tps.low)
    low, high = (amount * 1000 / end if end else None for end in ends)
    return Estimate(cost, low, high, tps.n, f"{unit} per 1,000 tps", tps.scope)
