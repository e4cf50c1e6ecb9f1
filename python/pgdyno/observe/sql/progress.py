"""Vacuums, index builds, COPY and base backups under way: pg_stat_progress_*."""

from __future__ import annotations

from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS
from pgdyno.observe.column import Column, gauge, key
from pgdyno.observe.sql.sql_collector import SqlCollector


def _part(command: str, view: str, phase: str, done: str, total: str) -> str:
    return (
        f"SELECT pid::int8, {command}, {phase}, ({done})::int8, ({total})::int8"
        f" FROM pg_catalog.pg_stat_progress_{view}"
    )


_VACUUM = _part("'vacuum'", "vacuum", "coalesce(phase, '')", "heap_blks_scanned", "heap_blks_total")
_SINCE_12 = (
    _part("coalesce(lower(command), 'create index')", "create_index", "coalesce(phase, '')",
          "blocks_done", "blocks_total"),
    _part("coalesce(lower(command), 'cluster')", "cluster", "coalesce(phase, '')",
          "heap_blks_scanned", "heap_blks_total"),
)  # fmt: skip
_SINCE_13 = (
    _part("'analyze'", "analyze", "coalesce(phase, '')", "sample_blks_scanned",
          "sample_blks_total"),
    _part("'base backup'", "basebackup", "coalesce(phase, '')", "backup_streamed",
          "backup_total"),
)  # fmt: skip
_SINCE_14 = (
    _part("coalesce(lower(command), 'copy')", "copy", "''", "bytes_processed", "bytes_total"),
)

# Without the right to see a session, its phase and numbers are NULL.
SQL = {
    10: _VACUUM,
    12: " UNION ALL ".join((_VACUUM, *_SINCE_12)),
    13: " UNION ALL ".join((_VACUUM, *_SINCE_12, *_SINCE_13)),
    14: " UNION ALL ".join((_VACUUM, *_SINCE_12, *_SINCE_13, *_SINCE_14)),
}


class ProgressCollector(SqlCollector):
    """Samples maintenance that is load of its own; no row when there is none."""

    name = "progress"
    meaning = "Vacuums, index builds, COPY and base backups under way"
    interval_ns = 5 * SECOND_NS
    sql = SQL
    columns: ClassVar[tuple[Column, ...]] = (
        Column("pid", "int64", "process id", "of the backend", "key"),
        key("command", "vacuum, analyze, create index, reindex, cluster, copy ..., base backup"),
        key("phase", "as the view names it; '' where it has none or none may be seen"),
        gauge("done", "blocks or bytes", "of this phase; bytes for copies and backups",
              is_nullable=True),
        gauge("total", "blocks or bytes", "of this phase; 0 = not known", is_nullable=True),
    )  # fmt: skip
