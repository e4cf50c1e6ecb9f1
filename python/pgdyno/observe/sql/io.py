"""I/O of the server (pg_stat_io, since 16), contents of shared_buffers, and SLRU caches."""

from __future__ import annotations

from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS, Column, Scope, counter, gauge, key
from pgdyno.observe.sql.sql_collector import ExtensionCollector, SqlCollector, reset_ns


def _statement(*, read: str, write: str, extend: str) -> str:
    """Return the statement; it leaves out rows without any operation, which are most rows."""
    return (
        f"SELECT backend_type, object, context, reads, ({read})::int8, (read_time * 1e6)::int8,"
        f" writes, ({write})::int8, (write_time * 1e6)::int8, writebacks, extends,"
        f" ({extend})::int8, (extend_time * 1e6)::int8, hits, evictions, reuses, fsyncs,"
        f" (fsync_time * 1e6)::int8, {reset_ns('stats_reset')} FROM pg_catalog.pg_stat_io"
        " WHERE greatest(reads, writes, extends, hits, fsyncs) > 0"
    )


IO_SQL = {
    16: _statement(read="reads * op_bytes", write="writes * op_bytes", extend="extends * op_bytes"),
    # Since 18 one operation may be of several blocks.
    18: _statement(read="read_bytes", write="write_bytes", extend="extend_bytes"),
}


class IoCollector(SqlCollector):
    """Samples I/O by backend type, object and context; NULL: this backend type never does it."""

    name = "io"
    meaning = "Reads, writes and flushes by backend type, object and context"
    interval_ns = 5 * SECOND_NS
    sql = IO_SQL
    columns: ClassVar[tuple[Column, ...]] = (
        key("backend_type", "as in pg_stat_activity"),
        key("object", "relation, temp relation or wal"),
        key("context", "normal, vacuum, bulkread, bulkwrite or init"),
        counter("reads", "operations", "blocks or groups of blocks read", is_nullable=True),
        counter("read_bytes", "bytes", "read", is_nullable=True),
        counter("read_time_ns", "ns", "reading (track_io_timing)", is_nullable=True),
        counter("writes", "operations", "blocks or groups of blocks written", is_nullable=True),
        counter("write_bytes", "bytes", "written", is_nullable=True),
        counter("write_time_ns", "ns", "writing (track_io_timing)", is_nullable=True),
        counter("writebacks", "blocks", "the kernel was asked to write out", is_nullable=True),
        counter("extends", "operations", "relations made longer", is_nullable=True),
        counter("extend_bytes", "bytes", "added to relations", is_nullable=True),
        counter("extend_time_ns", "ns", "extending (track_io_timing)", is_nullable=True),
        counter("hits", "blocks", "found in shared_buffers", is_nullable=True),
        counter("evictions", "blocks", "evicted to make room", is_nullable=True),
        counter("reuses", "blocks", "of a ring buffer used again", is_nullable=True),
        counter("fsyncs", "flushes", "files flushed", is_nullable=True),
        counter("fsync_time_ns", "ns", "flushing (track_io_timing)", is_nullable=True),
        gauge("stats_reset_ns", "ns", "Unix time of the last reset; 0 = never"),
    )


BUFFERS_SQL = {
    10: (
        "SELECT CASE WHEN s.usagecount IS NOT NULL THEN 'usage'"
        " WHEN s.relfilenode IS NOT NULL THEN 'relation' ELSE 'database' END,"
        " coalesce(s.usagecount::text, c.relname::text, d.datname::text, 'shared'),"
        " sum(s.blocks)::int8, sum(s.dirty)::int8"
        " FROM (SELECT reldatabase, relfilenode, usagecount, count(*) AS blocks,"
        " count(*) FILTER (WHERE isdirty) AS dirty FROM {schema}.pg_buffercache"
        " WHERE relfilenode IS NOT NULL GROUP BY GROUPING SETS"
        " ((reldatabase), (usagecount), (reldatabase, relfilenode))) s"
        " LEFT JOIN pg_catalog.pg_database d ON d.oid = s.reldatabase"
        " LEFT JOIN pg_catalog.pg_class c"
        " ON c.relfilenode = s.relfilenode AND d.datname = current_database()"
        " WHERE s.relfilenode IS NULL OR c.relname IS NOT NULL"
        " GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2 LIMIT 60"
    )
}


class BuffersCollector(ExtensionCollector):
    """Samples the blocks in shared_buffers: by owner, by usage count, and how many are dirty."""

    name = "buffers"
    scope: ClassVar[Scope] = "database"
    meaning = "Blocks in shared_buffers by database, usage count and relation (pg_buffercache)"
    interval_ns = 600 * SECOND_NS
    extension = "pg_buffercache"
    sql = BUFFERS_SQL
    columns: ClassVar[tuple[Column, ...]] = (
        key("kind", "database, usage (usage count, 0 to 5) or relation"),
        key("name", "of the database, the count, or the relation"),
        gauge("blocks", "blocks", "held"),
        gauge("dirty", "blocks", "of these: not written yet"),
    )


SLRU_SQL = {
    13: (
        "SELECT name, blks_zeroed, blks_hit, blks_read, blks_written, flushes, truncates,"
        f" {reset_ns('stats_reset')} FROM pg_catalog.pg_stat_slru"
    )
}


class SlruCollector(SqlCollector):
    """Samples hits and reads of each cache; many reads: subtransactions or multixacts."""

    name = "slru"
    meaning = "Hits, reads and writes of the caches of transaction states"
    interval_ns = 10 * SECOND_NS
    sql = SLRU_SQL
    columns: ClassVar[tuple[Column, ...]] = (
        key("cache", "its name, which 17 changed: Subtrans became subtransaction"),
        counter("blks_zeroed", "blocks", "begun empty"),
        counter("blks_hit", "blocks", "found in the cache"),
        counter("blks_read", "blocks", "read from disk"),
        counter("blks_written", "blocks", "written to disk"),
        counter("flushes", "flushes", "of the whole cache"),
        counter("truncates", "truncations", "of old files"),
        gauge("stats_reset_ns", "ns", "Unix time of the last reset; 0 = never"),
    )
