"""A watch over time: panels and marks, one segment read after another.

Only the rates that are drawn are kept, so a watch of a day needs no more memory than one of an
hour needs for its samples.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from pgdyno.analysis.findings import Mark, Panel, Series
from pgdyno.analysis.watch_findings import WatchFindings
from pgdyno.loop.hazel_windows import hazel_of_watch
from pgdyno.measure.watch_stored import document_again
from pgdyno.observe.catalogue import COLLECTORS
from pgdyno.observe.rates import Deltas, deltas
from pgdyno.store.folder import ExperimentFolder
from pgdyno.store.stored_run import StoredRun

_COLUMNS = {collector.name: collector.columns for collector in COLLECTORS}
_WAITS_SHOWN = 7
_POINTS = 600
_MARKS_MAX = 400
_SECOND_NS = 1_000_000_000
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Strip:
    """One panel made of counters: each line is a sum of counters times a factor.

    `keys` chooses the rows (None: all of them, added up at each instant).
    """

    key: str
    title: str
    unit: str
    collector: str
    lines: Mapping[str, tuple[tuple[str, ...], float]]
    keys: tuple[str, ...] | None = None
    is_stacked: bool = False


STRIPS = (
    Strip(
        "tps",
        "Transactions of the whole server, our own included",
        "tps",
        "database",
        {"committed": (("xact_commit",), 1), "rolled back": (("xact_rollback",), 1)},
    ),
    Strip(
        "rows",
        "Rows written",
        "rows/s",
        "database",
        {
            "inserted": (("tup_inserted",), 1),
            "updated": (("tup_updated",), 1),
            "deleted": (("tup_deleted",), 1),
        },
    ),
    Strip(
        "reads", "Rows fetched by index scans", "rows/s", "database", {"": (("tup_fetched",), 1)}
    ),
    Strip("temporary", "Temporary files", "MB/s", "database", {"": (("temp_bytes",), 1e-6)}),
    Strip("wal", "WAL", "MB/s", "wal", {"generated": (("position_bytes",), 1e-6)}),
    Strip(
        "buffers_written",
        "Who wrote dirty buffers",
        "blocks/s",
        "checkpointer",
        {
            "checkpointer": (("buffers_checkpoint",), 1),
            "background writer": (("buffers_clean",), 1),
            "backends": (("buffers_backend",), 1),
        },
        is_stacked=True,
    ),
    Strip(
        "cpu",
        "CPU of the host",
        "cores",
        "cpu",
        {
            "user": (("user_ns", "nice_ns"), 1e-9),
            "system": (("system_ns",), 1e-9),
            "interrupts": (("irq_ns", "softirq_ns"), 1e-9),
            "waiting for I/O": (("iowait_ns",), 1e-9),
            "stolen": (("steal_ns",), 1e-9),
        },
        keys=("all",),
        is_stacked=True,
    ),
    Strip(
        "disk",
        "Disks",
        "MB/s",
        "disk",
        {"read": (("read_bytes",), 1e-6), "written": (("write_bytes",), 1e-6)},
    ),
    Strip(
        "network",
        "Network",
        "MB/s",
        "network",
        {"received": (("received_bytes",), 1e-6), "sent": (("sent_bytes",), 1e-6)},
    ),
)


@dataclass(slots=True)
class _Drawn:
    """Points of one strip gathered so far; a gap is a point whose values are NaN."""

    time_s: list[float] = field(default_factory=list)
    values: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def panel(self, strip: Strip) -> Panel | None:
        """Return the panel, or None if nothing ever happened there."""
        if not any(np.nansum(values) > 0 for values in self.values.values()):
            return None
        lines = tuple(_series(name or strip.title, self.values[name]) for name in strip.lines)
        return Panel(
            strip.key,
            strip.title,
            strip.unit,
            tuple(round(second, 3) for second in self.time_s),
            lines,
            is_stacked=strip.is_stacked,
        )


def watch_findings(folder: ExperimentFolder) -> WatchFindings:
    """Return what a watch found, from its files alone, whether it ended well or was killed."""
    document = document_again(folder)
    segments = [*folder.runs(), *folder.incomplete()]
    facts = folder.facts() or {}
    seconds = float(document["seconds"])
    origin_ns = _origin(segments)
    strips = [_strip(strip, segments, origin_ns) for strip in STRIPS]
    drawn = [_waits(segments, origin_ns, seconds), *strips, _connections(segments, origin_ns)]
    return WatchFindings(
        document=document,
        duration_s=seconds,
        panels=tuple(panel for panel in drawn if panel is not None),
        marks=tuple(_marks(segments, document, origin_ns)),
        examined=tuple(facts.get("doctor", {}).get("findings", ())),
        settings=tuple(sorted(facts.get("settings", {}).items())),
        notes=tuple(str(note["text"]) for note in folder.notes()),
        hazel=hazel_of_watch(segments),
    )


def _origin(segments: Iterable[StoredRun]) -> int:
    for segment in segments:
        arrays = segment.telemetry("database")
        if arrays is not None and len(arrays["time_ns"]):
            return int(arrays["time_ns"][0])
    return 0


def _strip(strip: Strip, segments: Iterable[StoredRun], origin_ns: int) -> Panel | None:
    drawn = _Drawn()
    for segment in segments:
        arrays = segment.telemetry(strip.collector)
        found = [] if arrays is None else deltas(arrays, _COLUMNS[strip.collector])
        chosen = [one for one in found if strip.keys is None or set(strip.keys) & _keys(one)]
        _add(drawn, strip, [one for one in chosen if one.time_ns.size], origin_ns)
    return drawn.panel(strip)


def _keys(found: Deltas) -> set[str]:
    return set(found.key.values())


def _add(drawn: _Drawn, strip: Strip, found: list[Deltas], origin_ns: int) -> None:
    """Add the rates of one segment, those of several keys summed at each instant."""
    if not found:
        return
    axis_ns = np.unique(np.concatenate([one.time_ns for one in found]))
    longest_ns = int(max(one.interval_ns.max() for one in found))
    began_s = float(axis_ns[0] - origin_ns) / 1e9
    if drawn.time_s and began_s - drawn.time_s[-1] > 3 * longest_ns / 1e9:
        drawn.time_s.append((began_s + drawn.time_s[-1]) / 2)
        for name in strip.lines:
            drawn.values[name].append(float("nan"))
    for name, (columns, factor) in strip.lines.items():
        total = np.zeros(axis_ns.size)
        for one in found:
            rate = sum(one.per_second(column) for column in columns) * factor
            np.add.at(total, np.searchsorted(axis_ns, one.time_ns), np.nan_to_num(rate))
        drawn.values[name] += _broken(axis_ns, total, longest_ns).tolist()
    seconds = (axis_ns - origin_ns) / 1e9
    drawn.time_s += _broken(axis_ns, seconds, longest_ns, middle=True).tolist()


def _broken(
    axis_ns: npt.NDArray[np.int64], values: FloatArray, longest_ns: int, *, middle: bool = False
) -> FloatArray:
    """Return values with one more point in each gap: NaN, or the middle of its ends."""
    after = np.flatnonzero(np.diff(axis_ns) > 2 * longest_ns) + 1
    filler = (values[after - 1] + values[after]) / 2 if middle else np.full(after.size, np.nan)
    return np.insert(values, after, filler)


def _waits(segments: Iterable[StoredRun], origin_ns: int, seconds: float) -> Panel | None:
    """Sessions at work by what they waited for, means over equal spans of time."""
    span_ns = max(_SECOND_NS, int(seconds * 1e9 / _POINTS))
    count = max(1, int(seconds * 1e9 // span_ns) + 1)
    taken = np.zeros(count)
    by_event: dict[str, FloatArray] = {}
    for segment in segments:
        waits = segment.waits()
        if not len(waits["time_ns"]):
            continue
        place = np.clip((waits["time_ns"] - origin_ns) // span_ns, 0, count - 1)
        _, first = np.unique(waits["time_ns"], return_index=True)
        np.add.at(taken, place[first], 1)
        is_work = (waits["backend_type"] == "client backend") & (waits["state"] == "active")
        events = waits["wait_event"]
        for event in set(events[is_work].tolist()):
            rows = is_work & (events == event)
            line = by_event.setdefault(event, np.zeros(count))
            np.add.at(line, place[rows], waits["count"][rows].astype(np.float64))
    if not by_event:
        return None
    ranked = [event for event, _ in _totals(by_event).most_common()]
    lines = {event or "CPU or not instrumented": by_event[event] for event in ranked[:_WAITS_SHOWN]}
    if len(ranked) > _WAITS_SHOWN:
        lines["other"] = np.sum([by_event[event] for event in ranked[_WAITS_SHOWN:]], axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        series = tuple(_series(name, line / taken) for name, line in lines.items())
    axis = tuple(float((place + 0.5) * span_ns / 1e9) for place in range(count))
    title = "Sessions at work by what they wait for"
    return Panel("waits", title, "sessions", axis, series, is_stacked=True)


def _totals(by_event: Mapping[str, FloatArray]) -> Counter[str]:
    return Counter({event: int(line.sum()) for event, line in by_event.items()})


def _connections(segments: Iterable[StoredRun], origin_ns: int) -> Panel | None:
    times: list[float] = []
    values: list[float] = []
    for segment in segments:
        arrays = segment.telemetry("database")
        if arrays is None or not len(arrays["time_ns"]):
            continue
        instants, place = np.unique(arrays["time_ns"], return_inverse=True)
        times += ((instants - origin_ns) / 1e9).tolist()
        values += np.bincount(place, arrays["connections"].astype(np.float64)).tolist()
    if len(times) < 2:
        return None
    axis = tuple(round(second, 3) for second in times)
    return Panel("connections", "Connections", "", axis, (_series("connections", values),))


def _marks(
    segments: Iterable[StoredRun], document: Mapping[str, Any], origin_ns: int
) -> list[Mark]:
    """Return checkpoints begun and gaps, the latest of very many."""
    marks = [
        Mark(
            (int(gap["ended_unix_ns"]) - origin_ns) / 1e9,
            "gap",
            f"nothing was seen for {gap['seconds']:.1f} s",
        )
        for gap in document["gaps"]
    ]
    for segment in segments:
        arrays = segment.telemetry("checkpointer")
        for one in [] if arrays is None else deltas(arrays, _COLUMNS["checkpointer"]):
            for column, why in (
                ("checkpoints_timed", "checkpoint_timeout"),
                ("checkpoints_requested", "max_wal_size or a command"),
            ):
                for time_ns in one.time_ns[one.by_column[column] > 0].tolist():
                    second = (time_ns - origin_ns) / 1e9
                    marks.append(Mark(second, "checkpoint", f"checkpoint ({why})"))
    return sorted(marks, key=lambda mark: mark.time_s)[-_MARKS_MAX:]


def _series(name: str, values: Iterable[float]) -> Series:
    return Series(name, tuple(None if np.isnan(value) else float(value) for value in values))
