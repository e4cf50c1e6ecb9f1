"""Where B spends more or less time than A: the differences of the parts of the latency."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pgdyno.analysis.estimate import Estimate, without_interval
from pgdyno.analysis.wait_events import canonical_event
from pgdyno.analysis.where import LatencyPart, WhereTheTimeGoes
from pgdyno.analysis.where_facts import CPU, NOT_INSTRUMENTED, WITHOUT_EVENT


@dataclass(frozen=True, slots=True)
class Difference:
    """B minus A, in ms: parts plus residual are the difference of the latencies, exactly."""

    latency_ms: Estimate
    parts: tuple[LatencyPart, ...]
    residual_ms: float


def difference(a: WhereTheTimeGoes, b: WhereTheTimeGoes) -> Difference:
    """Return where B spends more or less time than A, the largest change first.

    If a wait event has different names in the versions of A and B, it has B's name. CPU and waiting
    for a core are one part if A or B could not split them.
    Source: interval of a difference of independent estimates, Zou and Donner 2008.
    """
    mine, other = _keyed(a), _keyed(b)
    if (CPU.casefold() in mine) != (CPU.casefold() in other):
        mine, other = _unsplit(mine), _unsplit(other)
    parts = []
    for key in dict.fromkeys((*other, *mine)):
        part_a, part_b = mine.get(key), other.get(key)
        shown = part_b or part_a
        assert shown is not None
        from_a = part_a.ms if part_a else None
        from_b = part_b.ms if part_b else None
        parts.append(LatencyPart(shown.name, _minus(from_b, from_a), shown.side))
    parts.sort(key=lambda part: -abs(part.ms.value))
    latency = _minus(b.latency_ms, a.latency_ms)
    residual = latency.value - math.fsum(part.ms.value for part in parts)
    return Difference(latency, tuple(parts), residual)


def _keyed(whole: WhereTheTimeGoes) -> dict[str, LatencyPart]:
    return {canonical_event(part.name): part for part in whole.parts}


def _unsplit(parts: dict[str, LatencyPart]) -> dict[str, LatencyPart]:
    """Return the parts with CPU, waiting for a core and the rest joined into one part."""
    joined = [parts[name.casefold()] for name in WITHOUT_EVENT if name.casefold() in parts]
    rest = {key: part for key, part in parts.items() if part not in joined}
    if joined:
        ms = joined[0].ms
        if len(joined) > 1:
            ms = without_interval(math.fsum(part.ms.value for part in joined), "ms")
        rest[NOT_INSTRUMENTED.casefold()] = LatencyPart(NOT_INSTRUMENTED, ms, "server")
    return rest


def _minus(b: Estimate | None, a: Estimate | None) -> Estimate:
    """Return b - a; a missing part is exactly 0."""
    value = (b.value if b else 0.0) - (a.value if a else 0.0)
    present = [estimate for estimate in (b, a) if estimate is not None]
    if any(estimate.low is None or estimate.high is None for estimate in present):
        return without_interval(value, "ms")
    low = math.hypot(_below(b), _above(a))
    high = math.hypot(_above(b), _below(a))
    count = min(estimate.n for estimate in present)
    return Estimate(value, value - low, value + high, count, "ms", present[0].scope)


def _below(estimate: Estimate | None) -> float:
    return 0.0 if estimate is None or estimate.low is None else estimate.value - estimate.low


def _above(estimate: Estimate | None) -> float:
    return 0.0 if estimate is None or estimate.high is None else estimate.high - estimate.value
