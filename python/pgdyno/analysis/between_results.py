"""How much an estimate of one result differs from the same estimate of another. Pure.

Source: MOVER, Donner and Zou 2012, Stat. Methods Med. Res. 21(4): limits of a difference from the
limits of its two independent terms; a ratio is the difference of the logarithms.
Limits: each interval covers what its own result covers. What changed between the two results, such
as the state of the machine, is in no interval.
"""

from __future__ import annotations

import math

from pgdyno.analysis.estimate import Estimate, Scope, without_interval


def ratio_between(first: Estimate, other: Estimate) -> Estimate | None:
    """Return other / first with its interval if both have one.

    None unless both are above 0, and if both may as well be 0: noise over noise says nothing.
    """
    if first.value <= 0 or other.value <= 0:
        return None
    value = other.value / first.value
    a, b = _ends(first), _ends(other)
    if a is not None and b is not None and max(a[0], b[0]) <= 0:
        return None
    if a is None or b is None or min(*a, *b) <= 0:
        return without_interval(value, "1")
    low, high = _limits(*(tuple(math.log(end) for end in ends) for ends in (a, b)))
    count = min(first.n, other.n)
    return Estimate(value, math.exp(low), math.exp(high), count, "1", _scope(first, other))


def difference_between(first: Estimate, other: Estimate) -> Estimate:
    """Return other - first, in their unit, with its interval if both have one."""
    value = other.value - first.value
    a, b = _ends(first), _ends(other)
    if a is None or b is None:
        return without_interval(value, first.unit)
    low, high = _limits(a, b)
    return Estimate(value, low, high, min(first.n, other.n), first.unit, _scope(first, other))


def _ends(estimate: Estimate) -> tuple[float, ...] | None:
    """Return low, value and high; None without an interval."""
    if estimate.low is None or estimate.high is None:
        return None
    return estimate.low, estimate.value, estimate.high


def _limits(first: tuple[float, ...], other: tuple[float, ...]) -> tuple[float, float]:
    """Return the limits of other - first; each is low, value, high."""
    (a_low, a, a_high), (b_low, b, b_high) = first, other
    below, above = math.hypot(b - b_low, a_high - a), math.hypot(b_high - b, a - a_low)
    return b - a - below, b - a + above


def _scope(first: Estimate, other: Estimate) -> Scope:
    """Return the scope of both; if they differ, the one that covers less."""
    return first.scope if first.scope == other.scope else "within_run"
