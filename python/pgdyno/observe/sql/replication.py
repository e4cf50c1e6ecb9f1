"""How far standbys are behind, and on a standby how far it is behind itself."""

from __future__ import annotations

from typing import ClassVar

from pgdyno.observe.column import Column, gauge, key
from pgdyno.observe.sql.sql_collector import SqlCollector

_HERE = (
    "(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn() ELSE pg_current_wal_lsn() END)"
)
# A commit's age says nothing where everything that was sent is replayed: the primary may be idle.
_OWN_LAG = (
    "CASE WHEN pg_last_wal_receive_lsn() <= pg_last_wal_replay_lsn() AND"
    " EXISTS (SELECT FROM pg_catalog.pg_stat_wal_receiver) THEN NULL"
    " ELSE now() - pg_last_xact_replay_timestamp() END"
)


def _lag_ns(name: str) -> str:
    return f"(extract(epoch FROM {name}) * 1000000)::int8 * 1000"


# As pg_stat_replication, which looks at every session even where there is no standby.
# The lags are NULL when the standby is idle and has caught up.
SQL = {
    10: (
        "SELECT w.pid::int8, coalesce(a.application_name, ''), coalesce(w.state, ''),"
        f" coalesce(w.sync_state, ''), ({_HERE} - sent_lsn)::int8, ({_HERE} - replay_lsn)::int8,"
        f" {_lag_ns('write_lag')}, {_lag_ns('flush_lag')}, {_lag_ns('replay_lag')}"
        " FROM pg_catalog.pg_stat_get_wal_senders() w"
        " CROSS JOIN LATERAL pg_catalog.pg_stat_get_activity(w.pid) a"
        " UNION ALL SELECT 0, 'this server', 'replaying', '', NULL,"
        " (pg_last_wal_receive_lsn() - pg_last_wal_replay_lsn())::int8, NULL, NULL,"
        f" {_lag_ns(_OWN_LAG)} WHERE pg_is_in_recovery()"
    )
}


class ReplicationCollector(SqlCollector):
    """Samples every standby and receiver of WAL that is connected; no row without any."""

    name = "replication"
    meaning = "How far standbys and receivers of WAL are behind"
    sql = SQL
    columns: ClassVar[tuple[Column, ...]] = (
        Column("sender_pid", "int64", "process id", "of the WAL sender; 0 = this server", "key"),
        key("standby", "its application_name; 'this server' = the standby that is asked"),
        key("state", "startup, catchup, streaming, backup or stopping"),
        key("sync_state", "async, potential, sync or quorum; '' = no right to see it"),
        gauge("send_lag_bytes", "bytes", "WAL written and not sent", is_nullable=True),
        gauge("replay_lag_bytes", "bytes", "WAL written and not replayed", is_nullable=True),
        gauge("write_lag_ns", "ns", "until written there", is_nullable=True),
        gauge("flush_lag_ns", "ns", "until flushed there", is_nullable=True),
        gauge("replay_lag_ns", "ns", "until visible there; here, while more is to replay: age of"
              " the last commit replayed", is_nullable=True),
    )  # fmt: skip
