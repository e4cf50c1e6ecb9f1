"""What changed between two periods, as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pgdyno.quantities import plain, plain_decimals, seconds, signed
from pgdyno.report.text_page import TextPage, joined

_STATEMENTS_MAX = 4
_OTHERS_MAX = 3
_TEXT_WIDTH = 60

Document = Mapping[str, Any]


def changes_text(document: Document, width: int) -> str:
    """Return the largest changes, at most 25 lines of at most `width` characters."""
    page = TextPage(width)
    before_s, now_s = document["seconds"]
    said = (
        f"{document['now']} ({seconds(round(now_s))}) against {document['before']}"
        f" ({seconds(round(before_s))}); 95 % intervals for all changes together"
    )
    lines = [*page.row("compared", said), *page.row("answer", answer_of(document))]
    for statement in document["statements"][:_STATEMENTS_MAX]:
        text = " ".join(statement["text"].split()) or f"query {statement['query_id']}"
        lines.append(f"  {text if len(text) < width - 4 else text[: width - 5] + '…'}")
        lines += page.wrapped("; ".join(_words_of(statement)), "      ", "      ")
    for name in ("waits", "tables"):
        changed = [part for part in document[name] if part["verdict"] not in ("the same",)]
        for place, part in enumerate(changed[:_OTHERS_MAX]):
            lines += page.wrapped(
                f"{part['what'].removeprefix('public.')}  {change_words(part)}",
                f"{name if not place else '':12}",
                " " * 14,
            )
    return joined(lines)


def answer_of(document: Document) -> str:
    """Return the largest change that is certain, in one sentence."""
    for statement in document["statements"]:
        for change in statement["changes"]:
            if change["verdict"] in ("more", "less", "new", "gone"):
                text = " ".join(statement["text"].split()) or f"query {statement['query_id']}"
                short = text if len(text) <= _TEXT_WIDTH else text[: _TEXT_WIDTH - 1] + "…"
                return f"{short}: {change_words(change)}"
    for part in document["waits"]:
        if part["verdict"] in ("more", "less"):
            return f"{part['what']}: {change_words(part)}"
    return "no change is certain: cannot tell"


def _words_of(statement: Document) -> Iterator[str]:
    for change in statement["changes"]:
        if change["verdict"] != "the same" and change["now"] is not None:
            yield change_words(change)


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
        interval = f"{plain(change['size'], 3)} times ({_end(change['low'])} to" + (
            f" {_end(change['high'])})"
        )
    else:
        low, high = change["low"], change["high"]
        decimals = max(plain_decimals(max(abs(low), abs(high))), 0)
        interval = f"{signed(low, decimals)} to {signed(high, decimals)}"
    doubt = ", cannot tell" if change["verdict"] == "cannot tell" else ""
    return f"{words}: {interval}{doubt}"


def _end(value: float) -> str:
    return plain(value, 3)
