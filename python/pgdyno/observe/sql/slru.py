"""The small caches of transaction states: pg_stat_slru."""

from __future__ import annotations

from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS
from pgdyno.observe.column import Column, counter, gauge, key
from pgdyno.observe.sql.sql_collector import SqlCollector, reset_ns

SQL = {
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
    sql = SQL
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
