"""Who reads, writes and flushes what: pg_stat_io, since 16."""

from __future__ import annotations

from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS
from pgdyno.observe.column import Column, counter, gauge, key
from pgdyno.observe.sql.sql_collector import SqlCollector, reset_ns


def _statement(*, read: str, write: str, extend: str) -> str:
    """Rows without a single operation are left out: most of them."""
    return (
        f"SELECT backend_type, object, context, reads, ({read})::int8, (read_time * 1e6)::int8,"
        f" writes, ({write})::int8, (write_time * 1e6)::int8, writebacks, extends,"
        f" ({extend})::int8, (extend_time * 1e6)::int8, hits, evictions, reuses, fsyncs,"
        f" (fsync_time * 1e6)::int8, {reset_ns('stats_reset')} FROM pg_catalog.pg_stat_io"
        " WHERE greatest(reads, writes, extends, hits, fsyncs) > 0"
    )


SQL = {
    16: _statement(read="reads * op_bytes", write="writes * op_bytes", extend="extends * op_bytes"),
    # Since 18 one operation may be of several blocks.
    18: _statement(read="read_bytes", write="write_bytes", extend="extend_bytes"),
}


class IoCollector(SqlCollector):
    """Samples I/O by who did it, on what, and why. NULL: not possible there."""

    name = "io"
    meaning = "Reads, writes and flushes by backend type, object and context"
    interval_ns = 5 * SECOND_NS
    sql = SQL
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
        counter("evictions", "blocks", "thrown out to make room", is_nullable=True),
        counter("reuses", "blocks", "of a ring buffer used again", is_nullable=True),
        counter("fsyncs", "flushes", "files flushed", is_nullable=True),
        counter("fsync_time_ns", "ns", "flushing (track_io_timing)", is_nullable=True),
        gauge("stats_reset_ns", "ns", "Unix time of the last reset; 0 = never"),
    )
