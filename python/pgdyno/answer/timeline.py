"""A run over time: load, latency, waits, CPU, WAL and disk as panels on one axis of seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pgdyno.analysis.findings import Mark, Panel, Series
from pgdyno.analysis.histogram import percentiles_of_each
from pgdyno.answer.charts.catalogue import FIRST, further_charts
from pgdyno.answer.charts.drawing import panels_of_charts, series
from pgdyno.answer.charts.waits import waits_panel
from pgdyno.answer.devices import data_disk, moved_bytes
from pgdyno.answer.marks import event_marks, nearest_merged
from pgdyno.answer.own import own_answer, program_of_run
from pgdyno.loop.counter_growth import counters_of
from pgdyno.loop.load_numbers import LoadNumbers, as_histogram, measured_seconds
from pgdyno.measure.statement_texts import StatementNames
from pgdyno.observe.rates import Deltas
from pgdyno.store.stored_run import StoredRun

_PERCENTS = (50.0, 95.0, 99.0)
FloatArray = npt.NDArray[np.float64]


def panels_of(
    stored: StoredRun, numbers: LoadNumbers, storage: Mapping[str, Any]
) -> tuple[Panel, ...]:
    """Return the panels that have data, in reading order.

    Args: storage, the place of the server's data as stored in its facts, empty if not known.
    """
    makers: tuple[Callable[[StoredRun, LoadNumbers], Panel | None], ...] = (
        _throughput,
        _latency,
        _waits,
        _cpu,
        _programs,
        _wal,
        lambda run, load: _disk_bytes(run, load, storage),
        lambda run, load: _disk_times(run, load, storage),
        _buffers,
    )
    panels = [panel for maker in makers if (panel := maker(stored, numbers)) is not None]
    panels = [*own_answer(program_of_run(numbers)).panels(stored, numbers), *panels]
    known = {panel.key for panel in panels}
    charts = [chart for chart in (*FIRST, *further_charts([stored])) if chart.key not in known]
    texts = stored.server_json.get("statement_texts") or {}
    further = panels_of_charts(
        charts, [stored], numbers.began_ns, StatementNames(texts), seconds=numbers.seconds
    )
    return (*panels, *further)


def marks_of(
    stored: StoredRun, numbers: LoadNumbers, change_seconds: Sequence[float]
) -> tuple[Mark, ...]:
    """Return starts of checkpoints, changes of speed, and gaps; near marks are joined if many.

    Args: change_seconds, when throughput changed, in seconds of the measured phase.
    """
    marks = [Mark(second, "change", "throughput changed") for second in change_seconds]
    for warning in stored.warnings:
        if "gap" in warning["kind"] or "lost" in warning["kind"]:
            marks.append(Mark(_seconds(warning["time_ns"], numbers), "gap", warning["message"]))
    happened = event_marks(stored, numbers.began_ns)
    marks += [mark for mark in happened if 0 <= mark.time_s <= numbers.seconds]
    return nearest_merged(marks)


def checkpoint_count(marks: Iterable[Mark]) -> int:
    """Return how many checkpoints the measured phase covers."""
    return sum(mark.count for mark in marks if mark.kind == "checkpoint")


def _throughput(stored: StoredRun, numbers: LoadNumbers) -> Panel | None:
    """Return completed and failed transactions of each second, from the 100 ms counts."""
    intervals = stored.intervals()
    chosen = np.asarray(intervals["phase"]) == "measure"
    ends_ns = intervals["time_ns"][chosen].astype(np.int64)
    if ends_ns.size == 0:
        return None
    second = np.maximum((ends_ns - 1 - numbers.began_ns) // 1_000_000_000, 0)
    spent_ns = np.bincount(second, intervals["interval_ns"][chosen])
    whole = spent_ns > 500_000_000

    def per_second(name: str) -> FloatArray:
        counted = np.bincount(second, intervals[name][chosen].astype(np.float64))
        return np.asarray(counted[whole] / spent_ns[whole] * 1e9, dtype=np.float64)

    lines = [_line("completed", per_second("completed"))]
    if intervals["failed"][chosen].any():
        lines.append(_line("failed", per_second("failed")))
    if is_open_loop(stored):
        lines.insert(0, _line("offered", per_second("scheduled")))
    axis = np.arange(spent_ns.size, dtype=np.float64)[whole] + 0.5
    return Panel("tps", "Throughput", "tps", _axis(axis), tuple(lines))


def is_open_loop(stored: StoredRun) -> bool:
    """Return whether transactions were due by the clock and not when a client was free."""
    arrivals = stored.job.get("work", {}).get("arrivals", {})
    return bool(arrivals.get("loop") == "open")


def _latency(stored: StoredRun, numbers: LoadNumbers) -> Panel | None:
    rows = numbers.latency_by_second
    if rows is None:
        rows = tuple(measured_seconds(stored, "latency"))
    if not rows:
        return None
    axis = [_seconds(record.time_ns - record.interval_ns // 2, numbers) for record in rows]
    histograms = [as_histogram(record) for record in rows]

    values = percentiles_of_each(histograms, _PERCENTS)
    lines = [_line(f"p{p:g}", values[:, place] / 1e6) for place, p in enumerate(_PERCENTS)]
    lines.append(_line("max", [histogram.max_ns / 1e6 for histogram in histograms]))
    return Panel("latency", "Latency", "ms", _axis(axis), tuple(lines), is_logarithmic=True)


def _waits(stored: StoredRun, numbers: LoadNumbers) -> Panel | None:
    """Return the load's active sessions by wait event, mean of each second's samples."""
    waits = stored.waits()
    time_ns = np.asarray(waits["time_ns"], dtype=np.int64)
    inside = (time_ns >= numbers.began_ns) & (time_ns < numbers.ended_ns)
    if not inside.any():
        return None
    measured = {name: np.asarray(values)[inside] for name, values in waits.items()}
    counted = (measured["ours"] == 1) & (measured["state"] == "active")
    count = int(time_ns[inside].max() - numbers.began_ns) // 1_000_000_000 + 1
    return waits_panel([(measured, counted)], numbers.began_ns, count)


def _cpu(stored: StoredRun, numbers: LoadNumbers) -> Panel | None:
    modes = {
        "user": ("user_ns", "nice_ns"),
        "system": ("system_ns",),
        "interrupts": ("irq_ns", "softirq_ns"),
        "waiting for I/O": ("iowait_ns",),
        "stolen": ("steal_ns",),
    }
    growth = _one(stored, "cpu", "all")
    if growth is None:
        return None
    lines = tuple(
        _line(name, sum(growth.per_second(column) for column in columns) / 1e9)
        for name, columns in modes.items()
    )
    return _panel("cpu", "CPU of the host", "cores", growth, numbers, lines, is_stacked=True)


def _programs(stored: StoredRun, numbers: LoadNumbers) -> Panel | None:
    """Return CPU by program: the load's backends, the server's other processes, engine, lab."""
    groups = {growth.key["backend_type"]: growth for growth in counters_of(stored, "backends")}
    programs = {growth.key["program"]: growth for growth in counters_of(stored, "programs")}
    if "load" not in groups:
        return None
    axis_ns = groups["load"].time_ns
    lines = [_line("backends of the load", groups["load"].per_second("run_ns") / 1e9)]
    others = [group for name, group in groups.items() if name not in ("load", "observer")]
    if others:
        total = sum(_on(axis_ns, group, "run_ns") for group in others)
        lines.append(_line("server's other processes", total))
    if "observer" in groups:
        lines.append(_line("observer's backends", _on(axis_ns, groups["observer"], "run_ns")))
    for name, words in (("engine", "load engine"), ("lab", "pgdyno itself")):
        if name in programs:
            cpu = sum(_on(axis_ns, programs[name], c) for c in ("cpu_user_ns", "cpu_system_ns"))
            lines.append(_line(words, cpu))
    return _panel(
        "programs", "CPU by program", "cores", groups["load"], numbers, lines, is_stacked=True
    )


def _wal(stored: StoredRun, numbers: LoadNumbers) -> Panel | None:
    growth = next(iter(counters_of(stored, "wal")), None)
    if growth is None or not np.nansum(growth.by_column["bytes"]):
        return None
    lines = [_line("WAL generated", growth.per_second("bytes") / 1e6)]
    return _panel("wal", "WAL", "MB/s", growth, numbers, lines)


def _disk_bytes(
    stored: StoredRun, numbers: LoadNumbers, storage: Mapping[str, Any]
) -> Panel | None:
    growth = data_disk(counters_of(stored, "disk"), storage)
    if growth is None or not moved_bytes(growth):
        return None
    lines = [
        _line("read", growth.per_second("read_bytes") / 1e6),
        _line("written", growth.per_second("write_bytes") / 1e6),
    ]
    title = f"Disk {growth.key['device']}"
    return _panel("disk", title, "MB/s", growth, numbers, lines)


def _disk_times(
    stored: StoredRun, numbers: LoadNumbers, storage: Mapping[str, Any]
) -> Panel | None:
    """Return the mean time of a disk request; commits wait for flushes."""
    growth = data_disk(counters_of(stored, "disk"), storage)
    if growth is None:
        return None
    lines = []
    for name, time, count in (
        ("read", "read_time_ns", "reads"),
        ("write", "write_time_ns", "writes"),
        ("flush", "flush_time_ns", "flushes"),
    ):
        requests = growth.by_column[count]
        if np.nansum(requests) > 0:
            with np.errstate(divide="ignore", invalid="ignore"):
                mean_ms = np.where(requests > 0, growth.by_column[time] / requests / 1e6, np.nan)
            lines.append(_line(name, mean_ms))
    if not lines:
        return None
    title = f"Disk {growth.key['device']}: time of a request"
    return _panel("disk_time", title, "ms", growth, numbers, lines)


def _buffers(stored: StoredRun, numbers: LoadNumbers) -> Panel | None:
    growth = next((d for d in counters_of(stored, "database") if d.key["scope"] == "ours"), None)
    if growth is None:
        return None
    hit, read = growth.by_column["blks_hit"], growth.by_column["blks_read"]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(hit + read > 0, 100 * hit / (hit + read), np.nan)
    lines = [_line("found in shared_buffers", share)]
    return _panel("buffers", "Blocks found in shared_buffers", "%", growth, numbers, lines)


def _one(stored: StoredRun, name: str, key: str) -> Deltas | None:
    return next(
        (growth for growth in counters_of(stored, name) if key in growth.key.values()), None
    )


def _on(axis_ns: npt.NDArray[np.int64], growth: Deltas, counter: str) -> FloatArray:
    """Return a rate in cores at the instants of another group, which has the same grid."""
    rates = growth.per_second(counter) / 1e9
    known_ns = growth.time_ns.astype(np.float64)
    return np.interp(axis_ns.astype(np.float64), known_ns, rates, left=0.0, right=0.0)


def _panel(
    key: str,
    title: str,
    unit: str,
    growth: Deltas,
    numbers: LoadNumbers,
    lines: Iterable[Series],
    *,
    is_stacked: bool = False,
) -> Panel:
    axis = (growth.time_ns - growth.interval_ns // 2 - numbers.began_ns) / 1e9
    return Panel(key, title, unit, _axis(axis.tolist()), tuple(lines), is_stacked=is_stacked)


def _seconds(time_ns: Any, numbers: LoadNumbers) -> float:
    return float(int(time_ns) - numbers.began_ns) / 1e9


def _axis(seconds: Iterable[float]) -> tuple[float, ...]:
    return tuple(round(float(second), 3) for second in seconds)


def _line(name: str, values: Any) -> Series:
    return series(name, np.asarray(values, dtype=np.float64))
