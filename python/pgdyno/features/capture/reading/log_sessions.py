"""Values that a session keeps: a parameter that is nearly always the same in a session.

Such as the shop of a till, or the tenant of a worker. Other sessions have others. A client of the
mirror keeps a value, too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from pgdyno.engine.distribution import Distribution, Hot
from pgdyno.features.capture.model import OfColumn
from pgdyno.features.capture.reading.observed import Observed
from pgdyno.features.capture.schema import ColumnShape

# Fewer values than this do not show that a session keeps one.
_VALUES_MIN = 5
# A session keeps a value if its share is this much above that of a draw without memory.
_ABOVE_CHANCE = 0.25
_ALWAYS = 0.99
# Most sessions whose values are kept apart.
_SESSIONS_MAX = 1_000


def kept_source(observed: Observed, column: ColumnShape) -> OfColumn | None:
    """Return the source of a parameter whose value a session keeps; None if sessions keep none.

    Returns: a column whose distribution is that of the sessions' values, by their order in the
    range of the column. Limits: only whole numbers are looked at.
    """
    counts = _counts(observed)
    usual = {session: seen.most_common(1)[0][0] for session, seen in counts.items()}
    if len(set(usual.values())) < 2 or not (kept := _kept(counts, usual)):
        return None
    spread = _distribution(usual, column)
    if spread is None:
        return None
    return OfColumn(table=column.table, column=column.column, distribution=spread, kept=kept)


def _counts(observed: Observed) -> dict[str, Counter[str]]:
    """Return how often each session had each value; sessions with few values are left out."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for session, value in zip(observed.sessions, observed.values, strict=False):
        if isinstance(value, str):
            counts[session][value] += 1
    return {session: seen for session, seen in counts.items() if seen.total() >= _VALUES_MIN}


def _kept(counts: Mapping[str, Counter[str]], usual: Mapping[str, str]) -> float:
    """Return the share of draws in which sessions take their own value; 0 if they keep none.

    The other draws have it by chance, as often as sessions that keep another value.
    """
    total = sum(seen.total() for seen in counts.values())
    whole: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    own: Counter[str] = Counter()
    for session, seen in counts.items():
        whole.update(seen)
        calls[usual[session]] += seen.total()
        own[usual[session]] += seen[usual[session]]
    own_ratio = own.total() / total
    by_chance = sum(
        count * (whole[value] - own[value]) / (total - count) for value, count in calls.items()
    )
    kept = own_ratio - by_chance / total
    if kept < _ABOVE_CHANCE:
        return 0.0
    return 1.0 if own_ratio > _ALWAYS else round(kept, 3)


def _distribution(usual: Mapping[str, str], column: ColumnShape) -> Distribution | None:
    """Return how the sessions' values are spread: by their order, over the range of the column."""
    shape = column.distribution
    known = [*shape.bounds, *(hot.value for hot in shape.hot)]
    if shape.kind != "integer" or not known or not all(map(_is_whole, usual.values())):
        return None
    sizes = Counter(int(value) for value in list(usual.values())[:_SESSIONS_MAX])
    first, last = min(map(int, known)), max(map(int, known))
    # Their order alone is kept: value number n of m is in the middle of the n-th of m parts.
    count = len(sizes)
    places = [first + (last - first + 1) * (2 * n + 1) // (2 * count) for n in range(count)]
    hot = tuple(
        Hot(value=str(min(place, last)), fraction=sizes[value] / sizes.total())
        for place, value in zip(places, sorted(sizes), strict=True)
    )
    return shape.model_copy(
        update={
            "hot": hot,
            "bounds": (),
            "distinct": float(count),
            "null_fraction": 0,
            "is_dense": False,
        }
    )


def _is_whole(value: str) -> bool:
    return value.lstrip("-").isdecimal()
