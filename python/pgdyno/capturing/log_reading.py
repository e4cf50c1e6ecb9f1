"""Logs of a server: what the engine's reader says of them, as calls of statements by session."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgdyno.capturing.log_statements import LoggedShape, LoggedStatement
from pgdyno.capturing.names import Names
from pgdyno.engine.executable import engine_for_jobs
from pgdyno.errors import EngineError, SpecError
from pgdyno.process import child

# What the reader refuses, and what to do.
_HINTS = {
    "prefix": "give the value of the setting: --log-line-prefix '%m [%p] %q%u@%d '",
    "no_session": "without it sessions cannot be told apart: add %c, SELECT pg_reload_conf(),"
    " and capture a newer log; csvlog and jsonlog always have it",
    "no_time": "add %m to log_line_prefix and capture a newer log",
    "formats": "give the files of one format; a server may write the same to several",
    "file": "name files that this user may read",
}


Value = str | None | bool | list[Any] | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Session:
    """A session of the log."""

    id: str
    user: str
    database: str
    application: str


@dataclass(slots=True)
class Call:
    """One call of a statement. Times: microseconds of the server's clock; None: not known.

    `values`: of `$1` and so on; None is NULL, False is not known.
    """

    session: Session
    began_us: int
    duration_us: int | None
    statement: LoggedStatement
    values: tuple[Value, ...]
    protocol: str
    virtual_transaction: str
    line_number: int
    is_error: bool = False


@dataclass(slots=True)
class Seen:
    """What the reader says about a log as a whole."""

    files: list[Mapping[str, Any]]
    damaged: list[Mapping[str, Any]]
    end: Mapping[str, Any]


class LogReading:
    """Reads logs once. `seen` is complete when `calls` has ended."""

    def __init__(
        self, paths: Sequence[Path], names: Names, *, prefix: str | None, is_certain: bool
    ) -> None:
        """Args: is_certain, whether the prefix must be right; else usual ones are tried."""
        self._paths, self._names = paths, names
        self._prefix, self._is_certain = prefix, is_certain
        self._shapes: dict[int, LoggedShape] = {}
        self._sessions: dict[int, Session] = {}
        self._waiting: dict[str, Call] = {}
        self.seen = Seen([], [], {})

    def calls(self) -> Iterator[Call]:
        """Yield the calls in the order of the log.

        A call is yielded when its duration is known, or when its session goes on.
        Raises: SpecError if the files are refused, EngineError if the reader ends early.
        """
        for line in self._lines():
            if "do" in line:
                yield from self._of_session(line)
            elif line:
                self._introduce(line)
        yield from self._waiting.values()
        self._waiting.clear()
        if not self.seen.end:
            raise EngineError("The reader of logs ended before the end of the log.")

    def _lines(self) -> Iterator[dict[str, Any]]:
        lines = self._lines_with([] if self._prefix is None else ["--prefix", self._prefix])
        first = next(lines, {})
        is_wrong = first.get("refused", {}).get("kind") == "prefix"
        if is_wrong and self._prefix is not None and not self._is_certain:
            yield from self._lines_with([])
            return
        yield first
        yield from lines

    def _lines_with(self, option: Sequence[str]) -> Iterator[dict[str, Any]]:
        with ExitStack() as stack:
            reader = stack.enter_context(
                child.start(
                    [engine_for_jobs(), "read-log", *option, *self._paths],
                    name="pgdyno-engine read-log",
                    stdout=subprocess.PIPE,
                )
            )
            assert reader.stdout is not None
            for text in reader.stdout:
                yield json.loads(text)

    def _introduce(self, line: Mapping[str, Any]) -> None:
        if "shape" in line:
            literals = [tuple(place) for place in line["literals"]]
            self._shapes[line["shape"]] = LoggedShape(
                line["sql"], literals, self._names, is_cut=line.get("cut", False)
            )
        elif "session" in line:
            names = [line[key] for key in ("id", "user", "database", "application")]
            self._sessions[line["session"]] = Session(*names)
        elif "file" in line:
            self.seen.files.append(line["file"])
        elif "damaged" in line:
            self.seen.damaged.append(line["damaged"])
        elif "end" in line:
            self.seen.end = line["end"]
        else:
            refused = line["refused"]
            raise SpecError(
                f"{refused['path']} cannot be read as a log of PostgreSQL: {refused['message']}.",
                hint=_HINTS[refused["kind"]],
            )

    def _of_session(self, line: Mapping[str, Any]) -> Iterator[Call]:
        session = self._sessions[line["s"]]
        waiting = self._waiting.pop(session.id, None)
        if line["do"] == "duration":
            if waiting is not None:
                waiting.duration_us = line["ns"] // 1000
                yield waiting
            return
        if waiting is not None:
            yield waiting
        if "shape" not in line:
            # An empty statement, as pools send it to test a connection, or an error without one.
            return
        call = self._call(session, line)
        if call.duration_us is None and not call.is_error:
            self._waiting[session.id] = call
        else:
            yield call

    def _call(self, session: Session, line: Mapping[str, Any]) -> Call:
        constants = line.get("constants", ())
        parameters = list(line.get("parameters", ()))
        statement = self._shapes[line["shape"]].statement(constants or [""] * 100, parameters)
        missing = statement.parameter_count - len(parameters)
        parameters += [False] * missing
        values = [*parameters, *(constants[at] for at in statement.positions if constants)]
        duration_us = line["ns"] // 1000 if "ns" in line else None
        took_us = (duration_us or 0) + line.get("prepared_ns", 0) // 1000
        named = "prepared" if line.get("name") else "extended"
        return Call(
            session=session,
            began_us=line["us"] - took_us,
            # Planning belongs to it: what is left is time of the client.
            duration_us=None if duration_us is None else took_us,
            statement=statement,
            values=tuple(values),
            protocol="simple" if line["do"] == "statement" else named,
            virtual_transaction=line.get("vx", ""),
            line_number=line.get("line", 0),
            is_error=line["do"] == "error",
        )
