"""Rows, scans, vacuums and sizes of the busiest tables: pg_stat_user_tables.

Only where the observer is connected to the load's own database; from elsewhere there are no rows.
"""

from __future__ import annotations

from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS
from pgdyno.observe.column import Column, counter, gauge, key
from pgdyno.observe.sql.sql_collector import SqlCollector

_COUNTERS = (
    ("seq_scans", "scans", "sequential scans", "s.seq_scan"),
    ("seq_rows", "rows", "live rows fetched by sequential scans", "s.seq_tup_read"),
    ("index_scans", "scans", "index scans", "coalesce(s.idx_scan, 0)"),
    ("index_rows", "rows", "live rows fetched by index scans", "coalesce(s.idx_tup_fetch, 0)"),
    ("rows_inserted", "rows", "inserted", "s.n_tup_ins"),
    ("rows_updated", "rows", "updated, HOT ones included", "s.n_tup_upd"),
    ("rows_hot_updated", "rows", "of the updated: without new index entries", "s.n_tup_hot_upd"),
    ("rows_deleted", "rows", "deleted", "s.n_tup_del"),
    ("heap_blks_read", "blocks", "not found in shared_buffers", "i.heap_blks_read"),
    ("heap_blks_hit", "blocks", "found in shared_buffers", "i.heap_blks_hit"),
    ("index_blks_read", "blocks", "of its indexes, not found", "coalesce(i.idx_blks_read, 0)"),
    ("index_blks_hit", "blocks", "of its indexes, found", "coalesce(i.idx_blks_hit, 0)"),
    ("vacuums", "vacuums", "by autovacuum and by hand", "s.vacuum_count + s.autovacuum_count"),
    ("analyzes", "analyzes", "by autovacuum and by hand", "s.analyze_count + s.autoanalyze_count"),
)

SQL = {
    10: (
        "SELECT s.schemaname::text, s.relname::text, "
        + ", ".join(f"({expression})::int8" for *_, expression in _COUNTERS)
        + ", s.n_live_tup, s.n_dead_tup, c.relpages::int8"
        " FROM pg_catalog.pg_stat_user_tables s"
        " JOIN pg_catalog.pg_statio_user_tables i ON i.relid = s.relid"
        " JOIN pg_catalog.pg_class c ON c.oid = s.relid"
        " WHERE current_database() = %s"
        " ORDER BY i.heap_blks_hit + i.heap_blks_read DESC, s.relid LIMIT 100"
    )
}


class TablesCollector(SqlCollector):
    """Samples the hundred tables whose blocks were asked for most."""

    name = "tables"
    meaning = "Rows, scans, vacuums and sizes of the busiest tables of the load's database"
    interval_ns = 10 * SECOND_NS
    sql = SQL
    rows_max = 100
    columns: ClassVar[tuple[Column, ...]] = (
        key("schema", "of the table"),
        key("table", "its name"),
        *(counter(name, unit, meaning) for name, unit, meaning, _ in _COUNTERS),
        gauge("rows_live", "rows", "live, as the statistics believe"),
        gauge("rows_dead", "rows", "dead and not yet removed"),
        gauge("pages", "blocks", "size at the last vacuum or analyze"),
    )
