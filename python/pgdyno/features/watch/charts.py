"""The charts of a watch; their legends show the figures of the document, as tiles and tables do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pgdyno.analysis.findings import Mark
from pgdyno.features.watch.panels import WatchFindings
from pgdyno.features.watch.words import number_text
from pgdyno.quantities import short
from pgdyno.report import figures
from pgdyno.report.chart import TIME_OF_DAY, Chart, Line

_HERO_HEIGHT_PX = 300
_Figures = Mapping[tuple[str, str], tuple[str, str]]


def main_charts(findings: WatchFindings) -> tuple[Chart, ...]:
    """Return the chart of the first screen: waits over time, else the first panel."""
    known = _figures(findings.document)
    panels = sorted(figures.drawable(findings), key=lambda panel: panel.key != "waits")
    height_px = _HERO_HEIGHT_PX
    return tuple(
        _shown(
            figures.over_time(panel, findings, key=f"main-{panel.key}", height_px=height_px),
            known,
            findings.clock_s,
        )
        for panel in panels[:1]
    )


def time_charts(findings: WatchFindings) -> tuple[Chart, ...]:
    """Return every panel as a chart over time."""
    known = _figures(findings.document)
    charts = figures.time_charts(findings)
    return tuple(_shown(chart, known, findings.clock_s) for chart in charts)


def marks(findings: WatchFindings) -> tuple[Mark, ...]:
    """Return the marks on the axis of the charts."""
    clock_s = findings.clock_s or 0.0
    return tuple(replace(mark, time_s=mark.time_s + clock_s) for mark in findings.marks)


def _figures(document: Mapping[str, Any]) -> _Figures:
    """Return panel and line -> words and place of each figure that the document has, too."""
    sessions, wal = document["sessions_at_work"], document["wal_bytes_per_second"]
    # The line is the server's count. If the answer does not use it, it is another quantity.
    at_work = sessions["mean"] if sessions.get("how") == "counted" else None
    known: dict[tuple[str, str], tuple[str, str]] = {
        ("waits", event["wait_event"]): (short(event["sessions"]), f"waits.{place}.sessions")
        for place, event in enumerate(document["waits"])
    }
    known["session_time", "at work"] = ("", "")
    if at_work is not None:
        known["session_time", "at work"] = (short(at_work), "sessions_at_work.mean")
    if document["tps"] is not None:
        known["tps", "committed"] = (number_text(document["tps"]), "tps")
    if wal is not None:
        known["wal", "generated"] = (number_text(wal / 1e6), "wal_bytes_per_second")
    return known


def _shown(chart: Chart, known: _Figures, clock_s: float | None) -> Chart:
    """Return the chart with these figures in its legend, and the time of day on its axis.

    A line without a figure next to lines with one has no mean: it would not add up with theirs.
    """
    panel = chart.key.partition("-")[2]

    def shown(line: Line) -> Line:
        if panel != "waits" and (panel, line.name) not in known:
            return line
        mean, quantity = known.get((panel, line.name), ("", ""))
        return replace(line, summary=f"mean {mean}" if mean else "", quantity=quantity)

    chart = replace(chart, lines=tuple(map(shown, chart.lines)))
    if clock_s is None:
        return chart
    low, high = chart.x_range
    return replace(
        chart,
        x_label=TIME_OF_DAY,
        x_ends=(low + clock_s, high + clock_s),
        lines=tuple(replace(line, x=tuple(x + clock_s for x in line.x)) for line in chart.lines),
        flags=tuple(replace(flag, x=flag.x + clock_s) for flag in chart.flags),
    )
