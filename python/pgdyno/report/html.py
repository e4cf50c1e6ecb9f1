"""Makes one offline HTML file from the findings of one experiment.

The file uses no network: its Content-Security-Policy forbids it. Every chart is in the file as SVG.
A script replaces these drawings by charts with a shared cursor and zoom.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

from markupsafe import Markup

from pgdyno.analysis.findings import ExperimentFindings
from pgdyno.report import (
    embed,
    figures,
    filters,
    palette,
    tiles,
    time_words,
    words,
)
from pgdyno.report.about_blocks import about_blocks, first_lines, head_of
from pgdyno.report.block_charts import ChartList, SentenceBlock
from pgdyno.report.block_lists import TimeCharts
from pgdyno.report.blocks import AnswerHead, BlockAnswer, Tile, blocks_of
from pgdyno.report.own import own_of_cells, own_shown
from pgdyno.report.page_templates import page_environment
from pgdyno.report.parts import fold, parts_of, shown_decimals

ECHARTS_VERSION = "6.1.0"
_ECHARTS = "vendor/echarts.common.min.js"
_STYLES = ("assets/page.css", "assets/chart.css", "assets/compare.css", "assets/print.css")
_SCRIPTS = ("option.js", "picture.js", "report.js")
_PARTS_ON_FIRST_SCREEN = 7
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


def render(findings: ExperimentFindings) -> str:
    """Return the report of an experiment as one self-contained HTML document."""
    main = figures.main_charts(findings)
    latency = figures.curve_charts(findings)
    over_time = figures.time_charts(findings.run.timeline) if findings.run else ()
    where = findings.run.where if findings.run else None
    own = own_shown(findings.run)
    parts = parts_of(where) if where else ()
    return page_of_template(
        "report.html.j2",
        head_of(findings),
        _sections(findings, has_parts=bool(parts), has_charts=bool(over_time)),
        embed.charts_json(findings, (*main, *latency, *over_time)),
        f=findings,
        echarts_version=ECHARTS_VERSION,
        about=[*about_blocks(findings)],
        lines=[*first_lines(findings)],
        tiles=tiles.tiles_of(findings),
        main=main,
        latency_charts=latency,
        time_charts=over_time,
        where=where,
        parts=parts,
        where_decimals=shown_decimals(where) if where else 0,
        time_words=time_words,
        own=own,
        own_cells=own_of_cells(findings),
        folded=fold(parts, at_most=_PARTS_ON_FIRST_SCREEN),
        run_words=words.run_words(findings),
        loop_words=words.loop_words(findings.run) if findings.run else "",
        mark_words=words.mark_words(findings.run) if findings.run else "",
        latency_rows=filters.latency_rows(findings.run) if findings.run else (),
        latency_whisker=filters.latency_whisker(findings.run) if findings.run else None,
    )


def answer_page(answer: BlockAnswer, remarks: Sequence[str] = ()) -> str:
    """Return the page of blocks. Args: remarks, notes that people keep with the result."""
    head = answer.head
    kinds: tuple[type[ChartList | TimeCharts], ...] = (ChartList, TimeCharts)
    charts = [c for kind in kinds for block in blocks_of(answer.blocks, kind) for c in block.charts]
    caption = f"pgdyno {head.verb} #{head.number} · {head.target}"
    return page_of_template(
        "answer.html.j2",
        head,
        [(section.anchor, section.short) for section in answer.sections],
        embed.captioned_json(f"pgdyno-{head.number}", caption, charts) if charts else NO_CHARTS,
        answer=answer,
        echarts_version=ECHARTS_VERSION if charts else "",
        tiles=[*blocks_of(answer.blocks, Tile)],
        sentences=[*blocks_of(answer.blocks, SentenceBlock)],
        method=answer.method,
        remarks=remarks,
    )


def page_of_template(
    template: str,
    head: AnswerHead,
    sections: Sequence[tuple[str, str]],
    charts_json: str = NO_CHARTS,
    **more: Any,
) -> str:
    """Return one self-contained HTML document.

    Args: sections, anchor and word of each entry of the menu; more, what the template needs.
    """
    assets = page_assets()
    return (
        page_environment()
        .get_template(template)
        .render(
            head=head,
            sections=sections,
            csp=Markup(assets.policy),
            style=Markup(assets.style),
            early_script=Markup(assets.early_script),
            script=Markup(assets.script),
            echarts=Markup(assets.echarts),
            hatches=palette.definitions(),
            charts_json=Markup(charts_json),
            **more,
        )
    )


def _sections(
    findings: ExperimentFindings, *, has_parts: bool, has_charts: bool
) -> tuple[tuple[str, str], ...]:
    run = findings.run
    known = (
        ("levels", "Load levels", bool(findings.curves)),
        # The section of the run follows that of the levels, so one entry leads to both.
        *(
            (own.anchor, own.short, True)
            for own in [own_of_cells(findings) or own_shown(run)]
            if own
        ),
        ("where", "Where the time goes", has_parts),
        ("latency", "Latency", run is not None),
        ("time", "Over time", has_charts),
        ("scripts", "Statements", bool(run and run.scripts)),
        ("telemetry", "Telemetry", bool(run and run.timeline.telemetry.facts)),
        ("doctor", "Doctor", bool(run and run.timeline.telemetry.examined)),
        ("doubts", "Doubts", True),
        ("facts", "Facts", True),
        ("notes", "Method", bool(findings.notes)),
    )
    return tuple((anchor, word) for anchor, word, is_there in known if is_there)


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
    return Assets(
        style=theme + "".join(map(_text, _STYLES)),
        early_script=_text("assets/early.js"),
        script=f'(() => {{\n"use strict";\n{body}}})();',
        echarts=_text(_ECHARTS),
    )


def _text(name: str) -> str:
    return files("pgdyno.report").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
