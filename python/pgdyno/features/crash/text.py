"""The answer of `pgdyno crash` as text, from its document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pgdyno.features.crash.page_words import (
    checks_words,
    commits_words,
    controls_rows,
    coverage_words,
    fault_rows,
    gap_words,
    recovery_words,
)
from pgdyno.features.crash.record import CrashRecord
from pgdyno.quantities import counted
from pgdyno.report.text_page import WIDTH, TextPage, joined

Document = Mapping[str, Any]
_SHOWN = 5


def text_of(document: Document, width: int = WIDTH) -> str:
    """Return the whole text, in lines of at most `width` characters."""
    page = TextPage(width)
    lines: list[str] = []
    for label, words in _rows(document):
        lines += page.row(label, words)
    return joined(lines)


def crash_line(record: CrashRecord, of_count: int) -> str:
    """Return one line about a crash, for the time while they happen."""
    during = "while idle" if record.phase == "idle" else f"during {record.phase}"
    if record.recovery_error:
        end = f"no recovery: {record.recovery_error}"
    else:
        end = f"recovered in {(record.recovery_ns or 0) / 1e9:.1f} s"
        if record.lost:
            end += f", {counted(record.lost, 'commit')} lost"
        bad = [check for check in record.checks if check.verdict == "bad"]
        end += "".join(f"; {check.name}: {check.seen}" for check in bad[:1])
    return f"crash {record.number} of {of_count}  {during}  {end}"


def _rows(document: Document) -> Iterator[tuple[str, str]]:
    """Yield the label and the words of every row."""
    yield "target", document["target"]
    yield "answer", document["sentence"]
    yield from controls_rows(document)
    yield from fault_rows(document)
    if document["crashes"]:
        yield "commits", commits_words(document)
        yield "moments", coverage_words(document)
        yield "checks", checks_words(document)
        yield from _damages(document)
        yield "recovery", recovery_words(document)
        if gap := gap_words(document):
            yield "clients", gap
    for doubt in document.get("doubts", ()):
        yield "doubt", doubt
    yield "not shown", document["not_shown"]
    number = document["number"]
    state = "" if document["is_complete"] else ", ended early: crashes until then"
    yield "saved", f"#{number}{state}   pgdyno report {number}"


def _damages(document: Document) -> Iterator[tuple[str, str]]:
    for place, row in enumerate([row for row in document["checks"] if row["bad"]][:_SHOWN]):
        yield "" if place else "damage", f"crash {row['crash']}: {row['name']}: {row['seen']}"
    refused = [row for row in document["records"] if not row["arm"] and row["recovery_error"]]
    for row in refused[:_SHOWN]:
        yield "no recovery", f"crash {row['number']}: {row['recovery_error']}"
