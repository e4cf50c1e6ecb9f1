"""Scans, entries and blocks of the busiest indexes, as in pg_stat_user_indexes."""

from __future__ import annotations

from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS
from pgdyno.observe.column import Column, counter, gauge, key
from pgdyno.observe.sql.sql_collector import SqlCollector

# The views' own functions: planning a join of the two views takes 50 ms.
SQL = {
    10: (
        "SELECT n.nspname::text, t.relname::text, c.relname::text,"
        " pg_stat_get_numscans(c.oid), pg_stat_get_tuples_returned(c.oid),"
        " pg_stat_get_tuples_fetched(c.oid),"
        " pg_stat_get_blocks_fetched(c.oid) - pg_stat_get_blocks_hit(c.oid),"
        " pg_stat_get_blocks_hit(c.oid), c.relpages::int8"
        " FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid"
        " JOIN pg_catalog.pg_class t ON t.oid = i.indrelid"
        " JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace"
        " WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_toast'"
        " AND current_database() = %s"
        " ORDER BY pg_stat_get_blocks_fetched(c.oid) DESC, c.oid LIMIT 100"
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
