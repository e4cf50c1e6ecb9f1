"""Filters and functions that the templates of reports (Jinja) call.

They write numbers as text, order the lines of legends, and draw small scales.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from markupsafe import Markup

from pgdyno import quantities
from pgdyno.analysis.curve import CurveLevel
from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.findings import CurveFindings, RunFindings
from pgdyno.quantities import fixed
from pgdyno.report import gauge, numbers
from pgdyno.report.chart import Chart, Line
from pgdyno.report.figures import TIME_GROUP, in_ms, percentile_name

# Texts that must not be broken at the end of a line: "93 %", "1,360 tps", "29 ms".
_UNIT_AFTER_NUMBER = re.compile(r"(\d) (%|tps|ms|s|min|clients?|rounds?)(?!\w)")

FILTERS: dict[str, Callable[..., Any]] = {
    "estimate": numbers.estimate_text,
    "value": lambda estimate, most=math.inf: numbers.value_text(estimate, most=most).replace(
        ">= ", "≥ "
    ),
    "interval": numbers.interval_text,
    "plain": quantities.plain,
    "fixed": fixed,
    "count": quantities.count,
    "counted": quantities.counted,
    "percent": lambda ratio: quantities.percent(ratio).replace(" %", "\u00a0%"),
    "precision": numbers.precision_text,
    "ms": in_ms,
    "clients": quantities.clients_text,
    "percentile": percentile_name,
    "tone": lambda doubt: "red" if doubt.verdict == "not_valid" else "amber",
    "unbroken": lambda text: _UNIT_AFTER_NUMBER.sub("\\1\u00a0\\2", text),
    "keyed": lambda chart: keyed(chart),
    "summary": lambda line, chart: line_summary(line, chart),
}


def keyed(chart: Chart) -> tuple[Line, ...]:
    """Return the lines for the legend, every name once; a stack from the top down."""
    lines = reversed(chart.lines) if chart.is_stacked else chart.lines
    by_name = {line.name: line for line in lines}
    return tuple(sorted(by_name.values(), key=lambda line: line.shape == "model"))


def line_summary(line: Line, chart: Chart) -> str:
    """Return the value that the legend shows after a line's name if no cursor is on the chart.

    If the line has its own value, this is used: a mean of the points would give all of them
    the same weight. In a chart over time it is the mean. Percentiles and maxima cannot be averaged,
    so the legend shows their range. In other charts it is "", because a table below has all values.
    """
    if line.summary is not None:
        return line.summary
    present = [value for value in line.y if value is not None]
    if chart.group != TIME_GROUP or not present:
        return ""
    if line.name == "max" or (line.name[:1] == "p" and line.name[1:2].isdigit()):
        return f"{quantities.short(min(present))} to {quantities.short(max(present))}"
    return f"mean {quantities.short(sum(present) / len(present))}"


def latency_rows(run: RunFindings) -> tuple[tuple[str, Estimate], ...]:
    """Return name and value of a run's mean and percentiles in ms, in rising order."""
    rows = [("mean", in_ms(run.latency.mean))]
    rows += [
        (percentile_name(key), in_ms(estimate)) for key, estimate in run.latency.percentiles.items()
    ]
    return tuple(rows)


def latency_whisker(run: RunFindings) -> Callable[[Estimate], Markup]:
    """Return a function that draws one percentile with its interval (a whisker).

    All percentiles of `run` share one logarithmic scale.
    """
    estimates = [estimate for _, estimate in latency_rows(run)]
    bounds = [
        v
        for estimate in estimates
        for v in (estimate.value, estimate.low, estimate.high)
        if v and v > 0
    ]
    low, high = (min(bounds), max(bounds)) if bounds else (0.1, 1.0)
    high = high if high > low else low * 2
    return lambda estimate: gauge.whisker(estimate, low=low, high=high, is_log=True)


def level_whisker(level: CurveLevel, findings: CurveFindings) -> Markup:
    """Return a level's throughput on the scale from 0 to the highest interval of its curve."""
    highest = max(max(lv.tps.value, lv.tps.high or 0.0) for lv in findings.curve.levels)
    return gauge.whisker(level.tps, low=0.0, high=highest or 1.0)


def percentile_names(findings: CurveFindings) -> tuple[str, ...]:
    """Return the names of the latencies of a curve's levels, in their order."""
    names = dict.fromkeys(name for level in findings.curve.levels for name in level.latency)
    return tuple(names)


def said(finding: Mapping[str, Any]) -> str:
    """Return the doctor's observation after the check's name, unless it begins with the name."""
    name = str(finding["id"]).replace("_", " ")
    seen = str(finding["seen"])
    return seen if seen.startswith((name, str(finding["id"]))) else f"{name}: {seen}"


FILTERS["said"] = said
