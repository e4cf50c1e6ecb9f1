"""Pools of a PgBouncer: clients and server connections by state, and the longest wait."""

from __future__ import annotations

from typing import Any, ClassVar

from pgdyno.observe.collector import SECOND_NS, Column, Row, Scope, counter, gauge, key
from pgdyno.observe.pooler.console import ConsoleSession

# Since 1.18 a client that cancels is counted in two columns instead of one.
_CANCELLING = ("cl_active_cancel_req", "cl_waiting_cancel_req", "cl_cancel_req")


class PoolerCollector:
    """Samples SHOW POOLS. The console's own pool is left out."""

    name: ClassVar[str] = "pooler"
    scope: ClassVar[Scope] = "pooler"
    meaning: ClassVar[str] = "Pools of the pooler: clients and server connections by state"
    interval_ns: ClassVar[int] = SECOND_NS
    columns: ClassVar[tuple[Column, ...]] = (
        key("database", "of the pool, as clients name it"),
        key("user", "of the pool"),
        key("mode", "session, transaction or statement"),
        gauge("clients_active", "clients", "with a server connection, or idle without one"),
        gauge("clients_waiting", "clients", "that wait for a server connection"),
        gauge("clients_cancelling", "clients", "that ask for a cancel", is_nullable=True),
        gauge("servers_active", "connections", "given to a client"),
        gauge("servers_idle", "connections", "ready for the next client"),
        gauge("servers_used", "connections", "idle for long: tested before their next use"),
        gauge("servers_tested", "connections", "being reset or tested"),
        gauge("servers_login", "connections", "logging in to the server"),
        gauge("longest_wait_ns", "ns", "how long the first client in the queue has waited"),
    )

    def __init__(self, session: ConsoleSession) -> None:
        self._session = session

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Return one row for each pool; a client is active from its login on, even if idle."""
        return [pool_row(row) for row in self._session.show("POOLS") if not _is_console(row)]


def pool_row(row: dict[str, Any]) -> Row:
    """Return one row of SHOW POOLS of any version, with our column names."""
    cancelling = [int(row[name]) for name in _CANCELLING if name in row]
    return {
        "database": str(row["database"]),
        "user": str(row["user"]),
        "mode": str(row.get("pool_mode") or ""),
        "clients_active": int(row["cl_active"]),
        "clients_waiting": int(row["cl_waiting"]),
        "clients_cancelling": sum(cancelling) if cancelling else None,
        "servers_active": int(row["sv_active"]),
        "servers_idle": int(row["sv_idle"]),
        "servers_used": int(row["sv_used"]),
        "servers_tested": int(row["sv_tested"]),
        "servers_login": int(row["sv_login"]),
        "longest_wait_ns": int(row["maxwait"]) * SECOND_NS + int(row.get("maxwait_us") or 0) * 1000,
    }


def _is_console(row: dict[str, Any]) -> bool:
    return bool(row["database"] == "pgbouncer")


# Our column, PgBouncer's, unit, factor to it, meaning. The last four came with 1.23 and 1.24.
_COUNTERS: tuple[tuple[str, str, str, int, str], ...] = (
    ("transactions", "total_xact_count", "transactions", 1, "pooled"),
    ("queries", "total_query_count", "queries", 1, "pooled"),
    ("received_bytes", "total_received", "bytes", 1, "received from clients"),
    ("sent_bytes", "total_sent", "bytes", 1, "sent to clients"),
    ("transaction_time_ns", "total_xact_time", "ns", 1000, "connected to a server, working"),
    ("query_time_ns", "total_query_time", "ns", 1000, "servers executing queries"),
    ("wait_time_ns", "total_wait_time", "ns", 1000, "clients waiting for a server connection"),
    ("assignments", "total_server_assignment_count", "connections", 1, "given to a client"),
    ("client_parses", "total_client_parse_count", "statements", 1, "prepared by clients"),
    ("server_parses", "total_server_parse_count", "statements", 1, "prepared on servers"),
    ("binds", "total_bind_count", "statements", 1, "bound to parameters"),
)
_ALWAYS = 7


class PoolerTrafficCollector:
    """Samples SHOW STATS. The console's own traffic is left out."""

    name: ClassVar[str] = "pooler_traffic"
    scope: ClassVar[Scope] = "pooler"
    meaning: ClassVar[str] = (
        "Traffic through the pooler by database, and the time that clients waited"
    )
    interval_ns: ClassVar[int] = SECOND_NS
    columns: ClassVar[tuple[Column, ...]] = (
        key("database", "as clients name it"),
        *(
            counter(name, unit, meaning, is_nullable=place >= _ALWAYS)
            for place, (name, _, unit, _, meaning) in enumerate(_COUNTERS)
        ),
    )

    def __init__(self, session: ConsoleSession) -> None:
        self._session = session

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Return one row for each database."""
        rows = self._session.show("STATS")
        return [traffic_row(row) for row in rows if row["database"] != "pgbouncer"]


def traffic_row(row: dict[str, Any]) -> Row:
    """Return one row of SHOW STATS of any version, with our column names."""
    traffic: Row = {"database": str(row["database"])}
    for name, theirs, _, factor, _ in _COUNTERS:
        traffic[name] = int(row[theirs]) * factor if row.get(theirs) is not None else None
    return traffic
