"""Heavyweight locks held and waited for: pg_locks, grouped on the server.

Cost: the server copies its whole lock table under all partition locks, so this is asked rarely;
which sessions wait for a lock is in the samples of waits.
"""

from __future__ import annotations

from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS
from pgdyno.observe.column import Column, gauge, key
from pgdyno.observe.sql.sql_collector import SqlCollector


def _statement(longest_wait: str) -> str:
    return (
        "SELECT locktype, mode, count(*) FILTER (WHERE granted),"
        f" count(*) FILTER (WHERE NOT granted), {longest_wait}"
        " FROM pg_catalog.pg_locks WHERE pid IS DISTINCT FROM pg_backend_pid() GROUP BY 1, 2"
    )


SQL = {
    10: _statement("NULL::int8"),
    14: _statement(
        "coalesce((max(extract(epoch FROM clock_timestamp() - waitstart)) * 1000000)::int8 * 1000,"
        " 0)"
    ),
}


class LocksCollector(SqlCollector):
    """Samples locks by what is locked and how."""

    name = "locks"
    meaning = "Heavyweight locks held and waited for"
    interval_ns = 5 * SECOND_NS
    sql = SQL
    columns: ClassVar[tuple[Column, ...]] = (
        key("locked", "relation, transactionid, tuple, advisory, ...: pg_locks.locktype"),
        key("mode", "such as RowExclusiveLock"),
        gauge("granted", "locks", "held"),
        gauge("waiting", "locks", "waited for"),
        gauge("longest_wait_ns", "ns", "how long the oldest waits (14)", is_nullable=True),
    )
