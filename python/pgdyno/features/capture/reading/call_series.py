"""What the calls of statements in each interval tell: which are equal, and which are a sum.

Clients choose their transactions at random, so calls differ from interval to interval. Statements
whose calls agree in each one belong together, unless chance explains it. The interval is that
between two snapshots of the counters. Chance is that of numbers that arrive independently
(Poisson).
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from pgdyno.features.capture.observed import StatementKind

FloatArray = npt.NDArray[np.float64]

# Two numbers of calls are equal if they differ by less than this: transactions in flight.
TOLERANCE_CALLS = 3.0
TOLERANCE_RATIO = 0.02
# Statements are together if their calls differ so little that even of those that share only this
# part of their transactions fewer than one pair of a thousand would.
_OWN_RATIO, _CHANCE_MAX = 0.5, 1e-3
# Calls are compared in every interval, and in some together: a snapshot takes time.
_TOGETHER = (1, 2, 4, 8)
_INTERVALS_MIN = 3
# Sums of calls are compared for the most frequent statements.
_SUMS_OF_MAX = 300
_WRITING: tuple[StatementKind, ...] = ("update", "merge", "insert", "delete")


@dataclass(frozen=True, slots=True)
class CallSeries:
    """One statement and how often it was called: in total, and in each interval.

    `level`: how many foreign keys lead from the table that it writes to one without: the rows of
    parents are written before those of their children. `ends_count`: how often a call ends its
    transaction itself; it fails in a block then.
    """

    id: str
    query_id: int
    role: str
    kind: StatementKind
    calls: float
    series: Sequence[int] = ()
    level: int = 0
    ends_count: int = 0

    @property
    def writes(self) -> bool:
        """Return whether it changes rows."""
        return self.kind in _WRITING


def slack(calls: float) -> float:
    """Return by how much two numbers of calls may differ and still be equal."""
    return max(TOLERANCE_CALLS, calls * TOLERANCE_RATIO)


def is_at_least(first: FloatArray, other: FloatArray) -> bool:
    """Return whether one statement was called as often as another in nearly every interval."""
    less = first < other - TOLERANCE_CALLS - TOLERANCE_RATIO * other
    return len(first) != len(other) or int(np.count_nonzero(less)) <= len(less) // 6


def is_no_chance(first: FloatArray, other: FloatArray) -> bool:
    """Return whether two statements were called as often in every interval, and not by chance.

    The squared differences of independent numbers, each divided by the sum of the two, have a
    chi-squared distribution. Whole numbers may differ by one more.
    """
    if len(first) != len(other):
        return False
    for together in _TOGETHER:
        starts = np.arange(0, len(first), together)
        if len(starts) < _INTERVALS_MIN:
            break
        own, theirs = np.add.reduceat(first, starts), np.add.reduceat(other, starts)
        called = own + theirs > 0
        squares = (np.abs(own - theirs)[called] + 1) ** 2 / (own + theirs)[called]
        chance = _chi_squared(float(squares.sum()) / _OWN_RATIO, int(called.sum()))
        if len(_TOGETHER) * chance < _CHANCE_MAX:
            return True
    return False


def _chi_squared(value: float, degrees: int) -> float:
    """Return the probability of a smaller value, by the series of the incomplete gamma function."""
    if value > degrees or not degrees:
        # A half or more: nothing is proved.
        return 1.0
    half, term = degrees / 2, 1.0
    total, number = 1.0, half
    while term > 1e-9 * total:
        number += 1
        term *= value / 2 / number
        total += term
    return total * math.exp(half * math.log(value / 2) - value / 2 - math.lgamma(half + 1))


def sums(statements: Sequence[CallSeries], writing: Sequence[float]) -> dict[str, set[str]]:
    """Return for each statement those that were called as often as it and a third one together.

    If all of a statement's transactions have one of two others, its calls are the sum of theirs.
    Args: writing, transactions that wrote, in each interval: a statement that is as frequent may be
    in each of them.
    """
    wholes: dict[str, set[str]] = {}
    known = sorted(statements, key=lambda item: item.calls)[-_SUMS_OF_MAX:]
    series = {item.id: np.array(item.series, dtype=float) for item in known}
    totals = [item.calls for item in known]
    wrote = np.array(writing, dtype=float)
    for first, other in combinations(known, 2):
        total = first.calls + other.calls
        begin = bisect_left(totals, total - slack(total))
        end = bisect_right(totals, total + slack(total))
        if first.role != other.role or begin == end:
            continue
        if min(first.calls, other.calls) <= 2 * slack(total):
            # With a part as rare as the tolerance, everything is the sum of its equal and that.
            continue
        if _is_multiple(series[first.id], series[other.id]):
            continue
        for whole in known[begin:end]:
            both = series[first.id] + series[other.id]
            if whole.role == first.role and is_no_chance(both, series[whole.id]):
                for part in (first, other):
                    wholes.setdefault(part.id, set()).add(whole.id)
    names = [item.id for item in known if item.writes]
    for whole in (item for item in known if item.writes and is_no_chance(series[item.id], wrote)):
        for name in names:
            wholes.setdefault(name, set()).add(whole.id)
    return wholes


def _is_multiple(first: FloatArray, other: FloatArray) -> bool:
    """Return whether one has a multiple of the other's calls: it may be a loop."""
    if len(first) != len(other) or not first.sum():
        return False
    turns = round(float(other.sum() / first.sum()))
    tolerance = TOLERANCE_CALLS + TOLERANCE_RATIO * other
    return bool((np.abs(turns * first - other) <= tolerance).all())
