"""Makes the `Chart`s of a report from findings, only for data that exist."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import numpy as np

from pgdyno import quantities
from pgdyno.analysis.curve import CurveLevel, LoadCurve
from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.findings import CurveFindings, ExperimentFindings, Mark, Panel
from pgdyno.report import palette
from pgdyno.report.blocks import FirstCharts, blocks_of
from pgdyno.report.chart import Chart, Flag, Line, Scale
from pgdyno.report.own import own_shown
from pgdyno.report.palette import Role

TIME_GROUP = "time"
MODEL_NAME = "fitted law"
_MODEL_POINTS = 60
_HERO_HEIGHT_PX = 300
_HEAD_PX = 36
_LINE_PX = 24
_SENTENCE_COLUMNS = 120
_TIME_HEIGHT_PX = 150
_HERO_PANELS = ("tps", "latency")
_CURVE_PERCENTILES = ("p50", "p95", "p99")


class TimedResult(Protocol):
    """A result with panels over time: a run, or a watch."""

    @property
    def duration_s(self) -> float:
        """Return the length of the time axis."""
        ...

    @property
    def panels(self) -> tuple[Panel, ...]:
        """Return the panels to draw."""
        ...

    @property
    def marks(self) -> tuple[Mark, ...]:
        """Return the events during this time."""
        ...


def main_charts(findings: ExperimentFindings) -> tuple[Chart, ...]:
    """Return the charts of the first screen: the load curve, else tps and latency over time.

    Their height leaves room for a long sentence above them, so that all fits into 720 pixels.
    """
    height_px = _HERO_HEIGHT_PX - _LINE_PX * (len(findings.sentence) // _SENTENCE_COLUMNS)
    if findings.curves:
        return (load_curve(findings.curves, height_px=height_px),)
    if findings.run is None:
        return ()
    by_key = {panel.key: panel for panel in drawable(findings.run.timeline)}
    own = own_shown(findings.run)
    named = () if own is None else blocks_of(own.blocks, FirstCharts)
    keys = next((first.keys for first in named), ())
    keys = keys if any(key in by_key for key in keys) else _HERO_PANELS
    first = [by_key[key] for key in keys if key in by_key]
    if not first:
        first = list(by_key.values())[:1]
    if len(first) > 1:
        height_px = (height_px - _HEAD_PX) // len(first)
    return tuple(
        over_time(panel, findings.run.timeline, key=f"main-{panel.key}", height_px=height_px)
        for panel in first
    )


def curve_charts(findings: ExperimentFindings) -> tuple[Chart, ...]:
    """Return latency against load: one chart a script, percentiles with their intervals."""
    charts = [percentiles(curve, several=len(findings.curves) > 1) for curve in findings.curves]
    return tuple(chart for chart in charts if chart is not None)


def time_charts(timed: TimedResult) -> tuple[Chart, ...]:
    """Return every panel of the run as a chart on one shared time axis."""
    return tuple(over_time(panel, timed) for panel in drawable(timed))


def sections_of(charts: Iterable[Chart]) -> tuple[tuple[str, tuple[Chart, ...]], ...]:
    """Return the folded charts in order, grouped by heading."""
    by_section: dict[str, list[Chart]] = {}
    for chart in charts:
        if chart.section:
            by_section.setdefault(chart.section, []).append(chart)
    return tuple((section, tuple(some)) for section, some in by_section.items())


def drawable(timed: TimedResult) -> tuple[Panel, ...]:
    """Return the panels that have values at two moments or more."""
    return tuple(
        panel
        for panel in timed.panels
        if len(panel.time_s) > 1
        and any(value is not None for series in panel.series for value in series.values)
    )


def load_curve(curves: tuple[CurveFindings, ...], *, height_px: int = _HERO_HEIGHT_PX) -> Chart:
    """Return throughput against clients: means, intervals between runs, the fitted law, the knee.

    Scripts whose peaks are more than 8 times apart share a logarithmic axis.
    """
    peaks = [findings.curve.peak.tps.value for findings in curves]
    is_log = min(peaks) > 0 and max(peaks) > 8 * min(peaks)
    lines: list[Line] = []
    knees: dict[int, list[str]] = {}
    for position, findings in enumerate(curves):
        role = palette.at(position)
        model = fitted(findings.curve, role)
        lines.append(_measured(findings.script, role, findings.curve, lambda level: level.tps))
        if model is not None:
            lines.append(model)
        knees.setdefault(findings.curve.knee.clients, []).append(findings.script)
    return Chart(
        key="load-curve",
        # With more than three names the legend takes a second line.
        height_px=height_px - (_LINE_PX if len(curves) > 3 else 0),
        title="Throughput against load",
        unit="tps",
        x_label="clients",
        lines=tuple(lines),
        x_scale=_load_scale(findings.curve for findings in curves),
        y_scale="log" if is_log else "linear",
        flags=tuple(
            Flag(
                clients, "knee", f"knee at {quantities.clients_text(clients)}: {', '.join(scripts)}"
            )
            for clients, scripts in knees.items()
        ),
    )


def fitted(curve: LoadCurve, role: Role) -> Line | None:
    """Return the fitted law as a thin line over the measured range, None without a fit."""
    if curve.usl is None:
        return None
    low, high = curve.levels[0].clients, curve.levels[-1].clients
    clients = np.geomspace(low, high, _MODEL_POINTS)
    tps = curve.usl.tps_at(clients)
    xs = tuple(round(float(x), 3) for x in clients)
    return Line(MODEL_NAME, role, xs, tuple(float(y) for y in tps), shape="model")


def percentiles(findings: CurveFindings, *, several: bool) -> Chart | None:
    """Return latency percentiles of one script against clients."""
    names = [n for n in _CURVE_PERCENTILES if all(n in lv.latency for lv in findings.curve.levels)]
    if not names:
        return None
    lines = tuple(
        _measured(
            name,
            palette.role_of(name, position),
            findings.curve,
            _percentile_of(name),
        )
        for position, name in enumerate(names)
    )
    values = [v for line in lines for v in line.y if v is not None and v > 0]
    return Chart(
        key=f"percentiles-{findings.script}",
        height_px=250,
        title=f"Latency against load: {findings.script}" if several else "Latency against load",
        unit="ms",
        x_label="clients",
        lines=lines,
        x_scale=_load_scale([findings.curve]),
        y_scale="log" if values and max(values) > 10 * min(values) else "linear",
        flags=(
            Flag(
                findings.curve.knee.clients,
                "knee",
                f"knee: {quantities.clients_text(findings.curve.knee.clients)}",
            ),
        ),
        note="Each percentile is the mean over the runs of a level, with its 95 % interval.",
    )


def over_time(
    panel: Panel, timed: TimedResult, *, key: str = "", height_px: int = _TIME_HEIGHT_PX
) -> Chart:
    """Return one panel as a chart with the marks of the run."""
    names = tuple(series.name for series in panel.series)
    lines = tuple(
        Line(series.name, role, panel.time_s, series.values)
        for series, role in zip(panel.series, palette.roles(names), strict=True)
    )
    if panel.is_stacked:
        order = list(palette.WAIT_CLASS_NAMES)
        if sum(map(palette.is_wait, names)) * 2 > len(names):
            lines = tuple(sorted(lines, key=lambda li: order.index(palette.wait_class(li.name))))
    return Chart(
        key=key or f"time-{panel.key}",
        title=panel.title,
        unit=panel.unit,
        x_label="time since the start",
        lines=lines,
        y_scale="log" if panel.is_logarithmic else "linear",
        is_stacked=panel.is_stacked,
        group=TIME_GROUP,
        height_px=height_px,
        x_ends=(0.0, max(timed.duration_s, panel.time_s[-1])),
        flags=tuple(Flag(mark.time_s, mark.kind, mark.text) for mark in timed.marks),
        note=panel.note,
        section=panel.section,
    )


def in_ms(estimate: Estimate) -> Estimate:
    """Return a latency in ms. Args: estimate, in any unit of time."""
    factors: Mapping[str, float] = {"ns": 1e-6, "us": 1e-3, "s": 1e3}
    factor = factors.get(estimate.unit)
    return estimate if factor is None else estimate.scaled(factor, "ms")


def percentile_name(key: str) -> str:
    """Return "p99.9" for the key "p999"; other keys are returned unchanged."""
    return f"{key[:3]}.{key[3:]}" if len(key) > 3 and key[1:].isdigit() else key


def _percentile_of(name: str) -> Callable[[CurveLevel], Estimate]:
    return lambda level: in_ms(level.latency[name])


def _measured(
    name: str, role: Role, curve: LoadCurve, pick: Callable[[CurveLevel], Estimate]
) -> Line:
    estimates = [pick(level) for level in curve.levels]
    return Line(
        name,
        role,
        tuple(float(level.clients) for level in curve.levels),
        tuple(estimate.value for estimate in estimates),
        tuple(estimate.low for estimate in estimates),
        tuple(estimate.high for estimate in estimates),
        "points",
    )


def _load_scale(curves: Iterable[LoadCurve]) -> Scale:
    clients = [level.clients for curve in curves for level in curve.levels]
    return "log" if min(clients) > 0 and max(clients) >= 8 * min(clients) else "linear"
