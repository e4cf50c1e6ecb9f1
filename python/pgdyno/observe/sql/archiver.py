"""WAL segments archived, and attempts that failed: pg_stat_archiver."""

from __future__ import annotations

from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS
from pgdyno.observe.column import Column, counter, gauge
from pgdyno.observe.sql.sql_collector import SqlCollector, reset_ns

SQL = {
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
    sql = SQL
    columns: ClassVar[tuple[Column, ...]] = (
        counter("archived", "segments", "WAL segments archived"),
        counter("failed", "attempts", "attempts that failed"),
        gauge("last_archived_ns", "ns", "Unix time of the last success; 0 = never"),
        gauge("last_failed_ns", "ns", "Unix time of the last failure; 0 = never"),
        gauge("stats_reset_ns", "ns", "Unix time of the last reset; 0 = never"),
    )
