"""Scans, entries and blocks of the busiest indexes: pg_stat_user_indexes."""

from __future__ import annotations

from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS
from pgdyno.observe.column import Column, counter, gauge, key
from pgdyno.observe.sql.sql_collector import SqlCollector

SQL = {
    10: (
        "SELECT s.schemaname::text, s.relname::text, s.indexrelname::text, s.idx_scan,"
        " s.idx_tup_read, s.idx_tup_fetch, i.idx_blks_read, i.idx_blks_hit, c.relpages::int8"
        " FROM pg_catalog.pg_stat_user_indexes s"
        " JOIN pg_catalog.pg_statio_user_indexes i ON i.indexrelid = s.indexrelid"
        " JOIN pg_catalog.pg_class c ON c.oid = s.indexrelid"
        " WHERE current_database() = %s"
        " ORDER BY i.idx_blks_hit + i.idx_blks_read DESC, s.indexrelid LIMIT 100"
    )
}


class IndexesCollector(SqlCollector):
    """Samples the hundred indexes whose blocks were asked for most."""

    name = "indexes"
    meaning = "Scans, entries and blocks of the busiest indexes of the load's database"
    interval_ns = 10 * SECOND_NS
    sql = SQL
    rows_max = 100
    columns: ClassVar[tuple[Column, ...]] = (
        key("schema", "of the index"),
        key("table", "it is of"),
        key("index", "its name"),
        counter("scans", "scans", "index scans"),
        counter("entries_read", "entries", "returned by scans"),
        counter("rows_fetched", "rows", "live rows fetched by simple index scans"),
        counter("blks_read", "blocks", "not found in shared_buffers"),
        counter("blks_hit", "blocks", "found in shared_buffers"),
        gauge("pages", "blocks", "size at the last vacuum or analyze"),
    )
