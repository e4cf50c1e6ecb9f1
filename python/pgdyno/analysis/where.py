"""Where the time of a transaction goes, in ms: parts and a residual that sum to its latency."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pgdyno.analysis.arrays import FloatArray
from pgdyno.analysis.estimate import Estimate, mean_between_runs, without_interval
from pgdyno.analysis.resample import REPLICATES, within_run_estimate
from pgdyno.analysis.wait_events import canonical_event
from pgdyno.analysis.where_amounts import amounts
from pgdyno.analysis.where_facts import Side, TransactionFacts
from pgdyno.analysis.where_sampled import Sampled, sampled, with_unseen
from pgdyno.analysis.where_statements import StatementTime
from pgdyno.errors import AnalysisError

_NS_PER_MS = 1e6
# With so much of the server's time others', the load's own is taken from the samples: the server
# adds up the time of all sessions.
_OTHERS_RATIO_MAX = 0.02
# What none of n samples shows is with 95 % under 3/n.
_RULE_OF_THREE = 3.0
# An interval narrower than this is what arithmetic leaves of none.
_COUNTED_RATIO = 1e-9


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the latency, unit "ms"."""

    name: str
    ms: Estimate
    side: Side


@dataclass(frozen=True, slots=True)
class Scheduled:
    """What the kernel counted of our backends, a transaction; same host only.

    `inside_events_ms`: of `waiting_ms`, what lies at the end of wait events, and is theirs.
    `after_answer_ms`: of `cpu_ms`, what came after the answer, beside the client's own work, and is
    in no part.
    """

    cpu_ms: float
    waiting_ms: float
    inside_events_ms: float
    after_answer_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class WhereTheTimeGoes:
    """Parts plus residual are the latency, exactly; a negative residual says parts overlap.

    `server_ms`: time in state active per transaction. `sampled_server_ms`: the same from the
    samples and the kernel's count of CPU, a check on them. `residual_ratio`: residual / latency.
    `others_ratio`: share of the server's active sessions that were not the load's. `statements`:
    the server's time by statement, where query identifiers tell.
    """

    latency_ms: Estimate
    parts: tuple[Part, ...]
    residual_ms: float
    residual_ratio: float
    server_ms: float | None
    sampled_server_ms: float | None
    others_ratio: float | None = None
    scheduled: Scheduled | None = None
    statements: tuple[StatementTime, ...] = ()


def where_the_time_goes(
    facts: TransactionFacts, *, seed: int, replicates: int = REPLICATES
) -> WhereTheTimeGoes:
    """Split the mean latency of a run's transactions into parts.

    Server time is active_time per transaction, which is exact; samples only split it. Without
    active_time (before PostgreSQL 14), or with others at work, it is sampled too. On the same host,
    schedstat splits the time without wait event. Nothing is counted twice: CPU of the client inside
    the round trip is taken off the network, and so is CPU of backends outside statements. Where the
    parts exceed the latency, CPU of backends outside state active is taken off: having answered,
    they go on beside the client until they sleep.
    Raises: AnalysisError if the server ended no transaction in the window.
    Source: active sessions = throughput x time (Little 1961); intervals by circular block
    bootstrap over the instants of sampling, and no narrower than the rule of three (Hanley and
    Lippman-Hand 1983): samples that all show the same do not vary, and yet may have missed some.
    Limits: how much of the time waiting for a core lies inside wait events is estimated, from how
    often backends were given one.
    """
    if facts.server_transaction_count <= 0:
        raise AnalysisError("the server ended no transaction, so there is no time to split")
    if facts.latency.unit != "ns":
        raise AnalysisError(f"latency must be in ns, got {facts.latency.unit}")
    rng = np.random.default_rng(seed)
    found = with_unseen(facts, sampled(facts, rng, replicates))
    active_ns = facts.each(facts.server_active_ms)
    exact_ns = None if active_ns is None else active_ns * _NS_PER_MS
    if found.events and (facts.others_ratio or 0.0) > _OTHERS_RATIO_MAX:
        exact_ns = None
    point = amounts(facts, found, found.point_count[None, :], exact_ns)
    drawn = amounts(facts, found, found.redrawn_count, exact_ns)
    missed_ns = _missed_ns(facts, found, exact_ns)
    # Parts that follow from sessions without a wait event, had so many of them been missed.
    without_event = [
        amounts(facts, found, found.point_count[None, :], exact_ns, missed_ns=ns).ns[0]
        for ns in (-missed_ns, missed_ns)
    ]
    parts = []
    for i, (name, side) in enumerate(point.parts):
        value = float(point.ns[0, i])
        if name in found.events:
            ends = (value - missed_ns, value + missed_ns)
        else:
            ends = (float(without_event[0][i]), float(without_event[1][i]))
        block_count = found.block_count if side == "server" else 1
        parts.append(Part(name, _estimate(value, drawn.ns[:, i], block_count, ends), side))
    sampled_ms = None
    if found.events:
        sampled_ms = found.active * facts.window_seconds * 1e3 / facts.server_transaction_count
    server_ms = sampled_ms if exact_ns is None else exact_ns / _NS_PER_MS
    inside = point.runqueue_inside_events_ns
    return _whole(
        facts.latency.scaled(1 / _NS_PER_MS, "ms"),
        parts,
        server_ms,
        sampled_ms,
        others_ratio=facts.others_ratio,
        scheduled=None
        if inside is None
        else _scheduled(facts, float(inside[0]), float(point.after_answer_ns[0])),
    )


def mean_over_runs(runs: Sequence[WhereTheTimeGoes]) -> WhereTheTimeGoes:
    """Return the mean split over the runs of a cell, with intervals between runs.

    A part that a run does not have counts as 0 there, so that the parts keep summing up.
    """
    if not runs:
        raise AnalysisError("a mean over no runs")
    keyed = [{canonical_event(part.name): part for part in run.parts} for run in runs]
    newest = {key: part for run in keyed for key, part in run.items()}
    parts = [
        Part(
            part.name,
            _above_zero(
                mean_between_runs([run[key].ms.value if key in run else 0.0 for run in keyed], "ms")
            ),
            part.side,
        )
        for key, part in newest.items()
    ]
    latency = mean_between_runs([run.latency_ms.value for run in runs], "ms")
    return _whole(
        latency,
        parts,
        _mean([run.server_ms for run in runs]),
        _mean([run.sampled_server_ms for run in runs]),
        others_ratio=_mean([run.others_ratio for run in runs]),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _scheduled(
    facts: TransactionFacts, inside_events_ns: float, after_answer_ns: float
) -> Scheduled:
    cpu, queue = facts.each(facts.backend_cpu_ns), facts.each(facts.backend_runqueue_ns)
    assert cpu is not None
    assert queue is not None
    found_ns = (cpu, queue, inside_events_ns, after_answer_ns)
    return Scheduled(*(ns / _NS_PER_MS for ns in found_ns))


def _missed_ns(facts: TransactionFacts, found: Sampled, exact_ns: float | None) -> float:
    """Return how much of a transaction the samples may have missed, so few as they are."""
    if facts.samples is None or not found.events:
        return 0.0
    sessions = _RULE_OF_THREE / np.unique(facts.samples.sampled_at_ns).size
    if exact_ns is not None and found.active:
        return sessions / found.active * exact_ns
    return sessions * facts.window_seconds * 1e9 / facts.server_transaction_count


def _estimate(
    value_ns: float, drawn_ns: FloatArray, block_count: int, ends_ns: tuple[float, float]
) -> Estimate:
    """Return a part with its interval, which exact ones have not.

    Args: ends_ns, what the part is at both ends of what the samples may have missed. Where neither
    these nor the samples drawn again move it, others counted it: there is nothing to be uncertain.
    """
    value, drawn = value_ns / _NS_PER_MS, drawn_ns / _NS_PER_MS
    if block_count < 2:
        return without_interval(value, "ms")
    found = within_run_estimate(value, drawn, block_count, "ms", is_positive=False)
    assert found.low is not None, "two blocks give an interval"
    assert found.high is not None
    ends = [ns / _NS_PER_MS for ns in ends_ns]
    low, high = min(found.low, value, *ends), max(found.high, value, *ends)
    if high - low <= _COUNTED_RATIO * value:
        return without_interval(value, "ms")
    return _above_zero(replace(found, low=low, high=high))


def _above_zero(estimate: Estimate) -> Estimate:
    """Return the estimate with its lower end at 0 or above: a part of a duration is not less."""
    if estimate.low is None or estimate.low >= 0:
        return estimate
    return Estimate(estimate.value, 0.0, estimate.high, estimate.n, estimate.unit, estimate.scope)


def _whole(
    latency: Estimate,
    parts: list[Part],
    server_ms: float | None,
    sampled_ms: float | None,
    *,
    others_ratio: float | None = None,
    scheduled: Scheduled | None = None,
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
