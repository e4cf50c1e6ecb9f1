"""The answer of a tuning as one offline page, and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pgdyno.analysis.findings import ExperimentFindings
from pgdyno.analysis.rounding import change_text
from pgdyno.report import forest, numbers
from pgdyno.report.compare_page import page_with
from pgdyno.report.forest import ForestRow, metric_name
from pgdyno.report.markdown import Pictures, markdown_with
from pgdyno.report.markdown_tables import Table
from pgdyno.report.tune_text import curse_text, found_of
from pgdyno.tune.findings import (
    NEEDS_WORDS,
    TuneFindings,
    alter_system,
    conf_fragment,
    effect_text,
)

_TONES = {"better": "good", "not confirmed": "bad"}


def tune_page(findings: ExperimentFindings) -> str:
    """Return the report of a tuning as one self-contained HTML document."""
    found = found_of(findings)
    rows = _effects(found)
    scale = forest.scale_of((row.ratio for row in rows if row.decides), margin_ratio=0.02)
    sections = (
        ("apply", "Apply", found.settings),
        ("changed", "What changed", found.changed),
        ("tried", "Tried", found.tried),
    )
    own = tuple((anchor, word) for anchor, word, of_it in sections if of_it)
    return page_with(
        findings,
        "tune.html.j2",
        own,
        t=found,
        tone=_TONES.get(found.verdict, "plain"),
        effects=[
            {
                "name": row.name,
                "said": change_text(row.ratio),
                "drawing": forest.whisker(row.ratio, scale, decides=row.decides),
                "decides": row.decides,
            }
            for row in rows
        ],
        effect_axis=forest.axis(scale),
        curse=curse_text(found),
        tables=[(title, key, table) for title, key, table in _tables(found) if table[1]],
        conf=conf_fragment(found),
        apply=alter_system(found),
    )


def tune_markdown(findings: ExperimentFindings, stem: str) -> tuple[str, Pictures]:
    """Return the report of a tuning as Markdown, and its pictures by file name."""
    found = found_of(findings)
    lines: list[str] = []
    if found.needs_restart:
        lines.append(f"**Needs a restart: {', '.join(found.needs_restart)}.**\n")
    lines += [
        f"**RISK: {one.name} = {one.new}: {one.price} The loss was not measured.**\n"
        for one in found.weakens_durability
    ]
    if curse := curse_text(found):
        lines.append(f"{curse[0].upper()}{curse[1:]}.\n")
    if found.settings:
        lines += ["## Apply", "", "```sql", alter_system(found), "```", ""]
        lines += ["As lines of `postgresql.conf`:", "", "```ini", conf_fragment(found), "```", ""]
    tables = [(title, table) for title, _, table in _tables(found) if table[1]]
    return markdown_with(findings, stem=stem, tables=tables, lines=lines)


def _effects(found: TuneFindings) -> list[ForestRow]:
    """Return the rows of the plot: the proof, the promise, each setting alone."""
    rows = []
    if found.proved is not None:
        rows.append(ForestRow("proved, against your settings", found.proved, ""))
    if found.against_rules is not None:
        rows.append(ForestRow(f"proved, against {found.rules}", found.against_rules, ""))
    if found.promised is not None:
        rows.append(ForestRow("promised by the search", found.promised, "", decides=False))
    rows += [
        ForestRow(f"{one.name} alone", one.ratio, "")
        for one in found.settings
        if one.ratio is not None
    ]
    return rows


def _tables(found: TuneFindings) -> Iterator[tuple[str, str, Table]]:
    """Yield title, anchor, and table of what only a tuning has."""
    yield (
        "Settings",
        "settings",
        (
            ("setting", "was", "becomes", f"{metric_name(found.metric)} alone", "class", "needs"),
            [
                (one.name, one.old, one.new, _effect(found, one), one.risk, NEEDS_WORDS[one.needs])
                for one in found.settings
            ],
        ),
    )
    yield (
        "What changed on the server",
        "changed",
        (
            ("counter", "your settings", "proved settings"),
            [
                (
                    one.name,
                    numbers.estimate_text(one.before, with_unit=True),
                    numbers.estimate_text(one.after, with_unit=True),
                )
                for one in found.changed
            ],
        ),
    )
    yield (
        "Candidates of the search",
        "tried",
        (
            ("candidate", "settings", "against", "pairs", f"{metric_name(found.metric)}"),
            [
                (
                    one.name,
                    ", ".join(f"{name} = {value}" for name, value in one.settings.items()),
                    one.against,
                    str(one.pair_count),
                    one.failure or (change_text(one.ratio) if one.ratio is not None else ""),
                )
                for one in found.tried
            ],
        ),
    )


def _effect(found: TuneFindings, one: Any) -> str:
    return effect_text(found, one).removeprefix(f"{found.metric} ")
