"""Charts of telemetry: rates and gauges, one line a key, gaps, and nothing where nothing was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.features.watch.samples import SECOND_NS

from pgdyno.answer.charts.catalogue import FIRST, WATCHED, further_charts
from pgdyno.answer.charts.chart import TelemetryChart, chart, line, only
from pgdyno.answer.charts.drawing import panel_of
from pgdyno.features.nodes.charts import NODES
from pgdyno.observe.catalogue import columns_of
from pgdyno.store.experiment import Store
from pgdyno.store.stored_run import StoredRun

ALL = (*WATCHED, *FIRST, *further_charts([]), *NODES)
SPACE = chart("space", "Free", "GB", "space", only("available_bytes"))
SWAP = chart("swap", "Swapped", "MB/s", "paging", line("in", "swapped_in_bytes"))


def kept(tmp_path: Path, collector: str, rows: list[dict[str, Any]]) -> list[StoredRun]:
    """Return a stored segment with these rows, other columns 0."""
    folder = Store(tmp_path).create("charts", "watch")
    with folder.begin_run(1, "segment 1", {}) as writer:
        empty: dict[str, Any] = {
            column.name: "" if column.dtype == "text" else 0 for column in columns_of(collector)
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
    by_place = replace(SPACE, by=("place",))
    panel = panel_of(by_place, kept(tmp_path, "space", rows), 0)
    assert panel is not None
    assert {series.name: series.values for series in panel.series} == {
        "data": (None, 2.0, 2.0),
        "wal": (1.0, 1.0, 1.0),
    }
    assert [series.name for series in panel.series] == ["data", "wal"]


def test_a_missing_stretch_is_a_gap_in_every_line(tmp_path: Path) -> None:
    rows = [
        {"time_ns": s * SECOND_NS, "place": "data", "available_bytes": 1_000_000_000}
        for s in (1, 2, 3, 9, 10)
    ]
    panel = panel_of(SPACE, kept(tmp_path, "space", rows), 0)
    assert panel is not None
    assert panel.time_s == (1.0, 2.0, 3.0, 6.0, 9.0, 10.0)
    assert panel.series[0].values == (1.0, 1.0, 1.0, None, 1.0, 1.0)


def test_a_folded_chart_has_at_most_200_points_each_a_mean(
    tmp_path: Path,
) -> None:
    rows = [
        {"time_ns": s * SECOND_NS, "place": "data", "available_bytes": s * 1_000_000_000}
        for s in range(1, 401)
    ]
    runs = kept(tmp_path, "space", rows)
    whole, folded = (panel_of(replace(SPACE, section=of), runs, 0) for of in ("", "Host"))
    assert whole is not None
    assert folded is not None
    assert (len(whole.time_s), len(folded.time_s)) == (400, 200)
    assert folded.time_s[:2] == (1.5, 3.5)
    assert folded.series[0].values[:2] == (1.5, 3.5)


def test_a_chart_has_the_points_of_the_run_and_their_neighbours(tmp_path: Path) -> None:
    rows = [{"time_ns": s * SECOND_NS, "swapped_in_bytes": s * 5_000_000} for s in range(1, 9)]
    runs = kept(tmp_path, "paging", rows)
    panel = panel_of(SWAP, runs, 3 * SECOND_NS, seconds=2.0)
    assert panel is not None
    assert panel.time_s == (-0.5, 0.5, 1.5, 2.5)
    assert panel_of(SWAP, runs, 9 * SECOND_NS, seconds=2.0) is None


def test_a_quotient_divides_sums_and_a_difference_is_never_below_zero(tmp_path: Path) -> None:
    rows = [
        {"time_ns": s * SECOND_NS, "device": "sda", "reads": 4 * min(s, 3),
         "read_time_ns": 12_000_000 * min(s, 3), "writes": s}
        for s in range(1, 5)
    ]  # fmt: skip
    runs = kept(tmp_path, "disk", rows)
    chart_of_disk = panel_of(
        chart("e", "Each", "ms", "disk", only("read_time_ns", over="reads"), by=("device",)),
        runs,
        0,
    )
    assert chart_of_disk is not None
    assert chart_of_disk.series[0].values == (3.0, 3.0, None)
    less = panel_of(
        chart("d", "Less", "a second", "disk", only("reads", minus=("writes",))), runs, 0
    )
    assert less is not None
    assert less.series[0].values == (3.0, 3.0, 0.0)


def test_an_event_that_never_happened_has_no_chart(tmp_path: Path) -> None:
    rows = [{"time_ns": s * SECOND_NS} for s in range(1, 4)]
    runs = kept(tmp_path, "paging", rows)
    assert panel_of(SWAP, runs, 0) is None
    assert panel_of(SPACE, runs, 0) is None


@pytest.mark.parametrize(
    ("unit", "collector", "column", "value", "drawn"),
    [
        ("MB/s", "paging", "swapped_in_bytes", 1_000_000, 1.0),
        ("GB", "space", "available_bytes", 2_000_000_000, 2.0),
        ("cores", "cpu", "user_ns", 1_000_000_000, 1.0),
        ("% of the time", "disk", "busy_ns", 250_000_000, 25.0),
        ("GHz", "frequency", "mean_hz", 3_000_000_000, 3.0),
        ("W", "energy", "energy_uj", 65_000_000, 65.0),
        ("requests/s", "disk", "reads", 5, 5.0),
    ],
)
def test_the_unit_says_what_values_are_multiplied_by(
    unit: str, collector: str, column: str, value: int, drawn: float
) -> None:
    assert value * chart("any", "Any", unit, collector, only(column)).factor == pytest.approx(drawn)


@pytest.mark.parametrize("drawn_chart", ALL, ids=lambda drawn_chart: drawn_chart.key)
def test_every_chart_draws_columns_that_its_collector_has(drawn_chart: TelemetryChart) -> None:
    columns = {column.name: column for column in columns_of(drawn_chart.collector)}
    wanted = "counter" if drawn_chart.is_rate else "gauge"
    drawn = [columns[name] for line in drawn_chart.lines for name in line.columns]
    assert {column.nature for column in drawn} == {wanted}
    others = {name for line in drawn_chart.lines for name in (*line.minus, line.over) if name}
    assert others <= columns.keys()
    # The columns of a chart share a unit, because one factor converts them all.
    assert len({column.unit for column in drawn}) == 1 or drawn_chart.factor == 1
    words = {"bytes": "B", "ns": "", "Hz": "GHz", "uJ": "W"}
    if (unit := drawn[0].unit) in words:
        assert drawn_chart.factor < 1
        assert words[unit] in drawn_chart.unit
    assert {columns[name].nature for name in drawn_chart.by} <= {"key"}
    assert [catalogued.key for catalogued in ALL].count(drawn_chart.key) == 1
