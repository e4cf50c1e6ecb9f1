"""Checkpointer and background writer: one view until 16, two since 17."""

from __future__ import annotations

from typing import ClassVar

from pgdyno.observe.column import Column, counter, gauge
from pgdyno.observe.sql.sql_collector import SqlCollector, reset_ns


def _since_17(*, checkpoints_done: str, backend_buffers: str) -> str:
    """Since 17 backends' own writes are counted in pg_stat_io only."""
    return (
        f"SELECT c.num_timed, c.num_requested, {checkpoints_done},"
        " (c.write_time * 1e6)::int8, (c.sync_time * 1e6)::int8, c.buffers_written,"
        " b.buffers_clean, b.maxwritten_clean, i.written, i.fsyncs, b.buffers_alloc,"
        f" {reset_ns('greatest(c.stats_reset, b.stats_reset, i.stats_reset)')}"
        " FROM pg_catalog.pg_stat_checkpointer c CROSS JOIN pg_catalog.pg_stat_bgwriter b"
        f" CROSS JOIN (SELECT sum({backend_buffers})::int8 AS written,"
        " sum(fsyncs)::int8 AS fsyncs, max(stats_reset) AS stats_reset"
        " FROM pg_catalog.pg_stat_io WHERE object = 'relation'"
        " AND backend_type NOT IN ('checkpointer', 'background writer')) i"
    )


SQL = {
    10: (
        "SELECT checkpoints_timed, checkpoints_req, NULL::int8,"
        " (checkpoint_write_time * 1e6)::int8, (checkpoint_sync_time * 1e6)::int8,"
        " buffers_checkpoint, buffers_clean, maxwritten_clean, buffers_backend,"
        f" buffers_backend_fsync, buffers_alloc, {reset_ns('stats_reset')}"
        " FROM pg_catalog.pg_stat_bgwriter"
    ),
    17: _since_17(checkpoints_done="NULL::int8", backend_buffers="writes"),
    # Since 18 one write may hold several blocks.
    18: _since_17(
        checkpoints_done="c.num_done",
        backend_buffers="write_bytes / current_setting('block_size')::int8",
    ),
}


class CheckpointerCollector(SqlCollector):
    """Samples checkpoints and who wrote dirty buffers."""

    name = "checkpointer"
    meaning = "Checkpoints, and who wrote dirty buffers"
    sql = SQL
    columns: ClassVar[tuple[Column, ...]] = (
        counter("checkpoints_timed", "checkpoints", "begun because checkpoint_timeout was over"),
        counter("checkpoints_requested", "checkpoints", "begun by max_wal_size or a command"),
        counter("checkpoints_done", "checkpoints", "completed (18 and later)", is_nullable=True),
        counter("checkpoint_write_time_ns", "ns", "writing; added when a checkpoint ends"),
        counter("checkpoint_sync_time_ns", "ns", "flushing; added when a checkpoint ends"),
        counter("buffers_checkpoint", "blocks", "written by checkpoints"),
        counter("buffers_clean", "blocks", "written by the background writer"),
        counter("maxwritten_clean", "rounds", "stopped by bgwriter_lru_maxpages"),
        counter("buffers_backend", "blocks", "written by backends; 17: from pg_stat_io"),
        counter("buffers_backend_fsync", "flushes", "flushes backends did themselves"),
        counter("buffers_alloc", "blocks", "buffers allocated"),
        gauge("stats_reset_ns", "ns", "Unix time of the last reset; 0 = never"),
    )
