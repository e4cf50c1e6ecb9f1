"""Collectors for the write-ahead log, for checkpoints, and for the archiver.

The key of a statement is the first major version for which the statement is valid. From version 18
on, writes and flushes of WAL and their times come from pg_stat_io.
"""

from __future__ import annotations

from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS, Column, counter, gauge
from pgdyno.observe.sql.sql_collector import SqlCollector, reset_ns

# The server updates the WAL position immediately, and pg_stat_wal later, as it does
# pg_stat_database.
_POSITION = (
    "(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()"
    " ELSE pg_current_wal_insert_lsn() END - '0/0')::int8"
)
_COMMON = "w.wal_records, w.wal_fpi, w.wal_bytes::int8, w.wal_buffers_full"

WAL_SQL = {
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
    """Samples the volume, writes and flushes of the write-ahead log."""

    name = "wal"
    meaning = "Write-ahead log: records, bytes, writes, flushes and their times"
    sql = WAL_SQL
    columns: ClassVar[tuple[Column, ...]] = (
        counter("position_bytes", "bytes", "insert position; on a standby the replay position"),
        counter("records", "records", "records generated", is_nullable=True),
        counter("full_page_images", "images", "full page images generated", is_nullable=True),
        counter("bytes", "bytes", "bytes generated", is_nullable=True),
        counter(
            "buffers_full", "writes", "writes because the WAL buffers were full", is_nullable=True
        ),
        counter("writes", "writes", "times buffers were written out", is_nullable=True),
        counter("syncs", "flushes", "times files were flushed", is_nullable=True),
        counter("write_time_ns", "ns", "time of writing (track_wal_io_timing)", is_nullable=True),
        counter("sync_time_ns", "ns", "time of flushing (track_wal_io_timing)", is_nullable=True),
        gauge("stats_reset_ns", "ns", "Unix time of the last reset; 0 = never"),
    )


def _since_17(*, checkpoints_done: str, backend_blocks: str) -> str:
    """Return the statement. Since version 17, only pg_stat_io counts the writes of backends.

    A standby has restartpoints instead of checkpoints. Up to version 16 they are in the same
    counters.
    """
    return (
        "SELECT c.num_timed + c.restartpoints_timed, c.num_requested + c.restartpoints_req,"
        f" {checkpoints_done},"
        " (c.write_time * 1e6)::int8, (c.sync_time * 1e6)::int8, c.buffers_written,"
        " b.buffers_clean, b.maxwritten_clean, i.written, i.fsyncs, b.buffers_alloc,"
        f" {reset_ns('greatest(c.stats_reset, b.stats_reset, i.stats_reset)')}"
        " FROM pg_catalog.pg_stat_checkpointer c CROSS JOIN pg_catalog.pg_stat_bgwriter b"
        f" CROSS JOIN (SELECT sum({backend_blocks})::int8 AS written,"
        " sum(fsyncs)::int8 AS fsyncs, max(stats_reset) AS stats_reset"
        " FROM pg_catalog.pg_stat_io WHERE object = 'relation'"
        " AND backend_type NOT IN ('checkpointer', 'background writer')) i"
    )


CHECKPOINTER_SQL = {
    10: (
        "SELECT checkpoints_timed, checkpoints_req, NULL::int8,"
        " (checkpoint_write_time * 1e6)::int8, (checkpoint_sync_time * 1e6)::int8,"
        " buffers_checkpoint, buffers_clean, maxwritten_clean, buffers_backend,"
        f" buffers_backend_fsync, buffers_alloc, {reset_ns('stats_reset')}"
        " FROM pg_catalog.pg_stat_bgwriter"
    ),
    17: _since_17(checkpoints_done="NULL::int8", backend_blocks="writes"),
    # Since version 18, one write can contain several blocks.
    18: _since_17(
        checkpoints_done="c.num_done + c.restartpoints_done",
        backend_blocks="write_bytes / current_setting('block_size')::int8",
    ),
}


class CheckpointerCollector(SqlCollector):
    """Samples checkpoints and who wrote dirty buffers."""

    name = "checkpointer"
    meaning = "Checkpoints, and who wrote dirty buffers"
    sql = CHECKPOINTER_SQL
    columns: ClassVar[tuple[Column, ...]] = (
        counter(
            "checkpoints_timed", "checkpoints", "started because checkpoint_timeout had passed"
        ),
        counter("checkpoints_requested", "checkpoints", "started by max_wal_size or a command"),
        counter("checkpoints_done", "checkpoints", "completed (18 and later)", is_nullable=True),
        counter("checkpoint_write_time_ns", "ns", "time of writing; added when a checkpoint ends"),
        counter("checkpoint_sync_time_ns", "ns", "time of flushing; added when a checkpoint ends"),
        counter("buffers_checkpoint", "blocks", "written by checkpoints"),
        counter("buffers_clean", "blocks", "written by the background writer"),
        counter("maxwritten_clean", "rounds", "background writer stopped at bgwriter_lru_maxpages"),
        counter("buffers_backend", "blocks", "written by backends (since 17: pg_stat_io)"),
        counter("buffers_backend_fsync", "flushes", "flushes by backends"),
        counter("buffers_alloc", "blocks", "buffers allocated"),
        gauge("stats_reset_ns", "ns", "Unix time of the last reset; 0 = never"),
    )


ARCHIVER_SQL = {
    10: (
        f"SELECT archived_count, failed_count, {reset_ns('last_archived_time')},"
        f" {reset_ns('last_failed_time')}, {reset_ns('stats_reset')}"
        " FROM pg_catalog.pg_stat_archiver"
    )
}


class ArchiverCollector(SqlCollector):
    """Samples the archiver; all zero where archive_mode is off."""

    name = "archiver"
    meaning = "WAL segments archived, and attempts that failed"
    interval_ns = 10 * SECOND_NS
    sql = ARCHIVER_SQL
    columns: ClassVar[tuple[Column, ...]] = (
        counter("archived", "segments", "WAL segments archived"),
        counter("failed", "attempts", "attempts that failed"),
        gauge("last_archived_ns", "ns", "Unix time of the last success; 0 = never"),
        gauge("last_failed_ns", "ns", "Unix time of the last failure; 0 = never"),
        gauge("stats_reset_ns", "ns", "Unix time of the last reset; 0 = never"),
    )
