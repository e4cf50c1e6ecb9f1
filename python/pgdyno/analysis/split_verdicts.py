"""Whether the split of a run's latency can be trusted. Each rule is one function."""

from __future__ import annotations

from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.verdicts import Doubt
from pgdyno.analysis.where import WhereTheTimeGoes
from pgdyno.quantities import milliseconds, percent

_NOT_EXPLAINED_RATIO_MAX = 0.05
# If more of an answer has no part, its split is not shown.
NO_PART_RATIO_MAX = 0.5
# Beyond this, a share says nothing: the answer is nearly 0.
_SMALL_ANSWER_RATIO = 2.0
# A count is doubted if it is outside the samples' interval and differs by more than this.
_APART_RATIO_MIN = 0.1
# Less uncounted time, relative to the count, is not worth a doubt.
_UNCOUNTED_RATIO_MIN = 0.05
# A type has fewer transactions and samples than the whole, so its limit is wider.
_TYPE_NOT_EXPLAINED_RATIO_MAX = 0.1
# Less than this share of the mean latency is not worth a doubt.
_TYPE_LATENCY_RATIO_MIN = 0.01


def why_withheld(
    what: str,
    answer_ms: float,
    rest_ms: float,
    *,
    overlap_ratio: float = NO_PART_RATIO_MAX,
    no_part_ratio: float = NO_PART_RATIO_MAX,
) -> str:
    """Return why the parts do not explain an answer, as the end of a sentence; "" if they do.

    Args: what, the name of the answer; rest_ms, the answer minus its parts; overlap_ratio, by how
    much of the answer the parts may exceed it; no_part_ratio, how much of it may have no part.
    """
    if not answer_ms:
        return ""
    ratio = rest_ms / answer_ms
    if -overlap_ratio <= ratio <= no_part_ratio:
        return ""
    if abs(ratio) > _SMALL_ANSWER_RATIO:
        return f"the part of the {what} that is not known is larger than the {what}"
    if ratio < 0:
        return f"the measured parts exceed the {what} by {percent(-ratio)}"
    return f"no measured part is the reason for {percent(ratio)} of the {what}"


def why_mean_withheld(where: WhereTheTimeGoes) -> str:
    """Return why the mean split of several runs is not shown; "" if it is.

    A mean over runs is shown without the doubts of the runs, so a large rest withholds it.
    """
    return why_withheld("latency", where.latency_ms.value, where.residual_ms)


def split_doubts(where: WhereTheTimeGoes) -> tuple[Doubt, ...]:
    """Return doubts about the split of a run's latency. The run itself may be valid."""
    judged = (
        *(_not_explained(where), _types_not_explained(where)),
        *(_apart(where), _server_time_sampled(where), _unsure(where), _without_bind(where)),
        _planned_too_long(where),
    )
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


def _types_not_explained(where: WhereTheTimeGoes) -> Doubt | None:
    """Return a doubt about the types whose rest is surely above the limit, on either side of 0."""
    least_ms = _TYPE_LATENCY_RATIO_MIN * where.latency_ms.value
    named = [
        f"{kind.name} {kind.residual.value:.2g} of {milliseconds(kind.held.value)}"
        for kind in where.types
        if _is_surely_above(
            kind.residual, max(_TYPE_NOT_EXPLAINED_RATIO_MAX * kind.held.value, least_ms)
        )
    ]
    if not named:
        return None
    return Doubt(
        "type_not_explained",
        "doubt",
        f"For some types, over {percent(_TYPE_NOT_EXPLAINED_RATIO_MAX)} of the time has no part,"
        f" or the parts exceed it (below 0): {'; '.join(named)}.",
        "compare types by their whole time; the samples divide the parts among them",
    )


def _is_surely_above(residual: Estimate, limit_ms: float) -> bool:
    """Return whether a rest is above the limit, and its interval does not contain 0."""
    low = residual.value if residual.low is None else residual.low
    high = residual.value if residual.high is None else residual.high
    return abs(residual.value) > limit_ms and (low > 0 or high < 0)


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


def _planned_too_long(where: WhereTheTimeGoes) -> Doubt | None:
    """Return a doubt if more planning and JIT was counted than the server worked."""
    if not where.planned_too_long_ms:
        return None
    return Doubt(
        "planning_too_long",
        "doubt",
        f"The server counted {milliseconds(where.planned_too_long_ms)} of planning and JIT a"
        f" transaction, more than the {milliseconds(where.server_ms or 0.0)} of its whole time:"
        " the part outside of the counted time is left out.",
        "read the times of planning and JIT as upper limits",
    )


def _without_bind(where: WhereTheTimeGoes) -> Doubt | None:
    """Return a doubt if the server's count may lack much time of Parse and Bind."""
    server_ms = where.server_ms or 0.0
    if where.server_how != "counted" or where.uncounted_ms <= _UNCOUNTED_RATIO_MIN * server_ms:
        return None
    return Doubt(
        "server_time_without_bind",
        "doubt",
        "With this protocol, the server counts the execution of a statement without Parse and Bind:"
        f" its time is {milliseconds(server_ms)} by this count, and at most"
        f" {milliseconds(server_ms + where.uncounted_ms)} with them.",
        "measure a script with -M simple: then the server counts its whole time",
    )
