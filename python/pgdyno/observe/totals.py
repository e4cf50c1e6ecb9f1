"""Exact totals of the server before and after a load; samples of each second are not exact."""

from __future__ import annotations

import threading
from typing import Any

import psycopg

from pgdyno.clock import monotonic_ns
from pgdyno.observe.collector import SECOND_NS
from pgdyno.observe.sql.database import DatabaseCollector
from pgdyno.observe.sql.sql_collector import pick
from pgdyno.observe.sql.wal import CheckpointerCollector, WalCollector

Connection = psycopg.Connection[tuple[Any, ...]]
Totals = dict[str, int | None]

SESSIONS_SQL = (
    "SELECT count(*) FROM pg_catalog.pg_stat_get_activity(NULL)"
    " WHERE starts_with(application_name, %s) AND pid <> pg_backend_pid()"
)
_POLL_S = 0.02
_NO_COUNTERS = (".stats_reset_ns", ".connections", "server.started_ns")
# After a crash the server empties all its statistics at once.
_EMPTIED = ("wal.stats_reset_ns", "checkpointer.stats_reset_ns")
# Up to PostgreSQL 14 a statistics process writes its file no more often than this.
_STATISTICS_FILE_S = 0.6


def read_totals(
    connection: Connection, *, database: str, load_application_name: str, timeout_s: float = 5.0
) -> Totals:
    """Return the counters of the load's database, of WAL and of the checkpointer.

    Call it before the load connects, and after its connections are closed. A backend reports its
    work at most once a second, and when it ends, before it leaves pg_stat_activity. Therefore this
    function waits until no session of the load is left.

    Returns: values by collector and column, such as `database.active_time_ns` or `wal.bytes`, and
    `is_exact`: 0 if sessions of the load were left after `timeout_s`, else 1.
    Raises: psycopg.Error.
    """
    version = connection.info.server_version // 10_000
    deadline_ns = monotonic_ns() + int(timeout_s * SECOND_NS)
    pause = threading.Event()
    is_exact = True
    while _count(connection, load_application_name):
        if monotonic_ns() > deadline_ns:
            is_exact = False
            break
        pause.wait(_POLL_S)
    if version < 15:
        pause.wait(_STATISTICS_FILE_S)
    totals: Totals = {"is_exact": int(is_exact), "server.started_ns": _started_ns(connection)}
    for collector, parameters in (
        (DatabaseCollector, (database,)),
        (WalCollector, ()),
        (CheckpointerCollector, ()),
    ):
        statement = pick(collector.name, collector.sql, version)
        names = [column.name for column in collector.columns]
        for row in connection.execute(statement, parameters).fetchall():
            values = dict(zip(names, row, strict=True))
            if values.pop("scope", "ours") == "ours":
                totals |= {f"{collector.name}.{name}": value for name, value in values.items()}
    return totals


def totals_between(before: Totals, after: Totals) -> Totals:
    """Return the growth between two readings; None where a counter was reset or is missing."""
    grown: Totals = {"is_exact": min(before["is_exact"] or 0, after["is_exact"] or 0)}
    for name, value in after.items():
        earlier = before.get(name)
        if name == "is_exact" or name.endswith(_NO_COUNTERS):
            continue
        reset = f"{name.split('.')[0]}.stats_reset_ns"
        was_reset = before.get(reset) != after.get(reset)
        if value is None or earlier is None or value < earlier or was_reset:
            grown[name] = None
        else:
            grown[name] = value - earlier
    return grown


def restarted_ns(before: Totals, after: Totals) -> int | None:
    """Return when the server started again between two readings, by its clock; None if it did not.

    If a backend crashes, the server recovers without a new start; this function sees the crash
    because all statistics begin again. Limits: before PostgreSQL 15 it does not see such a crash.
    """
    started_ns = after.get("server.started_ns")
    if started_ns != before.get("server.started_ns"):
        return started_ns
    resets_ns = [after[name] for name in _EMPTIED if before.get(name) != after.get(name)]
    known = [time_ns for time_ns in resets_ns if time_ns is not None]
    return min(known) if len(known) == len(_EMPTIED) else None


def _started_ns(connection: Connection) -> int | None:
    row = connection.execute(
        "SELECT (extract(epoch FROM pg_postmaster_start_time()) * 1000000000)::int8"
    ).fetchone()
    return int(row[0]) if row else None


def _count(connection: Connection, load_application_name: str) -> int:
    row = connection.execute(SESSIONS_SQL, [load_application_name]).fetchone()
    return int(row[0]) if row else 0
