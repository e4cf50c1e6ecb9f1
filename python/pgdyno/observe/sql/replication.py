"""How far standbys are behind the primary; on a standby, how far it is behind."""

from __future__ import annotations

from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS, Column, counter, gauge, key
from pgdyno.observe.sql.sql_collector import SqlCollector

_REPLICATION_HERE = (
    "(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn() ELSE pg_current_wal_lsn() END)"
)
# If everything received is replayed, the age of the last commit is not a lag: the primary may be
# idle.
_OWN_LAG = (
    "CASE WHEN pg_last_wal_receive_lsn() <= pg_last_wal_replay_lsn() AND"
    " EXISTS (SELECT FROM pg_catalog.pg_stat_wal_receiver) THEN NULL"
    " ELSE now() - pg_last_xact_replay_timestamp() END"
)


def _lag_ns(name: str) -> str:
    return f"(extract(epoch FROM {name}) * 1000000)::int8 * 1000"


# The same as pg_stat_replication, but that view reads every session even without a standby.
# The lags are NULL when the standby is idle and has caught up.
REPLICATION_SQL = {
    10: (
        "SELECT w.pid::int8, coalesce(a.application_name, ''), coalesce(w.state, ''),"
        f" coalesce(w.sync_state, ''), ({_REPLICATION_HERE} - sent_lsn)::int8,"
        f" ({_REPLICATION_HERE} - replay_lsn)::int8,"
        f" {_lag_ns('write_lag')}, {_lag_ns('flush_lag')}, {_lag_ns('replay_lag')}"
        " FROM pg_catalog.pg_stat_get_wal_senders() w"
        " CROSS JOIN LATERAL pg_catalog.pg_stat_get_activity(w.pid) a"
        " UNION ALL SELECT 0, 'this server', 'replaying', '', NULL,"
        " (pg_last_wal_receive_lsn() - pg_last_wal_replay_lsn())::int8, NULL, NULL,"
        f" {_lag_ns(_OWN_LAG)} WHERE pg_is_in_recovery()"
    )
}


class ReplicationCollector(SqlCollector):
    """Samples every connected standby and receiver of WAL; no row if there is none."""

    name = "replication"
    meaning = "How far standbys and receivers of WAL are behind"
    sql = REPLICATION_SQL
    columns: ClassVar[tuple[Column, ...]] = (
        Column("sender_pid", "int64", "process id", "of the WAL sender; 0 = this server", "key"),
        key("standby", "its application_name; 'this server' = the standby that is asked"),
        key("state", "startup, catchup, streaming, backup or stopping"),
        key("sync_state", "async, potential, sync or quorum; '' = not permitted to see"),
        gauge("send_lag_bytes", "bytes", "WAL written and not sent", is_nullable=True),
        gauge("replay_lag_bytes", "bytes", "WAL written and not replayed", is_nullable=True),
        gauge("write_lag_ns", "ns", "until written there", is_nullable=True),
        gauge("flush_lag_ns", "ns", "until flushed there", is_nullable=True),
        gauge("replay_lag_ns", "ns", "until visible there; on this standby, until it has caught up:"
              " age of the last commit replayed", is_nullable=True),
    )  # fmt: skip


_SLOTS_HERE = (
    "(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END)"
)


def _slots_statement(*, status: str, room: str) -> str:
    return (
        f"SELECT slot_name::text, slot_type, {status}, active::int,"
        f" ({_SLOTS_HERE} - restart_lsn)::int8, {room} FROM pg_catalog.pg_replication_slots"
    )


SLOTS_SQL = {
    10: _slots_statement(status="''", room="NULL::int8"),
    13: _slots_statement(status="coalesce(wal_status, '')", room="safe_wal_size"),
}


class SlotsCollector(SqlCollector):
    """Samples replication slots; no row if there is none."""

    name = "slots"
    meaning = "WAL kept for replication slots"
    interval_ns = 10 * SECOND_NS
    sql = SLOTS_SQL
    columns: ClassVar[tuple[Column, ...]] = (
        key("slot", "its name"),
        key("kind", "physical or logical"),
        key(
            "wal_status", "reserved, extended, unreserved or lost; '' = nothing kept, or before 13"
        ),
        gauge("active", "0 or 1", "1 = a receiver reads it"),
        gauge("kept_bytes", "bytes", "WAL kept for it", is_nullable=True),
        gauge("room_bytes", "bytes", "until it loses WAL; NULL = no limit", is_nullable=True),
    )


def _conflicts_statement(*reasons: str) -> str:
    pairs = ", ".join(f"('{name.replace('_', ' ')}', c.confl_{name})" for name in reasons)
    return (
        f"SELECT v.reason, sum(v.cancelled)::int8 FROM pg_catalog.pg_stat_database_conflicts c"
        f" CROSS JOIN LATERAL (VALUES {pairs}) v (reason, cancelled)"
        " WHERE pg_is_in_recovery() GROUP BY 1"
    )


_REASONS = ("tablespace", "lock", "snapshot", "bufferpin", "deadlock")
CONFLICTS_SQL = {
    10: _conflicts_statement(*_REASONS),
    16: _conflicts_statement(*_REASONS, "active_logicalslot"),
}


class ConflictsCollector(SqlCollector):
    """Samples cancelled queries by reason; no row if the server is not a standby."""

    name = "conflicts"
    meaning = "Queries that recovery cancelled on a standby, by reason"
    interval_ns = 10 * SECOND_NS
    sql = CONFLICTS_SQL
    columns: ClassVar[tuple[Column, ...]] = (
        key("reason", "tablespace, lock, snapshot, bufferpin, deadlock or active logicalslot"),
        counter("cancelled", "queries", "cancelled for it, in all databases"),
    )
