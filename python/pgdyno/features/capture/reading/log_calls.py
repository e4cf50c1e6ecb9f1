"""Calls of statements in a log, as the reader passes them on; values are unpacked late."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pgdyno.features.capture.reading.log_statements import LoggedShape, LoggedStatement

_decode = json.JSONDecoder().raw_decode

Value = str | None | bool | list[Any] | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LoggedSession:
    """A session of the log. `number`: of the reader."""

    number: int
    id: str
    user: str
    database: str
    application: str


@dataclass(slots=True)
class Call:
    """One call of a statement. Times: microseconds of the server's clock; None: not known.

    `packed`: its values as the reader writes them.
    """

    session: LoggedSession
    began_us: int
    duration_us: int | None
    statement: LoggedStatement
    protocol: str
    packed: bytes
    shape: LoggedShape | None = None

    @property
    def exact(self) -> tuple[str, list[Value]]:
        """Return the text with its constants, as it was sent, and the values of `$1` and so on."""
        assert self.shape is not None, "the call is not from a log"
        parameters, constants = _unpacked(self.packed)
        return self.shape.exact(constants), parameters

    @property
    def values(self) -> tuple[Value, ...]:
        """Return the values of `$1` and so on; None is NULL, False is not known."""
        return self.statement.values_of(*_unpacked(self.packed))

    @property
    def is_error(self) -> bool:
        """Return whether it failed."""
        return self.protocol == "error"


@dataclass(slots=True)
class Pattern:
    """Statements that follow each other: their shapes, and how each was sent.

    `missing_count`: how many that did not fail lack parameters. `plans`: what becomes of them, by
    user.
    """

    items: Sequence[tuple[LoggedShape, str]]
    missing_count: int
    plans: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class SessionPart:
    """Calls of a session that follow each other, a whole transaction if the log has it.

    `is_first`: its first line is the first one of the session. `cut_count`: calls with cut values.
    `packed`: times and values of the calls.
    """

    session: LoggedSession
    pattern: Pattern
    is_first: bool
    cut_count: int
    began_us: int
    ended_us: int
    busy_us: int
    packed: bytes

    def calls(self) -> Iterator[Call]:
        """Yield the calls."""
        times, *values = self.packed.split(b"\t")
        of_calls = zip(self.pattern.items, times_of(times, self.began_us), values, strict=True)
        for (shape, protocol), (began_us, took_us), packed in of_calls:
            statement = shape.plain or shape.statement(*reversed(_unpacked(packed)))
            yield Call(self.session, began_us, took_us, statement, protocol, packed, shape)


def times_of(packed: bytes, began_us: int) -> list[tuple[int, int | None]]:
    """Return when each call began, and how long it took. Args: packed, `[0,7,1200,-1],`."""
    numbers = list(map(int, packed[1 : packed.index(b"]")].split(b",")))
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    return [(began_us + offset, None if took < 0 else took) for offset, took in pairs]


def packed_calls(calls: Sequence[Call]) -> bytes:
    """Return times and values of calls as the reader writes them."""
    first_us = calls[0].began_us
    times = (
        f"{call.began_us - first_us},{-1 if call.duration_us is None else call.duration_us}"
        for call in calls
    )
    return b"\t".join([f"[{','.join(times)}],".encode(), *(call.packed for call in calls)])


def _unpacked(packed: bytes) -> tuple[list[Value], list[Value]]:
    """Return parameters and constants."""
    text = packed.rstrip(b",")
    if text == b"0":
        return [], []
    (parameters, constants), _ = _decode(text.decode())
    return parameters, constants
