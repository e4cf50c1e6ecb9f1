"""Charts as JSON inside the page, for `report.js`: thinned, rounded, and safe inside <script>."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from pgdyno.analysis.findings import ExperimentFindings
from pgdyno.report import svg
from pgdyno.report.chart import Chart, Line, Values
from pgdyno.report.palette import MODEL_DASH
from pgdyno.report.thin import thin, thin_axis

_DIGITS = 5


def charts_json(findings: ExperimentFindings, charts: Iterable[Chart]) -> str:
    """Return the JSON document of an experiment's charts."""
    caption = f"pgdyno {findings.kind} #{findings.number} · {findings.facts.target}"
    return captioned_json(f"pgdyno-{findings.number}", caption, charts)


def captioned_json(name: str, caption: str, charts: Iterable[Chart]) -> str:
    """Return the JSON document of charts; every "<" is escaped, so no tag can end early."""
    document = {
        "name": name,
        "caption": caption,
        "charts": {chart.key: _chart(chart) for chart in charts},
    }
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _chart(chart: Chart) -> dict[str, Any]:
    shared = {line.x for line in chart.lines}
    x = thin_axis(next(iter(shared))) if len(shared) == 1 else None
    y = svg.y_axis(chart)
    return {
        "title": chart.title,
        "unit": chart.unit,
        "xLabel": chart.x_label,
        "xScale": chart.x_scale,
        "yScale": chart.y_scale,
        "stacked": chart.is_stacked,
        "group": chart.group,
        "xEnds": list(chart.x_range),
        "yEnds": [_short(y.low), _short(y.high)],
        "yTicks": [_short(value) for value, _ in y.ticks],
        "levels": sorted({x for li in chart.lines if li.shape == "points" for x in li.x}),
        "flags": [[flag.x, flag.kind, flag.text] for flag in chart.flags],
        **({"x": _rounded(x)} if x is not None else {}),
        "lines": [
            _line(line, with_x=x is None, is_stacked=chart.is_stacked) for line in chart.lines
        ],
    }


def _line(line: Line, *, with_x: bool, is_stacked: bool) -> dict[str, Any]:
    middle = thin(line.y)
    low, high = middle.low, middle.high
    if line.low is not None and line.high is not None:
        low, high = thin(line.low).mean, thin(line.high).mean
    shown: dict[str, Any] = {
        "name": line.name,
        "css": line.role.css,
        "dash": list(MODEL_DASH if line.shape == "model" else line.role.dash),
        "marker": line.role.marker,
        "shape": line.shape,
        "y": _rounded(middle.mean),
    }
    if with_x:
        shown["x"] = _rounded(thin_axis(line.x))
    # In a stack the spans of single layers would say nothing, so only the means travel.
    if low is not None and high is not None and not is_stacked:
        shown["low"], shown["high"] = _rounded(low), _rounded(high)
    return shown


def _rounded(values: Values) -> list[float | int | None]:
    return [None if value is None else _short(value) for value in values]


def _short(value: float) -> float | int:
    rounded = float(f"{value:.{_DIGITS}g}")
    return int(rounded) if rounded == int(rounded) else rounded
