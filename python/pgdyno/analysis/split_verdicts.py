"""Whether the split of a run's latency can be trusted. Each rule is one function."""

from __future__ import annotations

from pgdyno.analysis.verdicts import Doubt
from pgdyno.analysis.where import WhereTheTimeGoes
from pgdyno.quantities import milliseconds, percent

_NOT_EXPLAINED_RATIO_MAX = 0.05
# A count is doubted if it is outside the samples' interval and differs by more than this.
_APART_RATIO_MIN = 0.1


def split_doubts(where: WhereTheTimeGoes) -> tuple[Doubt, ...]:
    """Return doubts about the split of a run's latency. The run itself may be valid."""
    judged = (_not_explained(where), _apart(where), _server_time_sampled(where), _unsure(where))
    return tuple(doubt for doubt in judged if doubt is not None)


def _not_explained(where: WhereTheTimeGoes) -> Doubt | None:
    if abs(where.residual_ratio) <= _NOT_EXPLAINED_RATIO_MAX:
        return None
    missing = "no part explains" if where.residual_ms > 0 else "the parts together exceed it by"
    return Doubt(
        "not_explained",
        "doubt",
        f"Of the mean latency of {milliseconds(where.latency_ms.value)}, {missing}"
        f" {milliseconds(abs(where.residual_ms))} ({percent(abs(where.residual_ratio))}, limit"
        f" {percent(_NOT_EXPLAINED_RATIO_MAX)}).",
        "compare the parts with a longer run; parts of another host may be missing",
    )


def _apart(where: WhereTheTimeGoes) -> Doubt | None:
    """Return a doubt if the samples differ much from the server's count that they divide."""
    sampled, counted_ms = where.sampled_server, where.server_ms
    if where.server_how != "counted" or sampled is None or not counted_ms or sampled.low is None:
        return None
    is_inside = sampled.low <= counted_ms <= (sampled.high or sampled.low)
    ratio = sampled.value / counted_ms - 1.0
    if is_inside or abs(ratio) < _APART_RATIO_MIN:
        return None
    less = "less" if ratio < 0 else "more"
    return Doubt(
        "samples_apart",
        "doubt",
        f"The server counted {milliseconds(counted_ms)} of server time for a transaction; the"
        f" samples found {percent(abs(ratio))} {less}. The count is used, and the samples only"
        " divide it among the wait events.",
        "measure longer, or leave a core free for the observer",
    )


def _server_time_sampled(where: WhereTheTimeGoes) -> Doubt | None:
    if where.server_how == "counted" or not where.why_sampled:
        return None
    return Doubt(
        "server_time_sampled",
        "doubt",
        f"The server time comes from samples, not from the server's count: {where.why_sampled}.",
        "read the intervals of the parts; they include the error of the samples",
    )


def _unsure(where: WhereTheTimeGoes) -> Doubt | None:
    if not where.why_unsure:
        return None
    return Doubt(
        "server_time_unsure",
        "doubt",
        where.why_unsure,
        "measure longer: this error is at the ends of a run only",
    )
