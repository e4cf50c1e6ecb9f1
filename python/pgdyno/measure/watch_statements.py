"""Calls and texts of statements from pg_stat_statements, read once before and once after a watch.

Texts are kept only of the statements that took most time, and of those that were shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import psycopg

from pgdyno.doctor.session import read_only
from pgdyno.errors import PgdynoError
from pgdyno.measure.settling import OTHERS_SQL
from pgdyno.measure.statement_texts import SCHEMA_SQL, TEXTS_SQL, shown_texts
from pgdyno.server.target import Target

# Without the texts, which lie in a file of their own.
CALLS_SQL = (
    "SELECT queryid, sum(calls)::int8, sum(total_exec_time)::float8"
    " FROM {schema}.pg_stat_statements(false) WHERE queryid IS NOT NULL GROUP BY 1"
)


@dataclass(frozen=True, slots=True)
class Calls:
    """What pg_stat_statements had counted at one moment, by query id: calls and ms."""

    by_statement: dict[int, tuple[int, float]] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)


def statements(schema: str = "public") -> dict[str, str]:
    """Return every statement this may send, the extension being in `schema`."""
    return {
        "sessions of before, before and after": OTHERS_SQL,
        "pg_stat_statements, before and after": SCHEMA_SQL,
        "calls of statements, before and after": CALLS_SQL.format(schema=schema),
        "texts of the dearest, before and after; of new ones shown, at most every 30 s": (
            TEXTS_SQL.format(schema=schema)
        ),
    }


def read_calls(target: Target, *, texts_of: Sequence[int] = ()) -> Calls:
    """Return calls of all statements, and texts of those named; empty where none are counted.

    Never raises: whatever is wrong with the server, the watch is worth keeping.
    """
    try:
        with read_only(target, "watch") as (session, _):
            found = session.fetch(SCHEMA_SQL)
            if not found:
                return Calls()
            schema = str(found[0][0])
            rows = session.fetch(CALLS_SQL.format(schema=schema))
            calls = {int(query): (int(calls), float(ms)) for query, calls, ms in rows}
            texts: dict[int, str] = {}
            if texts_of:
                sql = TEXTS_SQL.format(schema=schema)
                texts = shown_texts(session.fetch(sql, [list(texts_of)]))
            return Calls(calls, texts)
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
