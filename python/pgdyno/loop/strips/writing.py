"""Strips of writing: WAL, checkpoints, I/O by kind of process, and what is sent elsewhere."""

from __future__ import annotations

from pgdyno.loop.strips.strip import Strip, within

WRITING = within(
    "Server",
    Strip("wal_records", "WAL records and full page images", "a second", "wal",
          {"records": "records", "full page images": "full_page_images"}),
    Strip("wal_io", "WAL written out and flushed", "a second", "wal",
          {"writes": "writes", "flushes": "syncs", "wal_buffers were full": "buffers_full"}),
    Strip("wal_times", "Writing and flushing WAL (track_wal_io_timing)", "s each second", "wal",
          {"writing": "write_time_ns", "flushing": "sync_time_ns"}),
    Strip("wal_files", "Files of WAL", "files", "sizes", "files", keys=("wal",)),
    Strip("checkpoints", "Checkpoints begun", "a second", "checkpointer",
          {"timed": "checkpoints_timed", "requested": "checkpoints_requested"}),
    Strip("checkpoint_times", "Time checkpoints took, added when each ended", "s each second",
          "checkpointer",
          {"writing": "checkpoint_write_time_ns", "flushing": "checkpoint_sync_time_ns"}),
    Strip("buffers_allocated", "Buffers allocated", "blocks/s", "checkpointer", "buffers_alloc"),
    Strip("buffer_trouble", "Background writer at its limit, backends that flushed", "a second",
          "checkpointer", {"stopped by bgwriter_lru_maxpages": "maxwritten_clean",
           "flushes by backends": "buffers_backend_fsync"}),
    Strip("io_read", "Read by kind of process (pg_stat_io)", "MB/s", "io", "read_bytes",
          by="backend_type"),
    Strip("io_written", "Written by kind of process (pg_stat_io)", "MB/s", "io", "write_bytes",
          by="backend_type"),
    Strip("io_extended", "Relations made longer (pg_stat_io)", "MB/s", "io", "extend_bytes",
          by="backend_type"),
    Strip("io_flushed", "Flushes by kind of process (pg_stat_io)", "flushes/s", "io", "fsyncs",
          by="backend_type"),
)  # fmt: skip

COPIES = within(
    "Server",
    Strip("replication", "WAL that standbys have not replayed", "MB", "replication",
          "replay_lag_bytes", by="standby"),
    Strip("replication_time", "Until standbys show a commit", "s", "replication", "replay_lag_ns",
          by="standby"),
    Strip("slots", "WAL kept for replication slots", "MB", "slots", "kept_bytes", by="slot"),
    Strip("archiver", "WAL archiving", "segments/s", "archiver",
          {"archived": "archived", "failed": "failed"}),
)  # fmt: skip
