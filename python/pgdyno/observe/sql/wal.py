"""Write-ahead log: pg_stat_wal, its times from pg_stat_io since 18, and the position itself."""

from __future__ import annotations

from typing import ClassVar

from pgdyno.observe.column import Column, counter, gauge
from pgdyno.observe.sql.sql_collector import SqlCollector, reset_ns

# The position grows at once; the counters of pg_stat_wal lag as those of pg_stat_database do.
_POSITION = (
    "(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()"
    " ELSE pg_current_wal_insert_lsn() END - '0/0')::int8"
)
_COMMON = "w.wal_records, w.wal_fpi, w.wal_bytes::int8, w.wal_buffers_full"

SQL = {
    10: f"SELECT {_POSITION}{', NULL::int8' * 8}, 0::int8",
    14: (
        f"SELECT {_POSITION}, {_COMMON}, w.wal_write, w.wal_sync,"
        " (w.wal_write_time * 1e6)::int8, (w.wal_sync_time * 1e6)::int8,"
        f" {reset_ns('w.stats_reset')} FROM pg_catalog.pg_stat_wal w"
    ),
    18: (
        f"SELECT {_POSITION}, {_COMMON}, i.writes, i.fsyncs, i.write_ns, i.fsync_ns,"
        f" {reset_ns('greatest(w.stats_reset, i.stats_reset)')}"
        " FROM pg_catalog.pg_stat_wal w CROSS JOIN"
        " (SELECT sum(writes)::int8 AS writes, sum(fsyncs)::int8 AS fsyncs,"
        " (sum(write_time) * 1e6)::int8 AS write_ns, (sum(fsync_time) * 1e6)::int8 AS fsync_ns,"
        " max(stats_reset) AS stats_reset"
        " FROM pg_catalog.pg_stat_io WHERE object = 'wal' AND context = 'normal') i"
    ),
}


class WalCollector(SqlCollector):
    """Samples what was written to the write-ahead log."""

    name = "wal"
    meaning = "Write-ahead log: records, bytes, writes, flushes and their times"
    sql = SQL
    columns: ClassVar[tuple[Column, ...]] = (
        counter("position_bytes", "bytes", "insert position; on a standby the replay position"),
        counter("records", "records", "records generated", is_nullable=True),
        counter("full_page_images", "images", "full page images generated", is_nullable=True),
        counter("bytes", "bytes", "bytes generated", is_nullable=True),
        counter("buffers_full", "writes", "writes because wal_buffers were full", is_nullable=True),
        counter("writes", "writes", "times buffers were written out", is_nullable=True),
        counter("syncs", "flushes", "times files were flushed", is_nullable=True),
        counter("write_time_ns", "ns", "writing (track_wal_io_timing)", is_nullable=True),
        counter("sync_time_ns", "ns", "flushing (track_wal_io_timing)", is_nullable=True),
        gauge("stats_reset_ns", "ns", "Unix time of the last reset; 0 = never"),
    )
