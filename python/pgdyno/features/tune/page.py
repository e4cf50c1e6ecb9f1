"""The answer of a tuning as one offline page, and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pgdyno.analysis.findings import ExperimentFindings
from pgdyno.analysis.rounding import change_text
from pgdyno.features.tune.findings import TuneFindings
from pgdyno.features.tune.statements import NEEDS_WORDS, alter_system, conf_fragment, effect_text
from pgdyno.features.tune.text import curse_text, found_of
from pgdyno.report import forest, numbers
from pgdyno.report.compare_page import page_with
from pgdyno.report.forest import ForestRow, metric_name
from pgdyno.report.markdown_tables import Table
from pgdyno.report.words import loss_words
from pgdyno.spec.designs import METRIC_WORDS

# For each table, its list in the JSON document, and the names of its columns of numbers.
_QUANTITIES = {
    "settings": ("settings", {3: "ratio"}),
    "changed": ("counters", {1: "before", 2: "after"}),
    "servers": ("servers", {2: "run_count", 3: "level", 4: "proved"}),
    "tried": ("tried", {3: "pair_count", 4: "ratio"}),
}
_TONES = {"better": "good", "not confirmed": "bad", "not attributed": "bad"}


def tune_page(findings: ExperimentFindings) -> str:
    """Return the report of a tuning as one self-contained HTML document."""
    tuned = found_of(findings)
    rows = _effects(tuned)
    scale = forest.scale_of((row.ratio for row in rows if row.decides), margin_ratio=0.02)
    sections = (
        ("apply", "Apply", tuned.settings),
        ("changed", "What changed", tuned.changed),
        ("servers", "Servers", tuned.servers),
        ("tried", "Tried", tuned.tried),
    )
    contrasts = findings.compare.contrasts if findings.compare is not None else ()
    own = tuple((anchor, word) for anchor, word, of_it in sections if of_it)
    return page_with(
        findings,
        "tune.html.j2",
        own,
        place_of_contrast=lambda contrast: f"contrasts.{contrasts.index(contrast)}",
        t=tuned,
        tone=_TONES.get(tuned.verdict, "plain"),
        effects=[
            {
                "name": row.name,
                "said": change_text(row.ratio),
                "quantity": row.quantity,
                "drawing": forest.whisker(row.ratio, scale, decides=row.decides),
                "decides": row.decides,
            }
            for row in rows
        ],
        effect_axis=forest.axis(scale),
        curse=curse_text(tuned),
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
    lines += [f"Servers: {difference}.\n" for difference in tuned.server_differences]
    if curse := curse_text(tuned):
        lines.append(f"{curse[0].upper()}{curse[1:]}.\n")
    if tuned.settings:
        lines += ["## Apply", ""]
        if tuned.verdict != "better":
            lines += ["**These settings are not proved.**", ""]
        lines += ["```sql", alter_system(tuned), "```", ""]
        lines += ["As lines of `postgresql.conf`:", "", "```ini", conf_fragment(tuned), "```", ""]
    tables = [(title, table) for title, _, table in _tables(tuned) if table[1]]
    return markdown_with(findings, stem=stem, tables=tables, lines=lines)


def _effects(tuned: TuneFindings) -> list[ForestRow]:
    """Return the rows of the plot: the proof, the result of the search, each setting alone."""
    rows = []
    said = "proved" if tuned.verdict == "better" else "in the proof"
    if tuned.proved is not None:
        rows.append(ForestRow(f"{said}, against your settings", tuned.proved, "", "proved"))
    if tuned.against_rules is not None:
        against = f"{said}, against {tuned.rules}"
        rows.append(ForestRow(against, tuned.against_rules, "", "against_rules"))
    if tuned.promised is not None:
        promised = "promised by the search"
        rows.append(ForestRow(promised, tuned.promised, "", "promised", decides=False))
    rows += [
        ForestRow(f"{setting.name} alone", setting.ratio, "", f"settings.{place}.ratio")
        for place, setting in enumerate(tuned.settings)
        if setting.ratio is not None
    ]
    return rows


def _tables(tuned: TuneFindings) -> Iterator[tuple[str, str, Table]]:
    """Yield title, anchor and rows of the tables that only a tuning has."""
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
    yield "Servers", "servers", _servers(tuned)
    yield (
        "Candidates of the search",
        "tried",
        (
            ("candidate", "settings", "against", "pairs", f"{metric_name(tuned.metric)}"),
            [
                (
                    trial.name,
                    ", ".join(f"{name} = {value}" for name, value in trial.settings.items()),
                    trial.against,
                    str(trial.pair_count),
                    trial.failure or (change_text(trial.ratio) if trial.ratio is not None else ""),
                )
                for trial in tuned.tried
            ],
        ),
    )


def _effect(tuned: TuneFindings, setting: Any) -> str:
    return effect_text(tuned, setting).removeprefix(f"{METRIC_WORDS[tuned.metric]} ")


def _servers(tuned: TuneFindings) -> Table:
    """Return the table of the equal servers, without rows if there was one server."""
    level = f"{metric_name(tuned.metric)} against server 1"
    return (
        ("server", "where", "runs", level, "in the proof, on it alone", "lost"),
        [
            (
                str(server.number),
                server.target,
                str(server.run_count),
                change_text(server.level) if server.level is not None else "",
                change_text(server.proved) if server.proved is not None else "",
                server.lost,
            )
            for server in tuned.servers
        ],
    )
