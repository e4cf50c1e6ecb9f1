"""PostgreSQL 10 to 13, of which there are no binaries here: no statement asks what came later."""

from __future__ import annotations

import re

import pytest

from pgdyno.features.doctor.server_sql import statements as doctors
from pgdyno.features.nodes import statements as node_statements
from pgdyno.observe.catalogue import statements
from pgdyno.observe.sql.collectors import SQL_COLLECTORS

# From the release notes and the manuals of each major: first version that has the name.
SINCE = {
    r"starts_with\(": 11,
    r"pg_stat_progress_create_index": 12,
    r"pg_stat_progress_cluster": 12,
    r"checksum_failures": 12,
    r"pg_stat_slru": 13,
    r"pg_stat_progress_analyze": 13,
    r"pg_stat_progress_basebackup": 13,
    r"wal_status|safe_wal_size": 13,
    r"total_exec_time|total_plan_time": 13,
    r"wal_records|wal_fpi|wal_bytes": 13,
    r"pg_stat_wal\b": 14,
    r"pg_stat_progress_copy": 14,
    r"\bquery_id\b": 14,
    r"\bwaitstart\b": 14,
    r"\bsession_time\b|\bactive_time\b|idle_in_transaction_time\b|sessions_\w+, 0": 14,
    r"has_parameter_privilege": 15,
    r"pg_stat_io\b": 16,
    r"pg_stat_checkpointer": 17,
    r"num_done": 18,
    r"\b(read|write|extend)_bytes\b": 18,
}
# And what a later version no longer has: last version that has the name.
UNTIL = {
    r"\btotal_time\b": 12,
    r"checkpoints_timed|buffers_backend\b": 16,
    r"\bop_bytes\b": 17,
    r"wal_write_time": 17,
}
OF_CITUS = {"shards", "node_connections", "placements"}
MISSING_BEFORE = {10: {"io", "slru", *OF_CITUS}, 13: {"io", *OF_CITUS}, 16: set()}


@pytest.mark.parametrize("version", range(10, 19))
def test_no_statement_asks_for_what_its_version_does_not_have(version: int) -> None:
    for name, sql in {**statements(version), **doctors(version)}.items():
        # The names our columns have are no names of the server's.
        asked = re.sub(r"NULL::int8 AS \w+", "", sql)
        for pattern, first in SINCE.items():
            assert version >= first or not re.search(pattern, asked), (name, pattern)
        for pattern, last in UNTIL.items():
            assert version <= last or not re.search(pattern, asked), (name, pattern)


@pytest.mark.parametrize(("version", "missing"), MISSING_BEFORE.items())
def test_every_view_that_exists_is_read_in_old_versions_too(
    version: int, missing: set[str]
) -> None:
    collectors = {collector.name for collector in (*SQL_COLLECTORS, *node_statements.COLLECTORS)}
    assert collectors - statements(version).keys() == missing


def test_a_statement_has_as_many_columns_in_every_version() -> None:
    for collector in (*SQL_COLLECTORS, *node_statements.COLLECTORS):
        for first, sql in collector.sql.items():
            assert _column_count(sql) == len(collector.columns), (collector.name, first)


def _column_count(sql: str) -> int:
    """Return the number of columns of the first SELECT: its commas outside of brackets."""
    depth, count = 0, 1
    for word in re.findall(r"[(),]|\bFROM\b|\bUNION\b|'[^']*'", sql):
        depth += {"(": 1, ")": -1}.get(word, 0)
        if depth == 0 and word in ("FROM", "UNION"):
            return count
        count += depth == 0 and word == ","
    return count
