"""Windows of speed and waits from stored samples: what is counted, and what stands in for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pgdyno.answer.hazel_windows import hazel_of_watch
from pgdyno.store.run_writer import RunWriter
from pgdyno.store.stored_run import StoredRun

S = 1_000_000_000
MINUTES = 5


def counters(**values: int) -> dict[str, int]:
    from pgdyno.observe.sql.statements import StatementsCollector

    names = [c.name for c in StatementsCollector.columns if c.nature == "counter"]
    return {name: values.get(name, 0) for name in names}


def watched(folder: Path) -> StoredRun:
    """Five minutes: 100 calls of 2 rows a second, one session of two waiting for a lock."""
    with RunWriter(folder / "0001.partial", 1, "watch", {}) as writer:
        for second in range(MINUTES * 60 + 2):
            stamp: dict[str, Any] = {"time_ns": (1000 + second) * S, "interval_ns": S}
            row = {"backend_type": "client backend", "state": "active", "query_id": 1, "ours": 0}
            writer.add_samples(
                "waits",
                [
                    {**stamp, **row, "wait_event": "Lock:tuple", "count": 1},
                    {**stamp, **row, "wait_event": "", "count": 1 + second // 60 % 2},
                ],
            )
            if second % 10 == 0:
                counted = counters(calls=100 * second, rows=200 * second)
                key = {"database": "d", "query_id": 1}
                statement = {**stamp, "interval_ns": 10 * S if second else 0, **key, **counted}
                writer.add_samples("statements", [statement])
    return StoredRun.open_partial(folder / "0001")


def test_minutes_of_a_watch_have_the_speed_that_pg_stat_statements_counted(tmp_path: Path) -> None:
    correlations = hazel_of_watch([watched(tmp_path)])
    assert correlations is not None
    assert correlations.has_rows
    assert correlations.speeds_per_minute == pytest.approx((18_000.0,) * MINUTES, rel=0.01)
    [lock] = correlations.waits
    assert lock.wait_type == "Lock"


def test_a_watch_of_no_minutes_says_nothing() -> None:
    assert hazel_of_watch([]) is None
