"""What every answer of an experiment has: whose it is, its first lines, doubts, facts, method."""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup

from pgdyno import quantities
from pgdyno.analysis.findings import ExperimentFindings
from pgdyno.redaction import redacted
from pgdyno.report.block_charts import DoubtList, PageText, TableRow
from pgdyno.report.blocks import (
    AnswerHead,
    BlockSection,
    LabelledLine,
    TableBlock,
    TableColumn,
    Tone,
)
from pgdyno.report.tiles import doubts_of, is_valid
from pgdyno.report.words import fact_line


def head_of(findings: ExperimentFindings) -> AnswerHead:
    """Return what precedes the answer of an experiment."""
    return AnswerHead(
        findings.kind,
        findings.number,
        findings.name,
        findings.version,
        findings.facts.target,
        findings.sentence,
        findings.is_complete,
    )


def first_lines(findings: ExperimentFindings, weakened: str = "") -> Iterator[LabelledLine]:
    """Yield what the first screen says about the measurement; the text says it elsewhere.

    Args: weakened, why commits may be lost although the server is durable, "" if they may not.
    """
    yield LabelledLine("measured", fact_line(findings), level="full")
    is_durable = findings.facts.is_durable
    tone: Tone = "plain" if is_durable and not weakened else "bad"
    said = weakened or ("" if is_durable else "WEAKENED: ") + findings.facts.durability
    yield LabelledLine("durability", said, tone, "full" if tone == "plain" else "short")
    doubts = doubts_of(findings)
    count = quantities.counted(len(doubts), "doubt")
    if not doubts:
        yield LabelledLine("doubts", "none", "good", "full")
    else:
        worst = f"{', the worst' if len(doubts) > 1 else ''}: {redacted(doubts[0].message)}"
        tone_of_link = "red" if doubts[0].verdict == "not_valid" else "amber"
        link = Markup('<a href="#doubts" class="{}">{}</a>{}').format(tone_of_link, count, worst)
        yield LabelledLine("doubts", PageText(f"{count}{worst}", link), level="full")
    yield from (LabelledLine("note", remark, level="full") for remark in findings.remarks)


def about_blocks(findings: ExperimentFindings) -> Iterator[BlockSection]:
    """Yield the last sections of the page: doubts, facts, notes on method."""
    doubts, facts = doubts_of(findings), findings.facts
    repeated = findings.repeated_words if findings.repeated else ""
    lead = (
        "Reasons to read this result with care; the worst first."
        if doubts
        else "No rule found a reason to doubt this result."
    )
    listed = DoubtList(repeated, _validity(findings), doubts)
    yield BlockSection("Doubts", "doubts", "Doubts", lead, (listed,))
    tables = [
        TableBlock(
            "Facts",
            (TableColumn(""), TableColumn("", is_name=True, is_wide=True)),
            (("durability", facts.durability), *facts.rows),
            tones={} if facts.is_durable else {(0, 1): "bad"},
        )
    ]
    if facts.settings:
        columns = (
            TableColumn("setting", style="mono"),
            TableColumn("value", is_name=True, is_wide=True, style="mono"),
            TableColumn("from", is_name=True, style="note"),
        )
        title = "Settings that differ from PostgreSQL's default"
        tables.append(TableBlock(title, columns, facts.settings))
    yield BlockSection("Facts", "facts", "Facts", facts.target, (TableRow(tuple(tables)),))
    if findings.notes or repeated:
        first = (f"Repeated {repeated}",) if repeated else ()
        points = point_table("", (*first, *findings.notes))
        yield BlockSection("Notes on method", "notes", "Method", "", (points,))


def point_table(title: str, points: tuple[str, ...]) -> TableBlock:
    """Return sentences as a table of one column."""
    return TableBlock(title, (TableColumn("", is_wide=True),), tuple((said,) for said in points))


def _validity(findings: ExperimentFindings) -> str:
    """Return "yes; no doubts; 24 runs, 31 min, all valid"."""
    doubts = doubts_of(findings)
    count = quantities.counted(len(doubts), "doubt") if doubts else "no doubts"
    said = f"{'yes' if is_valid(findings) else 'NO'}; {count}"
    if findings.runs_total > 1:
        bad = findings.runs_total - findings.runs_valid
        runs = quantities.counted(findings.runs_total, "run")
        said += f"; {runs}, {quantities.seconds(findings.seconds)}, "
        said += f"{bad} not valid" if bad else "all valid"
    return said
