"""Rows that the load itself writes, for fitting the filters of tables that are empty before it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from psycopg import sql

from pgdyno.features.capture.mirror.drawing import PG_ERRORS
from pgdyno.features.capture.mirror.fitting import Fitting
from pgdyno.features.capture.observed import Statement
from pgdyno.server.connect import Connection

# Enough rows for a filter, and the calls after which a statement is seen to add none.
_ROWS_MAX, _CALLS_MIN = 200, 5


@contextmanager
def rows_of_the_load(fitting: Fitting, texts: Mapping[str, str]) -> Iterator[None]:
    """Carry out what adds rows to tables without rows, and roll it back at the end.

    So a filter of such a table is fitted to what the load will write there. A SELECT may add rows,
    too, by a function or inside of WITH.
    Args: texts, as they are sent, by the id of the statement.
    """
    fitting.texts = texts
    with fitting.connection.transaction(force_rollback=True):
        writing = [own for own in fitting.capture.statements if own.id in texts]
        writing = [own for own in writing if own.kind in ("insert", "select")]
        for statement in (own for own in writing if not own.reads_only):
            _fill(fitting, statement, texts[statement.id])
        yield


def _fill(fitting: Fitting, statement: Statement, text: str) -> None:
    trial = fitting.trial_of(statement, text)
    before = [_count(fitting.connection, table) for table in statement.tables]
    if trial is None or all(before):
        return
    calls, grown = 0, 0
    while grown < _ROWS_MAX and (grown or calls < _CALLS_MIN) and not fitting.is_over():
        try:
            trial.work({}, keeps=True)
        except PG_ERRORS:
            return
        now = [_count(fitting.connection, table) for table in statement.tables]
        calls, grown = calls + 1, max(map(int.__sub__, now, before), default=0)


def _count(connection: Connection, table: str) -> int:
    """Return how many rows a table has, up to a limit; the limit if nobody may look."""
    query = sql.SQL("SELECT count(*) FROM (SELECT FROM {} LIMIT {}) AS few")
    try:
        with connection.transaction():
            # The name is text of a file; what the server gives back is a quoted name.
            named = "SELECT pg_catalog.to_regclass(%s)::pg_catalog.text"
            known = connection.execute(named, [table]).fetchone()
            if known is None or known[0] is None:
                return _ROWS_MAX
            row = connection.execute(query.format(sql.SQL(known[0]), _ROWS_MAX)).fetchone()
    except PG_ERRORS:
        return _ROWS_MAX
    return 0 if row is None else int(row[0])
