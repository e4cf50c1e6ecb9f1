"""Splits the latency of a transaction into parts and a residual, in ms; they sum to the latency."""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

import numpy as np

from pgdyno.analysis.arrays import FloatArray
from pgdyno.analysis.estimate import Estimate, mean_between_runs, without_interval
from pgdyno.analysis.resample import REPLICATES, within_run_estimate
from pgdyno.analysis.wait_events import canonical_event
from pgdyno.analysis.where_amounts import Amounts, Placing, amounts
from pgdyno.analysis.where_facts import (
    CONNECTION_WAIT,
    NETWORK,
    POOLER_WAIT,
    SCHEDULE_LAG,
    How,
    Side,
    TransactionFacts,
)
from pgdyno.analysis.where_sampled import Sampled, is_active, sampled, with_unseen
from pgdyno.analysis.where_statements import StatementTime
from pgdyno.analysis.where_types import TypeTime
from pgdyno.errors import AnalysisError

_NS_PER_MS = 1e6
# Half-widths are of 95 % intervals; draws are normal.
_NORMAL_95 = 1.959964
# If none of n samples shows an event, its share is below 3/n with 95 % confidence.
_RULE_OF_THREE = 3.0
_WAITING = (SCHEDULE_LAG, CONNECTION_WAIT, POOLER_WAIT)
# An interval narrower than this, relative to the value, is only rounding error.
_COUNTED_RATIO = 1e-9


@dataclass(frozen=True, slots=True)
class LatencyPart:
    """One part of the latency, unit "ms", and how it was made."""

    name: str
    ms: Estimate
    side: Side
    how: How = "sampled"


@dataclass(frozen=True, slots=True)
class KernelTimes:
    """The kernel's counts of our backends, for each transaction; same host only.

    `inside_events_ms`: the time of `waiting_ms` inside wait events, which their parts contain.
    `cpu_inside_events_ms`: the same for `cpu_ms`. `after_answer_ms`: the time of `cpu_ms` that
    backends used after the answer, while the client did its own work; no part contains it.
    """

    cpu_ms: float
    waiting_ms: float
    inside_events_ms: float
    after_answer_ms: float = 0.0
    cpu_inside_events_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class NodeWork:
    """What one worker of a distributed server did in the measured phase; None = not known.

    `ms`: time in which its sessions executed statements, for each transaction of the load. `waits`:
    what these sessions waited for, with shares of the samples. `processors_ratio`: the share of the
    processors of its host that were at work. The rates are those of its whole server.
    """

    name: str
    ms: float
    waits: tuple[tuple[str, float], ...] = ()
    processors_ratio: float | None = None
    commits_per_second: float | None = None
    wal_bytes_per_second: float | None = None
    blocks_read_per_second: float | None = None
    blocks_written_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class ParallelWorkers:
    """The load's parallel workers, from samples; the latency contains no time of theirs.

    `at_work_count`: how many were at work on average. `waits`: what they waited for, with shares.
    """

    at_work_count: float
    waits: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class WhereTheTimeGoes:
    """Parts and residual sum exactly to the latency; if the residual is negative, parts overlap.

    `residual`: `residual_ms` with the interval from the samples; `residual_ratio`: residual /
    latency. `server_ms`: time in state active per transaction. `sampled_server_ms`: the same time
    from the samples and the kernel's count of CPU, as a check; `sampled_server` has its interval.
    `why_sampled`: why the server's count of its time was not used; "" if it was used, or if the
    server has no count. `why_unsure`: why the count has a large error, "" if it has none.
    `others_ratio`: share of the server's active sessions that were not the
    load's. `statements`: the server's time by statement, empty without query identifiers. `types`:
    the time of each transaction type of a program. `while_busy`: if transactions waited for a free
    client or connection, the wait events of the busy sessions at that time, with shares.
    `planning_ms`, `compiling_ms`: planning and JIT within the times of `statements`, None if not
    known; `planned_too_long_ms`: their count, if it was more than `server_ms`, else 0. `nodes`: the
    work of each worker of a distributed server, the busiest first; empty for any other server.
    `several_shards_ratio`: the share of its statements that needed several shards, None if not
    counted. `workers`: None if no parallel worker was seen. `uncounted_ms`: what
    `server_ms` lacks at most, because the server does not count Parse and Bind.
    """

    latency_ms: Estimate
    parts: tuple[LatencyPart, ...]
    residual_ms: float
    residual_ratio: float
    server_ms: float | None
    sampled_server_ms: float | None
    others_ratio: float | None = None
    scheduled: KernelTimes | None = None
    statements: tuple[StatementTime, ...] = ()
    types: tuple[TypeTime, ...] = ()
    residual: Estimate | None = None
    server_how: How = "counted"
    sampled_server: Estimate | None = None
    why_sampled: str = ""
    why_unsure: str = ""
    while_busy: tuple[tuple[str, float], ...] = ()
    planning_ms: float | None = None
    compiling_ms: float | None = None
    planned_too_long_ms: float = 0.0
    uncounted_ms: float = 0.0
    nodes: tuple[NodeWork, ...] = ()
    several_shards_ratio: float | None = None
    workers: ParallelWorkers | None = None

    @property
    def waiting_ratio(self) -> float:
        """Return the share of the latency in which a transaction waited for a client or session."""
        waiting_ms = math.fsum(part.ms.value for part in self.parts if part.name in _WAITING)
        return waiting_ms / self.latency_ms.value if self.latency_ms.value else 0.0


def where_the_time_goes(
    facts: TransactionFacts, *, seed: int, replicates: int = REPLICATES
) -> WhereTheTimeGoes:
    """Return the mean latency of a run's transactions, split into parts.

    A count is used if there is one, samples otherwise. Server time is active_time per transaction,
    which the server counts. Wait events that a clock of the server counts have this time. Samples
    split the rest. Before PostgreSQL 14 there is no active_time, so server time is sampled, too. On
    the same host, schedstat counts how long backends were on a core or waited for a core, without
    wait event and inside wait events. No time is counted twice: CPU time of the client inside the
    round trip is subtracted from the network, and so is CPU time of backends outside statements.
    If the parts are more than the latency, CPU time that backends used after their answer is
    subtracted, but at most the time until the next statement arrived. No other part is changed.
    Raises: AnalysisError if the server ended no transaction in the window.
    Source: active sessions = throughput x time (Little 1961). Intervals are from a circular block
    bootstrap over the instants of sampling, and at least as wide as the rule of three (Hanley and
    Lippman-Hand 1983), because samples that are all equal may still have missed an event.
    Limits: the time waiting for a core inside wait events is estimated from the number of time
    slices that backends received.
    """
    if facts.transaction_count <= 0:
        raise AnalysisError("the server ended no transaction, so there is no time to split")
    if facts.latency.unit != "ns":
        raise AnalysisError(f"latency must be in ns, got {facts.latency.unit}")
    rng = np.random.default_rng(seed)
    samples = with_unseen(facts, sampled(facts, rng, replicates))
    active_ns = facts.each(facts.server.active_ms)
    exact_ns = None if active_ns is None else active_ns * _NS_PER_MS
    exact = None if exact_ns is None else np.array([exact_ns])
    point = amounts(facts, samples, samples.point_count[None, :], exact)
    drawn = amounts(
        facts,
        samples,
        samples.redrawn_count,
        _drawn_exact(facts, exact_ns, len(samples.redrawn_count)),
    )
    missed_ns = _missed_ns(facts, samples, exact_ns)
    ends_ns = _extremes_ns(facts, samples, exact, missed_ns)
    parts = _parts(facts, samples, point, drawn, missed_ns, ends_ns)
    unsplit_ns = facts.latency.value - drawn.ns.sum(axis=1)
    sampled_ms = None
    if samples.events:
        sampled_ms = samples.active * facts.window_seconds * 1e3 / facts.transaction_count
    server_ms = sampled_ms if exact_ns is None else exact_ns / _NS_PER_MS
    whole = _whole(
        facts.latency.scaled(1 / _NS_PER_MS, "ms"),
        parts,
        server_ms,
        sampled_ms,
        others_ratio=facts.server.others_ratio,
        scheduled=_scheduled(facts, point),
    )
    value_ns = whole.residual_ms * _NS_PER_MS
    way_ns = _errors_ns(facts).get(NETWORK, 0.0)
    rests_ns = (facts.latency.value - ends_ns.sum(axis=1)).tolist()
    rests_ns += [value_ns - way_ns, value_ns + way_ns]
    residual = _estimate(value_ns, unsplit_ns, samples.block_count, rests_ns, is_positive=False)
    return replace(
        whole,
        residual=residual,
        server_how="sampled" if exact_ns is None else "counted",
        sampled_server=None if sampled_ms is None else _sampled_server(facts, samples, sampled_ms),
    )


def _extremes_ns(
    facts: TransactionFacts, samples: Sampled, exact: FloatArray | None, missed_ns: float
) -> FloatArray:
    """Return the parts, shape (extremes, parts), if as much as possible is elsewhere.

    The samples may have missed `missed_ns` without a wait event, or have seen too much of it. The
    kernel does not say when backends were runnable.
    """
    extremes: tuple[tuple[float, Placing], ...] = (
        *((-missed_ns, "likely"), (missed_ns, "likely")),
        *((0.0, "least"), (0.0, "most")),
    )
    once = samples.point_count[None, :]
    parts = [
        amounts(facts, samples, once, exact, missed_ns=ns, placing=placing).ns
        for ns, placing in extremes
    ]
    return np.concatenate(parts)


def _parts(
    facts: TransactionFacts,
    samples: Sampled,
    point: Amounts,
    drawn: Amounts,
    missed_ns: float,
    ends_ns: FloatArray,
) -> list[LatencyPart]:
    """Return every part with its interval, if it has one, and how it was made.

    Args: missed_ns, how much of a transaction samples may have missed; ends_ns, shape (extremes,
    parts), the parts if as much as possible is elsewhere.
    """
    errors_ns = _errors_ns(facts)
    parts = []
    for i, (name, side) in enumerate(point.parts):
        value = float(point.ns[0, i])
        half_ns = errors_ns.get(name, missed_ns if name in samples.events else None)
        low_high = [float(ns) for ns in ends_ns[:, i]]
        if half_ns is not None:
            low_high = [value - half_ns, value + half_ns]
        block_count = samples.block_count if side == "server" or name in errors_ns else 1
        ms = _estimate(value, drawn.ns[:, i], block_count, low_high)
        how = "sampled" if point.how[i] == "counted" and ms.has_interval else point.how[i]
        parts.append(LatencyPart(name, ms, side, how))
    return parts


def mean_over_runs(runs: Sequence[WhereTheTimeGoes]) -> WhereTheTimeGoes:
    """Return the mean split over the runs of a cell, with intervals between runs.

    If a run does not have a part, the part is 0 in this run, so that the parts still sum up.
    """
    if not runs:
        raise AnalysisError("a mean over no runs")
    keyed = [{canonical_event(part.name): part for part in run.parts} for run in runs]
    newest = {key: part for run in keyed for key, part in run.items()}
    hows = {key: {run[key].how for run in keyed if key in run} for key in newest}
    parts = [
        LatencyPart(
            part.name,
            _above_zero(
                mean_between_runs([run[key].ms.value if key in run else 0.0 for run in keyed], "ms")
            ),
            part.side,
            _least_sure(hows[key]),
        )
        for key, part in newest.items()
    ]
    latency = mean_between_runs([run.latency_ms.value for run in runs], "ms")
    whole = _whole(
        latency,
        parts,
        _mean([run.server_ms for run in runs]),
        _mean([run.sampled_server_ms for run in runs]),
        others_ratio=_mean([run.others_ratio for run in runs]),
    )
    return replace(
        whole,
        server_how=_least_sure({run.server_how for run in runs}),
        why_sampled=next((run.why_sampled for run in runs if run.why_sampled), ""),
        why_unsure=next((run.why_unsure for run in runs if run.why_unsure), ""),
    )


def _least_sure(hows: Set[How]) -> How:
    """Return how a mean was made: "counted" only if every run counted the part."""
    if len(hows) == 1:
        return next(iter(hows))
    return "sampled" if "sampled" in hows else "by difference"


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _sampled_server(facts: TransactionFacts, samples: Sampled, sampled_ms: float) -> Estimate:
    """Return the server's time from the samples, with its interval."""
    each_ns = facts.window_seconds * 1e9 / facts.transaction_count
    drawn = samples.redrawn_count[:, is_active(samples.events)].sum(axis=1) * each_ns
    missed_ns = _missed_ns(facts, samples, None)
    value_ns = sampled_ms * _NS_PER_MS
    return _estimate(
        value_ns, drawn, samples.block_count, (value_ns - missed_ns, value_ns + missed_ns)
    )


def _drawn_exact(facts: TransactionFacts, exact_ns: float | None, rows: int) -> FloatArray | None:
    """Return the server's count for each redrawn sample, with the uncertainty of the count."""
    if exact_ns is None:
        return None
    error_ns = (facts.each(facts.server.active_error_ms) or 0.0) * _NS_PER_MS
    # Equally likely values of a normal distribution. Their order is independent of the samples, so
    # no random numbers with another seed are needed.
    steps = (np.arange(rows) * 0.6180339887498949 + 0.5) % 1.0
    normal = np.sqrt(2.0) * _inverse_error(2.0 * np.clip(steps, 1e-4, 1 - 1e-4) - 1.0)
    return np.asarray(np.maximum(exact_ns + normal * error_ns / _NORMAL_95, 0.0))


def _inverse_error(x: FloatArray) -> FloatArray:
    """Return the inverse error function, to 0.2 %. Source: Winitzki 2008."""
    log = np.log(1.0 - x * x)
    first = 2.0 / (np.pi * 0.147) + log / 2.0
    return np.asarray(np.sign(x) * np.sqrt(np.sqrt(first * first - log / 0.147) - first))


def _errors_ns(facts: TransactionFacts) -> dict[str, float]:
    """Return the half-width of the interval of every measured part that has one."""
    errors_ns = {
        event: facts.each(counted.error_ns) or 0.0
        for counted in facts.server.events
        for event in counted.events
    }
    if facts.exchange.error_ns is not None and facts.engine.round_trip_count is not None:
        errors_ns[NETWORK] = facts.engine.round_trip_count * facts.exchange.error_ns
    return errors_ns


def _scheduled(facts: TransactionFacts, point: Amounts) -> KernelTimes | None:
    if point.queue_inside_ns is None or point.cpu_inside_ns is None:
        return None
    cpu, queue = facts.each(facts.backends.cpu_ns), facts.each(facts.backends.runqueue_ns)
    assert cpu is not None
    assert queue is not None
    inside = (point.queue_inside_ns[0], point.after_answer_ns[0], point.cpu_inside_ns[0])
    return KernelTimes(*(float(ns) / _NS_PER_MS for ns in (cpu, queue, *inside)))


def _missed_ns(facts: TransactionFacts, samples: Sampled, exact_ns: float | None) -> float:
    """Return how much of a transaction the samples may have missed because they are few."""
    if facts.samples is None or not samples.events:
        return 0.0
    sessions = _RULE_OF_THREE / np.unique(facts.samples.sampled_at_ns).size
    if exact_ns is not None and samples.active:
        return sessions / samples.active * exact_ns
    return sessions * facts.window_seconds * 1e9 / facts.transaction_count


def _estimate(
    value_ns: float,
    drawn_ns: FloatArray,
    block_count: int,
    ends_ns: Sequence[float],
    *,
    is_positive: bool = True,
) -> Estimate:
    """Return a part with its interval; an exact part has no interval.

    Args: ends_ns, the part if as much as possible is elsewhere. If neither these
    values nor the redrawn samples differ from `value_ns`, the part was counted.
    """
    value, drawn = value_ns / _NS_PER_MS, drawn_ns / _NS_PER_MS
    if block_count < 2:
        return without_interval(value, "ms")
    estimate = within_run_estimate(value, drawn, block_count, "ms", is_positive=False)
    assert estimate.low is not None, "two blocks give an interval"
    assert estimate.high is not None
    ends = [ns / _NS_PER_MS for ns in ends_ns]
    low, high = min(estimate.low, value, *ends), max(estimate.high, value, *ends)
    if high - low <= _COUNTED_RATIO * abs(value):
        return without_interval(value, "ms")
    wide = replace(estimate, low=low, high=high)
    return _above_zero(wide) if is_positive else wide


def _above_zero(estimate: Estimate) -> Estimate:
    """Return the estimate at 0 or above, because it is a duration.

    A part may be negative within its error. Its value is 0, too, and the residual has the rest.
    """
    if estimate.low is None or estimate.high is None or estimate.low >= 0:
        return estimate
    value, high = max(estimate.value, 0.0), max(estimate.high, 0.0)
    return replace(estimate, value=value, low=0.0, high=high)


def _whole(
    latency: Estimate,
    parts: list[LatencyPart],
    server_ms: float | None,
    sampled_ms: float | None,
    *,
    others_ratio: float | None = None,
    scheduled: KernelTimes | None = None,
) -> WhereTheTimeGoes:
    order: dict[Side, int] = {"server": 0, "network": 1, "client": 2, "schedule": 3}
    parts = [part for part in parts if part.ms.value > 0]
    parts.sort(key=lambda part: (order[part.side], -part.ms.value))
    residual = latency.value - math.fsum(part.ms.value for part in parts)
    return WhereTheTimeGoes(
        latency_ms=latency,
        parts=tuple(parts),
        residual_ms=residual,
        residual_ratio=residual / latency.value if latency.value else 0.0,
        server_ms=server_ms,
        sampled_server_ms=sampled_ms,
        others_ratio=others_ratio,
        scheduled=scheduled,
    )
