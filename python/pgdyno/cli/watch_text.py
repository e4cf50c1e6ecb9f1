"""A watch as text, from its document: what was seen, what it cost, where DB time went."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

from pgdyno.server.facts import format_bytes

_WIDTH = 100
_SHOWN = 5

Document = dict[str, Any]


def text_of(document: Document) -> str:
    """Return the whole text."""
    lines: list[str] = []
    for line in (f"target      {document['target']}", *_seen(document)):
        lines += textwrap.wrap(line, _WIDTH, subsequent_indent=" " * 12, break_on_hyphens=False)
    sessions = document["sessions_at_work"]
    if sessions["mean"]:
        lines.append(
            f"top of DB time ({sessions['mean']:.3g} sessions on average, at most"
            f" {sessions['peak']}; {sessions['samples']:,} samples)"
        )
        lines += _statements(document) or _waits(document)
    number = document["number"]
    state = "" if document["is_complete"] else ", ended early: what was seen until then"
    lines.append(f"saved       #{number}{state}   pgdyno report {number}")
    return "\n".join(line.rstrip() for line in lines)


def _seen(document: Document) -> Iterator[str]:
    parts = [
        f"{document['seconds_seen']:,.0f} of {document['seconds_asked']:,.0f} s seen",
        _cost(document),
        format_bytes(document["bytes"]),
    ]
    if document["bytes_per_hour"] and document["seconds"] >= 60:
        parts[-1] += f", {format_bytes(int(document['bytes_per_hour']))} an hour"
    yield f"done        {'; '.join(part for part in parts if part)}"
    if document["gap_count"]:
        lengths = [f"{gap['seconds']:.0f} s" for gap in document["gaps"][:_SHOWN]]
        more = ", ..." if document["gap_count"] > len(lengths) else ""
        yield f"gaps        {document['gap_count']}: {', '.join(lengths)}{more}"
    if document["reset_count"]:
        yield f"resets      {document['reset_count']} of the statistics: those samples are left out"
    if document["tps"] is not None:
        wal = document["wal_bytes_per_second"] or 0.0
        hits = document["hit_ratio"]
        cached = f", {hits:.1%} of blocks found in shared_buffers" if hits is not None else ""
        yield (
            f"counted     {document['tps']:,.1f} tps on the whole server, WAL {wal / 1e6:.2f} MB/s"
            f"{cached}"
        )
    for one in document.get("settings_changed", ()):
        yield f"changed     {one['name']}: {one['before']} -> {one['after']}"
    doctor = document["doctor"]
    if doctor.get("bad"):
        yield f"doctor      {doctor['bad']} bad, {doctor['warn']} doubtful: pgdyno doctor"


def _cost(document: Document) -> str:
    cost = document["cost"]
    if cost is None:
        return ""
    here = f"our cost {cost['lab_cores']:.1%} of a core here"
    there = cost["server_cores"]
    return here + (f", {there:.1%} of a server core" if there is not None else "")


def _statements(document: Document) -> list[str]:
    """Return one row a statement; empty when the server tells no statements apart."""
    rows = []
    for one in document["statements"][:_SHOWN]:
        if not one["text"]:
            continue
        # A statement is cut at the space it has; the document holds more of it.
        text = textwrap.shorten(one["text"], 44, placeholder=" ...")
        rows.append(f"  {one['share_ratio']:4.0%}  {text:44}  {_why(one)}")
    return [row if len(row) <= _WIDTH else row[:_WIDTH] for row in rows]


def _why(statement: Document) -> str:
    worst = statement["waits"][0]
    # Results of older versions know only what pg_stat_statements timed.
    ms = statement.get("db_ms_per_call") or statement["ms_per_call"]
    if ms is None:
        return str(worst["wait_event"])
    return f"{_ms(ms)} ms a call, {worst['wait_event']} {_ms(ms * worst['share_ratio'])}"


def _ms(value: float) -> str:
    """Return milliseconds as short as they mean something."""
    return f"{value:.2g}" if 0.01 <= value < 100 else f"{value:,.0f}" if value >= 100 else "<0.01"


def _waits(document: Document) -> list[str]:
    return [
        f"  {one['share_ratio']:4.0%}  {one['sessions']:8.3g}  {one['wait_event']}"
        for one in document["waits"][:_SHOWN]
    ]
