"""What a chart is, before anything draws it: `svg` draws it in ink, `report.js` on a canvas.

Both drawings come from the same `Chart`, so the page without JavaScript and on paper shows the same
data as the page with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pgdyno.report.palette import Role

Scale = Literal["linear", "log"]
Values = tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """One line: a name, a look, points, and for each point the span its interval or range covers.

    `low` and `high` have one entry for each `x`, None = no span there. `shape`: "steps of time" are
    plain lines; "points" have a marker and a whisker at each measured value; "model" is a fitted
    curve, thin and without markers.
    """

    name: str
    role: Role
    x: tuple[float, ...]
    y: Values
    low: Values | None = None
    high: Values | None = None
    shape: Literal["line", "points", "model"] = "line"


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
        """Return the ends given, else the smallest and largest x, widened when they are one."""
        if self.x_ends is not None:
            return self.x_ends
        xs = [x for line in self.lines for x in line.x]
        low, high = min(xs), max(xs)
        if low < high:
            return low, high
        return (low / 2, high * 2) if self.x_scale == "log" and low > 0 else (low - 1, high + 1)

    @property
    def y_range(self) -> tuple[float, float]:
        """Return the smallest and largest y to show, spans included; from 0 on a linear axis."""
        if self.is_stacked:
            return 0.0, max(
                (sum(v or 0.0 for v in column) for column in self._columns()), default=1
            )
        ys = [
            value
            for line in self.lines
            for values in (line.y, line.low or (), line.high or ())
            for value in values
            if value is not None and (self.y_scale == "linear" or value > 0)
        ]
        if not ys or not any(v is not None for line in self.lines for v in line.y):
            return (0.0, 1.0) if self.y_scale == "linear" else (0.1, 10.0)
        low, high = min(ys), max(ys)
        if self.y_scale == "log":
            return (low, high) if low < high else (low / 2, high * 2)
        # An interval may reach below 0 where no value does: axis and whisker end at 0.
        least = min(v for line in self.lines for v in line.y if v is not None)
        return min(0.0, least), high if high > 0 else 1.0

    def _columns(self) -> list[tuple[float | None, ...]]:
        return list(zip(*(line.y for line in self.lines), strict=True))
