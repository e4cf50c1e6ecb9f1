"""What went through a PgBouncer by database: transactions, queries, bytes, and time waited."""

from __future__ import annotations

from typing import Any, ClassVar

from pgdyno.observe.collector import SECOND_NS, Row
from pgdyno.observe.column import Column, counter, key
from pgdyno.observe.pooler.console import ConsoleSession

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
    meaning: ClassVar[str] = "What went through the pooler by database, and time waited there"
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
        """Return one row a database."""
        rows = self._session.show("STATS")
        return [traffic_row(row) for row in rows if row["database"] != "pgbouncer"]


def traffic_row(row: dict[str, Any]) -> Row:
    """Return one row of SHOW STATS, of whatever version, under our names."""
    found: Row = {"database": str(row["database"])}
    for name, theirs, _, factor, _ in _COUNTERS:
        found[name] = int(row[theirs]) * factor if row.get(theirs) is not None else None
    return found
