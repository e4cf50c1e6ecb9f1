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
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import numpy.typing as npt

from pgdyno.features.capture.model import StatementKind

FloatArray = npt.NDArray[np.float64]

# Two numbers of calls are equal if they differ by less than this: transactions in flight.
TOLERANCE_CALLS = 3.0
TOLERANCE_RATIO = 0.02
# What agrees by chance less often than this does not agree by chance.
_CHANCE_MAX = 1e-3
# One of six intervals may be wrong, and at most by eight times the tolerance.
_OUTLIERS_ONE_OF, _OUTLIERS_RATIO = 6, 8.0
# Sums of calls are compared for the most frequent statements.
_SUMS_OF_MAX = 300
_SUM_TOLERANCE_RATIO = 0.005
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


@dataclass(slots=True)
class Relations:
    """What follows from sums. `apart`: two that are in different transactions.

    `implied`: for each statement those that are in all of its transactions.
    """

    apart: set[frozenset[str]] = field(default_factory=set)
    implied: dict[str, set[str]] = field(default_factory=dict)

    def imply(self, name: str, other: str) -> None:
        """Let `other` be in all transactions of `name`."""
        if name != other:
            self.implied.setdefault(name, set()).add(other)


def slack(calls: float) -> float:
    """Return by how much two numbers of calls may differ and still be equal."""
    return max(TOLERANCE_CALLS, calls * TOLERANCE_RATIO)


def is_as_often(first: FloatArray, other: FloatArray) -> bool:
    """Return whether two statements were called as often in every interval."""
    tolerances = TOLERANCE_CALLS + np.maximum(TOLERANCE_CALLS, TOLERANCE_RATIO * first)
    return bool(len(first)) and bool((np.abs(other - first) <= tolerances).all())


def chance(difference: FloatArray, variance: FloatArray, tolerance: FloatArray) -> float:
    """Return how probable it is that these differences are all within the tolerance by chance.

    It is 1 if they are not. A few may be larger: the server counts on while its counters are read,
    and on a busy machine that takes time.
    """
    count = len(difference)
    worst = count // _OUTLIERS_ONE_OF
    far = np.abs(difference) / tolerance
    if not count or far.max() > _OUTLIERS_RATIO or np.count_nonzero(far > 1) > worst:
        return 1.0
    within = np.argsort(far)[: count - worst]
    widths = tolerance[within] / np.sqrt(2 * np.maximum(variance[within], 1.0))
    return math.comb(count, worst) * float(math.prod(math.erf(width) for width in widths))


def relations(statements: Sequence[CallSeries], writing: Sequence[float]) -> Relations:
    """Return what follows from sums. Args: writing, transactions that wrote, in each interval.

    If two statements have a third one as their sum, no transaction has both, and each transaction
    of one has the third. If the transactions that wrote are their sum, each has one of them.
    """
    known_relations = Relations()
    known = sorted(statements, key=lambda item: item.calls)[-_SUMS_OF_MAX:]
    series = {item.id: np.array(item.series, dtype=float) for item in known}
    totals = [item.calls for item in known]
    wrote = np.array(writing, dtype=float)
    all_that_wrote = float(wrote.sum())
    pairs_that_wrote = []
    for first, other in combinations(known, 2):
        total = first.calls + other.calls
        begin = bisect_left(totals, total - _sum_slack(total))
        end = bisect_right(totals, total + _sum_slack(total))
        wrote_all = abs(total - all_that_wrote) <= max_difference(total, len(wrote))
        if first.role != other.role or (begin == end and not wrote_all):
            continue
        if min(first.calls, other.calls) <= 2 * max_difference(total, len(wrote)):
            # With a part as rare as the tolerance, everything is the sum of its equal and that.
            continue
        if _is_multiple(series[first.id], series[other.id]):
            continue
        for whole in known[begin:end]:
            if whole.role == first.role and _is_sum(
                series[first.id], series[other.id], series[whole.id]
            ):
                known_relations.apart.add(frozenset((first.id, other.id)))
                known_relations.imply(first.id, whole.id)
                known_relations.imply(other.id, whole.id)
        is_pair = wrote_all and first.writes and other.writes
        if is_pair and _is_sum(series[first.id], series[other.id], wrote):
            pairs_that_wrote.append((first.id, other.id))
            known_relations.apart.add(frozenset((first.id, other.id)))
    names = [item.id for item in known if item.writes]
    for whole in (item for item in known if item.writes and _is_same(series[item.id], wrote)):
        for name in names:
            known_relations.imply(name, whole.id)
    for pair in pairs_that_wrote:
        for name in names:
            for own, theirs in (pair, pair[::-1]):
                if frozenset((name, theirs)) in known_relations.apart:
                    known_relations.imply(name, own)
    return known_relations


def _is_sum(first: FloatArray, other: FloatArray, whole: FloatArray) -> bool:
    if not len(first) == len(other) == len(whole):
        return False
    tolerance = TOLERANCE_CALLS + _SUM_TOLERANCE_RATIO * whole
    return chance(first + other - whole, first + other + whole, tolerance) < _CHANCE_MAX


def _is_same(first: FloatArray, whole: FloatArray) -> bool:
    return _is_sum(first, np.zeros_like(first), whole)


def _is_multiple(first: FloatArray, other: FloatArray) -> bool:
    """Return whether one has a multiple of the other's calls: it may be a loop."""
    if len(first) != len(other) or not first.sum():
        return False
    turns = round(float(other.sum() / first.sum()))
    tolerance = TOLERANCE_CALLS + _SUM_TOLERANCE_RATIO * other
    return bool((np.abs(turns * first - other) <= tolerance).all())


def is_no_chance(first: FloatArray, other: FloatArray) -> bool:
    """Return whether two statements were called as often in every interval, and not by chance."""
    tolerance = TOLERANCE_CALLS + _SUM_TOLERANCE_RATIO * first
    return chance(other - first, first + other, tolerance) < _CHANCE_MAX


def difference(first: FloatArray, other: FloatArray) -> float:
    """Return by how many calls two statements differ in all intervals together."""
    return float(np.abs(first - other).sum())


def max_difference(calls: float, count: int) -> float:
    """Return by how much the totals of statements differ at most that agree in each interval."""
    worst = 1 + (_OUTLIERS_RATIO - 1) / _OUTLIERS_ONE_OF
    return worst * (TOLERANCE_CALLS * count + _SUM_TOLERANCE_RATIO * calls) + TOLERANCE_CALLS


def _sum_slack(calls: float) -> float:
    return TOLERANCE_CALLS + calls * _SUM_TOLERANCE_RATIO
