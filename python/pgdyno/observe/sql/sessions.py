"""Who is connected: sessions by database, role, application and state."""

from __future__ import annotations

from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS
from pgdyno.observe.column import Column, gauge, key
from pgdyno.observe.sql.sql_collector import SqlCollector

# Names of applications end where numbers begin: a pool names its members one by one.
SQL = {
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
    sql = SQL
    columns: ClassVar[tuple[Column, ...]] = (
        key("database", "it is connected to"),
        key("role", "that logged in"),
        key("application", "its application_name, until the first digit"),
        key("state", "as in pg_stat_activity; '' = no right to see it"),
        gauge("sessions", "sessions", "how many"),
        gauge("oldest_transaction_ns", "ns", "age of the oldest transaction open there"),
    )
