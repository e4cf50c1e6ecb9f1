"""The report as Markdown with pictures, and as two sheets of PDF."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest
from tests.report.compare_examples import CHANGE, compared, with_long_names
from tests.report.examples import EXAMPLES

from pgdyno.analysis.findings import ExperimentFindings
from pgdyno.report import ink, palette, plot
from pgdyno.report.chart import Chart, Line
from pgdyno.report.forest import PAPER_METRICS, forest_of
from pgdyno.report.markdown import markdown_of
from pgdyno.report.pdf import pdf_of
from pgdyno.report.sheet import Sheet

PNG = b"\x89PNG\r\n\x1a\n"


def example(name: str) -> ExperimentFindings:
    return compared(plans=(CHANGE,)) if name == "compare" else EXAMPLES[name]()


@pytest.mark.parametrize("name", ["compare", "quartet", "tiny"])
def test_the_pdf_has_two_pages_and_is_the_same_each_time(name: str) -> None:
    made = pdf_of(example(name))
    assert made.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type /Page\b(?!s)", made)) == 2
    if name == "tiny":
        assert pdf_of(example(name)) == made


@pytest.mark.parametrize("name", ["compare", "bench"])
def test_the_markdown_begins_with_the_verdict_and_names_pictures_that_are_there(
    name: str,
) -> None:
    findings = example(name)
    text, pictures = markdown_of(findings, stem="r")
    assert text.splitlines()[0] == f"# {findings.sentence}"
    assert re.findall(r"!\[.*?\]\((.*?)\)", text) == list(pictures)
    assert pictures
    assert all(picture.startswith(PNG) for picture in pictures.values())


def test_tables_of_the_markdown_hold_variants_changes_plans_confounds_and_doubts() -> None:
    text, _ = markdown_of(example("compare"), stem="r")
    assert "## Settings that differ, as read back" in text
    assert "## Stopped" in text
    assert "| 4GB | shared_buffers = 4GB, synchronous_commit = off" in text
    assert "| commit: WAL flush to disk | IO:WALSync | -0.900 | -1.000 to -0.800 |" in text
    assert "| tx4.sql:2 | Index Scan i | Seq Scan t |" in text
    assert "- each has one layout of the data" in text
    assert "No rule found a reason to doubt" in text


def test_a_name_cannot_break_out_of_its_cell() -> None:
    findings = example("compare")
    facts = replace(findings.facts, rows=(("disk", "a|b\n<script>"),))
    text, _ = markdown_of(replace(findings, facts=facts), stem="r")
    assert "| disk | a\\|b &lt;script> |" in text


def test_a_long_text_is_folded_within_its_room() -> None:
    with ink.style():
        sheet = Sheet()
        said = "cannot tell yet whether B and A differ, " * 8
        lines = sheet.folded(said, 3.0, size=8)
        assert " ".join(lines) == said.strip()
        widths = [ink.text_width_inches(sheet.figure, line, 8, "normal") for line in lines]
        assert max(widths) <= 3.0


def test_a_full_sheet_says_how_many_rows_it_left_out() -> None:
    with ink.style():
        sheet = Sheet()
        left_out = sheet.table(("n",), [(str(n),) for n in range(500)], (1.0,))
        assert 300 < left_out < 480
        assert sheet.left_inches >= 0


@pytest.mark.parametrize("count", [2, 4, 5, 8])
def test_a_legend_never_covers_the_title_or_the_axis(count: int) -> None:
    lines = tuple(
        Line(f"variant {place}", palette.at(place), (1.0, 2.0), (1.0, 2.0), shape="points")
        for place in range(count)
    )
    shown = Chart("rounds", "tps of every run", "tps", "round", lines)
    with ink.style():
        sheet = Sheet()
        axes = sheet.axes(1.35)
        plot.chart(axes, shown)
        sheet.figure.canvas.draw()
        legend = axes.get_legend()
        assert legend is not None
        box = legend.get_window_extent()
        for other in (axes.title, axes._left_title, axes.xaxis.label):  # type: ignore[attr-defined]
            if other.get_text():
                assert not box.overlaps(other.get_window_extent()), other.get_text()
        is_below = box.y1 <= axes.get_window_extent().y0
        assert is_below == (count > 4) == (plot.legend_inches(shown) > 0)


@pytest.mark.parametrize("findings", [compared(), with_long_names()], ids=["short", "long"])
def test_long_names_leave_room_for_the_labels_of_the_forest_plot(
    findings: ExperimentFindings,
) -> None:
    assert findings.compare is not None
    changes = forest_of(findings.compare, metrics_max=PAPER_METRICS)
    names, row_inches = plot.forest_names(changes)
    with ink.style():
        sheet = Sheet()
        left = ink.names_inches(names, least=1.7, weight="bold")
        axes = sheet.axes(row_inches * len(names), left_inches=left, right_inches=1.9)
        plot.forest_plot(axes, changes)
        sheet.figure.canvas.draw()
        labels = [label.get_window_extent() for label in axes.get_xticklabels()]
        rows = [text.get_window_extent() for text in axes.texts if text.get_text() in names]
    assert all(before.x1 < after.x0 for before, after in pairwise(labels))
    assert all(before.y0 > after.y1 for before, after in pairwise(rows))
    assert min(row.x0 for row in rows) > 0
    assert len(rows) == len(changes.rows)


def test_a_very_long_name_keeps_its_metric_and_takes_two_lines() -> None:
    assert ink.two_lines("4GB against 128MB: tps") == "4GB against 128MB: tps"
    long = ink.two_lines(f"{'a_long_variant_' * 8}against 128MB: p99").split("\n")
    assert len(long) == 2
    assert long[0].startswith("a_long_variant_")
    assert long[1].endswith("against 128MB: p99")
    assert max(map(len, long)) <= 34
