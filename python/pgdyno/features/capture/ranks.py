"""Arithmetic with distributions: smaller tables, ranks, parts of a table together. Pure.

A foreign key refers to rows that exist. Therefore its values become ranks: numbers of values of the
referenced column, in ascending order from 0.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise

from pgdyno.engine.distribution import Distribution, Hot

# Of a column with more different values than this share of its rows, a table with fewer rows has
# fewer. The server's own estimate draws the line in the same place.
GROWING_RATIO = 0.1
_NUMBERS = ("integer", "real", "numeric", "rank")
_BOUNDS_MAX = 101
_HOT_MAX = 100
# default_statistics_target.
_TARGET = 100
_NEARLY_UNIQUE = 0.98
_HALVINGS = 14


def scaled(distribution: Distribution, *, rows: float, made_rows: int) -> Distribution:
    """Return the distribution in a table of `made_rows` rows that is like one with `rows`."""
    not_null = made_rows * (1 - distribution.null_fraction)
    distinct = distribution.distinct
    if rows > 0 and distinct > GROWING_RATIO * rows * (1 - distribution.null_fraction):
        distinct = distinct * made_rows / rows
    return distribution.model_copy(update={"distinct": min(max(distinct, 1.0), max(not_null, 1.0))})


def as_counted(distribution: Distribution, rows: float) -> Distribution:
    """Return the distribution with as many different values as the table really has.

    The server estimates this number from a sample. A column with common and with rare values has
    more than the estimate. In a copy with this number, the server's estimate is the original's.
    Limits: values are taken as equally frequent between two bounds of the histogram.
    """
    count = rows * (1 - distribution.null_fraction)
    hot = len(distribution.hot)
    if (
        rows <= _sample_rows(distribution)
        or not hot < distribution.distinct < _NEARLY_UNIQUE * count
    ):
        return distribution

    def estimate(distinct: float) -> float:
        return estimated_distinct(distribution.model_copy(update={"distinct": distinct}), rows)

    # More values may not fit between the bounds.
    least, most = distribution.distinct, _NEARLY_UNIQUE * count
    wanted = min(distribution.distinct, 0.999 * estimate(most))
    for _ in range(_HALVINGS):
        middle = (least + most) / 2
        if estimate(middle) < wanted:
            least = middle
        else:
            most = middle
    return distribution.model_copy(update={"distinct": round((least + most) / 2)})


def estimated_distinct(distribution: Distribution, rows: float) -> float:
    """Return the number of different values that ANALYZE finds on average.

    Source: Haas and Stokes, 1998, the estimator Duj1, as in PostgreSQL's analyze.c.
    """
    share = min(1.0, _sample_rows(distribution) / max(1.0, rows))
    count = rows * (1 - distribution.null_fraction)
    common = [hot.fraction * rows for hot in distribution.hot]
    seen, once = 0.0, 0.0
    for number, own in (*((1.0, own) for own in common), *_bins(distribution, rows)):
        if number <= 0 or own <= 0:
            continue
        # Some values have one row more than the others.
        run = max(1.0, own / number)
        for size, part in ((int(run), 1 - run % 1), (int(run) + 1, run % 1)):
            seen += number * part * (1 - (1 - share) ** size)
            once += number * part * size * share * (1 - share) ** (size - 1)
    sampled = count * share
    return sampled * seen / max(1.0, sampled - once + once * share)


def _bins(distribution: Distribution, rows: float) -> list[tuple[float, float]]:
    """Return the number of values and of rows between neighbouring bounds.

    A bin of integers has at most as many values as integers, and the others then have more.
    """
    count = len(distribution.bounds) - 1
    common = sum(hot.fraction for hot in distribution.hot)
    own = max(0.0, 1 - distribution.null_fraction - common) * rows / max(1, count)
    wanted = max(0.0, distribution.distinct - len(distribution.hot))
    if count < 1 or distribution.kind != "integer":
        return [(wanted, own * max(1, count))]
    numbers = [int(bound) for bound in distribution.bounds]
    step = max(1, int(distribution.step or 1))
    spans = sorted(max(1, (high - low) // step) for low, high in pairwise(numbers))
    bins = []
    for place, span in enumerate(spans):
        values = min(span, wanted / (count - place), own)
        bins.append((values, own))
        wanted -= values
    return bins


def _sample_rows(distribution: Distribution) -> int:
    """Return how many rows ANALYZE reads: the histogram shows the statistics target."""
    return 300 * max(_TARGET, len(distribution.bounds) - 1)


def unique(distribution: Distribution, made_rows: int) -> Distribution:
    """Return the distribution of a column of which no two rows have the same value."""
    distinct = round(made_rows * (1 - distribution.null_fraction))
    bounds = distribution.bounds or tuple(hot.value for hot in distribution.hot)
    changes: dict[str, object] = {"distinct": distinct, "hot": (), "bounds": bounds}
    if distribution.kind == "integer" and len(bounds) > 1:
        least, most = int(bounds[0]), int(bounds[-1])
        step = max(1, int(distribution.step or 1))
        if distribution.is_dense or (most - least) // step + 1 < distinct:
            # The same density: the range is as much shorter as the table is.
            last = least + max(0, distinct - 1) * step
            changes |= {"is_dense": True, "bounds": (str(least), str(last))}
    return distribution.model_copy(update=changes)


def as_listed(distribution: Distribution) -> Distribution:
    """Return texts whose bounds are all their values as a list of common values.

    So no other text comes between them: the names of a list of kinds are these names.
    """
    known = tuple(dict.fromkeys(distribution.bounds))
    count = round(distribution.distinct)
    if distribution.kind != "text" or distribution.hot or not 0 < count <= len(known):
        return distribution
    share = (1 - distribution.null_fraction) / count
    hot = tuple(Hot(value=value, fraction=share) for value in known[:count])
    return distribution.model_copy(update={"hot": hot, "bounds": ()})


def ranks_in(child: Distribution, parent: Distribution, original: Distribution) -> Distribution:
    """Return the values of `child` as numbers of the values of `parent`.

    Args: original, the distribution of the referenced column in the source; `parent` may have
    fewer. Skew and share of the referenced values stay; each common value has another number.
    """
    count = max(1, round(parent.distinct))
    place = _place_in(original)
    taken: set[int] = set()
    hot = []
    for common in child.hot:
        number = _free_near(min(count - 1, round(place(common.value) * (count - 1))), taken, count)
        if number is not None:
            taken.add(number)
            hot.append(Hot(value=str(number), fraction=common.fraction))
    numbers = sorted(min(count - 1, round(place(bound) * (count - 1))) for bound in child.bounds)
    if len(numbers) < 2:
        numbers = [0, count - 1]
    return Distribution(
        kind="rank",
        null_fraction=child.null_fraction,
        distinct=min(child.distinct, count),
        hot=tuple(hot),
        bounds=tuple(map(str, numbers)),
        element=parent,
    )


def _free_near(number: int, taken: set[int], count: int) -> int | None:
    for distance in range(len(taken) + 1):
        for near in (number + distance, number - distance):
            if 0 <= near < count and near not in taken:
                return near
    return None


def _place_in(parent: Distribution) -> Callable[[str], float]:
    """Return a function from a value to its place among the values of `parent`, 0 to 1."""
    if len(parent.bounds) < 2:
        values = sorted(hot.value for hot in parent.hot)
        return lambda value: bisect_right(values, value) / max(1, len(values))
    if parent.kind in _NUMBERS:
        known = sorted(map(float, parent.bounds))
        return lambda value: _interpolated(float(value), known)
    texts = sorted(parent.bounds)

    def place(value: str) -> float:
        at = bisect_right(texts, value)
        return 0.0 if at == 0 else min(1.0, (at - 0.5) / (len(texts) - 1))

    return place


def _interpolated(value: float, known: Sequence[float]) -> float:
    at = bisect_right(known, value)
    if at == 0:
        return 0.0
    if at == len(known):
        return 1.0
    low, high = known[at - 1], known[at]
    return (at - 1 + (value - low) / (high - low)) / (len(known) - 1)


def together(parts: Sequence[tuple[float, Distribution]]) -> Distribution:
    """Return the distribution of all rows of several parts, such as partitions.

    Args: parts, the number of rows and the distribution of each. The values of a column that grows
    with its table differ from part to part; other columns have the same values in all parts.
    """
    parts = [(rows, part) for rows, part in parts if rows > 0] or list(parts[:1])
    total = sum(rows for rows, _ in parts) or 1.0
    if len(parts) == 1:
        return parts[0][1]
    is_growing = any(part.distinct > GROWING_RATIO * rows for rows, part in parts)
    shares: dict[str, float] = {}
    for rows, part in parts:
        for hot in part.hot:
            shares[hot.value] = shares.get(hot.value, 0.0) + hot.fraction * rows / total
    common = sorted(shares.items(), key=lambda item: -item[1])[:_HOT_MAX]
    distinct = [part.distinct for _, part in parts]
    return parts[0][1].model_copy(
        update={
            "null_fraction": sum(rows * part.null_fraction for rows, part in parts) / total,
            "distinct": sum(distinct) if is_growing else max(*distinct, len(shares)),
            "width": sum(rows * part.width for rows, part in parts) / total,
            "hot": tuple(Hot(value=value, fraction=share) for value, share in common),
            "bounds": _bounds_together(parts),
            "is_dense": False,
        }
    )


def _bounds_together(parts: Sequence[tuple[float, Distribution]]) -> tuple[str, ...]:
    """Return bounds with as many rows between neighbours, from the bounds of the parts."""
    weighted: list[tuple[str, float]] = []
    for rows, part in parts:
        rest = rows * max(0.0, 1 - part.null_fraction - sum(hot.fraction for hot in part.hot))
        weight = rest / max(1, len(part.bounds) - 1)
        weighted += [(bound, weight if at else 0.0) for at, bound in enumerate(part.bounds)]
    if parts[0][1].kind in _NUMBERS:
        weighted.sort(key=lambda item: (float(item[0]), item[1]))
    else:
        weighted.sort()
    total = sum(weight for _, weight in weighted)
    if len(weighted) < 2 or total <= 0:
        return tuple(bound for bound, _ in weighted)
    count = min(_BOUNDS_MAX, len(weighted))
    chosen, passed, wanted = [weighted[0][0]], 0.0, 1
    for bound, weight in weighted:
        passed += weight
        while wanted < count - 1 and passed >= total * wanted / (count - 1):
            chosen.append(bound)
            wanted += 1
    return (*chosen, weighted[-1][0])
