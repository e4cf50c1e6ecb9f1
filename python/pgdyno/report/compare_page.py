"""The page of a comparison: sentences, forest plot, every round, where the time differs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

from pgdyno.analysis.compare import Verdict
from pgdyno.analysis.compare_findings import CompareFindings, ContrastFindings
from pgdyno.analysis.findings import ExperimentFindings
from pgdyno.analysis.rounding import change_text
from pgdyno.loop.history import UNITS
from pgdyno.report import embed, forest, tiles, words
from pgdyno.report.cell_table import cell_table
from pgdyno.report.compare_charts import (
    PartChange,
    bars_of,
    changes_of,
    legend_of,
    round_charts,
    total_text,
)
from pgdyno.report.further_tables import further_tables
from pgdyno.report.html import ECHARTS_VERSION, head_of, page_of_template
from pgdyno.report.own import own_of_cells
from pgdyno.report.statement_table import HEAD, statement_note, statement_rows

_ROWS_ON_FIRST_SCREEN = 8
_ROWS_BESIDE_MIN = 3
Tone = Literal["good", "bad", "plain"]
_TONES: dict[Verdict, Tone] = {"faster": "good", "lower": "good", "slower": "bad", "higher": "bad"}


def compare_page(findings: ExperimentFindings) -> str:
    """Return the report of an experiment with variants as one self-contained HTML document."""
    return page_with(findings, "compare.html.j2", (), place_of_contrast=None)


def page_with(
    findings: ExperimentFindings,
    template: str,
    first_sections: tuple[tuple[str, str], ...],
    *,
    place_of_contrast: Callable[[ContrastFindings], str] | None,
    **more: Any,
) -> str:
    """Return a page of variants: the template gets the values of a comparison, and `more`.

    Args: first_sections, anchor and name of the sections that only this template has;
    place_of_contrast, where the JSON document has a contrast, None: with its variant.
    """
    compared = findings.compare
    assert compared is not None, "only an experiment with variants has this page"
    place = partial(forest.place_of, compared)
    charts = round_charts(compared)
    changes = _forest(compared)
    return page_of_template(
        template,
        head_of(findings),
        (*first_sections, *_sections(findings, compared, has_rounds=bool(charts))),
        embed.charts_json(findings, charts),
        f=findings,
        c=compared,
        echarts_version=ECHARTS_VERSION if charts else "",
        sentences=_sentences(findings, compared),
        groups=[
            {
                "name": f"{group.name} ({group.note})" if group.note else group.name,
                "rows": [
                    _painted(row, group.said(row), changes.scale, findings.runs_valid > 0)
                    for row in group.rows
                ],
            }
            for group in changes.groups
        ],
        differing=_differing(compared, line_count=len(changes.groups) + len(changes.rows)),
        axis=forest.axis(changes.scale),
        axis_note=changes.scale.note,
        doubts=tiles.doubts_of(findings),
        fact_line=words.fact_line(findings),
        charts=charts,
        bars=bars_of(compared),
        legend=legend_of(compared),
        cells=cell_table(compared),
        further_tables=further_tables(compared),
        notes_on_means=_notes_on_means(compared),
        changes=[(contrast, changes_of(contrast)) for contrast in compared.contrasts],
        plans=[change for contrast in compared.contrasts for change in contrast.plan_changes],
        statements=_statements(compared),
        own=own_of_cells(findings),
        change=change_text,
        total=total_text,
        metric_name=forest.metric_name,
        place=place,
        place_of_contrast=place_of_contrast or (lambda contrast: place(contrast.variant)),
        shown=compared.shown,
        metrics=tuple(dict.fromkeys((compared.metric, "tps", "p99"))),
        unit=lambda name: "" if UNITS[name] == name else UNITS[name],
        **more,
    )


def _statements(
    compared: CompareFindings,
) -> list[tuple[ContrastFindings, str, tuple[str, ...], list[tuple[str, ...]]]]:
    """Return the contrasts whose statements are compared: note, head and rows of each."""
    return [
        (contrast, statement_note(contrast), HEAD, statement_rows(contrast))
        for contrast in compared.contrasts
        if contrast.statements
    ]


def _forest(compared: CompareFindings) -> forest.Forest:
    """Return the forest plot of the first screen, with few rows for each contrast if many."""
    count = max(len(compared.contrasts) + len(compared.steps), 1)
    return forest.forest_of(compared, metrics_max=max(_ROWS_ON_FIRST_SCREEN // count, 2))


def _notes_on_means(compared: CompareFindings) -> list[str]:
    return [
        f"{contrast.variant} against {contrast.reference}: {note}."
        for contrast in compared.contrasts
        if (note := forest.note_on_means(contrast, compared))
    ]


def _differing(
    compared: CompareFindings, *, line_count: int
) -> list[tuple[ContrastFindings, tuple[PartChange, ...]]]:
    """Return the largest changes of the contrasts, in about as many lines as the forest plot.

    So neither side of the page has a gap.
    """
    known = [(contrast, rows) for contrast in compared.contrasts if (rows := changes_of(contrast))]
    shown = known[: max(line_count // (_ROWS_BESIDE_MIN + 1), 1)]
    rows_per_contrast = max((line_count - len(shown) + 1) // max(len(shown), 1), _ROWS_BESIDE_MIN)
    return [(contrast, rows[:rows_per_contrast]) for contrast, rows in shown]


def _painted(
    row: forest.ForestRow, said: str, scale: forest.Scale, is_valid: bool
) -> dict[str, Any]:
    """Return a row of the forest plot as values for the template."""
    return {
        "name": row.name,
        "said": said,
        "quantity": row.quantity,
        "drawing": forest.whisker(row.ratio, scale, decides=row.decides),
        "verdict": row.verdict,
        # A verdict without valid runs gets no colour.
        "tone": next((tone for known, tone in _TONES.items() if known == row.verdict), "plain")
        if is_valid
        else "plain",
        "decides": row.decides,
    }


def _sentences(
    findings: ExperimentFindings, compared: CompareFindings
) -> list[tuple[Tone, str, str]]:
    """Return the tone of each verdict, and its sentence in two pieces: verdict, numbers."""
    if not compared.contrasts and not compared.effects:
        # The reason for each variant follows below.
        return [("plain", "Nothing was compared:", f"{compared.stopped_by}.")]
    if not compared.contrasts:
        return [("plain", *_split(findings.sentence))]
    is_valid = findings.runs_valid > 0
    return [
        (
            _TONES.get(contrast.deciding.verdict, "plain") if is_valid else "bad",
            *_split(contrast.sentence, (contrast.variant, contrast.reference)),
        )
        for contrast in compared.contrasts
    ]


def _split(sentence: str, names: Sequence[str] = ()) -> tuple[str, str]:
    """Return the verdict and the numbers, which follow a colon. A name may contain a colon, too."""
    begins = [sentence.find(name) + len(name) for name in names if name in sentence]
    head, colon, rest = sentence[max(begins, default=0) :].partition(": ")
    verdict = sentence[: max(begins, default=0)] + head
    return (f"{verdict}{colon}", rest) if colon else (sentence, "")


def _sections(
    findings: ExperimentFindings, compared: CompareFindings, *, has_rounds: bool
) -> tuple[tuple[str, str], ...]:
    known: Sequence[tuple[str, str, bool]] = (
        ("rounds", "Every round", has_rounds),
        ("where", "Where the time goes", any(variant.where for variant in compared.variants)),
        ("variants", "Variants", True),
        *((further.anchor, further.short, True) for further in further_tables(compared)),
        *((own.anchor, own.short, True) for own in [own_of_cells(findings)] if own is not None),
        (
            "statements",
            "Statements",
            any(contrast.statements for contrast in compared.contrasts),
        ),
        ("differs", "What differs", bool(compared.settings or compared.contrasts)),
        ("doubts", "Doubts", True),
        ("facts", "Facts", True),
        ("notes", "Method", bool(findings.notes)),
    )
    return tuple((anchor, word) for anchor, word, is_there in known if is_there)
