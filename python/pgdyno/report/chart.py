"""The description of a chart, which three painters draw.

`svg` draws it for paper and for the page without JavaScript, `report.js` on a canvas, `plot` for
pictures and PDF. Therefore all of them show the same data.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from pgdyno.report.palette import Role

Scale = Literal["linear", "log"]
Values = tuple[float | None, ...]
TIME_OF_DAY = "time of day, UTC"


@dataclass(frozen=True, slots=True)
class Line:
    """One line: a name, a look, points, and the interval or range of each point.

    `low` and `high` have one entry for each `x`, None = no interval there. `shape`: "steps of time"
    is a plain line; "points" has a marker and a whisker at each measured value; "model" is a fitted
    curve, thin and without markers. `summary`: the text after the name in the legend; None: made
    from the points. `quantity`: the place of the summary's number in the JSON document.
    """

    name: str
    role: Role
    x: tuple[float, ...]
    y: Values
    low: Values | None = None
    high: Values | None = None
    shape: Literal["line", "points", "model"] = "line"
    summary: str | None = None
    quantity: str = ""

    def __post_init__(self) -> None:
        """Make a gap of each value that is not finite: no painter has a place for it."""
        for name in ("y", "low", "high"):
            values = getattr(self, name)
            if values is not None and not all(v is None or math.isfinite(v) for v in values):
                finite = tuple(v if v is not None and math.isfinite(v) else None for v in values)
                object.__setattr__(self, name, finite)


@dataclass(frozen=True, slots=True)
class Flag:
    """A vertical mark at one place of the x axis, with the words that explain it."""

    x: float
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart. Charts with the same `group` share cursor and zoom."""

    key: str
    title: str
    unit: str
    x_label: str
    lines: tuple[Line, ...]
    x_scale: Scale = "linear"
    y_scale: Scale = "linear"
    is_stacked: bool = False
    group: str = ""
    x_ends: tuple[float, float] | None = None
    height_px: int = 150
    flags: tuple[Flag, ...] = ()
    note: str = ""
    section: str = ""

    @property
    def x_range(self) -> tuple[float, float]:
        """Return the given ends, else the smallest and largest x, widened if both are equal."""
        xs = self.x_ends or [x for line in self.lines for x in line.x] or (0.0, 1.0)
        low, high = min(xs), max(xs)
        if low < high:
            return low, high
        return (low / 2, high * 2) if self.x_scale == "log" and low > 0 else (low - 1, high + 1)

    @property
    def is_clock(self) -> bool:
        """Return whether x is a time of day, in seconds since midnight."""
        return self.x_label == TIME_OF_DAY

    @property
    def is_x_log(self) -> bool:
        """Return whether the x axis is logarithmic, which needs places above 0."""
        places = (*self.x_range, *(x for line in self.lines for x in line.x))
        return self.x_scale == "log" and min(places) > 0

    @property
    def y_range(self) -> tuple[float, float]:
        """Return the smallest and largest y with intervals; a linear axis starts at 0."""
        if self.is_stacked:
            layers = np.array([line.y for line in self.lines], dtype=np.float64)
            return 0.0, (float(np.nansum(layers, axis=0).max()) if layers.size else 0.0) or 1.0
        drawn = _numbers(line.y for line in self.lines)
        spans = _numbers(v for line in self.lines for v in (line.low, line.high) if v is not None)
        shown = np.concatenate((drawn, spans))
        if self.y_scale == "log":
            shown = shown[shown > 0]
        if not shown.size or not drawn.size:
            return (0.0, 1.0) if self.y_scale == "linear" else (0.1, 10.0)
        low, high = float(shown.min()), float(shown.max())
        if self.y_scale == "log":
            return (low, high) if low < high else (low / 2, high * 2)
        # If only intervals reach below 0, axis and whiskers end at 0.
        low = min(0.0, float(drawn.min()))
        return low, high if high > 0 else 0.0 if low < 0 else 1.0


def _numbers(values: Iterable[Values]) -> npt.NDArray[np.float64]:
    """Return all values in one array, without gaps."""
    numbers = [np.array(some, dtype=np.float64) for some in values]
    joined = np.concatenate(numbers) if numbers else np.zeros(0)
    return joined[~np.isnan(joined)]


POINTS_MAX = 600


@dataclass(frozen=True, slots=True)
class ThinnedSeries:
    """One series on the thinned axis. `low` and `high` are None if no values were merged."""

    mean: tuple[float | None, ...]
    low: tuple[float | None, ...] | None
    high: tuple[float | None, ...] | None


def thin_axis(time_s: Sequence[float], points_max: int = POINTS_MAX) -> tuple[float, ...]:
    """Return the middle of each bucket of `time_s`; a short `time_s` is unchanged."""
    if len(time_s) <= points_max:
        return tuple(time_s)
    return tuple((time_s[a] + time_s[b - 1]) / 2 for a, b in _buckets(len(time_s), points_max))


def thin(values: Sequence[float | None], points_max: int = POINTS_MAX) -> ThinnedSeries:
    """Return minimum, mean and maximum of each bucket; a bucket that has only gaps stays a gap.

    Args: values, shape (n,), in time order, evenly spaced, any unit; None = gap.
    Limits: the mean is over the values without gaps, so it is right for evenly sampled rates.
    """
    if len(values) <= points_max:
        return ThinnedSeries(tuple(values), None, None)
    numbers = np.array(values, dtype=np.float64)
    known = ~np.isnan(numbers)
    starts = np.array([start for start, _ in _buckets(len(values), points_max)])
    count = np.add.reduceat(known, starts, dtype=np.int64)
    total = np.add.reduceat(np.where(known, numbers, 0.0), starts)
    means = np.divide(total, count, out=np.full(count.size, np.nan), where=count > 0)
    lows, highs = np.fmin.reduceat(numbers, starts), np.fmax.reduceat(numbers, starts)
    return ThinnedSeries(_with_gaps(means), _with_gaps(lows), _with_gaps(highs))


def _with_gaps(numbers: npt.NDArray[np.float64]) -> tuple[float | None, ...]:
    return tuple(None if value != value else value for value in numbers.tolist())


def _buckets(length: int, count: int) -> list[tuple[int, int]]:
    return [(i * length // count, (i + 1) * length // count) for i in range(count)]
