"""From which earlier value of its transaction a parameter follows: a search in the values of a log.

What a program knows before it sends a statement: earlier parameters, elements of earlier arrays,
the number of the turn, how many turns and elements there were, and what earlier statements
returned, as far as a log shows it (`log_returned`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pgdyno.engine.distribution import Spread
from pgdyno.features.capture.model import (
    Between,
    Count,
    Equal,
    Linear,
    ListOf,
    Number,
    Source,
    Turn,
)
from pgdyno.features.capture.reading.key_sources import Place
from pgdyno.features.capture.reading.log_returned import ReturnedColumn, returned_source
from pgdyno.features.capture.reading.observed import FloatArray, Observed, paired, text_of

# A dependency holds in all transactions but these: a log may have a few that differ.
_ALWAYS = 0.99
_INSTANCES_MIN = 10
# Fewer transactions are enough to see that two parameters are equal if this many values differ.
_DISTINCT_MIN = 3
# If half of this many values differ, the others are not looked at.
_LOOK = 100
# A difference is bounded if it varies this much less than the parameter itself.
_BOUNDED = 0.1
# Turns are numbered from 0 or 1: a larger number is a value of a row.
_FIRST = (0, 1)
# A number is a count, or one more or less.
_NEAR_COUNT = (0, -1, 1)


@dataclass(slots=True)
class Earlier:
    """What a program knows: earlier parameters, the turns of earlier steps, returned columns.

    `known`: each earlier parameter with the key to which its column refers. `key`: that of the
    parameter whose source is sought. `turns`: of each earlier step that has several, the number of
    turns in each transaction.
    """

    known: list[tuple[Place | None, Observed]] = field(default_factory=list)
    turns: dict[int, list[int]] = field(default_factory=dict)
    returned: list[ReturnedColumn] = field(default_factory=list)
    key: Place | None = None

    @property
    def parameters(self) -> list[Observed]:
        """Return the parameters whose value may be that of the parameter in question.

        Keys of two tables that rows are added to together are equal by chance: in a copy the same
        place has other values. Only keys that foreign keys refer to are compared.
        """
        return [other for key, other in self.known if key is None or self.key in (None, key)]


def dependency(observed: Observed, earlier: Earlier) -> Source | None:
    """Return the earlier value from which the values follow, the nearest one first."""
    distinct = len(set(map(str, observed.values)))
    if distinct == 1 or (distinct < _DISTINCT_MIN and len(observed.values) < _INSTANCES_MIN):
        return None
    candidates = list(reversed(earlier.parameters))
    least = _INSTANCES_MIN if distinct < _DISTINCT_MIN else _DISTINCT_MIN
    for other in candidates:
        if _is_equal(observed, other, least):
            return Equal(step=other.step, parameter=other.position)
    if source := _of_turns(observed, candidates, least):
        return source
    if observed.numbers is None or len(observed.values) < _INSTANCES_MIN:
        return None
    if count := number(observed, observed.numbers, earlier):
        return Count(**count.model_dump())
    for other in candidates:
        if source := _arithmetic(observed, observed.numbers, other):
            return source
    return returned_source(observed, earlier.returned, candidates)


def number(of: Observed, numbers: FloatArray, earlier: Earlier) -> Number | None:
    """Return of what numbers are the count: the turns of a step, or the elements of an array."""
    if np.ptp(numbers) == 0 or len(numbers) < _DISTINCT_MIN:
        return None
    for step, turns in earlier.turns.items():
        own = [turns[instance] for instance in of.instances]
        if (offset := _offset(numbers.tolist(), own)) is not None:
            return Number(step=step, offset=offset)
    for other in earlier.parameters:
        if any(items is not None for items in other.lists):
            mine, theirs = paired(of, other)
            lengths = [-1 if (x := other.lists[place]) is None else len(x) for place in theirs]
            offset = _offset([numbers[place] for place in mine], lengths)
            if offset is not None and len(mine) == len(numbers):
                return Number(step=other.step, parameter=other.position, offset=offset)
    return None


def _offset(mine: Sequence[float], counts: Sequence[int]) -> int | None:
    """Return what makes numbers of counts, if it is the same for all."""
    differences = {a - b for a, b in zip(mine, counts, strict=True)}
    if len(differences) == 1 and (offset := int(differences.pop())) in _NEAR_COUNT:
        return offset
    return None


def list_dependency(
    observed: Observed, lists: Sequence[list[Any]], earlier: Earlier
) -> Source | None:
    """Return from what an array follows: it is an earlier one, has the values of all turns, or has
    one earlier value in all places.
    """
    for other in earlier.parameters:
        if _is_equal(observed, other, 1):
            return Equal(step=other.step, parameter=other.position)
        if other.step in earlier.turns and _has_all_turns(observed, other):
            return Equal(step=other.step, parameter=other.position, take="all")
        lengths = [len(items) for items in lists]
        if min(lengths) > 0 and all(items.count(items[0]) == len(items) for items in lists):
            mine, theirs = paired(observed, other)
            only = [items[0] for items in lists]
            if mine and all(only[a] == other.values[b] for a, b in zip(mine, theirs, strict=True)):
                same = Equal(step=other.step, parameter=other.position)
                mean = sum(lengths) / len(lengths)
                return ListOf(
                    of=same, length=Spread(least=min(lengths), mean=mean, most=max(lengths))
                )
    return None


def _has_all_turns(observed: Observed, other: Observed) -> bool:
    """Return whether each array has the values that the other parameter had in all turns."""
    pairs = zip(observed.instances, observed.lists, strict=True)
    wanted = [
        (items, [text_of(other.values[place]) for place in other.places.get(instance, ())])
        for instance, items in pairs
        # Of long logs only the first turns are kept.
        if instance in other.places
    ]
    same = sum(items == theirs for items, theirs in wanted)
    is_same = len(wanted) >= _DISTINCT_MIN and same >= _ALWAYS * len(wanted)
    return is_same and len({str(items) for items, _ in wanted}) > 1


def is_ascending_from(lists: Sequence[list[Any]]) -> int | None:
    """Return the first number if each list has the next numbers, in any order; else None."""
    first = {min(map(int, items)) for items in lists if _are_whole(items) and items}
    if len(first) != 1 or not first <= set(_FIRST) or not all(map(_are_whole, lists)):
        return None
    least = first.pop()
    is_same = all(sorted(map(int, x)) == list(range(least, least + len(x))) for x in lists)
    return least if is_same and max(map(len, lists)) > 1 else None


def are_sorted(lists: Sequence[list[Any]]) -> bool:
    """Return whether most lists with different elements are in ascending order."""
    long = [items for items in lists if len(set(map(str, items))) > 2]
    keyed = [
        list(map(int, items)) if _are_whole(items) else list(map(str, items)) for items in long
    ]
    return len(long) >= _DISTINCT_MIN and 2 * sum(x == sorted(x) for x in keyed) > len(keyed)


def _are_whole(items: Sequence[Any]) -> bool:
    return all(isinstance(x, str) and x.lstrip("-").isdecimal() for x in items)


def _is_equal(observed: Observed, other: Observed, least: int) -> bool:
    """Return whether two parameters are equal in nearly all transactions, and in at least some."""
    for most in (_LOOK, None):
        mine, theirs = paired(observed, other, most)
        same = sum(observed.values[a] == other.values[b] for a, b in zip(mine, theirs, strict=True))
        # A few that differ may be together.
        share = _ALWAYS if most is None or len(mine) < _LOOK else 0.5
        if len(mine) < least or same < share * len(mine):
            return False
    return True


def _of_turns(observed: Observed, candidates: Sequence[Observed], least: int) -> Source | None:
    """Return the array whose elements are the values of the turns, or that turns are numbered."""
    if max(map(len, observed.places.values())) == 1:
        return None
    for other in candidates:
        if any(other.lists) and _is_equal(observed, elements_of(other), least):
            return Equal(step=other.step, parameter=other.position, take="element")
    turns = turns_of(observed)
    if observed.numbers is not None and len(observed.values) >= _INSTANCES_MIN:
        differences = set((observed.numbers - turns).tolist())
        if len(differences) == 1 and (first := differences.pop()) in _FIRST:
            return Turn(offset=int(first))
    return None


def turns_of(observed: Observed) -> FloatArray:
    """Return the number of the turn of each value, from 0."""
    numbers = np.zeros(len(observed.values))
    for places in observed.places.values():
        numbers[places] = np.arange(len(places))
    return numbers


def elements_of(observed: Observed) -> Observed:
    """Return the elements of arrays as the values of turns."""
    items = [
        (instance, item)
        for instance, items in zip(observed.instances, observed.lists, strict=True)
        for item in items or ()
    ]
    return replace(
        observed,
        instances=[instance for instance, _ in items],
        values=[item for _, item in items],
        times_s=(),
    )


def pairs_of(observed: Observed, other: Observed) -> Iterator[tuple[Any, Any]]:
    """Yield the values of two parameters, turn by turn of the same transaction."""
    for mine, theirs in zip(*paired(observed, other), strict=True):
        yield observed.values[mine], other.values[theirs]


def _arithmetic(observed: Observed, numbers: FloatArray, other: Observed) -> Source | None:
    """Return a linear or a bounded relation to a number of an earlier parameter."""
    if other.numbers is None or observed.are_times != other.are_times:
        return None
    places = paired(observed, other)
    mine, theirs = numbers[places[0]], other.numbers[places[1]]
    known = np.isfinite(mine) & np.isfinite(theirs)
    mine, theirs = mine[known], theirs[known]
    if len(mine) < _INSTANCES_MIN or np.ptp(theirs) == 0 or np.ptp(mine) == 0:
        return None
    far = [int(np.argmin(theirs)), int(np.argmax(theirs))]
    slope = float((mine[far[1]] - mine[far[0]]) / (theirs[far[1]] - theirs[far[0]]))
    offset = float(mine[far[0]] - slope * theirs[far[0]])
    misses = np.abs(slope * theirs + offset - mine) > 1e-6 * max(1.0, float(np.ptp(mine)))
    if slope != 0 and misses.mean() <= 1 - _ALWAYS:
        return Linear(
            step=other.step,
            parameter=other.position,
            slope=round(slope, 9),
            offset=round(offset, 6),
        )
    differences = mine - theirs
    least, most = np.quantile(differences, (0.005, 0.995))
    is_near = most - least < _BOUNDED * np.ptp(mine)
    # Two bounds of one range: drawn apart, the second would often be below the first.
    own, its = observed.use, other.use
    are_bounds = own.use == its.use == "range" and (own.table, own.column) == (
        its.table,
        its.column,
    )
    is_ordered = are_bounds and least * most >= 0
    if (is_near or is_ordered) and len(set(theirs)) > _INSTANCES_MIN:
        return Between(
            step=other.step, parameter=other.position, least=float(least), most=float(most)
        )
    return None
