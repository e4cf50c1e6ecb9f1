"""The statements of a contrast that got slower or faster, as a table for every form."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.analysis.compare_findings import ContrastFindings, StatementChange
from pgdyno.analysis.rounding import change_text
from pgdyno.quantities import count, counted, plain
from pgdyno.report.blocks import LabelledLine, TableBlock, TableColumn
from pgdyno.report.text_page import cut

HEAD = ("statement", "ms before", "change of its time", "calls", "plan")
_TEXT = 60
_ROWS_MAX = 15
_WORDS = {"higher": "slower", "lower": "faster"}


def statement_rows(contrast: ContrastFindings) -> list[tuple[str, ...]]:
    """Return those that got slower or faster for certain, and those whose plan changed."""
    shown = [change for change in contrast.statements if change.is_sure or change.plan_was]
    return [
        (
            short(change),
            plain(change.mean_ms),
            f"{_WORDS.get(change.comparison.verdict, change.comparison.verdict)}:"
            f" {change_text(change.comparison.ratio)}",
            count(change.calls),
            f"{change.plan_was} -> {change.plan_became}" if change.plan_was else "the same",
        )
        for change in shown[:_ROWS_MAX]
    ]


def statement_table(contrast: ContrastFindings) -> TableBlock:
    """Return the statements that changed, with both plans where they differ."""
    rows = tuple(statement_rows(contrast))
    none = "No statement is certainly slower or faster, and all plans are the same."
    return TableBlock(
        f"Statements of {contrast.variant} against {contrast.reference}",
        (
            TableColumn(HEAD[0], is_wide=True),
            *map(TableColumn, HEAD[1:-1]),
            TableColumn(HEAD[-1], is_name=True, is_wide=True),
        ),
        rows,
        note=statement_note(contrast),
        below="" if rows else none,
    )


def statement_lines(contrast: ContrastFindings) -> Iterator[LabelledLine]:
    """Yield the same for the text."""
    if contrast.statements:
        yield LabelledLine("  statements", f"  {statement_note(contrast)}")
    for text, before_ms, change, calls, plan in statement_rows(contrast):
        of_plan = "" if plan == "the same" else f"; plan {plan}"
        yield LabelledLine("", f"{text}: {change}; {before_ms} ms before, {calls} calls{of_plan}")


def short(change: StatementChange) -> str:
    """Return the place of a statement and the begin of its text."""
    return f"{change.script}:{change.line} {cut(change.text, _TEXT)}"


def statement_note(contrast: ContrastFindings) -> str:
    """Return how many statements were compared, and how many changed for certain."""
    sure = [change.comparison.verdict for change in contrast.statements if change.is_sure]
    return (
        f"{counted(len(contrast.statements), 'statement')} compared: {sure.count('higher')} slower,"
        f" {sure.count('lower')} faster; all intervals hold together"
    )
