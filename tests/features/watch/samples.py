"""Samples in the form that the observer writes, made by hand."""

from __future__ import annotations

from typing import Any

from pgdyno.observe.sql.database import COUNTER_NAMES

SECOND_NS = 1_000_000_000
Row = dict[str, Any]


def database(second: float, commits: int, *, interval: float = 1.0, **changes: int) -> list[Row]:
    """Return a sample of pg_stat_database: the load's database has the commits, others none.

    Two commits per second are those of the observer, unless `changes` has another number.
    """
    stamp = {"time_ns": int(second * SECOND_NS), "interval_ns": int(interval * SECOND_NS)}
    counters = dict.fromkeys(COUNTER_NAMES, 0)
    ours = {**stamp, **counters, "scope": "ours", "connections": 7, "stats_reset_ns": 0}
    ours["own_transactions"] = int(2 * second)
    others = {**ours, "scope": "others", "connections": 5, "own_transactions": 0}
    return [{**ours, "xact_commit": commits, **changes}, others]


def wal(second: float, position: int, *, interval: float = 1.0) -> list[Row]:
    """Return a sample of the WAL position."""
    stamp = {"time_ns": int(second * SECOND_NS), "interval_ns": int(interval * SECOND_NS)}
    return [{**stamp, "position_bytes": position}]


def waits(*groups: tuple[str, int, int]) -> list[Row]:
    """Return a sample of active client sessions: (wait event, query id, count)."""
    return [wait(event, query, count) for event, query, count in groups]


def wait(event: str, query: int, count: int, **changes: Any) -> Row:
    """Return one group of sessions."""
    return {
        "time_ns": 0,
        "interval_ns": 0,
        "backend_type": "client backend",
        "state": "active",
        "wait_event": event,
        "query_id": query,
        "ours": 0,
        "count": count,
    } | changes


def nobody() -> list[Row]:
    """Return a sample without sessions."""
    return [wait("", 0, 0, backend_type="", state="")]
