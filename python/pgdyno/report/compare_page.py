"""The verdict as one offline page: sentences, forest plot, every round, where the time differs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

from pgdyno.analysis.compare import Verdict
from pgdyno.analysis.compare_findings import CompareFindings, ContrastFindings
from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.findings import ExperimentFindings
from pgdyno.analysis.rounding import change_text
from pgdyno.loop.history import UNITS
from pgdyno.report import embed, forest, palette, tiles, words
from pgdyno.report.cell_table import cell_table
from pgdyno.report.compare_charts import round_charts
from pgdyno.report.compare_text import METRIC_NAMES
from pgdyno.report.compare_time import bars_of, changes_of, legend_of, total_text
from pgdyno.report.html import ECHARTS_VERSION, page_assets, page_environment

_ROWS_ON_FIRST_SCREEN = 8
# The tail before the median: what the sentence names, where there is little room.
_ALSO = ("tps", "p99", "p50", "cpu_per_tx", "wal_per_tx")
Tone = Literal["good", "bad", "plain"]
_TONES: dict[Verdict, Tone] = {"faster": "good", "lower": "good", "slower": "bad", "higher": "bad"}


@dataclass(frozen=True, slots=True)
class ForestRow:
    """One line of the forest plot; `verdict` is empty where the metric does not decide."""

    name: str
    said: str
    drawing: Markup
    verdict: str
    tone: Tone
    decides: bool


@dataclass(frozen=True, slots=True)
class ForestGroup:
    """The lines of one contrast, below its name."""

    name: str
    rows: tuple[ForestRow, ...]


def compare_page(findings: ExperimentFindings) -> str:
    """Return the report of an experiment with variants as one self-contained HTML document."""
    found = findings.compare
    assert found is not None, "only an experiment with variants has this page"
    assets = page_assets()
    charts = round_charts(found)
    scale = forest.scale_of(_drawn(found), margin_ratio=_margin(found))
    return (
        page_environment()
        .get_template("compare.html.j2")
        .render(
            f=findings,
            c=found,
            echarts_version=ECHARTS_VERSION if charts else "",
            echarts=Markup(assets.echarts),
            script=Markup(assets.script),
            charts_json=Markup(embed.charts_json(findings, charts)),
            style=Markup(assets.style),
            csp=Markup(assets.policy),
            early_script=Markup(assets.early_script),
            hatches=palette.definitions(),
            sections=_sections(findings, found, has_rounds=bool(charts)),
            sentences=_sentences(findings, found),
            groups=forest_groups(found, scale),
            axis=forest.axis(scale),
            doubts=tiles.doubts_of(findings),
            fact_line=words.fact_line(findings),
            charts=charts,
            bars=bars_of(found),
            legend=legend_of(found),
            cells=cell_table(found),
            changes=[(one, changes_of(one)) for one in found.contrasts],
            plans=[change for one in (*found.contrasts,) for change in one.plan_changes],
            change=change_text,
            total=total_text,
            metric_name=metric_name,
            metrics=tuple(dict.fromkeys((found.metric, "tps", "p99"))),
            unit=lambda name: "" if UNITS[name] == name else UNITS[name],
        )
    )


def metric_name(name: str) -> str:
    """Return how a metric is called on a page."""
    return METRIC_NAMES.get(name, name)


def forest_groups(found: CompareFindings, scale: forest.Scale) -> tuple[ForestGroup, ...]:
    """Return what the forest plot shows: every contrast, each step of passes, every effect."""
    room = _ROWS_ON_FIRST_SCREEN // max(len(found.contrasts) + len(found.steps), 1)
    groups = [
        ForestGroup(f"{one.variant} against {one.reference}", _rows(one, found.metric, scale, room))
        for one in found.contrasts
    ]
    if found.steps:
        steps = tuple(
            _row(
                f"{one.variant} after {one.reference}",
                one.deciding.ratio,
                scale,
                verdict=one.deciding.verdict,
            )
            for one in found.steps
        )
        groups.append(ForestGroup("Each pass against the one before", steps))
    if found.effects:
        effects = tuple(
            _row(
                effect.name,
                effect.ratio,
                scale,
                verdict="sure" if effect.p_adjusted_ratio < 0.05 else "not sure",
            )
            for effect in found.effects
        )
        groups.append(ForestGroup(f"Effects on {metric_name(found.metric)}", effects))
    return tuple(groups)


def _rows(
    contrast: ContrastFindings, metric: str, scale: forest.Scale, room: int
) -> tuple[ForestRow, ...]:
    names = [n for n in dict.fromkeys((metric, *_ALSO)) if n in contrast.comparisons]
    return tuple(
        _row(
            metric_name(name),
            contrast.comparisons[name].ratio,
            scale,
            verdict=contrast.comparisons[name].verdict,
            decides=name == metric,
        )
        for name in names[: max(room, 2)]
    )


def _row(
    name: str, ratio: Estimate, scale: forest.Scale, *, verdict: str, decides: bool = True
) -> ForestRow:
    drawing = forest.whisker(ratio, scale, decides=decides)
    tone: Tone = "plain"
    for known, its_tone in _TONES.items():
        tone = its_tone if verdict == known else tone
    return ForestRow(name, change_text(ratio), drawing, verdict, tone, decides)


def _drawn(found: CompareFindings) -> list[Estimate]:
    """Return the ratios that set the scale: what decides, so that it is not pressed together."""
    contrasts = [one.deciding.ratio for one in (*found.contrasts, *found.steps)]
    return contrasts + [effect.ratio for effect in found.effects]


def _margin(found: CompareFindings) -> float:
    every = (*found.contrasts, *found.steps)
    return every[0].deciding.margin_ratio if every else 0.0


def _sentences(findings: ExperimentFindings, found: CompareFindings) -> list[tuple[Tone, str, str]]:
    """Return each verdict with its tone and in two pieces: what holds, and the numbers."""
    if not found.contrasts and not found.effects:
        # Why is said of each variant below this.
        return [("plain", "Nothing was compared:", f"{found.stopped_by}.")]
    if not found.contrasts:
        return [("plain", *_split(findings.sentence))]
    return [
        (_TONES.get(one.deciding.verdict, "plain"), *_split(one.sentence))
        for one in found.contrasts
    ]


def _split(sentence: str) -> tuple[str, str]:
    head, colon, rest = sentence.partition(": ")
    return (f"{head}{colon}", rest) if colon else (sentence, "")


def _sections(
    findings: ExperimentFindings, found: CompareFindings, *, has_rounds: bool
) -> tuple[tuple[str, str], ...]:
    known: Sequence[tuple[str, str, bool]] = (
        ("rounds", "Every round", has_rounds),
        ("where", "Where the time goes", any(one.where for one in found.variants)),
        ("variants", "Variants", True),
        ("differs", "What differs", bool(found.settings or found.contrasts)),
        ("doubts", "Doubts", True),
        ("facts", "Facts", True),
        ("notes", "Method", bool(findings.notes)),
    )
    return tuple((anchor, word) for anchor, word, is_there in known if is_there)
