"""Measures the round trip to the server, and how far the clocks differ.

It times a few connects over TCP, without a session, and SELECT 1 in a session for at most 40 ms.
Therefore it can be done before and after every run.
"""

from __future__ import annotations

import math
import socket
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import psycopg

from pgdyno.clock import ClockPair, monotonic_ns
from pgdyno.server.silence import answer, poll_of

Connection = psycopg.Connection[tuple[Any, ...]]
_BUDGET_NS = 40_000_000
# For each, the server starts a process: 1 to 3 ms of its CPU time.
_CONNECTS_MAX = 5
_STATEMENTS_MAX = 200
_CLOCK_SQL = b"SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8 * 1000"
_CONNECT_TIMEOUT_S = 2.0
_SILENCE_S_MAX = 5


@dataclass(frozen=True, slots=True)
class Times:
    """A few percentiles of durations of one kind."""

    count: int
    min_ns: int
    p50_ns: int
    p95_ns: int
    max_ns: int


@dataclass(frozen=True, slots=True)
class ServerClock:
    """How far the server's clock is ahead of the experiment's time axis, and the uncertainty."""

    ahead_ns: int
    uncertainty_ns: int


@dataclass(frozen=True, slots=True)
class RoundTrips:
    """The results of one measurement; None where nothing could be measured."""

    connect: Times | None
    statement: Times | None
    clock: ServerClock | None

    def as_document(self) -> dict[str, Any]:
        """Return JSON-able values."""
        return asdict(self)


def measure(connection: Connection, clock: ClockPair) -> RoundTrips:
    """Measure to the server that a connection in autocommit mode has reached.

    Takes at most 40 ms for each of the two kinds, unless one alone takes longer. `connect` is None
    at a Unix socket, where a connect has no way to the server.
    Raises: psycopg.Error when the connection is lost.
    """
    address = _address(connection)
    return RoundTrips(
        connect=None if address is None else _connects(address),
        statement=_times(_statements(connection, b"SELECT 1")),
        clock=_server_clock(connection, clock),
    )


def _connects(address: tuple[str, int]) -> Times | None:
    taken: list[int] = []
    began_ns = monotonic_ns()
    while len(taken) < _CONNECTS_MAX and monotonic_ns() - began_ns < _BUDGET_NS:
        asked_ns = monotonic_ns()
        try:
            with socket.create_connection(address, timeout=_CONNECT_TIMEOUT_S):
                taken.append(monotonic_ns() - asked_ns)
        except OSError:
            break
    return _times(taken)


def _statements(connection: Connection, sql: bytes) -> list[int]:
    taken: list[int] = []
    libpq, ready = connection.pgconn, poll_of(connection.pgconn)
    began_ns = monotonic_ns()
    while len(taken) < _STATEMENTS_MAX and monotonic_ns() - began_ns < _BUDGET_NS:
        asked_ns = monotonic_ns()
        libpq.send_query(sql)
        answer(libpq, ready, _SILENCE_S_MAX)
        taken.append(monotonic_ns() - asked_ns)
        if connection.closed:
            raise psycopg.OperationalError("the connection was lost")
    return taken


def _server_clock(connection: Connection, clock: ClockPair) -> ServerClock | None:
    """Return the difference of the clocks from the quickest of five answers."""
    best: ServerClock | None = None
    for _ in range(5):
        asked_ns = clock.now_ns()
        connection.pgconn.send_query(_CLOCK_SQL)
        told = answer(connection.pgconn, poll_of(connection.pgconn), _SILENCE_S_MAX)
        answered_ns = clock.now_ns()
        value = told.get_value(0, 0) if told.ntuples else None
        if value is None:
            return None
        uncertainty_ns = (answered_ns - asked_ns) // 2
        if best is None or uncertainty_ns < best.uncertainty_ns:
            ahead_ns = int(value) - (asked_ns + answered_ns) // 2
            best = ServerClock(ahead_ns, uncertainty_ns)
    return best


def _address(connection: Connection) -> tuple[str, int] | None:
    """Return where a session goes over TCP; None if it goes through a Unix socket."""
    info = connection.info
    if info.host.startswith(("/", "@")):
        return None
    return info.hostaddr or info.host, info.port


def _times(taken: Sequence[int]) -> Times | None:
    if not taken:
        return None
    ranked = sorted(taken)

    def percentile(ratio: float) -> int:
        return ranked[max(0, math.ceil(ratio * len(ranked)) - 1)]

    return Times(len(ranked), ranked[0], percentile(0.5), percentile(0.95), ranked[-1])
