"""Exact counters of every statement before and after a load; samples have only the dearest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psycopg

from pgdyno.errors import PgdynoError
from pgdyno.observe.sql.sql_collector import schema_sql
from pgdyno.server.connect import connect
from pgdyno.server.target import Target

SCHEMA_SQL = schema_sql("pg_stat_statements")
_NAMES = {
    "calls": "calls",
    "rows": "rows",
    "time_ms": "total_exec_time",
    "hit_blocks": "shared_blks_hit",
    "read_blocks": "shared_blks_read",
    "dirtied_blocks": "shared_blks_dirtied",
    "temp_read_blocks": "temp_blks_read",
    "temp_written_blocks": "temp_blks_written",
    "wal_bytes": "wal_bytes",
}
COUNTERS_SQL = (
    "SELECT queryid, "
    + ", ".join(f"sum({column})::float8" for column in _NAMES.values())
    + " FROM {schema}.pg_stat_statements(false) s"
    " JOIN pg_catalog.pg_database d ON d.oid = s.dbid AND d.datname = current_database()"
    " WHERE queryid IS NOT NULL GROUP BY 1"
)
# Query id -> name -> value, at one moment.
Counters = Mapping[int, Mapping[str, float]]


def read_counters(target: Target, *, verb: str, run: str) -> Counters | None:
    """Return the counters of the statements in a database; None if the server does not tell."""
    try:
        with connect(target, verb=verb, run=run, patient=True) as connection:
            schema = connection.execute(SCHEMA_SQL).fetchone()
            if schema is None or connection.info.server_version < 130_000:
                return None
            rows = connection.execute(COUNTERS_SQL.format(schema=schema[0])).fetchall()
    except (psycopg.Error, PgdynoError):
        return None
    return {
        int(number): dict(zip(_NAMES, map(float, values), strict=True)) for number, *values in rows
    }


def growth_document(before: Counters | None, after: Counters | None) -> dict[str, Any] | None:
    """Return the growth of the counters as a document; None if a reading is missing."""
    if before is None or after is None:
        return None
    statements = {
        str(number): {
            name: value - before.get(number, {}).get(name, 0.0) for name, value in counters.items()
        }
        for number, counters in after.items()
        if counters["calls"] > before.get(number, {}).get("calls", 0.0)
    }
    return {"statements": statements}
