"""Records of a small run in the form that the engine writes, made by hand."""

from __future__ import annotations

from typing import Any

BEGAN_NS = 1_790_000_000_000_000_000
SECOND_NS = 1_000_000_000
PASSWORD = "open sesame 4711"

JOB: dict[str, Any] = {
    "format": "pgdyno.contract/1",
    "clock": {"monotonic_ns": 1, "unix_ns": BEGAN_NS},
    "target": {
        "hosts": [{"host": "/tmp", "port": 5432}],
        "user": "me",
        "database": "bench",
        "password": PASSWORD,
        "application_name": "pgdyno/bench/1",
    },
    "work": {"kind": "load", "threads": 2},
}


def hello() -> dict[str, Any]:
    return {"record": "hello", "time_ns": BEGAN_NS, "engine_version": "0.1.0", "scripts": []}


def phase(name: str, event: str, second: int) -> dict[str, Any]:
    time_ns = BEGAN_NS + second * SECOND_NS
    return {"record": "phase", "time_ns": time_ns, "phase": name, "event": event}


def interval(second: int, completed: int, by_script: tuple[int, ...] = (1, 2)) -> dict[str, Any]:
    counts = {"scheduled": completed + 1, "started": completed + 1, "completed": completed}
    rest = ("failed", "skipped", "not_started", "late", "retried", "retries")
    return {
        "record": "interval",
        "time_ns": BEGAN_NS + second * SECOND_NS,
        "interval_ns": SECOND_NS,
        "phase": "measure",
        "counts": counts | dict.fromkeys(rest, 0) | {"unfinished": 1},
        "completed_by_script": list(by_script),
        "latency_sum_ns": completed * 1_000_000,
        "in_flight": 3,
        "backlog": 0,
        "connections": 4,
        "cpu_ns": 5_000_000,
        "a_field_of_a_newer_engine": {"nested": [1, 2]},
    }


def histogram(
    second: int,
    buckets: list[list[int]],
    *,
    measured: str = "latency",
    script: int | None = None,
    statement: int | None = None,
) -> dict[str, Any]:
    record: dict[str, Any] = {
        "record": "histogram",
        "time_ns": BEGAN_NS + second * SECOND_NS,
        "interval_ns": SECOND_NS,
        "phase": "measure",
        "measured": measured,
        "count": sum(count for _, count in buckets),
        "sum_ns": 640,
        "min_ns": 64,
        "max_ns": (1 << 63) - 1,
        "buckets": buckets,
    }
    if script is not None:
        record["script"] = script
    if statement is not None:
        record["statement"] = statement
    return record


def summary() -> dict[str, Any]:
    span = {
        "phase": "measure",
        "began_ns": BEGAN_NS + SECOND_NS,
        "ended_ns": BEGAN_NS + 3 * SECOND_NS,
    }
    return {
        "record": "summary",
        "time_ns": BEGAN_NS + 4 * SECOND_NS,
        "ending": "completed",
        "phases": [span],
    }


def whole_run() -> list[dict[str, Any]]:
    """Two measured seconds: 10 and 20 transactions."""
    return [
        hello(),
        phase("measure", "begin", 1),
        interval(2, 10),
        histogram(2, [[1, 4], [7, 6]]),
        histogram(2, [[3, 10]], script=0),
        histogram(2, [[2, 10]], measured="statement", script=0, statement=1),
        interval(3, 20),
        histogram(3, [[1, 20]]),
        {
            "record": "warning",
            "time_ns": BEGAN_NS,
            "kind": "steal",
            "message": "Steal.",
            "hint": "",
        },
        phase("measure", "end", 3),
        summary(),
    ]


def memory_row(second: int) -> dict[str, Any]:
    sizes = ("total", "free", "available", "buffers", "cached", "shared", "anonymous")
    sizes += ("page_tables", "dirty", "writeback", "swap_total", "huge_pages_total")
    row = {f"{name}_bytes": 1024 for name in (*sizes, "huge_pages_free")}
    return row | {
        "time_ns": BEGAN_NS + second * SECOND_NS,
        "interval_ns": SECOND_NS if second > 1 else 0,
        "swap_free_bytes": None,
    }


def wait_row(second: int, wait_event: str, query_id: int = -5) -> dict[str, Any]:
    return {
        "time_ns": BEGAN_NS + second * SECOND_NS,
        "interval_ns": 100_000_000,
        "backend_type": "client backend",
        "state": "active",
        "wait_event": wait_event,
        "query_id": query_id,
        "ours": 1,
        "count": 2,
    }
