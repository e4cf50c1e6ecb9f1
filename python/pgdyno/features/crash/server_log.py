"""What a server's log says about one recovery: when redo began and ended, and its WAL."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

_LINE = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) \S+ \[\d+\] LOG:\s+(.*)")
_STARTS = re.compile(r"redo starts at ([0-9A-F]+)/([0-9A-F]+)")
_DONE = re.compile(r"redo done at ([0-9A-F]+)/([0-9A-F]+)")


@dataclass(frozen=True, slots=True)
class Redo:
    """Redo of one recovery, in ns from the first line of the log; None if nothing was replayed."""

    began_ns: int | None = None
    ended_ns: int | None = None
    wal_bytes: int | None = None


def redo_in(log: str) -> Redo:
    """Return the redo of the last recovery in a log, which begins with the start of the server."""
    first: datetime | None = None
    began = ended = None
    from_lsn = to_lsn = 0
    for line in log.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        at = datetime.strptime(match[1], "%Y-%m-%d %H:%M:%S.%f")  # Only differences are used.
        first = first or at
        if lsn := _STARTS.search(match[2]):
            began, from_lsn = at, _position(lsn)
        elif lsn := _DONE.search(match[2]):
            ended, to_lsn = at, _position(lsn)
    if first is None or began is None or ended is None:
        return Redo()
    return Redo(
        round((began - first).total_seconds() * 1e9),
        round((ended - first).total_seconds() * 1e9),
        to_lsn - from_lsn,
    )


def _position(match: re.Match[str]) -> int:
    return (int(match[1], 16) << 32) + int(match[2], 16)
