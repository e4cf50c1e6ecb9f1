"""Calls and time of statements: pg_stat_statements, never with their texts.

A sample has the 200 statements with the most time since their counts began. The growth of a
statement that enters this list is known from its next sample on. Versions of the extension before
1.10 do not have the times of JIT.
"""

from __future__ import annotations

from typing import ClassVar

import psycopg

from pgdyno.observe.collector import SECOND_NS, Column, Row, Scope, counter, key
from pgdyno.observe.sql.sql_collector import ExtensionCollector, schema_sql

SCHEMA_SQL = schema_sql("pg_stat_statements")
# Column, unit, meaning, expression.
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
    (
        "jit_time_ns",
        "ns",
        "compiling, within exec_time (JIT; 15+)",
        "(jit_generation_time + jit_inlining_time + jit_optimization_time + jit_emission_time)"
        " * 1e6",
    ),
)

# The versions of the extension in PostgreSQL 10 to 12 have only the total time.
_NOT_BEFORE_15 = frozenset({"jit_time_ns"})
_NOT_BEFORE_13 = _NOT_BEFORE_15 | frozenset(
    ("plan_time_ns", "wal_records", "wal_full_page_images", "wal_bytes")
)


# On a new server the statements with which pgdyno prepares a run are about a hundred.
_ROWS_MAX = 200


def _statement(*, time: str, lacking: frozenset[str]) -> str:
    sums = ", ".join(
        "NULL::int8"
        if name in lacking
        else f"sum({expression.replace('total_exec_time', time)})::int8"
        for name, _, _, expression in _SUMS
    )
    return (
        f"SELECT coalesce(d.datname::text, ''), s.queryid, {sums}"
        " FROM {schema}.pg_stat_statements(false) s"
        " LEFT JOIN pg_catalog.pg_database d ON d.oid = s.dbid"
        f" WHERE s.queryid IS NOT NULL GROUP BY 1, 2 ORDER BY sum({time}) DESC LIMIT {_ROWS_MAX}"
    )


# First major version of the server -> statement, here and in every collector.
STATEMENTS_SQL = {
    10: _statement(time="total_time", lacking=_NOT_BEFORE_13),
    13: _statement(time="total_exec_time", lacking=_NOT_BEFORE_15),
    15: _statement(time="total_exec_time", lacking=frozenset()),
}


class StatementsCollector(ExtensionCollector):
    """Samples the statements of all databases that took the most time."""

    name = "statements"
    scope: ClassVar[Scope] = "database"
    meaning = "Calls and time of the statements that took the most time"
    interval_ns = 10 * SECOND_NS
    extension = "pg_stat_statements"
    sql = STATEMENTS_SQL
    rows_max = _ROWS_MAX
    _is_old = False
    columns: ClassVar[tuple[Column, ...]] = (
        key("database", "where it was executed"),
        Column("query_id", "int64", "identifier", "as in pg_stat_activity", "key"),
        *(
            counter(name, unit, meaning, is_nullable=name in _NOT_BEFORE_13)
            for name, unit, meaning, _ in _SUMS
        ),
    )

    def statement(self) -> str:
        """Return the statement for this version, or for an extension that is older."""
        return STATEMENTS_SQL[13] if self._is_old else super().statement()

    def sample(self, now_ns: int) -> list[Row]:
        """Return one row a statement.

        Raises: NotMeasurable as `ExtensionCollector.sample` does.
        """
        try:
            return super().sample(now_ns)
        except psycopg.errors.UndefinedColumn:
            # After pg_upgrade without ALTER EXTENSION the view has the columns of an old version.
            if self._is_old:
                raise
            self._is_old = True
            return super().sample(now_ns)


WAIT_SAMPLING_SQL = {
    10: (
        "SELECT event_type || ':' || event, queryid::int8, sum(count)::int8,"
        " current_setting('pg_wait_sampling.profile_period')::int8 * 1000000"
        " FROM {schema}.pg_wait_sampling_profile"
        " WHERE event IS NOT NULL AND event_type NOT IN ('Activity', 'Client')"
        " GROUP BY 1, 2 ORDER BY 3 DESC LIMIT 300"
    )
}


class WaitSamplingCollector(ExtensionCollector):
    """Samples the profile since its last reset; pgdyno never resets it."""

    name = "wait_sampling"
    scope: ClassVar[Scope] = "database"
    meaning = "Waits by the extension pg_wait_sampling: event and statement"
    interval_ns = 5 * SECOND_NS
    extension = "pg_wait_sampling"
    sql = WAIT_SAMPLING_SQL
    columns: ClassVar[tuple[Column, ...]] = (
        key("wait_event", "type:event, such as Lock:transactionid"),
        Column("query_id", "int64", "identifier", "of the statement; 0 = not known", "key"),
        counter("samples", "samples", "in which a process waited for it"),
        Column("period_ns", "int64", "ns", "between two samples of the extension"),
    )
