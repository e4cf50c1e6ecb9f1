"""Makes the panel of a chart from the stored rows of its collector.

Runs (segments of a watch) are read one after another, and only the points of the panel are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pgdyno.analysis.arrays import distinct
from pgdyno.analysis.findings import Panel, Series
from pgdyno.analysis.where_facts import NOT_INSTRUMENTED
from pgdyno.answer.charts.chart import ChartLine, TelemetryChart
from pgdyno.loop.counter_growth import growth_of
from pgdyno.measure.statement_texts import StatementNames
from pgdyno.observe.catalogue import columns_of
from pgdyno.observe.rates import Deltas
from pgdyno.store.stored_run import StoredRun

_LINES_MAX = 8
_FOLDED_POINTS_MAX = 200
_NO_TEXTS = StatementNames({})
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
_Known = dict[str, list[Deltas]]


@dataclass(slots=True)
class _DrawnPoints:
    """The points of one chart so far, by run; a gap is a point whose values are NaN."""

    pieces: list[tuple[IntArray, Mapping[str, FloatArray]]] = field(default_factory=list)

    def add(self, axis_ns: IntArray, lines: Mapping[str, FloatArray], longest_ns: int) -> None:
        """Add the points of one run."""
        if self.pieces and axis_ns[0] - (last_ns := self.pieces[-1][0][-1]) > 3 * longest_ns:
            self.pieces.append((np.array([(axis_ns[0] + last_ns) // 2]), {}))
        after = np.flatnonzero(np.diff(axis_ns) > 2 * longest_ns) + 1
        middles = (axis_ns[after - 1] + axis_ns[after]) // 2
        with_gaps = {name: np.insert(line, after, np.nan) for name, line in lines.items()}
        self.pieces.append((np.insert(axis_ns, after, middles), with_gaps))

    def joined(self) -> tuple[IntArray, dict[str, FloatArray]]:
        """Return time and lines; a line is NaN at times when it did not exist."""
        if not self.pieces:
            return np.zeros(0, dtype=np.int64), {}
        names = dict.fromkeys(name for _, lines in self.pieces for name in lines)
        axis_ns = np.concatenate([piece_ns for piece_ns, _ in self.pieces])
        return axis_ns, {
            name: np.concatenate(
                [lines.get(name, np.full(times.size, np.nan)) for times, lines in self.pieces]
            )
            for name in names
        }


def panels_of_charts(
    charts: Iterable[TelemetryChart],
    runs: Sequence[StoredRun],
    origin_ns: int,
    statements: StatementNames,
    *,
    seconds: float | None = None,
) -> tuple[Panel, ...]:
    """Return the panels that have at least one value other than 0; times are from `origin_ns`.

    Args: seconds, the length of the panels; None: to the end of the runs.
    """
    # With one run, the rates are kept for the next chart; with many runs they would be too large.
    known: _Known | None = {} if len(runs) == 1 else None
    panels = (
        panel_of(chart, runs, origin_ns, statements, seconds=seconds, known=known)
        for chart in charts
    )
    return tuple(panel for panel in panels if panel is not None)


def panel_of(
    chart: TelemetryChart,
    runs: Iterable[StoredRun],
    origin_ns: int,
    statements: StatementNames = _NO_TEXTS,
    *,
    seconds: float | None = None,
    known: _Known | None = None,
) -> Panel | None:
    """Return one panel, None if nothing was measured or all values are 0."""
    drawn = _DrawnPoints()
    for run in runs:
        arrays = run.telemetry(chart.collector)
        if arrays is None or not len(arrays["time_ns"]):
            continue
        lines, axis_ns, longest_ns = (
            _rates(chart, arrays, known) if chart.is_rate else _gauges(chart, arrays)
        )
        if axis_ns.size:
            drawn.add(axis_ns, lines, longest_ns)
    axis_ns, lines = drawn.joined()
    axis_s = np.round((axis_ns - origin_ns) / 1e9, 3)
    if seconds is not None:
        inside = np.flatnonzero((axis_s >= 0) & (axis_s <= seconds))
        if inside.size < 2 or not any(
            np.nansum(np.abs(values[inside])) for values in lines.values()
        ):
            return None
        # One more point on each side, so that lines reach the edges of the panel.
        kept = slice(max(0, int(inside[0]) - 1), int(inside[-1]) + 2)
        axis_s, lines = axis_s[kept], {name: line[kept] for name, line in lines.items()}
    sums = {name: float(np.nansum(np.abs(line))) for name, line in lines.items()}
    if not any(sums.values()) or axis_s.size < 2:
        return None
    names = [line.name for line in chart.lines if line.name in sums]
    if chart.is_by_statement:
        sums = {name: total for name, total in sums.items() if not statements.is_own(name)}
    if chart.by:
        busiest = sorted(sums, key=lambda name: -sums[name])[:_LINES_MAX]
        names = [name for name in busiest if sums[name]]
    if chart.by == ("node",):
        names.sort()  # A node has the same colour in every chart.
    # There are many folded charts, and they do not need every second of an hour.
    points = _Points(axis_s.size, _FOLDED_POINTS_MAX if chart.section else axis_s.size)

    def shown(name: str) -> str:
        if chart.is_by_statement:
            return statements.short(name)
        return name or (NOT_INSTRUMENTED if chart.by == ("wait_event",) else chart.title)

    return Panel(
        chart.key,
        chart.title,
        chart.unit,
        tuple(points.places(axis_s).tolist()),
        tuple(series(shown(name), points.means(lines[name])) for name in names),
        is_stacked=chart.is_stacked,
        note=chart.note,
        section=chart.section,
    )


class _Grid:
    """Brings samples of several nodes together: they are due at the same instants.

    A sample is taken when it is due or less than one interval later. So the widest gap between the
    samples' places within an interval ends where samples are due.
    """

    def __init__(self, time_ns: IntArray, step_ns: int) -> None:
        self._step_ns = max(step_ns, 1)
        places = np.sort(time_ns % self._step_ns)
        gaps = np.diff(places, prepend=places[-1] - self._step_ns)
        self._first_ns = int(places[int(np.argmax(gaps))])

    def points(self, time_ns: IntArray) -> IntArray:
        """Return when each sample was due."""
        count = (time_ns - self._first_ns) // self._step_ns
        return np.asarray(self._first_ns + count * self._step_ns, dtype=np.int64)


class _Points:
    """Reduces many points to fewer: each is the mean of a stretch without its gaps."""

    def __init__(self, count: int, at_most: int) -> None:
        shown = min(count, at_most)
        self._starts = np.arange(shown) * count // max(shown, 1)
        self._ends = np.append(self._starts[1:], count) - 1
        self._is_all = shown == count

    def places(self, axis: FloatArray) -> FloatArray:
        """Return the middle of each stretch."""
        return axis if self._is_all else (axis[self._starts] + axis[self._ends]) / 2

    def means(self, line: FloatArray) -> FloatArray:
        """Return the mean of each stretch, NaN if it has only gaps."""
        if self._is_all:
            return line
        known = ~np.isnan(line)
        count = np.add.reduceat(known, self._starts, dtype=np.int64)
        total = np.add.reduceat(np.where(known, line, 0.0), self._starts)
        means = np.full(count.size, np.nan)
        np.divide(total, count, out=means, where=count > 0)
        return means


def _rates(
    chart: TelemetryChart, arrays: Mapping[str, npt.NDArray[Any]], known: _Known | None
) -> tuple[dict[str, FloatArray], IntArray, int]:
    """Return the rates by line at the middle of each interval; rates of several keys are summed."""
    of_collector = (known or {}).get(chart.collector)
    if of_collector is None:
        of_collector = growth_of(arrays, chart.collector)
    if known is not None:
        known[chart.collector] = of_collector
    of_keys = [
        growth
        for growth in of_collector
        if chart.keys is None or set(chart.keys) & set(growth.key.values())
    ]
    if not of_keys:
        return {}, np.zeros(0, dtype=np.int64), 0
    longest_ns = int(max(np.median(growth.interval_ns) for growth in of_keys))
    if "node" in chart.by:
        whole_ns = np.concatenate([growth.time_ns for growth in of_keys])
        grid = _Grid(whole_ns, longest_ns)
        of_keys = [replace(growth, time_ns=grid.points(growth.time_ns)) for growth in of_keys]
    # Keys are mostly sampled at the same instants, so a stable sort only merges ordered parts.
    axis_ns = distinct(
        np.sort(np.concatenate([growth.time_ns for growth in of_keys]), kind="stable")
    )
    lines: dict[str, FloatArray] = {}
    divisors: dict[str, FloatArray] = {}
    for growth in of_keys:
        place = np.searchsorted(axis_ns, growth.time_ns)
        for line in chart.lines:
            if not set(line.columns) <= growth.by_column.keys():
                continue  # Older results do not have newer counters.
            less = [column for column in line.minus if column in growth.by_column]
            label = _label(chart, line, growth.key)
            grown = sum(growth.per_second(column) for column in line.columns) * chart.factor
            for column in less:
                # Servers of older versions do not count everything that is subtracted.
                other = np.nan_to_num(growth.per_second(column)) * chart.factor
                grown = np.maximum(grown - other, 0.0)
            _add_at(lines, label, place, grown, axis_ns.size)
            if line.over:
                _add_at(divisors, label, place, growth.per_second(line.over), axis_ns.size)
    for label, times in divisors.items():
        lines[label] = np.divide(
            lines[label], times, out=np.full(times.size, np.nan), where=times > 0
        )
    return lines, axis_ns - longest_ns // 2, longest_ns


def _gauges(
    chart: TelemetryChart, arrays: Mapping[str, npt.NDArray[Any]]
) -> tuple[dict[str, FloatArray], IntArray, int]:
    """Return the values by line at each instant; values of several keys are summed."""
    keys = [c.name for c in columns_of(chart.collector) if c.nature == "key" and c.name in arrays]
    time_ns = np.asarray(arrays["time_ns"], dtype=np.int64)
    if "node" in keys and time_ns.size:
        time_ns = _Grid(time_ns, int(np.median(arrays["interval_ns"]))).points(time_ns)
    chosen = np.ones(time_ns.size, dtype=bool)
    if chart.keys is not None:
        texts_of_keys = np.stack([np.asarray(arrays[key]).astype(str) for key in keys])
        chosen = np.asarray(np.isin(texts_of_keys, chart.keys).any(axis=0), dtype=np.bool_)
    axis_ns = distinct(time_ns[chosen])
    if not axis_ns.size:
        return {}, axis_ns, 0
    place = np.searchsorted(axis_ns, time_ns[chosen])
    longest_ns = int(np.median(np.diff(axis_ns))) if axis_ns.size > 1 else 0
    labels = np.full(int(chosen.sum()), "")
    if chart.by:
        texts = [np.asarray(arrays[key])[chosen].astype(str).tolist() for key in chart.by]
        labels = np.asarray([" ".join(words) for words in zip(*texts, strict=True)])
    lines: dict[str, FloatArray] = {}
    for line in chart.lines:
        if not set(line.columns) <= arrays.keys():
            continue
        added = [np.asarray(arrays[column], dtype=np.float64)[chosen] for column in line.columns]
        total = np.sum(added, axis=0) * chart.factor
        for label in np.unique(labels):
            rows = labels == label
            name = str(label) if chart.by else line.name
            _add_at(lines, name, place[rows], total[rows], axis_ns.size)
    if chart.is_stacked:
        # A part that a sample lacks was 0 then.
        lines = {name: np.nan_to_num(values) for name, values in lines.items()}
    return lines, axis_ns, longest_ns


def _label(chart: TelemetryChart, line: ChartLine, key: Mapping[str, str]) -> str:
    """Return the name of the line to which a row with these keys belongs."""
    return " ".join(key[name] for name in chart.by) if chart.by else line.name


def _add_at(
    lines: dict[str, FloatArray], name: str, place: IntArray, values: Any, size: int
) -> None:
    """Add values at places of a line; the other places stay NaN."""
    line = lines.setdefault(name, np.full(size, np.nan))
    known = ~np.isnan(values)
    line[place[known]] = np.where(np.isnan(line[place[known]]), 0.0, line[place[known]])
    np.add.at(line, place[known], np.asarray(values)[known])


def series(name: str, values: FloatArray) -> Series:
    """Return a named line; NaN is a gap."""
    numbers = values.tolist()
    if np.isnan(values).any():
        numbers = [None if value != value else value for value in numbers]
    return Series(name, tuple(numbers))
