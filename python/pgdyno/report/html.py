"""Makes one offline HTML file from the blocks of an answer.

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

from markupsafe import Markup

from pgdyno.report import palette
from pgdyno.report.block_charts import ChartList, SentenceBlock, TimeSplit
from pgdyno.report.block_lists import TimeCharts
from pgdyno.report.blocks import Block, BlockAnswer, Tile, blocks_of
from pgdyno.report.chart import Chart
from pgdyno.report.embed import captioned_json
from pgdyno.report.page_templates import page_environment

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
