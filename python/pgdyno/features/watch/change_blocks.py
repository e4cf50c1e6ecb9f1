"""What changed between two periods, as blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pgdyno.analysis.rounding import ends_text
from pgdyno.quantities import plain, plain_decimals, seconds
from pgdyno.report.blocks import BlockSection, LabelledLine, TableBlock, TableColumn

_STATEMENTS_MAX = 4
_OTHERS_MAX = 3
_TEXT_WIDTH = 60
_CHANGE = TableColumn("before -> now", is_name=True)

Document = Mapping[str, Any]


def changes_section(document: Document) -> BlockSection:
    """Return the largest changes: of statements, of waits, of rows read from tables."""
    before_s, now_s = document["seconds"]
    compared = (
        f"{document['now']} ({seconds(round(now_s))}) against {document['before']}"
        f" ({seconds(round(before_s))})"
    )
    blocks: list[LabelledLine | TableBlock] = [
        LabelledLine("compared", f"{compared}; 95 % intervals for all changes together"),
        LabelledLine("change", answer_of(document)),
    ]
    by_statement = [
        (_text(part), list(filter(_differs, part["changes"]))) for part in document["statements"]
    ]
    shown_count = sum(len(changes) for _, changes in by_statement[:_STATEMENTS_MAX])
    named = [
        (text if change is changes[0] else "", change)
        for text, changes in by_statement
        for change in changes
    ]
    tables = [("statement", named, shown_count)]
    for key, name in (("waits", "wait event"), ("tables", "table")):
        changed = filter(_differs, document[key])
        named = [(change["what"].removeprefix("public."), change) for change in changed]
        tables.append((name, named, _OTHERS_MAX))
    for name, changes, shown_count in tables:
        rows = tuple((what, change_words(change)) for what, change in changes)
        columns = (TableColumn(name, style="sql"), _CHANGE)
        if rows:
            blocks.append(TableBlock(f"By {name}", columns, rows, short_row_count=shown_count))
    lead = (
        f"{compared}, largest change first. Intervals are 95 % for all changes together; if one"
        ' includes no change, the answer is "cannot tell".'
    )
    return BlockSection("What changed", "changes", "What changed", lead, tuple(blocks))


def answer_of(document: Document) -> str:
    """Return the largest change that is certain, in one sentence."""
    for statement in document["statements"]:
        for change in statement["changes"]:
            if change["verdict"] in ("more", "less", "new", "gone"):
                text = _text(statement)
                short = text if len(text) <= _TEXT_WIDTH else text[: _TEXT_WIDTH - 1] + "…"
                return f"{short}: {change_words(change)}"
    for part in document["waits"]:
        if part["verdict"] in ("more", "less"):
            return f"{part['what']}: {change_words(part)}"
    return "no change is certain: cannot tell"


def _text(statement: Document) -> str:
    return " ".join(statement["text"].split()) or f"query {statement['query_id']}"


def _differs(change: Document) -> bool:
    return bool(change["verdict"] != "the same")


def change_words(change: Document) -> str:
    """Return "0.31 -> 41 ms a call: 130 times (110 to 155)", or that it cannot be told."""
    ends = [
        "none" if value is None else plain(value, 3) for value in (change["before"], change["now"])
    ]
    words = f"{ends[0]} -> {ends[1]} {change['unit']}"
    if change["verdict"] in ("new", "gone"):
        return f"{words} ({change['verdict']})"
    if change["low"] is None:
        return f"{words} (no interval: too few samples)"
    if change["is_ratio"]:
        size, low, high = (plain(change[end], 3) for end in ("size", "low", "high"))
        interval = f"{size} times ({low} to {high})"
    else:
        low, high = change["low"], change["high"]
        decimals = max(plain_decimals(max(abs(low), abs(high))), 0)
        interval = ends_text(low, high, decimals, is_signed=True)
    doubt = ", cannot tell" if change["verdict"] == "cannot tell" else ""
    return f"{words}: {interval}{doubt}"
