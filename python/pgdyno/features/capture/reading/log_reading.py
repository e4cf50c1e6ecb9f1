"""Logs of a server: what the engine's reader says of them, as parts of sessions."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgdyno.engine.executable import engine_for_jobs
from pgdyno.errors import EngineError, SpecError
from pgdyno.features.capture.reading.log_calls import LoggedSession, Pattern, SessionPart
from pgdyno.features.capture.reading.log_statements import LoggedShape
from pgdyno.features.capture.reading.names import Names
from pgdyno.process import child

# What the reader refuses, and what to do.
_HINTS = {
    "prefix": "give the value of the setting: --log-line-prefix '%m [%p] %q%u@%d '",
    "no_session": "without it sessions cannot be told apart: add %c, SELECT"
    " pg_catalog.pg_reload_conf(), and capture a newer log; csvlog and jsonlog always have it",
    "no_time": "add %m to log_line_prefix and capture a newer log",
    "newest_first": "reverse it: tac FILE > REVERSED",
    "formats": "give the files of one format; a server may write the same to several",
    "file": "name files that this user may read",
}
_IF_GUESSED = "; if the setting had it, give its value: --log-line-prefix '%m [%p] %q%u@%d '"


@dataclass(slots=True)
class Seen:
    """What the reader says about a log as a whole."""

    files: list[Mapping[str, Any]]
    damaged: list[Mapping[str, Any]]
    end: Mapping[str, Any]


class LogReading:
    """Reads logs once. `seen` is complete when `parts` has ended."""

    def __init__(
        self,
        paths: Sequence[Path],
        names: Names,
        *,
        prefix: str | None,
        is_certain: bool,
        keeps_whole: bool = False,
    ) -> None:
        """Prepare to read.

        Args: is_certain, whether the prefix must be right; else usual ones are tried.
        keeps_whole, whether long values come whole, and not only their beginning.
        """
        self._options = ["--whole-values"] if keeps_whole else []
        self._paths, self._names = paths, names
        self._prefix, self._is_certain = prefix, is_certain
        self._shapes: dict[int, LoggedShape] = {}
        self._patterns: dict[int, Pattern] = {}
        self._sessions: dict[int, LoggedSession] = {}
        self.seen = Seen([], [], {})

    def parts(self) -> Iterator[SessionPart | list[int]]:
        """Yield the calls of sessions in the order in which they ended, transaction by transaction.

        Numbers of sessions are yielded if they were not used for long and are forgotten.
        Raises: SpecError if the files are refused, EngineError if the reader ends early.
        """
        patterns, sessions = self._patterns, self._sessions
        for line in self._lines():
            if line[:1] == b"[":
                head = line[1:-2].split(b",", 7)
                pattern, session, first, cut, began_us, ended_us, busy_us = map(int, head[:7])
                yield SessionPart(
                    sessions[session],
                    patterns[pattern],
                    first == 1,
                    cut,
                    began_us,
                    ended_us,
                    busy_us,
                    head[7],
                )
                continue
            said = json.loads(line)
            if "gone" in said:
                yield said["gone"]
                for number in said["gone"]:
                    del sessions[number]
            else:
                self._introduce(said)
        if not self.seen.end:
            raise EngineError("The reader of logs ended before the end of the log.")

    def _lines(self) -> Iterator[bytes]:
        lines = self._lines_with([] if self._prefix is None else ["--prefix", self._prefix])
        first = next(lines, b"")
        is_wrong = json.loads(first or "{}").get("refused", {}).get("kind") == "prefix"
        if is_wrong and self._prefix is not None and not self._is_certain:
            yield from self._lines_with([])
            return
        if first:
            yield first
        yield from lines

    def _lines_with(self, option: Sequence[str]) -> Iterator[bytes]:
        with ExitStack() as stack:
            reader = stack.enter_context(
                child.start(
                    [engine_for_jobs(), "read-log", *self._options, *option, *self._paths],
                    name="pgdyno-engine read-log",
                    stdout=subprocess.PIPE,
                )
            )
            yield from reader.lines()

    def _introduce(self, line: Mapping[str, Any]) -> None:
        if "shape" in line:
            literals = [tuple(place) for place in line["literals"]]
            self._shapes[line["shape"]] = LoggedShape(
                line["sql"], literals, self._names, is_cut=line.get("cut", False)
            )
        elif "sequence" in line:
            shapes = self._shapes
            self._patterns[line["sequence"]] = Pattern(
                [(shapes[shape], protocol) for shape, protocol, _ in line["items"]],
                sum(
                    shapes[shape].parameter_count > count
                    for shape, protocol, count in line["items"]
                    if protocol != "error"
                ),
            )
        elif "session" in line:
            names = [line[key] for key in ("session", "id", "user", "database", "application")]
            self._sessions[line["session"]] = LoggedSession(*names)
        elif "forget" in line:
            self._patterns.clear()
            if line["forget"] == "shapes":
                self._shapes.clear()
        elif "file" in line:
            self.seen.files.append(line["file"])
        elif "damaged" in line:
            self.seen.damaged.append(line["damaged"])
        elif "end" in line:
            self.seen.end = line["end"]
        else:
            refused = line["refused"]
            is_guessed = self._prefix is None or not self._is_certain
            may_be_wrong = is_guessed and refused["kind"] in ("no_session", "no_time")
            raise SpecError(
                f"{refused['path']} cannot be read as a log of PostgreSQL: {refused['message']}.",
                hint=_HINTS[refused["kind"]] + (_IF_GUESSED if may_be_wrong else ""),
            )
