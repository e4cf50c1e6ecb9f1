"""The templates of the pages with the functions that they call."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jinja2
from markupsafe import Markup

from pgdyno import quantities
from pgdyno.redaction import printable, redacted
from pgdyno.report import figures, forest, numbers, small_drawings, svg, words
from pgdyno.report.chart import Chart, Line
from pgdyno.report.compare_blocks import TONES
from pgdyno.report.parts import fold

# Texts that must not be broken at the end of a line: "93 %", "1,360 tps", "29 ms".
_UNIT_AFTER_NUMBER = re.compile(r"(\d) (%|tps|ms|s|min|clients?|rounds?)(?!\w)")

_FILTERS: dict[str, Callable[..., Any]] = {
    "value": lambda estimate: numbers.value_text(estimate).replace(">= ", "≥ "),
    "plain": quantities.plain,
    "fixed": quantities.fixed,
    "counted": quantities.counted,
    "percent": lambda ratio: quantities.percent(ratio).replace(" %", "\u00a0%"),
    "precision": numbers.precision_text,
    "tone": lambda doubt: "red" if doubt.verdict == "not_valid" else "amber",
    "unbroken": lambda text: _UNIT_AFTER_NUMBER.sub("\\1\u00a0\\2", text),
    "keyed": lambda chart: keyed(chart),
    "summary": lambda line, chart: line_summary(line, chart),
    "kind": lambda block: type(block).__name__,
    "shown": lambda text: getattr(text, "page", text),
    "draw": lambda chart, width: Markup(printable(svg.draw(chart, width=width))),
}


@lru_cache(maxsize=1)
def page_environment() -> jinja2.Environment:
    """Return the environment of the templates with the functions that they call."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("pgdyno.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    environment.filters.update(_FILTERS)
    environment.globals.update(
        # The tone of a line or a cell -> its class on the page.
        tones={"plain": "", "good": "green", "bad": "red", "doubt": "amber"},
        ruler=small_drawings.ruler,
        no_ruler=small_drawings.NO_RULER,
        time_bar=small_drawings.time_bar,
        part_swatch=small_drawings.part_swatch,
        line_swatch=small_drawings.line_swatch,
        fold=fold,
        forest_axis=forest.axis,
        forest_whisker=forest.whisker,
        verdict_tone=lambda verdict: TONES.get(verdict, "plain"),
        marks_shown=words.marks_shown,
        sections_of=figures.sections_of,
    )
    return environment


def _shown(value: object) -> object:
    """Return a value of a page without secrets and signs of control; parts of the page stay."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return printable(redacted(value))
    return value


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
    if chart.group != figures.TIME_GROUP or not present:
        return ""
    if line.name == "max" or (line.name[:1] == "p" and line.name[1:2].isdigit()):
        return f"{quantities.short(min(present))} to {quantities.short(max(present))}"
    return f"mean {quantities.short(sum(present) / len(present))}"
