"""A watch as text, from its document: what was seen, what it cost, where DB time went."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pgdyno.quantities import compact_ms, format_bytes
from pgdyno.report.text_page import WIDTH, TextPage, joined

_SHOWN = 5
# The share before a statement, and behind it what it waited for.
_BESIDE_STATEMENT = 58

Document = dict[str, Any]


def text_of(document: Document, width: int = WIDTH) -> str:
    """Return the whole text, in lines of at most `width` signs."""
    page = TextPage(width)
    lines: list[str] = []
    first = (("target", document["target"]), ("answer", document["sentence"]))
    for label, said in (*first, *_seen(document)):
        lines += page.row(label, said)
    sessions = document["sessions_at_work"]
    if sessions["mean"]:
        low, high = sessions.get("low"), sessions.get("high")
        interval = f" [{low:.3g} to {high:.3g}]" if low is not None else ""
        lines.append(
            f"top of DB time ({sessions['mean']:.3g}{interval} sessions on average, at most"
            f" {sessions['peak']}; {sessions['samples']:,} samples)"
        )
        lines += _statements(document, width) or _waits(document)
    number = document["number"]
    state = "" if document["is_complete"] else ", ended early: results until then"
    lines += page.row("saved", f"#{number}{state}   pgdyno report {number}")
    return joined(lines)


def _seen(document: Document) -> Iterator[tuple[str, str]]:
    """Yield the label and the words of every row."""
    parts = [
        f"{document['seconds_seen']:,.0f} of {document['seconds_asked']:,.0f} s observed",
        _cost(document),
        format_bytes(document["bytes"]),
    ]
    if document["bytes_per_hour"] and document["seconds"] >= 60:
        parts[-1] += f", {format_bytes(int(document['bytes_per_hour']))} per hour"
    yield "done", "; ".join(part for part in parts if part)
    if document["gap_count"]:
        lengths = [f"{gap['seconds']:.0f} s" for gap in document["gaps"][:_SHOWN]]
        more = ", ..." if document["gap_count"] > len(lengths) else ""
        yield "gaps", f"{document['gap_count']}: {', '.join(lengths)}{more}"
    if document["reset_count"]:
        count = document["reset_count"]
        yield "resets", f"{count} of the statistics: the samples at that time are left out"
    if document["tps"] is not None:
        wal = document["wal_bytes_per_second"] or 0.0
        hits = document["hit_ratio"]
        cached = f", {hits:.1%} of blocks found in shared_buffers" if hits is not None else ""
        tps = f"{document['tps']:,.1f} tps on the whole server"
        yield "counted", f"{tps}, WAL {wal / 1e6:.2f} MB/s{cached}"
    if document["tps"] is not None and not document["sessions_at_work"]["samples"]:
        yield "sessions", "not visible to this role (pgdyno doctor)"
    for change in document.get("settings_changed", ()):
        yield "changed", f"{change['name']}: {change['before']} -> {change['after']}"
    doctor = document["doctor"]
    if doctor.get("bad"):
        yield "doctor", f"{doctor['bad']} bad, {doctor['warn']} doubtful: pgdyno doctor"


def _cost(document: Document) -> str:
    cost = document["cost"]
    if cost is None:
        return ""
    here = f"pgdyno uses {cost['lab_cores']:.1%} of a core here"
    there = cost["server_cores"]
    return here + (f", {there:.1%} of a server core" if there is not None else "")


def _statements(document: Document, width: int) -> list[str]:
    """Return one row a statement; empty when the server tells no statements apart."""
    rows = []
    room = width - _BESIDE_STATEMENT
    for statement in document["statements"][:_SHOWN]:
        if not statement["text"]:
            continue
        # A statement is cut at the space it has; the document holds more of it.
        text = shortened(statement["text"], room)
        rows.append(f"  {statement['share_ratio']:4.0%}  {text:{room}}  {_why(statement)}"[:width])
    return rows


def shortened(text: str, room: int) -> str:
    """Return a statement in one line of at most `room` signs."""
    text = " ".join(text.split())
    return text if len(text) <= room else text[: room - 1] + "…"


def _why(statement: Document) -> str:
    worst = statement["waits"][0]
    # Results of older versions know only what pg_stat_statements timed.
    ms = statement.get("db_ms_per_call") or statement["ms_per_call"]
    if ms is None:
        return str(worst["wait_event"])
    waiting_ms = compact_ms(ms * worst["share_ratio"])
    return f"{compact_ms(ms)} ms per call, {worst['wait_event']} {waiting_ms}"


def _waits(document: Document) -> list[str]:
    return [
        f"  {wait['share_ratio']:4.0%}  {wait['sessions']:8.3g}  {wait['wait_event']}"
        for wait in document["waits"][:_SHOWN]
    ]
