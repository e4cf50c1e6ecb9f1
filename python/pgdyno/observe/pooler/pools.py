"""Pools of a PgBouncer: clients and server connections by state, and the longest wait."""

from __future__ import annotations

from typing import Any, ClassVar

from pgdyno.observe.collector import SECOND_NS, Row
from pgdyno.observe.column import Column, gauge, key
from pgdyno.observe.pooler.console import ConsoleSession

# Since 1.18 a client that cancels is counted in two columns instead of one.
_CANCELLING = ("cl_active_cancel_req", "cl_waiting_cancel_req", "cl_cancel_req")


class PoolerCollector:
    """Samples SHOW POOLS. The console's own pool is left out."""

    name: ClassVar[str] = "pooler"
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
        """Return one row a pool; clients count as active from login on, also while they idle."""
        return [pool_row(row) for row in self._session.show("POOLS") if not _is_console(row)]


def pool_row(row: dict[str, Any]) -> Row:
    """Return one row of SHOW POOLS, of whatever version, under our names."""
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
