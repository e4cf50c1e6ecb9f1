"""Sessions by database, role, application and state; locks; progress of maintenance."""

from __future__ import annotations

from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS, Column, gauge, key
from pgdyno.observe.sql.sql_collector import SqlCollector

# Application names are cut at the first number: a pool numbers its members.
SESSIONS_SQL = {
    10: (
        "SELECT coalesce(d.datname::text, ''), coalesce(r.rolname::text, ''),"
        " coalesce(substring(a.application_name FROM '^[^0-9]*'), ''), coalesce(a.state, ''),"
        " count(*), coalesce((max(extract(epoch FROM clock_timestamp() - a.xact_start))"
        " * 1000000)::int8 * 1000, 0)"
        " FROM pg_catalog.pg_stat_get_activity(NULL) a"
        " LEFT JOIN pg_catalog.pg_database d ON d.oid = a.datid"
        " LEFT JOIN pg_catalog.pg_roles r ON r.oid = a.usesysid"
        " WHERE a.pid <> pg_backend_pid() AND a.datid <> 0 AND a.client_port IS NOT NULL"
        " GROUP BY 1, 2, 3, 4 ORDER BY 5 DESC, 1, 2, 3, 4 LIMIT 100"
    )
}


class SessionsCollector(SqlCollector):
    """Samples sessions of clients, the hundred largest groups."""

    name = "sessions"
    meaning = "Sessions of clients, by database, role, application and state"
    interval_ns = 10 * SECOND_NS
    sql = SESSIONS_SQL
    columns: ClassVar[tuple[Column, ...]] = (
        key("database", "it is connected to"),
        key("role", "that logged in"),
        key("application", "its application_name, until the first digit"),
        key("state", "as in pg_stat_activity; '' = not permitted to see"),
        gauge("sessions", "sessions", "how many"),
        gauge("oldest_transaction_ns", "ns", "age of the oldest transaction open there"),
    )


def _statement(longest_wait: str) -> str:
    return (
        "SELECT locktype, mode, count(*) FILTER (WHERE granted),"
        f" count(*) FILTER (WHERE NOT granted), {longest_wait}"
        " FROM pg_catalog.pg_locks WHERE pid IS DISTINCT FROM pg_backend_pid() GROUP BY 1, 2"
    )


LOCKS_SQL = {
    10: _statement("NULL::int8"),
    14: _statement(
        "coalesce((max(extract(epoch FROM clock_timestamp() - waitstart)) * 1000000)::int8 * 1000,"
        " 0)"
    ),
}


class LocksCollector(SqlCollector):
    """Samples locks by the kind of object and the mode."""

    name = "locks"
    meaning = "Heavyweight locks held and waited for"
    interval_ns = 5 * SECOND_NS
    sql = LOCKS_SQL
    columns: ClassVar[tuple[Column, ...]] = (
        key("locked", "relation, transactionid, tuple, advisory, ...: pg_locks.locktype"),
        key("mode", "such as RowExclusiveLock"),
        gauge("granted", "locks", "held"),
        gauge("waiting", "locks", "waited for"),
        gauge("longest_wait_ns", "ns", "age of the oldest wait (14)", is_nullable=True),
    )


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

# If the role may not see a session, its phase and numbers are NULL.
PROGRESS_SQL = {
    10: _VACUUM,
    12: " UNION ALL ".join((_VACUUM, *_SINCE_12)),
    13: " UNION ALL ".join((_VACUUM, *_SINCE_12, *_SINCE_13)),
    14: " UNION ALL ".join((_VACUUM, *_SINCE_12, *_SINCE_13, *_SINCE_14)),
}


class ProgressCollector(SqlCollector):
    """Samples maintenance commands, which are a load, too; no row while none runs."""

    name = "progress"
    meaning = "Vacuums, index builds, COPY and base backups under way"
    interval_ns = 5 * SECOND_NS
    sql = PROGRESS_SQL
    columns: ClassVar[tuple[Column, ...]] = (
        Column("pid", "int64", "process id", "of the backend", "key"),
        key("command", "vacuum, analyze, create index, reindex, cluster, copy ..., base backup"),
        key("phase", "as the view names it; '' if there is none, or it may not be seen"),
        gauge("done", "blocks or bytes", "of this phase; bytes for copies and backups",
              is_nullable=True),
        gauge("total", "blocks or bytes", "of this phase; 0 = not known", is_nullable=True),
    )  # fmt: skip
