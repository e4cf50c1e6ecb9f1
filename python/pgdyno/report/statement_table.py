"""The statements of a contrast that got slower or faster, as a table for every form."""

from __future__ import annotations

from pgdyno.analysis.compare_findings import ContrastFindings, StatementChange
from pgdyno.analysis.rounding import change_text
from pgdyno.quantities import count, counted, plain

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


def short(change: StatementChange) -> str:
    """Return the place of a statement and the begin of its text."""
    text = " ".join(change.text.split())
    if len(text) > _TEXT:
        text = f"{text[: _TEXT - 4].rstrip()} ..."
    return f"{change.script}:{change.line} {text}"


def statement_note(contrast: ContrastFindings) -> str:
    """Return how many statements were compared, and how many changed for certain."""
    sure = [change.comparison.verdict for change in contrast.statements if change.is_sure]
    return (
        f"{counted(len(contrast.statements), 'statement')} compared: {sure.count('higher')} slower,"
        f" {sure.count('lower')} faster; all intervals hold together"
    )
