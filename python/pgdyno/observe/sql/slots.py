"""WAL that replication slots keep: pg_replication_slots."""

from __future__ import annotations

from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS
from pgdyno.observe.column import Column, gauge, key
from pgdyno.observe.sql.sql_collector import SqlCollector

_HERE = (
    "(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END)"
)


def _statement(*, status: str, room: str) -> str:
    return (
        f"SELECT slot_name::text, slot_type, {status}, active::int,"
        f" ({_HERE} - restart_lsn)::int8, {room} FROM pg_catalog.pg_replication_slots"
    )


SQL = {
    10: _statement(status="''", room="NULL::int8"),
    13: _statement(status="coalesce(wal_status, '')", room="safe_wal_size"),
}


class SlotsCollector(SqlCollector):
    """Samples replication slots; no row without any."""

    name = "slots"
    meaning = "WAL kept for replication slots"
    interval_ns = 10 * SECOND_NS
    sql = SQL
    columns: ClassVar[tuple[Column, ...]] = (
        key("slot", "its name"),
        key("kind", "physical or logical"),
        key(
            "wal_status", "reserved, extended, unreserved or lost; '' = nothing kept, or before 13"
        ),
        gauge("active", "0 or 1", "1 = somebody reads it"),
        gauge("kept_bytes", "bytes", "WAL kept for it", is_nullable=True),
        gauge("room_bytes", "bytes", "until it loses WAL; NULL = no limit", is_nullable=True),
    )
