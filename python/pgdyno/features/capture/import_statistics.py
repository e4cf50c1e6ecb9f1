"""Gives the tables of a copy the statistics of the original, so that the planner sees those.

Source: PostgreSQL 18, "Statistics Manipulation Functions". Limits: extended statistics are not
imported, and the next ANALYZE replaces what was imported. The planner takes the number of pages
from the file itself, so the copy must have the size of the original.
"""

from __future__ import annotations

from typing import Any, LiteralString

from psycopg import sql

from pgdyno.engine.distribution import Distribution
from pgdyno.errors import RefusedError
from pgdyno.features.capture.rebuild import Rebuilt
from pgdyno.server.connect import Connection

FIRST_MAJOR = 18
_TABLE = (
    "SELECT pg_restore_relation_stats('schemaname', n.nspname::text, 'relname', c.relname::text,"
    " 'relpages', %s::integer, 'reltuples', %s::real) FROM pg_class c JOIN pg_namespace n"
    " ON n.oid = c.relnamespace WHERE c.oid = %s::regclass"
)


def refuse_older(connection: Connection) -> None:
    """Raise RefusedError if the server cannot import statistics."""
    major = connection.info.server_version // 10_000
    if major < FIRST_MAJOR:
        raise RefusedError(
            f"--import-statistics needs PostgreSQL {FIRST_MAJOR}, and this server is {major}.",
            hint="leave --import-statistics out: ANALYZE then counts the rows of the copy",
        )


def import_statistics(connection: Connection, rebuilt: Rebuilt) -> int:
    """Give the columns the captured statistics; return the number of columns.

    Autovacuum is turned off for the tables, because its ANALYZE would replace the statistics.
    Raises: psycopg.Error if the server refuses a value.
    """
    count = 0
    for name, table in rebuilt.tables.items():
        # The capture has qualified and quoted names.
        identifier = sql.SQL(name)
        if not table.shape.is_partitioned:
            connection.execute(
                sql.SQL("ALTER TABLE {} SET (autovacuum_enabled = off)").format(identifier)
            )
            pages = table.shape.bytes // 8192
            connection.execute(_TABLE, [pages, table.shape.rows, name])
        for column in table.columns.values():
            shape = column.shape
            given = _arguments(shape.distribution, shape.correlation)
            given["inherited"] = (table.shape.is_partitioned, "boolean")
            pairs = [
                # The types are ours.
                sql.SQL("{}, {}::{}").format(sql.Literal(key), sql.Literal(value), sql.SQL(type_))
                for key, (value, type_) in given.items()
            ]
            connection.execute(
                sql.SQL(
                    "SELECT pg_restore_attribute_stats('schemaname', n.nspname::text, 'relname',"
                    " c.relname::text, 'attname', {}, {}) FROM pg_class c JOIN pg_namespace n"
                    " ON n.oid = c.relnamespace WHERE c.oid = {}::regclass"
                ).format(
                    sql.Literal(shape.column.strip('"')),
                    sql.SQL(", ").join(pairs),
                    sql.Literal(name),
                )
            )
            count += 1
    return count


def _arguments(
    distribution: Distribution, correlation: float | None
) -> dict[str, tuple[Any, LiteralString]]:
    """Return names, values and types of what is known of a column."""
    given: dict[str, tuple[Any, LiteralString]] = {
        "null_frac": (distribution.null_fraction, "real"),
        "avg_width": (max(1, round(distribution.width) or 4), "integer"),
        "n_distinct": (max(1.0, distribution.distinct), "real"),
    }
    if distribution.kind in ("array", "json", "range"):
        return given
    if distribution.hot:
        given["most_common_vals"] = (_array([hot.value for hot in distribution.hot]), "text")
        shares = [hot.fraction for hot in distribution.hot]
        given["most_common_freqs"] = ("{" + ",".join(map(repr, shares)) + "}", "real[]")
    if len(distribution.bounds) > 1:
        given["histogram_bounds"] = (_array(list(distribution.bounds)), "text")
    if correlation is not None:
        given["correlation"] = (correlation, "real")
    return given


def _array(values: list[str]) -> str:
    """Return an array as text, each element in quotes."""
    quoted = [value.replace("\\", "\\\\").replace('"', '\\"') for value in values]
    return "{" + ",".join(f'"{value}"' for value in quoted) + "}"
