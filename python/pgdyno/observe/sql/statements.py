"""Calls and time of statements: pg_stat_statements, never with their texts.

The hundred that took most time since they were first counted; one that enters the list is known
from its next sample on. Only columns that every version of the extension since 1.8 has.
"""

from __future__ import annotations

from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS, NotMeasurable, Row
from pgdyno.observe.column import Column, counter, key
from pgdyno.observe.sql.sql_collector import SqlCollector, pick

SCHEMA_SQL = (
    "SELECT quote_ident(n.nspname) FROM pg_catalog.pg_extension e"
    " JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace"
    " WHERE e.extname = 'pg_stat_statements'"
)
_FUNCTION = "public.pg_stat_statements(false)"
_SUMS = (
    ("calls", "calls", "times executed", "calls"),
    ("exec_time_ns", "ns", "executing", "total_exec_time * 1e6"),
    ("plan_time_ns", "ns", "planning (track_planning)", "total_plan_time * 1e6"),
    ("rows", "rows", "returned or changed", "rows"),
    ("shared_blks_hit", "blocks", "found in shared_buffers", "shared_blks_hit"),
    ("shared_blks_read", "blocks", "not found there", "shared_blks_read"),
    ("shared_blks_dirtied", "blocks", "made dirty", "shared_blks_dirtied"),
    ("shared_blks_written", "blocks", "written by the statement itself", "shared_blks_written"),
    ("temp_blks_read", "blocks", "of temporary files read", "temp_blks_read"),
    ("temp_blks_written", "blocks", "of temporary files written", "temp_blks_written"),
    ("wal_records", "records", "WAL records", "wal_records"),
    ("wal_full_page_images", "images", "full page images", "wal_fpi"),
    ("wal_bytes", "bytes", "WAL", "wal_bytes"),
)

# Of 10 to 12 with the extension as it came with them, total time is all there is.
_NOT_BEFORE_13 = frozenset({"plan_time_ns", "wal_records", "wal_full_page_images", "wal_bytes"})


def _statement(*, time: str, lacking: frozenset[str]) -> str:
    sums = ", ".join(
        "NULL::int8"
        if name in lacking
        else f"sum({expression.replace('total_exec_time', time)})::int8"
        for name, _, _, expression in _SUMS
    )
    return (
        f"SELECT coalesce(d.datname::text, ''), s.queryid, {sums}"
        f" FROM {_FUNCTION} s LEFT JOIN pg_catalog.pg_database d ON d.oid = s.dbid"
        f" WHERE s.queryid IS NOT NULL GROUP BY 1, 2 ORDER BY sum({time}) DESC LIMIT 100"
    )


SQL = {
    10: _statement(time="total_time", lacking=_NOT_BEFORE_13),
    13: _statement(time="total_exec_time", lacking=frozenset()),
}


class StatementsCollector(SqlCollector):
    """Samples the dearest statements of all databases."""

    name = "statements"
    meaning = "Calls and time of the statements that took most of it"
    interval_ns = 10 * SECOND_NS
    sql = SQL
    columns: ClassVar[tuple[Column, ...]] = (
        key("database", "where it was executed"),
        Column("query_id", "int64", "identifier", "as in pg_stat_activity", "key"),
        *(
            counter(name, unit, meaning, is_nullable=name in _NOT_BEFORE_13)
            for name, unit, meaning, _ in _SUMS
        ),
    )

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Return one row a statement.

        Raises: NotMeasurable where the extension is not in the database that is asked.
        """
        found = self._session.fetch(SCHEMA_SQL)
        if not found:
            raise NotMeasurable("pg_stat_statements is not in the database that is asked.")
        function = _FUNCTION.replace("public", str(found[0][0]))
        statement = pick(self.name, SQL, self._session.version).replace(_FUNCTION, function)
        names = [column.name for column in self.columns]
        return [dict(zip(names, row, strict=True)) for row in self._session.fetch(statement)]
