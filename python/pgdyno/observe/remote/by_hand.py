"""Reads files that the user made: output of the host collector, or a table of other numbers.

A table is CSV with the columns time, name, value, unit; CloudWatch, Azure Monitor and sar can
export it. Times are Unix seconds, milliseconds or nanoseconds, or ISO 8601 (without zone: UTC).
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

from pgdyno.errors import SpecError
from pgdyno.observe.collector import SECOND_NS, Collector, Column, NotMeasurable, Row, Scope, key
from pgdyno.observe.host.collectors import of_server_host
from pgdyno.observe.host.disk import SpaceCollector, spaces_received
from pgdyno.observe.host.files import ReceivedFiles
from pgdyno.observe.remote.received import LASTING, files_of
from pgdyno.user_file import opened_lines

_OPTION = "--host-file"
# A file that is one long line is not read whole to find this out.
_FIRST_LINE_MAX = 1000
_HEADER = ["time", "name", "value", "unit"]
# Smaller numbers are seconds, then milliseconds, then nanoseconds (until the year 5138).
_SECONDS_MAX, _MILLISECONDS_MAX = 10**11, 10**14


@dataclass(frozen=True, slots=True)
class Laid:
    """Rows of one instant of one table."""

    collector: str
    time_ns: int
    rows: list[Row]


class OutsideCollector:
    """Numbers from other tools; pgdyno only places them on the time axis."""

    name: ClassVar[str] = "outside"
    scope: ClassVar[Scope] = "host"
    meaning: ClassVar[str] = "Numbers from other tools: time, name, value, unit"
    interval_ns: ClassVar[int] = SECOND_NS
    columns: ClassVar[tuple[Column, ...]] = (
        key("name", "as the file names it"),
        key("unit", "as the file gives it"),
        Column("value", "float64", "as `unit` says", "the value"),
    )

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Return nothing: these numbers come from files."""
        return []


def read_by_hand(path: Path, *, ahead_ns: int = 0) -> Iterator[Laid]:
    """Yield the samples of a file, in its order, on our time axis.

    Args: ahead_ns, how far the clock of the file's host is ahead of ours.
    Raises: SpecError with the line if the file is neither output of the collector nor a table.
    """
    with opened_lines(path, of=_OPTION, newline="") as lines:
        first = lines.readline(_FIRST_LINE_MAX)
        lines.seek(0)
        if first.startswith("@ready"):
            samples = _samples(lines)
        elif [word.strip().lower() for word in first.split(",")] == _HEADER:
            samples = _table(path, lines)
        else:
            raise SpecError(
                f"--host-file {path}: line 1 is neither '@ready', as the host collector begins,"
                f" nor '{','.join(_HEADER)}'.",
                hint="pgdyno watch --print-collector > collector.sh; sh collector.sh 1 600",
            )
        for sample in samples:
            yield Laid(sample.collector, sample.time_ns - ahead_ns, sample.rows)


def facts_by_hand(path: Path) -> Iterator[tuple[int, ReceivedFiles]]:
    """Yield the doctor's samples: time on that host's clock, and files.

    The disks' health comes before each sample.

    Raises: SpecError for a file that cannot be read.
    """
    with opened_lines(path, of=_OPTION, newline="") as lines:
        health: dict[str, str] = {}
        for what, time_ns, block in _blocks(lines):
            if what == "health":
                health = files_of(block)
            elif what == "facts":
                yield time_ns, ReceivedFiles(health | files_of(block))


def _samples(lines: Iterator[str]) -> Iterator[Laid]:
    files = ReceivedFiles()
    collectors: list[Collector] = [
        *of_server_host(files, dict),
        SpaceCollector(lambda: spaces_received(files)),
    ]
    for what, time_ns, block in _blocks(lines):
        if what == "health":
            continue
        files.replace(files_of(block), keeping=LASTING if what == "fast" else ())
        yield from _collected(collectors, time_ns)


def _blocks(lines: Iterator[str]) -> Iterator[tuple[str, int, list[str]]]:
    """Yield whole samples: fast, slow, facts or health, when, and their lines."""
    what, time_ns = "", 0
    block: list[str] = []
    for raw in lines:
        line = raw.rstrip("\r\n")
        if line.startswith("@sample"):
            _, what, text = line.split()
            time_ns, block = int(text), []
        elif line == "@end" and what:
            yield what, time_ns, block
            what = ""
        elif what:
            block.append(line)


def _collected(collectors: list[Collector], time_ns: int) -> Iterator[Laid]:
    for collector in list(collectors):
        try:
            rows = collector.sample(time_ns)
        except NotMeasurable:
            collectors.remove(collector)
        except (OSError, ValueError, KeyError):
            continue  # An incomplete sample.
        else:
            if rows:
                yield Laid(collector.name, time_ns, rows)


def _table(path: Path, lines: Iterator[str]) -> Iterator[Laid]:
    reader = csv.DictReader(lines, fieldnames=_HEADER)
    next(reader)
    for row in reader:
        try:
            time_ns, value = _time_ns(row["time"]), float(row["value"])
        except (ValueError, TypeError, AttributeError):
            raise SpecError(
                f"--host-file {path}, line {reader.line_num}: time and value are needed, got"
                f" {row['time']!r} and {row['value']!r}.",
                hint="2026-11-20T20:15:00Z,cpu,41.5,%",
            ) from None
        name, unit = (row["name"] or "").strip(), (row["unit"] or "").strip()
        yield Laid("outside", time_ns, [{"name": name, "unit": unit, "value": value}])


def _time_ns(text: str) -> int:
    words = text.strip()
    try:
        number = float(words)
    except ValueError:
        moment = datetime.fromisoformat(words)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return round(moment.timestamp() * 1_000_000) * 1000
    if number < _SECONDS_MAX:
        return round(number * 1e9)
    return round(number * 1e6) if number < _MILLISECONDS_MAX else int(words.partition(".")[0])
