"""The charts of a watch: panels and marks over time, read from one segment after another.

Only the drawn rates stay in memory. Therefore a watch of a day needs no more memory than the
samples of an hour.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pgdyno.analysis.findings import FactTable, Mark, Panel
from pgdyno.answer.charts.catalogue import FIRST, WATCHED, further_charts
from pgdyno.answer.charts.drawing import panels_of_charts
from pgdyno.answer.charts.waits import waits_panel
from pgdyno.answer.fact_tables import state_tables
from pgdyno.answer.marks import event_marks, nearest_merged
from pgdyno.features.watch.segments import document_again
from pgdyno.measure.statement_texts import StatementNames
from pgdyno.store.folder import ExperimentFolder
from pgdyno.store.stored_run import StoredRun

_POINTS = 600
_SECOND_NS = 1_000_000_000
_DAY_NS = 86_400 * _SECOND_NS


def watch_findings(folder: ExperimentFolder) -> WatchFindings:
    """Return the findings of a watch from its files, also if it was killed."""
    document = document_again(folder)
    segments = [*folder.runs(), *folder.incomplete()]
    facts = folder.facts() or {}
    seconds = float(document["seconds"])
    origin_ns = _origin(segments)
    span_ns = max(_SECOND_NS, int(seconds * 1e9 / _POINTS))
    waits = waits_panel(
        (
            (waits, (waits["backend_type"] == "client backend") & (waits["state"] == "active"))
            for waits in (segment.waits() for segment in segments)
        ),
        origin_ns,
        int(seconds * 1e9 // span_ns) + 1,
        span_ns=span_ns,
        scale=_scale(document["sessions_at_work"]),
    )
    names = StatementNames(document.get("statement_texts") or {})
    asked = (*WATCHED, *FIRST, *further_charts(segments))
    charts = panels_of_charts(asked, segments, origin_ns, names)
    drawn = [*charts[:1], waits, *charts[1:]]
    return WatchFindings(
        document=document,
        duration_s=seconds,
        panels=tuple(panel for panel in drawn if panel is not None),
        marks=nearest_merged(_marks(segments, document, origin_ns)),
        clock_s=origin_ns % _DAY_NS / 1e9 if origin_ns and seconds <= 86400 else None,
        examined=tuple(facts.get("doctor", {}).get("findings", ())),
        settings=tuple(sorted(facts.get("settings", {}).items())),
        tables=state_tables(segments),
    )


def _origin(segments: Iterable[StoredRun]) -> int:
    for segment in segments:
        arrays = segment.telemetry("database")
        if arrays is not None and len(arrays["time_ns"]):
            return int(arrays["time_ns"][0])
    return 0


def _scale(sessions: Mapping[str, Any]) -> float:
    """Return the factor that makes the means of chart and page equal; 1 without a count."""
    sampled = sessions.get("sampled_mean")
    return float(sessions["mean"] / sampled) if sampled else 1.0


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
    facts from before and after the watch. `clock_s`: the time of day at its begin, seconds since
    midnight UTC; None if not known, or if it lasted more than a day.
    """

    document: Mapping[str, Any]
    duration_s: float = 0.0
    panels: tuple[Panel, ...] = ()
    marks: tuple[Mark, ...] = ()
    examined: tuple[Mapping[str, str], ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    tables: tuple[FactTable, ...] = ()
    clock_s: float | None = None
