"""The answer of a tuning as one offline page, and as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pgdyno.analysis.findings import ExperimentFindings
from pgdyno.analysis.rounding import change_text
from pgdyno.features.tune.arms import MARGIN_RATIO
from pgdyno.features.tune.findings import TuneFindings
from pgdyno.features.tune.statements import NEEDS_WORDS, alter_system, conf_fragment, effect_text
from pgdyno.features.tune.text import found_of
from pgdyno.report import embed, forest, numbers, tiles, words
from pgdyno.report.about_blocks import about_blocks, head_of
from pgdyno.report.block_charts import ChartList
from pgdyno.report.blocks import blocks_of
from pgdyno.report.compare_blocks import compare_sections
from pgdyno.report.forest import ForestRow, metric_name
from pgdyno.report.html import ECHARTS_VERSION, page_of_template
from pgdyno.report.markdown_tables import Table
from pgdyno.report.words import loss_words
from pgdyno.spec.designs import METRIC_WORDS

# For each table, its list in the JSON document, and the names of its columns of numbers.
_QUANTITIES = {
    "settings": ("settings", {3: "ratio"}),
    "changed": ("counters", {1: "before", 2: "after"}),
    "tried": ("tried", {2: "ratio", 4: "pair_count"}),
}
_TONES = {"better": "good"}


def tune_page(findings: ExperimentFindings) -> str:
    """Return the report of a tuning as one self-contained HTML document."""
    tuned = found_of(findings)
    rows = _effects(tuned)
    scale = forest.scale_of((row.ratio for row in rows), margin_ratio=MARGIN_RATIO)
    sections = (
        ("tried", "Tried", tuned.tried),
        ("apply", "Apply", tuned.settings),
        ("changed", "What changed", tuned.changed),
    )
    contrasts = findings.compare.contrasts if findings.compare is not None else ()
    own = tuple((anchor, word) for anchor, word, of_it in sections if of_it)
    of_runs = [
        *compare_sections(findings, lambda contrast: f"contrasts.{contrasts.index(contrast)}"),
        *about_blocks(findings),
    ]
    charts = [chart for block in blocks_of(of_runs, ChartList) for chart in block.charts]
    return page_of_template(
        "tune.html.j2",
        head_of(findings),
        (*own, *((section.anchor, section.short) for section in of_runs)),
        embed.charts_json(findings, charts),
        f=findings,
        echarts_version=ECHARTS_VERSION if charts else "",
        doubts=tiles.doubts_of(findings),
        fact_line=words.fact_line(findings),
        metric_name=metric_name,
        of_runs=of_runs,
        t=tuned,
        tone=_TONES.get(tuned.verdict, "plain"),
        effects=[
            {
                "name": row.name,
                "said": change_text(row.ratio),
                "quantity": row.quantity,
                "drawing": forest.whisker(row.ratio, scale, decides=True),
                "decides": True,
            }
            for row in rows
        ],
        effect_axis=forest.axis(scale),
        quantities=_QUANTITIES,
        tables=[(title, key, table) for title, key, table in _tables(tuned) if table[1]],
        conf=conf_fragment(tuned),
        apply=alter_system(tuned),
    )


def tune_markdown(findings: ExperimentFindings, stem: str) -> tuple[str, dict[str, bytes]]:
    """Return the report of a tuning as Markdown, and its pictures by file name."""
    from pgdyno.report.markdown import markdown_with

    tuned = found_of(findings)
    lines: list[str] = []
    if tuned.needs_restart:
        lines.append(f"**Needs a restart: {', '.join(tuned.needs_restart)}.**\n")
    lines += [
        f"**RISK: {setting.name} = {setting.new}: {setting.price} "
        f"{loss_words([setting.name], setting.new, tuned.losses)}**\n"
        for setting in tuned.weakens_durability
    ]
    if tuned.settings:
        lines += ["## Apply", ""]
        lines += [*_fenced("sql", alter_system(tuned)), "As lines of `postgresql.conf`:", ""]
        lines += _fenced("ini", conf_fragment(tuned))
    tables = [(title, table) for title, _, table in _tables(tuned) if table[1]]
    return markdown_with(findings, stem=stem, tables=tables, lines=lines)


def _fenced(language: str, text: str) -> list[str]:
    """Return a text as code, in a fence that is longer than each row of backticks in the text."""
    fence = "`" * max([3, *(len(row) + 1 for row in re.findall("`+", text))])
    return [f"{fence}{language}", text, fence, ""]


def _effects(tuned: TuneFindings) -> list[ForestRow]:
    """Return the rows of the plot: the gain, then every value with an interval."""
    rows = []
    if tuned.gain is not None:
        rows.append(ForestRow("proposed, against your settings", tuned.gain, "", "proved"))
    rows += [
        ForestRow(f"{trial.name}, against {trial.against}", trial.ratio, "", f"tried.{place}.ratio")
        for place, trial in enumerate(tuned.tried)
        if trial.ratio is not None and trial.ratio.low is not None
    ]
    return rows


def _tables(tuned: TuneFindings) -> Iterator[tuple[str, str, Table]]:
    """Yield title, anchor and rows of the tables that only a tuning has."""
    yield (
        "Values that were tried",
        "tried",
        (
            ("value", "verdict", metric_name(tuned.metric), "against", "pairs", "doubt"),
            [
                (
                    trial.name,
                    trial.verdict_words,
                    change_text(trial.ratio) if trial.ratio is not None else "",
                    trial.against,
                    str(trial.pair_count),
                    trial.doubt,
                )
                for trial in tuned.tried
            ],
        ),
    )
    yield (
        "Settings",
        "settings",
        (
            ("setting", "was", "becomes", f"{metric_name(tuned.metric)} alone", "class", "needs"),
            [
                (
                    setting.name,
                    setting.old,
                    setting.new,
                    _effect(tuned, setting),
                    setting.risk,
                    NEEDS_WORDS[setting.needs],
                )
                for setting in tuned.settings
            ],
        ),
    )
    yield (
        "What changed on the server",
        "changed",
        (
            ("counter", "your settings", "new settings"),
            [
                (
                    change.name,
                    numbers.estimate_text(change.before, with_unit=True),
                    numbers.estimate_text(change.after, with_unit=True),
                )
                for change in tuned.changed
            ],
        ),
    )


def _effect(tuned: TuneFindings, setting: Any) -> str:
    return effect_text(tuned, setting).removeprefix(f"{METRIC_WORDS[tuned.metric]} ")
