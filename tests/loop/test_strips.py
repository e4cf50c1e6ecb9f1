"""Strips of telemetry: rates and gauges, one line a key, gaps, and nothing where nothing was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.watch.samples import SECOND_NS

from pgdyno.loop.strips import Strip, panel_of
from pgdyno.loop.strips_of_host import FIRST, FURTHER, WATCHED
from pgdyno.observe.catalogue import COLLECTORS
from pgdyno.store.experiment import Store
from pgdyno.store.stored_run import StoredRun

COLUMNS = {collector.name: collector.columns for collector in COLLECTORS}
ALL = (*WATCHED, *FIRST, *FURTHER)
SPACE = Strip("space", "Free", "GB", "space", {"": (("available_bytes",), 1e-9)}, kind="gauge")
SWAP = Strip("swap", "Swapped", "MB/s", "paging", {"in": (("swapped_in_bytes",), 1e-6)})


def kept(tmp_path: Path, collector: str, rows: list[dict[str, Any]]) -> list[StoredRun]:
    """Return a stored segment with these rows, other columns 0."""
    folder = Store(tmp_path).create("strips", "watch")
    with folder.begin_run(1, "segment 1", {}) as writer:
        empty: dict[str, Any] = {
            column.name: "" if column.dtype == "text" else 0 for column in COLUMNS[collector]
        }
        for row in rows:
            writer.add_samples(collector, [{**empty, "interval_ns": SECOND_NS, **row}])
        writer.add_record({"record": "summary", "began_ns": 0, "ended_ns": 9 * SECOND_NS})
        writer.finish()
    return folder.runs()


def test_a_rate_is_drawn_in_the_middle_of_its_interval(tmp_path: Path) -> None:
    rows = [{"time_ns": s * SECOND_NS, "swapped_in_bytes": s * 5_000_000} for s in range(1, 4)]
    panel = panel_of(SWAP, kept(tmp_path, "paging", rows), 0)
    assert panel is not None
    assert panel.time_s == (1.5, 2.5)
    assert panel.series[0].values == (5.0, 5.0)


def test_a_line_a_key_begins_when_its_key_does_and_the_largest_come_first(tmp_path: Path) -> None:
    rows = [
        {"time_ns": s * SECOND_NS, "place": place, "available_bytes": size}
        for s in range(1, 4)
        for place, size in (("wal", 1_000_000_000), ("data", 2_000_000_000))
        if s > 1 or place == "wal"
    ]
    strip = replace(SPACE, by=("place",))
    panel = panel_of(strip, kept(tmp_path, "space", rows), 0)
    assert panel is not None
    assert {one.name: one.values for one in panel.series} == {
        "data": (None, 2.0, 2.0),
        "wal": (1.0, 1.0, 1.0),
    }
    assert [one.name for one in panel.series] == ["data", "wal"]


def test_a_missing_stretch_is_a_gap_in_every_line(tmp_path: Path) -> None:
    rows = [
        {"time_ns": s * SECOND_NS, "place": "data", "available_bytes": 1_000_000_000}
        for s in (1, 2, 3, 9, 10)
    ]
    panel = panel_of(SPACE, kept(tmp_path, "space", rows), 0)
    assert panel is not None
    assert panel.time_s == (1.0, 2.0, 3.0, 6.0, 9.0, 10.0)
    assert panel.series[0].values == (1.0, 1.0, 1.0, None, 1.0, 1.0)


def test_there_is_no_chart_of_what_never_happened(tmp_path: Path) -> None:
    rows = [{"time_ns": s * SECOND_NS} for s in range(1, 4)]
    runs = kept(tmp_path, "paging", rows)
    assert panel_of(SWAP, runs, 0) is None
    assert panel_of(SPACE, runs, 0) is None


@pytest.mark.parametrize("strip", ALL, ids=lambda strip: strip.key)
def test_every_strip_draws_columns_that_its_collector_has(strip: Strip) -> None:
    columns = {column.name: column for column in COLUMNS[strip.collector]}
    wanted = "counter" if strip.kind == "rate" else "gauge"
    for names, factor in strip.lines.values():
        assert factor > 0
        assert {columns[name].nature for name in names} == {wanted}
    assert {columns[name].nature for name in strip.by} <= {"key"}
    assert [one.key for one in ALL].count(strip.key) == 1
