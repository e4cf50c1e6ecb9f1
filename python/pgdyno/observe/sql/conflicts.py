"""Queries that recovery cancelled on a standby, by reason: pg_stat_database_conflicts."""

from __future__ import annotations

from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS
from pgdyno.observe.column import Column, counter, key
from pgdyno.observe.sql.sql_collector import SqlCollector


def _statement(*reasons: str) -> str:
    pairs = ", ".join(f"('{name.replace('_', ' ')}', c.confl_{name})" for name in reasons)
    return (
        f"SELECT v.reason, sum(v.cancelled)::int8 FROM pg_catalog.pg_stat_database_conflicts c"
        f" CROSS JOIN LATERAL (VALUES {pairs}) v (reason, cancelled)"
        " WHERE pg_is_in_recovery() GROUP BY 1"
    )


_REASONS = ("tablespace", "lock", "snapshot", "bufferpin", "deadlock")
SQL = {10: _statement(*_REASONS), 16: _statement(*_REASONS, "active_logicalslot")}


class ConflictsCollector(SqlCollector):
    """Samples the reasons; no row on a server that is no standby."""

    name = "conflicts"
    meaning = "Queries that recovery cancelled on a standby, by reason"
    interval_ns = 10 * SECOND_NS
    sql = SQL
    columns: ClassVar[tuple[Column, ...]] = (
        key("reason", "tablespace, lock, snapshot, bufferpin, deadlock or active logicalslot"),
        counter("cancelled", "queries", "cancelled for it, in all databases"),
    )
