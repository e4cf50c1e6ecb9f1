"""Activity of the load's database, and of all others together: pg_stat_database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pgdyno.observe.collector import Row
from pgdyno.observe.column import Column, counter, gauge, key
from pgdyno.observe.session import ServerSession
from pgdyno.observe.sql.sql_collector import SqlCollector, reset_ns

# (column, unit, expression over pg_stat_database d, meaning)
_COUNTERS: tuple[tuple[str, str, str, str], ...] = (
    ("xact_commit", "transactions", "xact_commit", "transactions committed"),
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
    ("active_time_ns", "ns", "active_time * 1e6", "time sessions executed SQL: the DB time"),
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
)
COUNTER_NAMES = tuple(name for name, *_ in _COUNTERS)

_SESSIONS_SINCE_14 = frozenset(COUNTER_NAMES[COUNTER_NAMES.index("session_time_ns") :])


def _statement(*, has_sessions: bool) -> str:
    sums = ", ".join(
        f"coalesce(sum({expression}), 0)::int8 AS {name}"
        if has_sessions or name not in _SESSIONS_SINCE_14
        else f"NULL::int8 AS {name}"
        for name, _, expression, _ in _COUNTERS
    )
    return (
        "SELECT CASE WHEN datname = %s THEN 'ours' ELSE 'others' END AS scope,"
        f" coalesce(sum(numbackends), 0)::int8, {sums}, {reset_ns('max(stats_reset)')}, 0::int8"
        " FROM pg_catalog.pg_stat_database GROUP BY 1"
    )


# Backends report at most once a second, and at the end of a transaction or session only: a value
# may be a second behind, and a rate over one second is smeared over two.
SQL = {10: _statement(has_sessions=False), 14: _statement(has_sessions=True)}


class DatabaseCollector(SqlCollector):
    """Samples pg_stat_database: one row for the load's database, one for all others.

    `observing` are the sessions whose transactions are our own, the one that asks among them.
    """

    name = "database"
    meaning = "Activity of the load's database, and of all others together"
    sql = SQL
    columns: ClassVar[tuple[Column, ...]] = (
        key("scope", "'ours' = the load's database, 'others' = the sum of the rest"),
        gauge("connections", "connections", "backends connected now"),
        *(
            counter(name, unit, meaning, is_nullable=name in _SESSIONS_SINCE_14)
            for name, unit, _, meaning in _COUNTERS
        ),
        gauge("stats_reset_ns", "ns", "Unix time the latest of these was reset; 0 = never"),
        counter("own_transactions", "transactions", "of xact_commit: our observing sessions'"),
    )

    def __init__(
        self, session: ServerSession, database: str, observing: Sequence[ServerSession] = ()
    ) -> None:
        super().__init__(session, database)
        self._database, self._observing = database, observing or (session,)

    def sample(self, now_ns: int) -> list[Row]:
        """Return the rows; the server does not know how many of the transactions are ours."""
        self._session.report_transactions()
        own = {"ours": 0, "others": 0}
        for session in self._observing:
            scope = "ours" if session.database == self._database else "others"
            own[scope] += session.transaction_count
        return [
            row | {"own_transactions": own[str(row["scope"])]} for row in super().sample(now_ns)
        ]
