"""Calls and texts of statements, read from pg_stat_statements before and after a watch.

Texts are kept only for the statements with the most time, and for statements that were shown.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import psycopg

from pgdyno.clock import monotonic_ns
from pgdyno.errors import PgdynoError
from pgdyno.features.doctor.session import read_only
from pgdyno.measure.statement_texts import SCHEMA_SQL, TEXTS_SQL, shown_texts
from pgdyno.observe.collector import SECOND_NS, Column, Row, Scope
from pgdyno.observe.session import ServerSession
from pgdyno.process import signals
from pgdyno.server.target import Target

# Without texts, because the server must read these from a separate file.
CALLS_SQL = (
    "SELECT queryid, sum(calls)::int8, sum(total_exec_time)::float8"
    " FROM {schema}.pg_stat_statements(false) WHERE queryid IS NOT NULL GROUP BY 1"
)


@dataclass(frozen=True, slots=True)
class Calls:
    """The counts of pg_stat_statements at one moment: query id -> calls and ms.

    `at_ns`: the moment on the monotonic clock.
    """

    by_statement: dict[int, tuple[int, float]] = field(default_factory=dict)
    at_ns: int = 0
    texts: dict[int, str] = field(default_factory=dict)


def statements(schema: str = "public") -> dict[str, str]:
    """Return name -> every statement that this file may send.

    Args: schema, the schema of pg_stat_statements.
    """
    return {
        "sessions of before, before and after": OTHERS_SQL,
        "pg_stat_statements, before and after": SCHEMA_SQL,
        "calls of statements, before and after": CALLS_SQL.format(schema=schema),
        "texts of the most expensive statements, before and after; texts of new ones at most "
        "every 30 s": (TEXTS_SQL.format(schema=schema)),
    }


def read_calls(target: Target, texts_of: Callable[[Calls], Iterable[int]]) -> Calls:
    """Return the calls of all statements; empty if the server does not count them.

    Never raises: the watch is worth keeping without these calls.
    Args: texts_of, returns the query ids whose texts are read, too.
    """
    try:
        with read_only(target, "watch") as (session, _):
            schemas = session.fetch(SCHEMA_SQL)
            if not schemas:
                return Calls()
            schema = str(schemas[0][0])
            rows, at_ns = session.fetch(CALLS_SQL.format(schema=schema)), monotonic_ns()
            seen = {int(query): (int(calls), float(ms)) for query, calls, ms in rows}
            calls = Calls(seen, at_ns)
            if wanted := sorted(texts_of(calls)):
                sql = TEXTS_SQL.format(schema=schema)
                return replace(calls, texts=shown_texts(session.fetch(sql, [wanted])))
            return calls
    except (PgdynoError, psycopg.Error):
        return Calls()


def dearest(calls: Calls, count: int) -> list[int]:
    """Return the query ids with the largest total time, largest first."""
    by_time = sorted(calls.by_statement, key=lambda query: -calls.by_statement[query][1])
    return by_time[:count]


def grown(before: Calls, after: Calls, query_id: int) -> tuple[int, float] | None:
    """Return calls, and ms for each call, between two readings; None if counts were reset."""
    if query_id not in after.by_statement:
        return None
    calls, ms = after.by_statement[query_id]
    calls_before, ms_before = before.by_statement.get(query_id, (0, 0.0))
    if calls <= calls_before or ms < ms_before:
        return None
    return calls - calls_before, (ms - ms_before) / (calls - calls_before)


def most_called(before: Calls, after: Calls) -> tuple[int, int]:
    """Return the query id with most calls between two readings, and the calls; 0, 0 without any."""
    every = ((query, grown(before, after, query)) for query in after.by_statement)
    called = [(query, counted[0]) for query, counted in every if counted is not None]
    return max(called, key=lambda pair: pair[1], default=(0, 0))


def counted_ms(before: Calls, after: Calls) -> float:
    """Return the time between two readings, in ms."""
    return (after.at_ns - before.at_ns) / 1e6


ASKED_MAX = 10
# Texts are read again after this time, or after 1000 times the duration of the last reading.
REST_NS_MIN = 30 * SECOND_NS
REST_RATIO = 1000
# A statement is not counted before its first execution ends, so it is read up to three times.
_TRIES = 3
# In a watch of days new statements never end. The oldest are forgotten first.
KEPT_MAX = 1_000


class KnownTexts:
    """Texts by query id: those from the begin of the watch, and those read later.

    Code that shows texts asks here. A thread of the observer then reads the unknown texts.
    """

    def __init__(self, texts: Mapping[int, str]) -> None:
        self._lock = threading.Lock()
        self._texts = dict(texts)
        self._tries: dict[int, int] = {}

    def of(self, query_id: int) -> str | None:
        """Return the text; if it is unknown, None, and `wanted` returns its query id."""
        with self._lock:
            text = self._texts.get(query_id)
            if text is None and query_id not in self._tries:
                self._tries[query_id] = 0
                _forget_oldest(self._tries)
            return text

    def wanted(self) -> list[int]:
        """Return at most ten query ids without texts, those that were read least often first."""
        with self._lock:
            open_ones = [query_id for query_id, tries in self._tries.items() if tries < _TRIES]
            return sorted(open_ones, key=lambda query_id: self._tries[query_id])[:ASKED_MAX]

    def learn(self, asked: list[int], texts: Mapping[int, str]) -> None:
        """Keep the texts of a reading. Args: asked, the query ids of this reading."""
        with self._lock:
            self._texts |= texts
            _forget_oldest(self._texts)
            for query_id in asked:
                if query_id in texts:
                    self._tries.pop(query_id, None)
                elif query_id in self._tries:
                    self._tries[query_id] += 1

    def all(self) -> dict[int, str]:
        """Return all known texts by query id."""
        with self._lock:
            return dict(self._texts)


def _forget_oldest(kept: dict[int, Any]) -> None:
    while len(kept) > KEPT_MAX:
        del kept[next(iter(kept))]


class NewTextsCollector:
    """Reads unknown texts. It has no rows; only its cost is stored."""

    name: ClassVar[str] = "statement_texts"
    scope: ClassVar[Scope] = "database"
    meaning: ClassVar[str] = "Texts of statements that are shown for the first time"
    interval_ns: ClassVar[int] = SECOND_NS
    columns: ClassVar[tuple[Column, ...]] = ()

    def __init__(self, session: ServerSession, texts: KnownTexts) -> None:
        self._session, self._texts = session, texts
        self._due_ns = 0

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Read wanted texts if it is time; return no rows."""
        wanted = self._texts.wanted()
        began_ns = monotonic_ns()
        if not wanted or began_ns < self._due_ns:
            return []
        try:
            schemas = self._session.fetch(SCHEMA_SQL)
            sql = TEXTS_SQL.format(schema=schemas[0][0]) if schemas else ""
            self._texts.learn(
                wanted, shown_texts(self._session.fetch(sql, [wanted]) if sql else [])
            )
        finally:
            ended_ns = monotonic_ns()
            self._due_ns = ended_ns + max(REST_NS_MIN, REST_RATIO * (ended_ns - began_ns))
        return []


_VERB = "watch"
_POLL_S = 0.02
_PATIENCE_NS = 2_000_000_000

OTHERS_SQL = (
    "SELECT 1 FROM pg_catalog.pg_stat_get_activity(NULL)"
    f" WHERE application_name = 'pgdyno/{_VERB}/control' AND pid <> pg_backend_pid() LIMIT 1"
)


def settle(target: Target) -> None:
    """Wait until the sessions that read the server before a watch have ended.

    A backend reports its transactions when it ends. In the first second of a watch they would look
    like transactions of others. Never raises: the observer reports a server without answer.
    """
    deadline_ns = monotonic_ns() + _PATIENCE_NS
    try:
        with read_only(target, _VERB) as (session, _):
            while session.fetch(OTHERS_SQL) and monotonic_ns() < deadline_ns:
                signals.sleep(_POLL_S)
            session.report_transactions()
    except (PgdynoError, psycopg.Error):
        return
