"""Calls and texts of statements from pg_stat_statements, read once before and once after a watch.

Texts are kept only of the statements that took most time, and of those that were shown.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import psycopg

from pgdyno.clock import monotonic_ns
from pgdyno.doctor.session import read_only
from pgdyno.errors import PgdynoError
from pgdyno.measure.statement_texts import SCHEMA_SQL, TEXTS_SQL, shown_texts
from pgdyno.observe.collector import SECOND_NS, Column, Row, Scope
from pgdyno.observe.session import ServerSession
from pgdyno.process import signals
from pgdyno.server.target import Target

# Without the texts, which the server keeps in a separate file.
CALLS_SQL = (
    "SELECT queryid, sum(calls)::int8, sum(total_exec_time)::float8"
    " FROM {schema}.pg_stat_statements(false) WHERE queryid IS NOT NULL GROUP BY 1"
)


@dataclass(frozen=True, slots=True)
class Calls:
    """What pg_stat_statements had counted at one moment, by query id: calls and ms.

    `at_ns`: that moment, of the monotonic clock.
    """

    by_statement: dict[int, tuple[int, float]] = field(default_factory=dict)
    at_ns: int = 0
    texts: dict[int, str] = field(default_factory=dict)


def statements(schema: str = "public") -> dict[str, str]:
    """Return every statement this may send, the extension being in `schema`."""
    return {
        "sessions of before, before and after": OTHERS_SQL,
        "pg_stat_statements, before and after": SCHEMA_SQL,
        "calls of statements, before and after": CALLS_SQL.format(schema=schema),
        "texts of the most expensive statements, before and after; texts of new ones at most "
        "every 30 s": (TEXTS_SQL.format(schema=schema)),
    }


def read_calls(target: Target, *, texts_of: Sequence[int] = ()) -> Calls:
    """Return calls of all statements, and texts of those named; empty where none are counted.

    Never raises: whatever is wrong with the server, the watch is worth keeping.
    """
    try:
        with read_only(target, "watch") as (session, _):
            schemas = session.fetch(SCHEMA_SQL)
            if not schemas:
                return Calls()
            schema = str(schemas[0][0])
            rows, at_ns = session.fetch(CALLS_SQL.format(schema=schema)), monotonic_ns()
            calls = {int(query): (int(calls), float(ms)) for query, calls, ms in rows}
            texts: dict[int, str] = {}
            if texts_of:
                sql = TEXTS_SQL.format(schema=schema)
                texts = shown_texts(session.fetch(sql, [list(texts_of)]))
            return Calls(calls, at_ns, texts)
    except (PgdynoError, psycopg.Error):
        return Calls()


def dearest(calls: Calls, count: int) -> list[int]:
    """Return the query ids whose executions took most time in all."""
    by_time = sorted(calls.by_statement, key=lambda query: -calls.by_statement[query][1])
    return by_time[:count]


def grown(before: Calls, after: Calls, query_id: int) -> tuple[int, float] | None:
    """Return calls and ms a call between two readings; None where counting began again."""
    if query_id not in after.by_statement:
        return None
    calls, ms = after.by_statement[query_id]
    calls_before, ms_before = before.by_statement.get(query_id, (0, 0.0))
    if calls <= calls_before or ms < ms_before:
        return None
    return calls - calls_before, (ms - ms_before) / (calls - calls_before)


def counted_ms(before: Calls, after: Calls) -> float:
    """Return the time between two readings, ms."""
    return (after.at_ns - before.at_ns) / 1e6


ASKED_MAX = 10
# At least so long after the last question, and a thousand times as long as that took.
REST_NS_MIN = 30 * SECOND_NS
REST_RATIO = 1000
# One that is not counted yet (its first execution lasts) may be later; some never are.
_TRIES = 3
# Whatever runs for days has ever new statements; the oldest are forgotten first.
KEPT_MAX = 1_000


class KnownTexts:
    """Texts by query id: those known when the watch began, and those learnt since.

    Code that shows texts asks here; a thread of the observer then reads the unknown ones.
    """

    def __init__(self, texts: Mapping[int, str]) -> None:
        self._lock = threading.Lock()
        self._texts = dict(texts)
        self._tries: dict[int, int] = {}

    def of(self, query_id: int) -> str | None:
        """Return the text, None if it is not known: then it is wanted."""
        with self._lock:
            text = self._texts.get(query_id)
            if text is None and query_id not in self._tries:
                self._tries[query_id] = 0
                _forget_oldest(self._tries)
            return text

    def wanted(self) -> list[int]:
        """Return at most ten query ids that are wanted, those asked least often first."""
        with self._lock:
            open_ones = [query_id for query_id, tries in self._tries.items() if tries < _TRIES]
            return sorted(open_ones, key=lambda query_id: self._tries[query_id])[:ASKED_MAX]

    def learn(self, asked: list[int], texts: Mapping[int, str]) -> None:
        """Keep what was found of those asked."""
        with self._lock:
            self._texts |= texts
            _forget_oldest(self._texts)
            for query_id in asked:
                if query_id in texts:
                    self._tries.pop(query_id, None)
                elif query_id in self._tries:
                    self._tries[query_id] += 1

    def all(self) -> dict[int, str]:
        """Return all that are known."""
        with self._lock:
            return dict(self._texts)


def _forget_oldest(kept: dict[int, Any]) -> None:
    while len(kept) > KEPT_MAX:
        del kept[next(iter(kept))]


class NewTextsCollector:
    """Learns texts that are wanted; it has no rows, and only its cost is kept."""

    name: ClassVar[str] = "statement_texts"
    scope: ClassVar[Scope] = "database"
    meaning: ClassVar[str] = "Texts of statements that are shown for the first time"
    interval_ns: ClassVar[int] = SECOND_NS
    columns: ClassVar[tuple[Column, ...]] = ()

    def __init__(self, session: ServerSession, texts: KnownTexts) -> None:
        self._session, self._texts = session, texts
        self._due_ns = 0

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Ask for what is wanted, if it is time; return nothing."""
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
    """Wait until the sessions a watch begins with have ended, and are counted as done.

    A backend reports what it did when it ends: in the first second of a watch that would look like
    somebody's transactions. Never raises: a server that does not answer is for the observer to say.
    """
    deadline_ns = monotonic_ns() + _PATIENCE_NS
    try:
        with read_only(target, _VERB) as (session, _):
            while session.fetch(OTHERS_SQL) and monotonic_ns() < deadline_ns:
                signals.sleep(_POLL_S)
            session.report_transactions()
    except (PgdynoError, psycopg.Error):
        return
