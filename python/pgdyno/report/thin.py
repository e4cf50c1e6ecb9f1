"""At most so many points a series, with what was lost kept as minimum, mean and maximum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

POINTS_MAX = 600

Values = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Thinned:
    """One series on the thinned axis. `low` and `high` are None when nothing was merged."""

    mean: tuple[float | None, ...]
    low: tuple[float | None, ...] | None
    high: tuple[float | None, ...] | None


def thin_axis(time_s: Sequence[float], points_max: int = POINTS_MAX) -> tuple[float, ...]:
    """Return the middle of each bucket of `time_s`; unchanged when it is short enough."""
    if len(time_s) <= points_max:
        return tuple(time_s)
    return tuple((time_s[a] + time_s[b - 1]) / 2 for a, b in _buckets(len(time_s), points_max))


def thin(values: Values, points_max: int = POINTS_MAX) -> Thinned:
    """Return min, mean and max of each bucket; a bucket of gaps only stays a gap.

    Args: values, shape (n,), in time order, evenly spaced but for gaps, any unit; None = gap.
    Limits: the mean is over the values present, so it is right for rates sampled evenly.
    """
    if len(values) <= points_max:
        return Thinned(tuple(values), None, None)
    numbers = np.array(values, dtype=np.float64)
    known = ~np.isnan(numbers)
    starts = np.array([start for start, _ in _buckets(len(values), points_max)])
    count = np.add.reduceat(known, starts, dtype=np.int64)
    total = np.add.reduceat(np.where(known, numbers, 0.0), starts)
    means = np.divide(total, count, out=np.full(count.size, np.nan), where=count > 0)
    lows, highs = np.fmin.reduceat(numbers, starts), np.fmax.reduceat(numbers, starts)
    return Thinned(_with_gaps(means), _with_gaps(lows), _with_gaps(highs))


def _with_gaps(numbers: npt.NDArray[np.float64]) -> tuple[float | None, ...]:
    return tuple(None if value != value else value for value in numbers.tolist())


def _buckets(length: int, count: int) -> list[tuple[int, int]]:
    return [(i * length // count, (i + 1) * length // count) for i in range(count)]
