"""Makes one offline HTML file from the blocks of an answer.

The file uses no network: its Content-Security-Policy forbids it. Every chart is in the file as SVG.
A script replaces these drawings by charts with a shared cursor and zoom.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

from pgdyno import quantities
from pgdyno.redaction import printable, redacted
from pgdyno.report import axis, figures, forest, numbers, palette, small_drawings, svg, words
from pgdyno.report.block_charts import ChartList, SentenceBlock, TimeCharts, TimeSplit
from pgdyno.report.blocks import Block, BlockAnswer, Tile, blocks_of
from pgdyno.report.chart import Chart, Line
from pgdyno.report.compare_blocks import TONES
from pgdyno.report.embed import captioned_json
from pgdyno.report.parts import fold

ECHARTS_VERSION = "6.1.0"
_ECHARTS = "vendor/echarts.common.min.js"
# Who gives a page away gives these libraries away, which wants these texts with them.
_NOTICES = ("echarts.NOTICE", "echarts.LICENSE-d3", "zrender.LICENSE")
_STYLES = ("assets/page.css", "assets/chart.css", "assets/compare.css", "assets/print.css")
_SCRIPTS = ("option.js", "picture.js", "report.js")
NO_CHARTS = '{"charts": {}}'


@dataclass(frozen=True, slots=True)
class Assets:
    """The texts that are the same in every report: styles, scripts, policy."""

    style: str
    early_script: str
    script: str
    echarts: str

    @property
    def policy(self) -> str:
        """Return the Content-Security-Policy: only these texts may run, and nothing is loaded."""
        scripts = " ".join(map(_hash, (self.early_script, self.echarts, self.script)))
        return (
            f"default-src 'none'; script-src {scripts}; style-src {_hash(self.style)}; "
            "img-src data: blob:; base-uri 'none'; form-action 'none'"
        )


def answer_page(answer: BlockAnswer, remarks: Sequence[str] = ()) -> str:
    """Return the page of blocks, one self-contained HTML document.

    Args: remarks, notes that people keep with the result.
    """
    head, assets = answer.head, page_assets()
    charts, main = _charts(answer.blocks), _charts(answer.first)
    caption = f"pgdyno {head.verb} #{head.number} · {head.target}"
    name = f"pgdyno-{head.number}"
    return (
        page_environment()
        .get_template("page.html.j2")
        .render(
            head=head,
            answer=answer,
            main=main,
            split=next(blocks_of(answer.blocks, TimeSplit), None),
            tiles=[*blocks_of(answer.first, Tile)],
            sentences=[*blocks_of(answer.blocks, SentenceBlock)],
            remarks=remarks,
            csp=Markup(assets.policy),
            style=Markup(assets.style),
            early_script=Markup(assets.early_script),
            script=Markup(assets.script),
            echarts=Markup(assets.echarts),
            echarts_version=ECHARTS_VERSION if charts else "",
            hatches=palette.definitions(),
            charts_json=Markup(captioned_json(name, caption, charts) if charts else NO_CHARTS),
        )
    )


def _charts(blocks: Sequence[Block]) -> list[Chart]:
    """Return the charts of all blocks, also of those within sections."""
    kinds: tuple[type[ChartList | TimeCharts], ...] = (ChartList, TimeCharts)
    return [c for kind in kinds for block in blocks_of(blocks, kind) for c in block.charts]


@lru_cache(maxsize=1)
def page_assets() -> Assets:
    """Return the texts that are in every page."""
    light, dark = _text("assets/light.css"), _text("assets/dark.css")
    theme = (
        f":root {{ {light} }}\n"
        "@media screen and (prefers-color-scheme: dark) "
        f'{{ :root:not([data-theme="light"]) {{ {dark} }} }}\n'
        f'@media screen {{ :root[data-theme="dark"] {{ {dark} }} }}\n'
    )
    body = "\n".join(_text(f"assets/{name}") for name in _SCRIPTS)
    notices = "\n\n".join(_text(f"vendor/{name}").strip() for name in _NOTICES)
    return Assets(
        style=theme + "".join(map(_text, _STYLES)),
        early_script=_text("assets/early.js"),
        script=f'(() => {{\n"use strict";\n{body}}})();',
        echarts=f"/*!\n{notices}\n*/\n{_text(_ECHARTS)}",
    )


def _text(name: str) -> str:
    return files("pgdyno.report").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


# Texts that must not be broken at the end of a line: "93 %", "1,360 tps", "29 ms".
_UNIT_AFTER_NUMBER = re.compile(r"(\d) (%|tps|ms|s|min|clients?|rounds?)(?!\w)")

_FILTERS: dict[str, Callable[..., Any]] = {
    "value": lambda estimate: numbers.value_text(estimate).replace(">= ", "≥ "),
    "plain": quantities.plain,
    "fixed": quantities.fixed,
    "day": lambda time_s: axis.day_text(time_s, 0.0),
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
