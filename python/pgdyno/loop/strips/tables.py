"""Strips of tables, and of the maintenance of them."""

from __future__ import annotations

from pgdyno.loop.strips.strip import Strip, within

TABLES = within(
    "Server",
    Strip("scans", "Scans of tables", "scans/s", "tables",
          {"sequential": "seq_scans", "by index": "index_scans"}),
    Strip("scanned_rows", "Rows fetched by scans of tables", "rows/s", "tables",
          {"sequential": "seq_rows", "by index": "index_rows"}),
    Strip("hot", "Rows updated", "rows/s", "tables",
          {"all": "rows_updated", "HOT: without new index entries": "rows_hot_updated"}),
    Strip("table_blocks", "Blocks of tables and indexes not found in shared_buffers", "blocks/s",
          "tables", {"tables": "heap_blks_read", "indexes": "index_blks_read"}),
    Strip("table_hits", "Blocks of tables and indexes found in shared_buffers", "blocks/s",
          "tables", {"tables": "heap_blks_hit", "indexes": "index_blks_hit"}),
    Strip("index_scans", "Scans by index", "scans/s", "indexes", "scans", by="index"),
    Strip("index_entries", "Entries read and rows fetched by indexes", "a second", "indexes",
          {"entries read": "entries_read", "rows fetched": "rows_fetched"}),
    Strip("database_sizes", "Sizes of databases", "GB", "sizes", "size_bytes", keys=("database",),
          by="name"),
    Strip("tablespace_sizes", "Sizes of tablespaces", "GB", "sizes", "size_bytes",
          keys=("tablespace",), by="name"),
    Strip("wal_size", "Size of the files of WAL", "GB", "sizes", "size_bytes", keys=("wal",)),
    Strip("buffers_of_databases", "Blocks in shared_buffers by database (pg_buffercache)",
          "blocks", "buffers", "blocks", keys=("database",), by="name"),
    Strip("buffers_of_relations", "Blocks in shared_buffers by relation (pg_buffercache)",
          "blocks", "buffers", "blocks", keys=("relation",), by="name"),
    Strip("buffers_by_usage", "Blocks in shared_buffers by usage count (pg_buffercache)",
          "blocks", "buffers", "blocks", keys=("usage",), by="name"),
    Strip("buffers_dirty", "Dirty blocks in shared_buffers by usage count (pg_buffercache)",
          "blocks", "buffers", "dirty", keys=("usage",), by="name"),
    Strip("dead_rows", "Rows in tables", "rows", "tables",
          {"live": "rows_live", "dead": "rows_dead"}),
    Strip("vacuums", "Vacuums and analyzes of tables", "a second", "tables",
          {"vacuums": "vacuums", "analyzes": "analyzes"}),
    Strip("progress", "Maintenance under way, blocks done", "blocks", "progress", "done",
          by="command"),
)  # fmt: skip
