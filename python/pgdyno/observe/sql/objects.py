"""Collectors of tables, indexes, sequences and functions: unusual objects and busy objects.

Source: pg_index, pg_constraint, pg_sequences and the statistics views.
Limits: an index that is never used here may be used on a standby. An index with the columns of
another index may have another order, other operator classes or other options.
"""

from __future__ import annotations

from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS, Column, counter, gauge, key
from pgdyno.observe.sql.sql_collector import OwnDatabaseCollector

_EACH_MAX = 20
# Tables with fewer indexes, and smaller tables, are not reported.
_MANY_INDEXES = 8
_LARGE_BYTES = 10_000_000
_NEAR_END_PERCENT = 50

_INDEX = "i.indexrelid::regclass::text || ' on ' || i.indrelid::regclass::text"
_OURS = (
    " JOIN pg_catalog.pg_class t ON t.oid = i.indrelid"
    " JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace"
    " WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_toast'"
)
_SIZE = "pg_relation_size(i.indexrelid)"
_TABLES = "FROM pg_catalog.pg_stat_user_tables s"


def _part(kind: str, name: str, note: str, size: str, rest: str) -> str:
    """Return the largest objects of one kind."""
    return (
        f"(SELECT '{kind}', {name}, {note}, {size} {rest} ORDER BY 4 DESC NULLS LAST, 2"
        f" LIMIT {_EACH_MAX})"
    )


_PARTS = (
    _part("index that is not valid", _INDEX, "''", _SIZE,
          f"FROM pg_catalog.pg_index i{_OURS} AND NOT i.indisvalid"),
    _part("index never used", _INDEX, "''", _SIZE,
          "FROM pg_catalog.pg_index i JOIN pg_catalog.pg_stat_user_indexes s"
          f" ON s.indexrelid = i.indexrelid{_OURS} AND s.idx_scan = 0 AND NOT i.indisunique"),
    _part("index that another index covers", _INDEX, "'by ' || o.indexrelid::regclass::text", _SIZE,
          "FROM pg_catalog.pg_index i JOIN pg_catalog.pg_index o ON o.indrelid = i.indrelid"
          " AND o.indexrelid <> i.indexrelid AND o.indisvalid"
          f"{_OURS} AND NOT i.indisunique AND i.indpred IS NULL AND o.indpred IS NULL"
          " AND i.indexprs IS NULL AND o.indexprs IS NULL"
          " AND (SELECT relam FROM pg_catalog.pg_class WHERE oid = i.indexrelid)"
          " = (SELECT relam FROM pg_catalog.pg_class WHERE oid = o.indexrelid)"
          " AND strpos(o.indkey::text || ' ', i.indkey::text || ' ') = 1"
          " AND (o.indkey::text <> i.indkey::text OR o.indisunique"
          " OR o.indexrelid < i.indexrelid)"),
    _part("hash index", _INDEX, "''", _SIZE,
          "FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid"
          f" JOIN pg_catalog.pg_am a ON a.oid = c.relam AND a.amname = 'hash'{_OURS}"),
    _part("table with many indexes", "s.relid::regclass::text", "x.count || ' indexes'",
          "pg_indexes_size(s.relid)",
          f"{_TABLES} JOIN (SELECT indrelid, count(*) AS count FROM pg_catalog.pg_index"
          f" GROUP BY 1) x ON x.indrelid = s.relid WHERE x.count >= {_MANY_INDEXES}"),
    _part("table without an index", "s.relid::regclass::text", "''", "pg_table_size(s.relid)",
          f"{_TABLES} WHERE NOT EXISTS (SELECT 1 FROM pg_catalog.pg_index i"
          " WHERE i.indrelid = s.relid)"),
    _part("large table read whole", "s.relid::regclass::text",
          "s.seq_scan || ' times, ' || s.seq_tup_read || ' rows'", "pg_table_size(s.relid)",
          f"{_TABLES} WHERE s.seq_scan > 0 AND pg_table_size(s.relid) >= {_LARGE_BYTES}"),
    _part("foreign key without an index", "k.conname || ' of ' || k.conrelid::regclass::text",
          "'refers to ' || k.confrelid::regclass::text", "pg_table_size(k.conrelid)",
          "FROM pg_catalog.pg_constraint k WHERE k.contype = 'f' AND NOT EXISTS"
          " (SELECT 1 FROM pg_catalog.pg_index i WHERE i.indrelid = k.conrelid AND"
          " (i.indkey::int2[])[0:cardinality(k.conkey) - 1] @> k.conkey)"),
    _part("unlogged table", "c.oid::regclass::text", "''", "pg_table_size(c.oid)",
          "FROM pg_catalog.pg_class c WHERE c.relpersistence = 'u' AND c.relkind = 'r'"),
    _part("sequence that used over half of its numbers", "s.schemaname || '.' || s.sequencename",
          "'used to ' || round(100.0 * least(s.last_value, s.most) / s.most) || ' of 100'",
          "NULL::int8",
          "FROM (SELECT q.*, least(q.max_value,"
          " (SELECT min(CASE a.atttypid WHEN 23 THEN 2147483647 WHEN 21 THEN 32767 END)"
          " FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_attrdef f ON f.oid = d.objid"
          " JOIN pg_catalog.pg_attribute a ON a.attrelid = f.adrelid AND a.attnum = f.adnum"
          " WHERE d.classid = 'pg_catalog.pg_attrdef'::regclass AND d.refobjid = c.oid"
          " AND d.refclassid = 'pg_catalog.pg_class'::regclass)) AS most"
          " FROM pg_catalog.pg_sequences q"
          " JOIN pg_catalog.pg_namespace n ON n.nspname = q.schemaname"
          " JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = q.sequencename"
          " WHERE q.increment_by > 0 AND NOT q.cycle) s"
          f" WHERE s.last_value >= s.most / 100 * {_NEAR_END_PERCENT}"),
    _part("table never vacuumed", "s.relid::regclass::text", "s.n_dead_tup || ' dead rows'",
          "pg_table_size(s.relid)",
          f"{_TABLES} WHERE s.last_vacuum IS NULL AND s.last_autovacuum IS NULL"
          " AND s.n_dead_tup > 0"),
    _part("table with storage options", "c.oid::regclass::text",
          "array_to_string(c.reloptions, ', ')", "pg_table_size(c.oid)",
          "FROM pg_catalog.pg_class c JOIN pg_catalog.pg_stat_user_tables s ON s.relid = c.oid"
          " WHERE c.reloptions IS NOT NULL"),
    _part("extended statistics", "stxnamespace::regnamespace::text || '.' || stxname",
          "'of ' || stxrelid::regclass::text", "NULL::int8",
          "FROM pg_catalog.pg_statistic_ext"),
)  # fmt: skip
OBJECTS_SQL = {
    10: "SELECT o.kind, o.object, o.note, o.size_bytes FROM ("
    + " UNION ALL ".join(_PARTS)
    + ") o (kind, object, note, size_bytes) WHERE current_database() = %s"
}


class ObjectsCollector(OwnDatabaseCollector):
    """Reads the catalogues before and after a run: the twenty largest objects of each kind."""

    name = "objects"
    meaning = "Indexes, tables and sequences of the load's database that may need attention"
    interval_ns = 600 * SECOND_NS
    sql = OBJECTS_SQL
    columns: ClassVar[tuple[Column, ...]] = (
        key("kind", "why it may need attention"),
        key("object", "its name"),
        key("note", "more about it; may be empty"),
        gauge("size_bytes", "bytes", "on disk; NULL if it has no size", is_nullable=True),
    )


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

TABLES_SQL = {
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


class TablesCollector(OwnDatabaseCollector):
    """Samples the hundred tables with the most block requests."""

    name = "tables"
    meaning = "Rows, scans, vacuums and sizes of the busiest tables of the load's database"
    sql = TABLES_SQL
    rows_max = 100
    columns: ClassVar[tuple[Column, ...]] = (
        key("schema", "of the table"),
        key("table", "its name"),
        *(counter(name, unit, meaning) for name, unit, meaning, _ in _COUNTERS),
        gauge("rows_live", "rows", "live, an estimate of the server"),
        gauge("rows_dead", "rows", "dead and not yet removed"),
        gauge("pages", "blocks", "size at the last vacuum or analyze"),
    )


# These are the functions of the two views, because planning a join of the views takes 50 ms.
INDEXES_SQL = {
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


class IndexesCollector(OwnDatabaseCollector):
    """Samples the hundred indexes with the most block requests."""

    name = "indexes"
    meaning = "Scans, entries and blocks of the busiest indexes of the load's database"
    sql = INDEXES_SQL
    rows_max = 100
    columns: ClassVar[tuple[Column, ...]] = (
        key("schema", "of the index"),
        key("table", "of the index"),
        key("index", "its name"),
        counter("scans", "scans", "index scans"),
        counter("entries_read", "entries", "returned by scans"),
        counter("rows_fetched", "rows", "live rows fetched by simple index scans"),
        counter("blks_read", "blocks", "not found in shared_buffers"),
        counter("blks_hit", "blocks", "found in shared_buffers"),
        gauge("pages", "blocks", "size at the last vacuum or analyze"),
    )


FUNCTIONS_SQL = {
    10: (
        "SELECT schemaname || '.' || funcname || '(' || pg_get_function_identity_arguments(funcid)"
        " || ')', calls, (pg_stat_get_function_total_time(funcid) * 1e6)::int8,"
        " (self_time * 1e6)::int8"
        " FROM pg_catalog.pg_stat_user_functions"
        " WHERE current_database() = %s ORDER BY 3 DESC, funcid LIMIT 100"
    )
}


class FunctionsCollector(OwnDatabaseCollector):
    """Samples the hundred functions with the most time; no rows without track_functions."""

    name = "functions"
    meaning = "Calls and time of functions of the load's database"
    sql = FUNCTIONS_SQL
    rows_max = 100
    columns: ClassVar[tuple[Column, ...]] = (
        key("function", "its schema, name and arguments"),
        counter("calls", "calls", "times executed"),
        counter("total_time_ns", "ns", "executing, functions it called included"),
        counter("self_time_ns", "ns", "executing, without those"),
    )
