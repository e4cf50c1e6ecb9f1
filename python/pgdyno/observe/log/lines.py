"""Parses lines of a server's log into events: kind, severity, SQLSTATE, time, duration, size.

Statement texts and messages are not kept. Limits: kinds are recognised by their English messages.
If the server writes another language, only errors are recognised, by their SQLSTATE (csvlog,
jsonlog).
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Literal

Format = Literal["stderr", "csvlog", "jsonlog"]

_STAMP = r"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?)"
_ESCAPES = {
    "m": rf"{_STAMP} \S+",
    "t": rf"{_STAMP} \S+",
    "n": r"(?P<epoch>\d+\.\d+)",
    "e": r"(?P<sqlstate>[0-9A-Z]{5})",
    "p": r"\d+",
    "l": r"\d+",
    "%": "%",
    "q": "",
}
_SEVERITY = r"(?P<severity>LOG|ERROR|FATAL|PANIC|WARNING):  (?P<message>.*)"
_NUMBER = r"([\d.]+)"
# Kind, pattern of the message; groups: what, duration with its unit, bytes.
_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.DOTALL))
    for kind, pattern in (
        ("checkpoint_began", r"(?:check|restart)point starting: (?P<what>[\w -]*)"),
        ("checkpoint", rf"(?:check|restart)point complete: .*total={_NUMBER} s"),
        ("temporary_file", r"temporary file: .* size (?P<bytes>\d+)"),
        ("lock_wait", rf"process \d+ still waiting for (?P<what>\w+) .* after {_NUMBER} ms"),
        ("lock_acquired", rf"process \d+ acquired (?P<what>\w+) .* after {_NUMBER} ms"),
        (
            "autovacuum",
            r'automatic (?:aggressive )?vacuum (?:to prevent wraparound )?of table "(?P<what>[^"]+)'
            rf'".*elapsed: {_NUMBER} s',
        ),
        (
            "autoanalyze",
            rf'automatic analyze of table "(?P<what>[^"]+)".*elapsed: {_NUMBER} s',
        ),
        ("slow_statement", rf"duration: {_NUMBER} ms"),
        ("crash", r"server process \(PID \d+\) was terminated by (?P<what>signal \d+)"),
        ("started", r"database system is ready to accept"),
        ("stopping", r"received (?P<what>\w+) shutdown request"),
        ("deadlock", r"deadlock detected"),
    )
)


@dataclass(frozen=True, slots=True)
class LogEvent:
    """One event; None and "" mean that the line does not have the value."""

    time_ns: int
    kind: str
    severity: str
    sqlstate: str = ""
    what: str = ""
    duration_ns: int | None = None
    size_bytes: int | None = None


def prefix_pattern(log_line_prefix: str) -> re.Pattern[str]:
    """Return the pattern of the start of a line, made from the setting log_line_prefix."""
    parts: list[str] = []
    known: set[str] = set()
    for literal, padding, escape in re.findall(r"([^%]+)|%(-?\d+)?([A-Za-z%])", log_line_prefix):
        if literal:
            parts.append(re.escape(literal))
            continue
        pattern = _ESCAPES.get(escape, ".*?")
        name = re.search(r"\?P<(\w+)>", pattern)
        if name is not None and name[1] in known:
            pattern = ".*?"
        elif name is not None:
            known.add(name[1])
        parts.append(rf"\s*{pattern}\s*" if padding else pattern)
    return re.compile("".join(parts) + _SEVERITY, re.DOTALL)


def events_of_stderr(
    lines: Iterable[str], prefix: re.Pattern[str], zone: tzinfo
) -> Iterator[LogEvent]:
    """Yield the events in whole lines; a line that begins with a tab continues the line before."""
    joined: list[str] = []
    for line in lines:
        if line.startswith("\t") and joined:
            joined[-1] += "\n" + line
        else:
            joined.append(line)
    for text in joined:
        match = prefix.match(text)
        if match is None:
            continue
        groups = match.groupdict()
        if groups.get("epoch"):
            time_ns = round(float(groups["epoch"]) * 1000) * 1_000_000
        else:
            time_ns = _unix_ns(groups.get("time") or "", zone)
        event = _event(time_ns, match["severity"], groups.get("sqlstate") or "", match["message"])
        if event is not None:
            yield event


def events_of_csv(lines: Iterable[str], zone: tzinfo) -> Iterator[LogEvent]:
    """Yield the events of csvlog; columns as of every version since 9.6."""
    for row in csv.reader(lines):
        if len(row) > 13:
            event = _event(_unix_ns(row[0], zone), row[11], row[12], row[13])
            if event is not None:
                yield event


def events_of_json(lines: Iterable[str], zone: tzinfo) -> Iterator[LogEvent]:
    """Yield the events of jsonlog (15)."""
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        words = (str(row.get(name, "")) for name in ("error_severity", "state_code", "message"))
        event = _event(_unix_ns(str(row.get("timestamp", "")), zone), *words)
        if event is not None:
            yield event


def _event(time_ns: int, severity: str, sqlstate: str, message: str) -> LogEvent | None:
    """Return the event of a message, None for messages that are not collected."""
    state = "" if sqlstate == "00000" else sqlstate
    for kind, pattern in _KINDS:
        match = pattern.match(message)
        if match is None:
            continue
        groups = match.groupdict()
        unnamed = [text for text in match.groups() if text and text not in groups.values()]
        unit_ns = 1_000_000 if " ms" in match[0][-4:] else 1_000_000_000
        return LogEvent(
            time_ns,
            kind,
            severity,
            state,
            what=groups.get("what") or "",
            duration_ns=round(float(unnamed[0]) * unit_ns) if unnamed else None,
            size_bytes=int(groups["bytes"]) if groups.get("bytes") else None,
        )
    if severity in ("ERROR", "FATAL", "PANIC"):
        return LogEvent(time_ns, "error", severity, state)
    return None


def _unix_ns(text: str, zone: tzinfo) -> int:
    """Return the time of "2026-11-20 20:49:43.123 UTC"; 0 if the text is not a time."""
    try:
        moment = datetime.fromisoformat(" ".join(text.split()[:2]))
    except ValueError:
        return 0
    return round(moment.replace(tzinfo=zone).astimezone(UTC).timestamp() * 1000) * 1_000_000
