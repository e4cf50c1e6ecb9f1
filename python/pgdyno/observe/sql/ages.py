"""What keeps the past: ages of transaction ids, of snapshots, of prepared transactions."""

from __future__ import annotations

from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS
from pgdyno.observe.column import Column, gauge
from pgdyno.observe.sql.sql_collector import SqlCollector

SQL = {
    10: (
        "SELECT (SELECT max(age(datfrozenxid))::int8 FROM pg_catalog.pg_database),"
        " (SELECT max(mxid_age(datminmxid))::int8 FROM pg_catalog.pg_database),"
        " current_setting('autovacuum_freeze_max_age')::int8,"
        " coalesce((SELECT max(age(backend_xmin))::int8"
        " FROM pg_catalog.pg_stat_get_activity(NULL) WHERE pid <> pg_backend_pid()), 0),"
        " p.count, p.oldest_ns FROM (SELECT count(*) AS count, coalesce((max("
        "extract(epoch FROM clock_timestamp() - prepared)) * 1000000)::int8 * 1000, 0) AS oldest_ns"
        " FROM pg_catalog.pg_prepared_xacts) p"
    )
}


class AgesCollector(SqlCollector):
    """Samples how far back what must not be forgotten reaches."""

    name = "ages"
    meaning = "Ages of transaction ids, snapshots and prepared transactions"
    interval_ns = 10 * SECOND_NS
    sql = SQL
    columns: ClassVar[tuple[Column, ...]] = (
        gauge("xid_age", "transactions", "since the oldest row that is not frozen"),
        gauge("multixact_age", "multixacts", "since the oldest one that is kept"),
        gauge("freeze_age", "transactions", "at which autovacuum freezes, whatever else it does"),
        gauge("snapshot_age", "transactions", "since the oldest snapshot that a session holds"),
        gauge("prepared", "transactions", "prepared and neither committed nor rolled back"),
        gauge("oldest_prepared_ns", "ns", "age of the oldest of these"),
    )
