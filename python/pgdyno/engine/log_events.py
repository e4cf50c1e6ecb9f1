"""What a server's log says about the server: the engine reads the log, and returns its events."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pgdyno.engine.executable import engine_path
from pgdyno.errors import EngineError
from pgdyno.process import child


@dataclass(frozen=True, slots=True)
class LogEvent:
    """One event; None and "" mean that the log does not have the value."""

    time_ns: int | None
    kind: str
    severity: str
    sqlstate: str = ""
    what: str = ""
    duration_ns: int | None = None
    size_bytes: int | None = None
    user: str = ""
    application: str = ""
    pid: int | None = None


def events_in(lines: bytes, log_line_prefix: str) -> list[LogEvent]:
    """Return the events in whole lines of a log of any form.

    Raises: EngineError if the engine cannot be started.
    """
    with tempfile.TemporaryFile() as given:
        given.write(lines)
        given.seek(0)
        return list(_read(["--prefix", log_line_prefix, "-"], given.fileno()))


def events_of(path: Path) -> Iterator[LogEvent]:
    """Yield the events of a log file of any form, which gzip or zstd may have compressed.

    Raises: EngineError if the file is damaged, after the events before the damage.
    """
    yield from _read([str(path.absolute())], subprocess.DEVNULL)


def _read(arguments: list[str], stdin: int) -> Iterator[LogEvent]:
    # No signal of a thread's end: the reader ends by itself.
    with child.start(
        [engine_path(), "read-events", *arguments],
        name="pgdyno-engine read-events",
        stdin=stdin,
        stdout=subprocess.PIPE,
        death_signal=None,
    ) as reader:
        for line in reader.lines():
            said = json.loads(line)
            if "damaged" in said:
                raise EngineError(f"The log could not be read to its end: {said['damaged']}.")
            yield LogEvent(**said)
