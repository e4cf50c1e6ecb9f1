"""Draws a `Chart` as static SVG: for paper, Markdown, and the page without JavaScript."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from importlib.resources import files

import numpy as np
import numpy.typing as npt

from pgdyno.report import axis
from pgdyno.report.axis import Axis
from pgdyno.report.chart import Chart, Line, thin, thin_axis
from pgdyno.report.palette import MODEL_DASH, Marker, fill_attributes
from pgdyno.report.pen import Pen

FloatArray = npt.NDArray[np.float64]
_POINT_WIDTH_PX = 4.5  # distance of points in a thinned line; nearer points look like one
_LETTERS_MAX = 40  # letters for the marks of a chart
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 14, 16, 24
_TITLE_PX, _NAME_ROW_PX, _NAMES_A_ROW = 24, 18, 3  # of a chart in a separate file


def draw(chart: Chart, *, width: int) -> str:
    """Return one <svg> element, `width` pixels wide at its natural size."""
    height = chart.height_px
    x = _x_axis(chart, width)
    y = y_axis(chart)
    body = [*_grid(x, y), *_flags(chart, x, y), *_lines(chart, x, y)]
    title = escape(f"{chart.title}, {chart.unit}")
    return (
        f'<svg class="plot" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{title}">{"".join(body)}</svg>'
    )


def standalone(chart: Chart, *, width: int) -> str:
    """Return a separate file: the title, the unit, the chart and the names of its lines.

    The colours are those of the light page, because a wiki has no style for it.
    """
    names = [line for line in chart.lines if line.shape != "model"]
    rows = -(-len(names) // _NAMES_A_ROW) if len(names) > 1 else 0
    height = chart.height_px + _TITLE_PX + rows * _NAME_ROW_PX
    keys = "".join(
        _key(line, place, chart.height_px + _TITLE_PX, width)
        for place, line in enumerate(names if rows else ())
    )
    plot = draw(chart, width=width).replace("<svg ", f'<svg y="{_TITLE_PX}" ', 1)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}"><style>{_style()}</style>'
        f'<rect class="paper" width="{width}" height="{height}"/>'
        f'<text class="title" x="{_LEFT}" y="17">{escape(chart.title)} '
        f'<tspan class="unit">{escape(chart.unit)}</tspan></text>{plot}{keys}</svg>\n'
    )


def _key(line: Line, place: int, top: int, width: int) -> str:
    x = _LEFT + place % _NAMES_A_ROW * (width - _LEFT) // _NAMES_A_ROW
    y = top + place // _NAMES_A_ROW * _NAME_ROW_PX + 12
    return (
        f'<g class="line {line.role.css}"><path class="stroke"{_dash(line.role.dash)} '
        f'd="M{x} {y - 4}h18"/><text class="tick" x="{x + 24}" y="{y}">{escape(line.name)}</text>'
        "</g>"
    )


@cache
def _style() -> str:
    """Return the rules of the page's style sheets that a chart needs."""
    light, chart = (
        files("pgdyno.report").joinpath(f"assets/{name}.css").read_text(encoding="utf-8")
        for name in ("light", "chart")
    )
    kept = [line for line in chart.splitlines() if re.match(r"\.(plot|flag)|.*--c:", line)]
    own = (
        "text { font-family: sans-serif } .paper { fill: var(--panel) }"
        " .title { font-size: 14px; font-weight: 650; fill: var(--ink) }"
        " .unit { font-size: 12px; font-weight: 400; fill: var(--ink-3) }"
        " .line > .stroke { stroke: var(--c); stroke-width: 1.75; fill: none }"
        " .line > .tick { font-size: 11.5px; fill: var(--ink-2) }"
    )
    return "\n".join([f"svg {{ {light} }}", *kept, own])


def _x_axis(chart: Chart, width: int) -> Axis:
    low, high = chart.x_range
    ends = {"start_px": float(_LEFT), "end_px": float(width - _RIGHT)}
    if chart.group == "time":
        return axis.time(low, high, is_clock=chart.is_clock, **ends)
    measured = [x for line in chart.lines if line.shape == "points" for x in line.x]
    return axis.levels(measured or [low, high], is_log=chart.is_x_log, **ends)


def y_axis(chart: Chart) -> Axis:
    """Return the vertical axis, which the drawing on a canvas uses, too."""
    low, high = chart.y_range
    ends = {"start_px": float(chart.height_px - _BOTTOM), "end_px": float(_TOP)}
    if chart.y_scale == "log":
        return axis.logarithmic(low, high, **ends)
    return axis.linear(low, high, about=3 if chart.height_px < 200 else 5, **ends)


def _grid(x: Axis, y: Axis) -> Iterable[str]:
    right, bottom = x.end_px, y.start_px
    for value, label in y.ticks:
        at = _px(y.at(value))
        yield f'<path class="grid" d="M{_LEFT} {at}H{_px(right)}"/>'
        yield _tick(_LEFT - 7, at, "end", label, dy=".32em")
    yield f'<path class="axis" d="M{_LEFT} {_px(bottom)}H{_px(right)}"/>'
    for value, label in x.ticks:
        at = _px(x.at(value))
        yield f'<path class="axis" d="M{at} {_px(bottom)}v4"/>'
        yield _tick(at, _px(bottom + 17), "middle", label)


def _tick(x: object, y: object, anchor: str, label: str, *, dy: str = "0") -> str:
    return f'<text class="tick" x="{x}" y="{y}" dy="{dy}" text-anchor="{anchor}">{label}</text>'


def _flags(chart: Chart, x: Axis, y: Axis) -> Iterable[str]:
    if chart.section or len(chart.flags) > _LETTERS_MAX:
        # The many folded charts have the same marks as the first charts, so they need no letters.
        # If there are many marks, their letters would overlap; a list has their words.
        top, bottom = _px(y.end_px), _px(y.start_px)
        for kind in dict.fromkeys(flag.kind for flag in chart.flags):
            places = dict.fromkeys(_px(x.at(flag.x)) for flag in chart.flags if flag.kind == kind)
            path = "".join(f"M{at} {bottom}V{top}" for at in places)
            yield f'<g class="flag {escape(kind)}"><path d="{path}"/></g>'
        return
    for flag in chart.flags:
        at = _px(x.at(flag.x))
        sign = "knee" if flag.kind == "knee" else escape(flag.kind[:1].upper())
        yield (
            f'<g class="flag {escape(flag.kind)}"><title>{escape(flag.text)}</title>'
            f'<path d="M{at} {_px(y.start_px)}V{_px(y.end_px)}"/>'
            f'<text x="{at}" y="{_px(y.end_px - 4)}" text-anchor="middle">'
            f"{sign}</text></g>"
        )


def _lines(chart: Chart, x: Axis, y: Axis) -> Iterable[str]:
    if chart.is_stacked and chart.lines:
        yield from _stack(chart, x, y)
        return
    points_max = _points_max(chart, x)
    for line in sorted(chart.lines, key=lambda drawn: drawn.shape == "points"):
        xs = thin_axis(line.x, points_max)
        middle = thin(line.y, points_max)
        yield f'<g class="line {line.role.css} {line.shape}">'
        if line.low is not None and line.high is not None:
            yield _spans(
                xs,
                thin(line.low, points_max).low or line.low,
                thin(line.high, points_max).high or line.high,
                (x, y),
                cap=4 if line.shape == "points" else 0,
            )
        elif middle.low is not None and middle.high is not None and not chart.section:
            yield _spans(xs, middle.low, middle.high, (x, y), cap=0)
        dash = MODEL_DASH if line.shape == "model" else line.role.dash
        yield f'<path class="stroke"{_dash(dash)} d="{_path(xs, _with_nan(middle.mean), x, y)}"/>'
        if line.shape == "points":
            yield from _markers(line, x, y)
        yield "</g>"


def _stack(chart: Chart, x: Axis, y: Axis) -> Iterable[str]:
    points_max = _points_max(chart, x)
    xs = thin_axis(chart.lines[0].x, points_max)
    at = x.places(np.array(xs))
    below = np.zeros(len(xs))
    for line in chart.lines:
        above = below + np.nan_to_num(_with_nan(thin(line.y, points_max).mean))
        pen = Pen()
        edge = _path(xs, above, x, y, pen)
        pen.follow(at[::-1], y.places(below)[::-1], is_down=True)
        yield (
            f'<g class="line {line.role.css} area">'
            f'<path {fill_attributes(line.role)} d="{pen.text()}Z"/>'
            f'<path class="stroke"{_dash(line.role.dash)} d="{edge}"/></g>'
        )
        below = above


def _points_max(chart: Chart, x: Axis) -> int:
    # There are many folded charts, so they have half the points here. The script draws all points.
    width_px = _POINT_WIDTH_PX * (2 if chart.section else 1)
    return max(2, round((x.end_px - x.start_px) / width_px))


def _path(xs: Sequence[float], ys: FloatArray, x: Axis, y: Axis, pen: Pen | None = None) -> str:
    pen = pen or Pen()
    shown = np.where(ys > 0, ys, np.nan) if y.is_log else ys
    pen.follow(x.places(np.array(xs)), y.places(shown))
    return pen.text()


def _with_nan(values: Sequence[float | None]) -> FloatArray:
    return np.array(values, dtype=np.float64)


def _spans(
    xs: Iterable[float],
    lows: Iterable[float | None],
    highs: Iterable[float | None],
    axes: tuple[Axis, Axis],
    *,
    cap: int,
) -> str:
    x, y = axes
    pen = Pen()
    for at, low, high in zip(xs, lows, highs, strict=True):
        if low is None or high is None or (y.is_log and high <= 0):
            continue
        middle, bottom, top = x.at(at), y.at(low), y.at(high)
        pen.move(middle, bottom)
        pen.line(middle, top)
        for end in (bottom, top) if cap else ():
            pen.move(middle - cap, end)
            pen.line(middle + cap, end)
    return f'<path class="span" d="{pen.text()}"/>'


def _markers(line: Line, x: Axis, y: Axis) -> Iterable[str]:
    for at, value in zip(line.x, line.y, strict=True):
        if value is not None and not (y.is_log and value <= 0):
            outline = marker_path(line.role.marker, x.at(at), y.at(value))
            yield f'<path class="marker" d="{outline}"/>'


def marker_path(marker: Marker, x: float, y: float, size: float = 4.0) -> str:
    """Return the outline of a marker centred on (x, y)."""
    if marker == "circle":
        arc = f"a{size} {size} 0 1 0"
        return f"M{_px(x - size)} {_px(y)}{arc} {2 * size} 0{arc} {-2 * size} 0Z"
    if marker == "rect":
        half = size * 0.88
        return f"M{_px(x - half)} {_px(y - half)}h{2 * half:.1f}v{2 * half:.1f}h{-2 * half:.1f}Z"
    count, turn = (3, -90.0) if marker == "triangle" else (4, -90.0)
    size = 0.0 if marker == "none" else size * 1.25
    corners = [math.radians(turn + 360 * n / count) for n in range(count)]
    points = [f"{_px(x + size * math.cos(a))} {_px(y + size * math.sin(a))}" for a in corners]
    return f"M{'L'.join(points)}Z"


def _dash(dash: tuple[int, ...]) -> str:
    return f' stroke-dasharray="{" ".join(map(str, dash))}"' if dash else ""


def _px(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
