"""Charts as JSON inside the page, for `report.js`: thinned, rounded, and safe inside <script>.

`html.py` writes it. The script draws each chart from it, in the place of the picture of `svg.py`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from pgdyno.redaction import printable_json, redacted
from pgdyno.report import svg
from pgdyno.report.chart import POINTS_MAX, Chart, Flag, Line, Values, thin, thin_axis
from pgdyno.report.palette import MODEL_DASH

_DIGITS = 4
# There are many folded charts, so they have fewer points, and only means.
_FOLDED_POINTS_MAX = 200
Axes = dict[tuple[float | int | None, ...], int]
Flags = dict[tuple[Flag, ...], int]


def captioned_json(name: str, caption: str, charts: Iterable[Chart]) -> str:
    """Return the JSON document of charts; every "<" is escaped, so no tag can end early."""
    # Most charts of a run share their axis and their marks, so each is stored once.
    axes: Axes = {}
    flags: Flags = {}
    shown = {chart.key: _chart(chart, axes, flags) for chart in charts}
    document = {
        "name": name,
        "caption": redacted(caption),
        "axes": list(axes),
        "flags": [[[round(flag.x, 3), flag.kind, flag.text] for flag in some] for some in flags],
        "charts": shown,
    }
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return printable_json(text.replace("<", "\\u003c"))


def _chart(chart: Chart, axes: Axes, flags: Flags) -> dict[str, Any]:
    shared = {line.x for line in chart.lines}
    points_max = _FOLDED_POINTS_MAX if chart.section else POINTS_MAX
    x = thin_axis(next(iter(shared)), points_max) if len(shared) == 1 else None
    y = svg.y_axis(chart)
    return {
        "title": chart.title,
        "unit": chart.unit,
        "xLabel": chart.x_label,
        "isClock": chart.is_clock,
        "xScale": "log" if chart.is_x_log else "linear",
        "yScale": chart.y_scale,
        "stacked": chart.is_stacked,
        "group": chart.group,
        "xEnds": list(chart.x_range),
        "yEnds": [_short(y.low), _short(y.high)],
        "yTicks": [_short(value) for value, _ in y.ticks],
        "levels": sorted({x for li in chart.lines if li.shape == "points" for x in li.x}),
        "marks": flags.setdefault(chart.flags, len(flags)),
        **(
            {"axis": axes.setdefault(tuple(_places(x, chart.x_range)), len(axes))}
            if x is not None
            else {}
        ),
        "lines": [
            _line(
                line,
                chart.x_range if x is None else None,
                points_max=points_max,
                has_spans=not (chart.is_stacked or chart.section),
            )
            for line in chart.lines
        ],
    }


def _line(
    line: Line, ends: tuple[float, float] | None, *, points_max: int, has_spans: bool
) -> dict[str, Any]:
    middle = thin(line.y, points_max)
    low, high = middle.low, middle.high
    if line.low is not None and line.high is not None:
        low = thin(line.low, points_max).mean
        high = thin(line.high, points_max).mean
    shown: dict[str, Any] = {
        "name": line.name,
        "css": line.role.css,
        "dash": list(MODEL_DASH if line.shape == "model" else line.role.dash),
        "marker": line.role.marker,
        "shape": line.shape,
        "y": _rounded(middle.mean),
    }
    if ends is not None:
        shown["x"] = _places(thin_axis(line.x, points_max), ends)
    # In a stack, the range of a single layer has no meaning, so only means are stored.
    if low is not None and high is not None and has_spans:
        shown["low"], shown["high"] = _rounded(low), _rounded(high)
    return shown


def _places(values: Values, ends: tuple[float, float]) -> list[float | int | None]:
    """Return places on an axis, rounded to 20,000 steps from end to end; a cursor sees no more."""
    step = (ends[1] - ends[0]) / 20_000
    digits = max(0, math.ceil(-math.log10(step))) if step > 0 else 3
    return [None if x is None else int(x) if x == int(x) else round(x, digits) for x in values]


def _rounded(values: Values) -> list[float | int | None]:
    """Return each value rounded as by `_short`, many at once."""
    numbers = np.array(values, dtype=np.float64)
    size = np.abs(numbers)
    # Between these exponents, powers of ten are exact, and quotients are correctly rounded.
    is_usual = (size >= 1e-11) & (size < 1e18)
    usual = np.where(is_usual, numbers, 1.0)
    digits = _DIGITS - 1 - np.floor(np.log10(np.abs(usual)))
    powers = 10.0 ** np.abs(digits)
    scaled = np.where(digits < 0, usual / powers, usual * powers)
    whole = np.rint(scaled)
    shown = _plain_numbers(np.where(digits < 0, whole * powers, whole / powers))
    # Near the middle between two rounded values, `_short` decides from the decimal digits.
    is_close = np.abs(np.abs(scaled - whole) - 0.5) < 1e-6
    for place in np.flatnonzero(is_close | ~is_usual).tolist():
        value = values[place]
        shown[place] = None if value is None else _short(value)
    return shown


def _plain_numbers(values: npt.NDArray[np.float64]) -> list[float | int | None]:
    return [int(value) if value.is_integer() else value for value in values.tolist()]


def _short(value: float) -> float | int:
    rounded = float(f"{value:.{_DIGITS}g}")
    return int(rounded) if rounded == int(rounded) else rounded
