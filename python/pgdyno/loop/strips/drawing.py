"""Telemetry over time: a strip is drawn from what its collector left.

Runs (of a watch: segments) are read one after another, and only what is drawn is kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from pgdyno.analysis.findings import Panel, Series
from pgdyno.loop.statement_names import StatementNames
from pgdyno.loop.strips.strip import COLUMNS, ROWS_MAX, Strip
from pgdyno.observe.rates import deltas, since_zero
from pgdyno.store.stored_run import StoredRun

_LINES_MAX = 8
_NO_TEXTS = StatementNames({})
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(slots=True)
class _Drawn:
    """Points of one strip gathered so far; a gap is a point whose values are NaN."""

    time_ns: list[int] = field(default_factory=list)
    values: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def add(self, axis_ns: IntArray, lines: Mapping[str, FloatArray], longest_ns: int) -> None:
        """Add the points of one run; a line that was not there before has NaN until now."""
        if self.time_ns and axis_ns[0] - self.time_ns[-1] > 3 * longest_ns:
            self._extend([(int(axis_ns[0]) + self.time_ns[-1]) // 2], {})
        after = np.flatnonzero(np.diff(axis_ns) > 2 * longest_ns) + 1
        middles = (axis_ns[after - 1] + axis_ns[after]) // 2
        filler = np.full(after.size, np.nan)
        self._extend(
            np.insert(axis_ns, after, middles).tolist(),
            {name: np.insert(line, after, filler).tolist() for name, line in lines.items()},
        )

    def _extend(self, time_ns: list[int], lines: Mapping[str, list[float]]) -> None:
        known = len(self.time_ns)
        for name in lines:
            if name not in self.values:
                self.values[name] = [float("nan")] * known
        self.time_ns += time_ns
        for name, values in self.values.items():
            values += lines.get(name, [float("nan")] * len(time_ns))


def panels_of_strips(
    strips: Iterable[Strip],
    runs: Sequence[StoredRun],
    origin_ns: int,
    statements: StatementNames,
) -> tuple[Panel, ...]:
    """Return the panels something ever happened in; times count from `origin_ns`."""
    found = (panel_of(strip, runs, origin_ns, statements) for strip in strips)
    return tuple(panel for panel in found if panel is not None)


def panel_of(
    strip: Strip,
    runs: Iterable[StoredRun],
    origin_ns: int,
    statements: StatementNames = _NO_TEXTS,
) -> Panel | None:
    """Return one panel, or None if nothing was measured, or nothing ever happened there."""
    drawn = _Drawn()
    for run in runs:
        arrays = run.telemetry(strip.collector)
        if arrays is None or not len(arrays["time_ns"]):
            continue
        lines, axis_ns, longest_ns = (_rates if strip.is_rate else _gauges)(strip, arrays)
        if axis_ns.size:
            drawn.add(axis_ns, lines, longest_ns)
    sums = {name: float(np.nansum(np.abs(values))) for name, values in drawn.values.items()}
    if not any(sums.values()) or len(drawn.time_ns) < 2:
        return None
    names = [name for name in strip.columns() if name in sums]
    if strip.by == "query_id":
        sums = {name: total for name, total in sums.items() if not statements.is_own(name)}
    if strip.by:
        busiest = sorted(sums, key=lambda name: -sums[name])[:_LINES_MAX]
        names = [name for name in busiest if sums[name]]
    axis = tuple(round((time_ns - origin_ns) / 1e9, 3) for time_ns in drawn.time_ns)
    return Panel(
        strip.key,
        strip.title,
        strip.unit,
        axis,
        tuple(
            series(
                statements.short(name) if strip.by == "query_id" else name or strip.title,
                drawn.values[name],
            )
            for name in names
        ),
        is_stacked=strip.is_stacked,
        note=strip.note,
        section=strip.section,
    )


def _rates(
    strip: Strip, arrays: Mapping[str, npt.NDArray[Any]]
) -> tuple[dict[str, FloatArray], IntArray, int]:
    """Return the rates by line at the middle of each interval, those of several keys summed."""
    all_columns = COLUMNS[strip.collector]
    if rows_max := ROWS_MAX.get(strip.collector, 0):
        arrays = since_zero(arrays, all_columns, rows_max)
    found = [
        one
        for one in deltas(arrays, all_columns)
        if one.time_ns.size and (strip.keys is None or set(strip.keys) & set(one.key.values()))
    ]
    if not found:
        return {}, np.zeros(0, dtype=np.int64), 0
    axis_ns = np.unique(np.concatenate([one.time_ns for one in found]))
    longest_ns = int(max(np.median(one.interval_ns) for one in found))
    lines: dict[str, FloatArray] = {}
    divisors: dict[str, FloatArray] = {}
    for one in found:
        place = np.searchsorted(axis_ns, one.time_ns)
        for name, columns in strip.columns().items():
            if not set(columns) <= one.by_column.keys():
                continue  # Older results lack newer counters.
            less = [column for column in strip.subtracted(name) if column in one.by_column]
            label = " ".join(one.key[key] for key in strip.by_keys) if strip.by else name
            grown = sum(one.per_second(column) for column in columns) * strip.factor
            for column in less:
                grown = np.maximum(grown - one.per_second(column) * strip.factor, 0.0)
            _add_at(lines, label, place, grown, axis_ns.size)
            if divisor := strip.divisor(name):
                _add_at(divisors, label, place, one.per_second(divisor), axis_ns.size)
    for label, times in divisors.items():
        lines[label] = np.divide(
            lines[label], times, out=np.full(times.size, np.nan), where=times > 0
        )
    return lines, axis_ns - longest_ns // 2, longest_ns


def _gauges(
    strip: Strip, arrays: Mapping[str, npt.NDArray[Any]]
) -> tuple[dict[str, FloatArray], IntArray, int]:
    """Return the values by line at each instant, those of several keys summed."""
    keys = [c.name for c in COLUMNS[strip.collector] if c.nature == "key" and c.name in arrays]
    time_ns = np.asarray(arrays["time_ns"], dtype=np.int64)
    chosen = np.ones(time_ns.size, dtype=bool)
    if strip.keys is not None:
        texts_of_keys = np.stack([np.asarray(arrays[key]).astype(str) for key in keys])
        chosen = np.asarray(np.isin(texts_of_keys, strip.keys).any(axis=0), dtype=np.bool_)
    axis_ns, place = np.unique(time_ns[chosen], return_inverse=True)
    if not axis_ns.size:
        return {}, axis_ns, 0
    longest_ns = int(np.median(np.diff(axis_ns))) if axis_ns.size > 1 else 0
    labels = np.full(int(chosen.sum()), "")
    if strip.by:
        texts = [np.asarray(arrays[key])[chosen].astype(str).tolist() for key in strip.by_keys]
        labels = np.asarray([" ".join(words) for words in zip(*texts, strict=True)])
    lines: dict[str, FloatArray] = {}
    for name, columns in strip.columns().items():
        if not set(columns) <= arrays.keys():
            continue
        added = [np.asarray(arrays[column], dtype=np.float64)[chosen] for column in columns]
        total = np.sum(added, axis=0) * strip.factor
        for label in np.unique(labels):
            rows = labels == label
            _add_at(lines, str(label) if strip.by else name, place[rows], total[rows], axis_ns.size)
    return lines, axis_ns, longest_ns


def _add_at(
    lines: dict[str, FloatArray], name: str, place: IntArray, values: Any, size: int
) -> None:
    """Add values at places of a line; a place nobody adds to stays NaN."""
    line = lines.setdefault(name, np.full(size, np.nan))
    known = ~np.isnan(values)
    line[place[known]] = np.where(np.isnan(line[place[known]]), 0.0, line[place[known]])
    np.add.at(line, place[known], np.asarray(values)[known])


def series(name: str, values: Iterable[float]) -> Series:
    """Return a named line; NaN is a gap."""
    return Series(name, tuple(None if np.isnan(value) else float(value) for value in values))
