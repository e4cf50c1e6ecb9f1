"""A watch as text, from its document: the numbers, the cost of watching, where DB time went."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from pgdyno.features.watch.incident.shown import finding_lines
from pgdyno.features.watch.page_words import (
    WORKERS_COUNTED,
    by_waiters,
    call_ms,
    call_words,
    estimate_in,
    half_width,
    is_seen_enough,
    peak_words,
    sessions_words,
    why_sampled_words,
)
from pgdyno.quantities import compact_ms, counted, format_bytes, percent, plain
from pgdyno.report.numbers import interval_text, value_text
from pgdyno.report.text_page import WIDTH, TextPage, joined

_SHOWN = 5
# The path of the page is one line more.
_LINES_MAX = 24
_SHOWN_WITH_FINDINGS = 2
# Width of the share before a statement; on a wide page, width of share and wait events.
_BESIDE_SHARE = 13
_BESIDE_STATEMENT = 69
_WIDTH_OF_ONE_ROW = 90

Document = dict[str, Any]


def text_of(document: Document, width: int = WIDTH) -> str:
    """Return the whole text, in lines of at most `width` characters; with findings, 24 of them."""
    page = TextPage(width)
    lines: list[str] = []
    rest: list[str] = []
    findings = document.get("findings", ())
    for label, said in (("target", document["target"]), ("answer", document["sentence"])):
        lines += page.row(label, said)
    for label, said in _seen(document):
        rest += page.row(label, said)
    sessions = document["sessions_at_work"]
    if sessions["mean"]:
        rest += page.row("sessions", f"{sessions_words(sessions)}; {peak_words(sessions)}")
        # With findings, the page alone has the reason.
        if (why := why_sampled_words(sessions)) and not findings:
            rest += page.row("", why)
        if rows := _statements(document, width) or _waits(document):
            rest += ["top of DB time", *rows[: _SHOWN_WITH_FINDINGS if findings else _SHOWN * 2]]
    number = document["number"]
    state = "" if document["is_complete"] else ", ended early: results until then"
    rest += page.row("saved", f"#{number}{state}   pgdyno report {number}")
    room = _LINES_MAX - len(lines) - len(rest)
    return joined([*lines, *finding_lines(findings, width, room), *rest])


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
        cached = f", {percent(hits)} of blocks found in shared_buffers" if hits is not None else ""
        tps = f"{plain(document['tps'])} tps on the whole server{by_waiters(document)}"
        if document.get("tps_counts_parallel_workers"):
            yield "commits", f"at most {tps}: {WORKERS_COUNTED}"
            tps = ""
        yield "counted", f"{tps}{', ' * bool(tps)}WAL {plain(wal / 1e6)} MB/s{cached}"
    if document["tps"] is not None and not document["sessions_at_work"]["samples"]:
        yield "sessions", "not visible to this role (pgdyno doctor)"
    for change in document.get("settings_changed", ()):
        yield "changed", f"{change['name']}: {change['before']} -> {change['after']}"
    doctor = document["doctor"]
    if doctor.get("bad") and not document.get("findings"):
        yield "doctor", f"{doctor['bad']} bad, {doctor['warn']} doubtful: pgdyno doctor"


def _cost(document: Document) -> str:
    cost = document["cost"]
    if cost is None:
        return ""
    here = f"pgdyno uses {percent(cost['lab_cores'])} of a core here"
    there = cost["server_cores"]
    return here + (f", {percent(there)} of a server core" if there is not None else "")


def _statements(document: Document, width: int) -> list[str]:
    """Return one row a statement, two if the page is narrow; empty if no statement has a text."""
    rows = []
    is_narrow = width < _WIDTH_OF_ONE_ROW
    room = width - (_BESIDE_SHARE if is_narrow else _BESIDE_STATEMENT)
    for statement in document["statements"][:_SHOWN]:
        if not statement["text"]:
            continue
        # A statement is cut to the free width; the document has more of its text.
        text, why = shortened(statement["text"], room), _why(statement)
        row = f"  {_share(statement):9}  {text:{room}}"
        rows += [row, f"{'':{_BESIDE_SHARE}}{why}"] if is_narrow else [f"{row}  {why}"]
    return [row[:width] for row in rows]


def _share(part: Document) -> str:
    """Return " 41 % ±3", rounded up; " <3 %" if there are few sightings."""
    words = f"{100 * part['share_ratio']:3.0f} %"
    low, high = part.get("share_low_ratio"), part.get("share_high_ratio")
    if high is not None and not is_seen_enough(part):
        return f"{f'<{math.ceil(100 * high)}':>3} %"
    return words if low is None else f"{words} ±{math.ceil(50 * (high - low)) or 1}"


def shortened(text: str, room: int) -> str:
    """Return a statement in one line of at most `room` characters."""
    text = " ".join(text.split())
    return text if len(text) <= room else text[: room - 1] + "…"


def _why(statement: Document) -> str:
    worst, per_call = statement["waits"][0], call_ms(statement)
    if not is_seen_enough(statement):
        few = f"seen {counted(statement['sightings'], 'time')}"
        return few if per_call is None else f"{call_words(statement)} ms per call, {few}"
    if per_call is None:
        return str(worst["wait_event"])
    half = half_width(per_call)
    wide = "" if half is None else f" ±{compact_ms(half)}"
    waiting_ms = compact_ms(per_call.value * worst["share_ratio"])
    return f"{compact_ms(per_call.value)}{wide} ms per call, {worst['wait_event']} {waiting_ms} ms"


def _waits(document: Document) -> list[str]:
    return [
        f"  {100 * wait['share_ratio']:3.0f} %  {_sessions(wait):24}  {wait['wait_event']}"
        for wait in document["waits"][:_SHOWN]
    ]


def _sessions(part: Document) -> str:
    sessions = estimate_in(part, "sessions")
    assert sessions is not None, "every wait event has its sessions"
    ends = f" ({interval_text(sessions)})" if sessions.has_interval else ""
    return f"{value_text(sessions)}{ends}"
