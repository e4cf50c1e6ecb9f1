"""Activity of databases (pg_stat_database), sizes on disk, and ages of transaction ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

from pgdyno.observe.collector import SECOND_NS, Column, Row, counter, gauge, key
from pgdyno.observe.session import ServerSession
from pgdyno.observe.sql.sql_collector import ServerSource, SqlCollector, reset_ns

# A parallel worker adds two transactions: one starts its session, the other takes over the settings
# of its leader. Its part of the query is not counted (AtEOXact_PgStat in pgstat_xact.c).
# (column, unit, expression over pg_stat_database d, meaning)
_COUNTERS: tuple[tuple[str, str, str, str], ...] = (
    ("xact_commit", "transactions", "xact_commit", "committed transactions"),
    ("xact_rollback", "transactions", "xact_rollback", "transactions rolled back"),
    ("blks_read", "blocks", "blks_read", "blocks not found in shared_buffers"),
    ("blks_hit", "blocks", "blks_hit", "blocks found in shared_buffers"),
    ("tup_returned", "rows", "tup_returned", "live rows fetched by scans"),
    ("tup_fetched", "rows", "tup_fetched", "live rows fetched by index scans"),
    ("tup_inserted", "rows", "tup_inserted", "rows inserted"),
    ("tup_updated", "rows", "tup_updated", "rows updated"),
    ("tup_deleted", "rows", "tup_deleted", "rows deleted"),
    ("conflicts", "queries", "conflicts", "queries cancelled by recovery"),
    ("temp_files", "files", "temp_files", "temporary files created"),
    ("temp_bytes", "bytes", "temp_bytes", "bytes written to temporary files"),
    ("deadlocks", "deadlocks", "deadlocks", "deadlocks found"),
    ("blk_read_time_ns", "ns", "blk_read_time * 1e6", "reading blocks (track_io_timing)"),
    ("blk_write_time_ns", "ns", "blk_write_time * 1e6", "writing blocks (track_io_timing)"),
    ("session_time_ns", "ns", "session_time * 1e6", "time sessions existed"),
    (
        "active_time_ns",
        "ns",
        "active_time * 1e6",
        "time sessions executed statements: the DB time",
    ),
    (
        "idle_in_transaction_time_ns",
        "ns",
        "idle_in_transaction_time * 1e6",
        "time sessions idled inside a transaction",
    ),
    ("sessions", "sessions", "sessions", "sessions established"),
    ("sessions_abandoned", "sessions", "sessions_abandoned", "sessions whose client was lost"),
    ("sessions_fatal", "sessions", "sessions_fatal", "sessions ended by a fatal error"),
    ("sessions_killed", "sessions", "sessions_killed", "sessions ended by an operator"),
    (
        "parallel_transactions",
        "transactions",
        "2 * parallel_workers_launched",
        "of xact_commit: those with which parallel workers of queries begin (18+)",
    ),
)
COUNTER_NAMES = tuple(name for name, *_ in _COUNTERS)

_SINCE = dict.fromkeys(COUNTER_NAMES[COUNTER_NAMES.index("session_time_ns") :], 14)
_SINCE["parallel_transactions"] = 18


def _statement(version: int) -> str:
    sums = ", ".join(
        f"coalesce(sum({expression}), 0)::int8 AS {name}"
        if version >= _SINCE.get(name, 0)
        else f"NULL::int8 AS {name}"
        for name, _, expression, _ in _COUNTERS
    )
    return (
        "SELECT CASE WHEN datname = %s THEN 'ours' ELSE 'others' END AS scope,"
        f" coalesce(sum(numbackends), 0)::int8, {sums}, {reset_ns('max(stats_reset)')},"
        " 0::int8, 0::int8, 0::int8"
        " FROM pg_catalog.pg_stat_database GROUP BY 1"
    )


# A backend reports at most once a second, and only when a transaction or the session ends. A value
# may be a second old, and a rate over one second may belong to two.
DATABASE_SQL = {version: _statement(version) for version in (10, 14, 18)}


class DatabaseCollector(SqlCollector):
    """Samples pg_stat_database: one row for the load's database, one for all others.

    `observing`: the sessions whose transactions are our own, including the one that queries.
    """

    name = "database"
    meaning = "Activity of the load's database, and of all others together"
    sql = DATABASE_SQL
    columns: ClassVar[tuple[Column, ...]] = (
        key("scope", "'ours' = the load's database, 'others' = the sum of the rest"),
        gauge("connections", "connections", "backends connected now"),
        *(
            counter(name, unit, meaning, is_nullable=name in _SINCE)
            for name, unit, _, meaning in _COUNTERS
        ),
        gauge("stats_reset_ns", "ns", "Unix time the latest of these was reset; 0 = never"),
        counter(
            "own_transactions", "transactions", "of xact_commit: those of our observing sessions"
        ),
        counter("own_active_ns", "ns", "of active_time: that of our sessions, with round trips"),
        counter("own_active_least_ns", "ns", "the same, without round trips"),
    )

    def __init__(
        self, session: ServerSession, database: str, observing: Sequence[ServerSession] = ()
    ) -> None:
        super().__init__(session, database)
        self._database, self._observing = database, observing or (session,)

    @classmethod
    def of(cls, source: ServerSource) -> Self:
        """Return the collector of a server."""
        return cls(source.session, source.database, source.observing)

    def sample(self, now_ns: int) -> list[Row]:
        """Return the rows, with our own transactions, which the server cannot tell apart."""
        self._session.report_transactions()
        own = {scope: [0, 0, 0] for scope in ("ours", "others")}
        for session in self._observing:
            scope = "ours" if session.database == self._database else "others"
            took = (session.transaction_count, session.active_ns, session.active_least_ns)
            own[scope] = [sum(both) for both in zip(own[scope], took, strict=True)]
        names = ("own_transactions", "own_active_ns", "own_active_least_ns")
        return [
            row | dict(zip(names, own[str(row["scope"])], strict=True))
            for row in super().sample(now_ns)
        ]


# The query leaves out sizes that this role may not read.
SIZES_SQL = {
    10: (
        "SELECT 'database', datname::text, pg_database_size(oid), NULL::int8"
        " FROM pg_catalog.pg_database WHERE datallowconn AND"
        " (has_database_privilege(oid, 'CONNECT') OR pg_has_role('pg_read_all_stats', 'USAGE'))"
        " UNION ALL SELECT 'tablespace', spcname::text, pg_tablespace_size(oid), NULL"
        " FROM pg_catalog.pg_tablespace WHERE"
        " has_tablespace_privilege(oid, 'CREATE') OR pg_has_role('pg_read_all_stats', 'USAGE')"
    )
}
# A separate statement: if one function may not be called, the server refuses the whole statement.
MAY_LIST_SQL = "SELECT has_function_privilege('pg_catalog.pg_ls_waldir()', 'EXECUTE')"
WAL_SQL = "SELECT 'wal', 'pg_wal', sum(size)::int8, count(*) FROM pg_catalog.pg_ls_waldir()"


class SizesCollector(SqlCollector):
    """Samples sizes on the server's disks: of each database, each tablespace, and WAL."""

    name = "sizes"
    meaning = "Sizes of databases, of tablespaces, and of the files of WAL"
    interval_ns = 60 * SECOND_NS
    sql = SIZES_SQL
    columns: ClassVar[tuple[Column, ...]] = (
        key("kind", "database, tablespace or wal"),
        key("name", "of the database or tablespace"),
        gauge("size_bytes", "bytes", "on disk"),
        gauge("files", "files", "of WAL; NULL for the others", is_nullable=True),
    )

    def sample(self, now_ns: int) -> list[Row]:
        """Return one row for each database and tablespace that this role may read, and for WAL."""
        rows = super().sample(now_ns)
        [(may_list,)] = self._session.fetch(MAY_LIST_SQL)
        if may_list:
            names = [column.name for column in self.columns]
            wal_rows = self._session.fetch(WAL_SQL)
            rows += [dict(zip(names, row, strict=True)) for row in wal_rows if row[3]]
        return rows


AGES_SQL = {
    10: (
        "SELECT (SELECT max(age(datfrozenxid))::int8 FROM pg_catalog.pg_database),"
        " (SELECT max(mxid_age(datminmxid))::int8 FROM pg_catalog.pg_database),"
        " current_setting('autovacuum_freeze_max_age')::int8,"
        " coalesce((SELECT max(age(backend_xmin))::int8"
        " FROM pg_catalog.pg_stat_get_activity(NULL) WHERE pid <> pg_backend_pid()), 0),"
        " p.count, p.oldest_ns, current_setting('autovacuum_multixact_freeze_max_age')::int8"
        " FROM (SELECT count(*) AS count, coalesce((max("
        "extract(epoch FROM clock_timestamp() - prepared)) * 1000000)::int8 * 1000, 0) AS oldest_ns"
        " FROM pg_catalog.pg_prepared_xacts) p"
    )
}


class AgesCollector(SqlCollector):
    """Samples the age of the oldest transaction that the server must remember."""

    name = "ages"
    meaning = "Ages of transaction ids, snapshots and prepared transactions"
    interval_ns = 10 * SECOND_NS
    sql = AGES_SQL
    columns: ClassVar[tuple[Column, ...]] = (
        gauge("xid_age", "transactions", "since the oldest row that is not frozen"),
        gauge("multixact_age", "multixacts", "since the oldest one that is kept"),
        gauge("freeze_age", "transactions", "at which autovacuum always freezes"),
        gauge("snapshot_age", "transactions", "since the oldest snapshot that a session holds"),
        gauge("prepared", "transactions", "prepared and neither committed nor rolled back"),
        gauge("oldest_prepared_ns", "ns", "age of the oldest of these"),
        gauge("multixact_freeze_age", "multixacts", "at which autovacuum always freezes"),
    )
