"""The report as PDF on two sheets: the verdict; then where the time goes, doubts, facts."""

from __future__ import annotations

import io
from collections.abc import Iterator

from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.figure import Figure

from pgdyno import quantities
from pgdyno.analysis.findings import ExperimentFindings
from pgdyno.report import figures, ink, plot, tiles, words
from pgdyno.report.compare_charts import round_charts
from pgdyno.report.forest import PAPER_METRICS, forest_of
from pgdyno.report.markdown_tables import (
    change_table,
    latency_table,
    level_table,
    parts_table,
    settings_table,
    variant_table,
)
from pgdyno.report.sheet import Sheet

_SETTINGS_SHOWN = 22
_CHART_INCHES = 1.05


def pdf_of(findings: ExperimentFindings) -> bytes:
    """Return the report as a PDF of two pages; the same findings give the same bytes."""
    target = io.BytesIO()
    about = {"Title": findings.sentence, "Creator": "pgdyno", "CreationDate": None}
    with ink.style(), PdfPages(target, metadata=about) as pages:
        for sheet in sheets(findings):
            pages.savefig(sheet)
    return target.getvalue()


def sheets(findings: ExperimentFindings) -> Iterator[Figure]:
    """Yield the two pages as figures."""
    for page, fill in enumerate((_first, _second), 1):
        sheet = Sheet()
        _head(sheet, findings)
        fill(sheet, findings)
        sheet.foot(
            f"pgdyno {findings.version}, #{findings.number} {findings.name}. "
            f"Intervals are 95 %. Page {page} of 2"
        )
        yield sheet.figure


def _head(sheet: Sheet, findings: ExperimentFindings) -> None:
    sheet.text(f"pgdyno {findings.kind} #{findings.number}", weight="bold", ink="accent", size=9)
    sheet.text(findings.facts.target, ink="ink-2", size=7.5)
    sheet.rule()


def _first(sheet: Sheet, findings: ExperimentFindings) -> None:
    _verdict(sheet, findings)
    compared = findings.compare
    if compared is None:
        _tiles(sheet, findings)
        charts = figures.main_charts(findings)
        height = 2.6 if len(charts) == 1 else 1.35
    else:
        changes = forest_of(compared, metrics_max=PAPER_METRICS)
        names, row_inches = plot.forest_names(changes)
        if names:
            left = ink.names_inches(names, least=1.7, weight="bold")
            tall = row_inches * len(names) + 0.1
            plot.forest_plot(sheet.axes(tall, left_inches=left, right_inches=1.9), changes)
            sheet.space(0.1)
        charts = round_charts(compared)
        height = 1.35
    for chart in charts:
        plot.chart(sheet.axes(height), chart)
        sheet.space(plot.legend_inches(chart))
    _time_bars(sheet, findings)
    sheet.rule()
    _facts_line(sheet, findings)
    _more_charts(sheet, findings)


def _more_charts(sheet: Sheet, findings: ExperimentFindings) -> None:
    """Fill the rest of the first sheet: latency against load, then the run over time."""
    if findings.compare is not None:
        return
    more = figures.curve_charts(findings)
    if findings.run is not None:
        shown = {chart.title for chart in figures.main_charts(findings)}
        more += tuple(c for c in figures.time_charts(findings.run.timeline) if c.title not in shown)
    sheet.space(0.05)
    for chart in more:
        if sheet.left_inches < _CHART_INCHES + 0.6 + plot.legend_inches(chart):
            return
        plot.chart(sheet.axes(_CHART_INCHES), chart)
        sheet.space(plot.legend_inches(chart))


def _second(sheet: Sheet, findings: ExperimentFindings) -> None:
    compared, run = findings.compare, findings.run
    if compared is not None:
        head, rows = variant_table(compared)
        sheet.heading("Variants")
        shares = (0.18, 0.36, *[0.46 / (len(head) - 2)] * (len(head) - 2))
        sheet.table(head, rows, shares)
        for contrast in compared.contrasts[:2]:
            if contrast.difference is not None:
                sheet.heading(f"Where {contrast.variant} differs from {contrast.reference}")
                sheet.table(*change_table(contrast, at_most=8), (0.42, 0.28, 0.1, 0.2))
    if findings.curves:
        for curve in findings.curves[:3]:
            sheet.heading(f"Levels of {curve.script}")
            sheet.table(*level_table(curve), (0.14, 0.3, 0.28, 0.28))
    if run is not None:
        if run.where is not None:
            sheet.heading(f"Where the time of {words.run_words(findings)} goes")
            sheet.table(*parts_table(run.where, at_most=10), (0.42, 0.28, 0.1, 0.2))
        sheet.heading("Latency")
        sheet.table(*latency_table(run), (0.2, 0.2, 0.6))
    _doubts(sheet, findings)
    sheet.heading("Measured on")
    facts = [*findings.facts.rows, ("durability", findings.facts.durability)]
    sheet.table(("", ""), facts, (0.2, 0.8))
    if findings.facts.settings and sheet.left_inches > 0.6:
        sheet.heading("Settings that differ from PostgreSQL's default")
        head, rows = settings_table(findings, at_most=_SETTINGS_SHOWN)
        sheet.table(head, rows, (0.3, 0.2, 0.3, 0.2), size=7)


def _verdict(sheet: Sheet, findings: ExperimentFindings) -> None:
    compared = findings.compare
    sentences = (
        [contrast.sentence for contrast in compared.contrasts] if compared is not None else []
    )
    size = 12.5 if len(sentences) < 2 and len(findings.sentence) < 140 else 10.5
    for said in sentences or [findings.sentence]:
        sheet.text(said, size=size, weight="bold")
        sheet.space(0.05)
    if not findings.is_complete:
        sheet.text(
            "Incomplete: the result covers the time until the end.", ink="warn", weight="bold"
        )


def _tiles(sheet: Sheet, findings: ExperimentFindings) -> None:
    shown = tiles.tiles_of(findings)
    sheet.space(0.05)
    share = [1 / len(shown)] * len(shown)
    sheet.table([tile.label for tile in shown], [], share)
    values = [f"{tile.value} {tile.unit}".strip() for tile in shown]
    sheet.table([""] * len(shown), [values], share, size=12.5)
    sheet.table([""] * len(shown), [[tile.range_text for tile in shown]], share, size=7)


def _time_bars(sheet: Sheet, findings: ExperimentFindings) -> None:
    compared, run = findings.compare, findings.run
    if compared is not None:
        bars = [
            (variant.name, variant.where)
            for variant in compared.variants
            if variant.where is not None
        ]
    else:
        bars = [("", run.where)] if run is not None and run.where is not None else []
    if bars:
        left = ink.names_inches((name for name, _ in bars), least=0.05)
        plot.time_bars(sheet.axes(0.3 * len(bars), left_inches=left), bars)
        sheet.space(0.2)
    if compared is None and run is not None and run.where is not None:
        sheet.table(*parts_table(run.where, at_most=6), (0.42, 0.28, 0.1, 0.2))
        sheet.space(0.08)


def _facts_line(sheet: Sheet, findings: ExperimentFindings) -> None:
    doubts = tiles.doubts_of(findings)
    worst = f"{quantities.counted(len(doubts), 'doubt')}: {doubts[0].message}" if doubts else "none"
    rows = [("measured", words.fact_line(findings))]
    if findings.compare is not None:
        rows.append(("stopped", findings.compare.stopped_by))
        rows += [("confound", confound) for confound in findings.compare.confounds[:3]]
        rows += [
            (
                "durability",
                f"{variant.name}: a crash may lose acknowledged commits "
                f"({', '.join(variant.weakened)})"
                + "".join(f"; {loss.sentence()}" for loss in variant.losses),
            )
            for variant in findings.compare.variants
            if variant.weakened
        ]
    rows += [("durability", findings.facts.durability), ("doubts", worst)]
    sheet.table(("", ""), rows, (0.12, 0.88))


def _doubts(sheet: Sheet, findings: ExperimentFindings) -> None:
    sheet.heading("Doubts")
    doubts = tiles.doubts_of(findings)
    if not doubts:
        sheet.text("No rule found a reason to doubt this result.", ink="ink-2")
    rows = [
        (
            "not valid" if doubt.verdict == "not_valid" else "doubt",
            f"{doubt.message} Next: {doubt.hint}.",
        )
        for doubt in doubts
    ]
    sheet.table(("", ""), rows, (0.12, 0.88))
