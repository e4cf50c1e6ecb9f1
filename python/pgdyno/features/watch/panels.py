"""The charts of a watch: panels and marks over time, read from one segment after another.

Only the drawn rates stay in memory. Therefore a watch of a day needs no more memory than the
samples of an hour.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pgdyno.analysis.findings import FactTable, Mark, Panel
from pgdyno.answer.charts.catalogue import FIRST, FURTHER, WATCHED
from pgdyno.answer.charts.drawing import panels_of_charts, series
from pgdyno.answer.fact_tables import state_tables
from pgdyno.answer.marks import event_marks, nearest_merged
from pgdyno.answer.time_split import events_seen
from pgdyno.features.watch.segments import document_again
from pgdyno.measure.statement_texts import StatementNames
from pgdyno.store.folder import ExperimentFolder
from pgdyno.store.stored_run import StoredRun

_WAITS_SHOWN = 7
_POINTS = 600
_SECOND_NS = 1_000_000_000
FloatArray = npt.NDArray[np.float64]


def watch_findings(folder: ExperimentFolder) -> WatchFindings:
    """Return the findings of a watch from its files, also if it was killed."""
    document = document_again(folder)
    segments = [*folder.runs(), *folder.incomplete()]
    facts = folder.facts() or {}
    seconds = float(document["seconds"])
    origin_ns = _origin(segments)
    waits = _waits(segments, origin_ns, seconds, _scale(document["sessions_at_work"]))
    names = StatementNames(document.get("statement_texts") or {})
    charts = panels_of_charts((*WATCHED, *FIRST, *FURTHER), segments, origin_ns, names)
    drawn = [*charts[:1], waits, *charts[1:]]
    return WatchFindings(
        document=document,
        duration_s=seconds,
        panels=tuple(panel for panel in drawn if panel is not None),
        marks=nearest_merged(_marks(segments, document, origin_ns)),
        examined=tuple(facts.get("doctor", {}).get("findings", ())),
        settings=tuple(sorted(facts.get("settings", {}).items())),
        notes=folder.remarks(),
        tables=state_tables(segments),
    )


def _origin(segments: Iterable[StoredRun]) -> int:
    for segment in segments:
        arrays = segment.telemetry("database")
        if arrays is not None and len(arrays["time_ns"]):
            return int(arrays["time_ns"][0])
    return 0


def _scale(sessions: Mapping[str, Any]) -> float:
    """Return the factor from samples to the server's count; 1 if the count cannot be used."""
    sampled = sessions.get("sampled_mean")
    return float(sessions["mean"] / sampled) if sampled else 1.0


def _waits(
    segments: Iterable[StoredRun], origin_ns: int, seconds: float, scale: float
) -> Panel | None:
    """Return the chart of sessions at work by wait event: means over equal spans of time.

    Args: scale, the factor from samples to the server's count, so that the means of chart and page
    are equal.
    """
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
        events = events_seen(waits)
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
        lines_drawn = tuple(series(name, scale * line / taken) for name, line in lines.items())
    axis = tuple(float((place + 0.5) * span_ns / 1e9) for place in range(count))
    title = "Active sessions by what they wait for"
    return Panel("waits", title, "sessions", axis, lines_drawn, is_stacked=True)


def _totals(by_event: Mapping[str, FloatArray]) -> Counter[str]:
    return Counter({event: int(line.sum()) for event, line in by_event.items()})


def _marks(
    segments: Iterable[StoredRun], document: Mapping[str, Any], origin_ns: int
) -> list[Mark]:
    """Return the marks: begins of checkpoints, gaps, and other notices."""
    marks = [
        Mark(
            (int(gap["ended_unix_ns"]) - origin_ns) / 1e9,
            "gap",
            f"no samples for {gap['seconds']:.1f} s",
        )
        for gap in document["gaps"]
    ]
    for segment in segments:
        marks += event_marks(segment, origin_ns)
    return marks


@dataclass(frozen=True, slots=True)
class WatchFindings:
    """A watch as its page shows it.

    `document`: `pgdyno.watch/1`. `examined`: the findings of the doctor, worst first. `tables`:
    facts from before and after the watch.
    """

    document: Mapping[str, Any]
    duration_s: float
    panels: tuple[Panel, ...] = ()
    marks: tuple[Mark, ...] = ()
    examined: tuple[Mapping[str, str], ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    tables: tuple[FactTable, ...] = ()
