"""Figures of short runs: counters that are reported late, and CPU time below a clock tick."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.answer.test_time_split_gate import LENGTH_S, SECOND_NS, numbers

from pgdyno.loop.counter_growth import is_seen_by_ticks
from pgdyno.loop.history import each_transaction
from pgdyno.observe.sql.database import COUNTER_NAMES
from pgdyno.store.experiment import Store

# One transaction reads this many rows.
ROWS = 60_001


@pytest.mark.parametrize(("is_exact", "rows_each"), [(1, ROWS), (0, None)])
def test_counters_and_transactions_are_of_the_same_time(
    tmp_path: Path, is_exact: int, rows_each: float | None
) -> None:
    """Of 200 transactions, sessions reported the rows of 183 within the measured phase."""
    with Store(tmp_path).create("short", "tune").begin_run(1, "run", {}) as writer:
        for second, reported in ((0, 0), (LENGTH_S, 183)):
            stamp = {"time_ns": second * SECOND_NS, "interval_ns": second * SECOND_NS}
            row = {**dict.fromkeys(COUNTER_NAMES, 0), "scope": "ours", "connections": 1}
            row |= {"stats_reset_ns": 0, "own_transactions": 0, "tup_returned": reported * ROWS}
            writer.add_samples("database", [stamp | row])
        totals = {"is_exact": is_exact, "database.tup_returned": 210 * ROWS}
        writer.write_json("server.json", {"totals": totals})
        writer.add_record({"record": "summary", "began_ns": 0, "ended_ns": LENGTH_S * SECOND_NS})
        stored = writer.finish()
    load = numbers(completed=200, committed=210)
    assert each_transaction(stored, load, "database.tup_returned") == rows_each


@pytest.mark.parametrize(("run_ms", "is_seen"), [(5, False), (150, False), (250, True)])
def test_cpu_time_is_known_if_two_ticks_are_little_of_it(run_ms: int, is_seen: bool) -> None:
    assert is_seen_by_ticks(run_ms * 1e6) is is_seen
