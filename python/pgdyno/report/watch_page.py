"""A watch as one offline page: what was seen, where DB time went, everything over one time axis."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from pgdyno.quantities import format_bytes
from pgdyno.report import embed, figures, palette
from pgdyno.report.chart import Chart
from pgdyno.report.html import ECHARTS_VERSION, page_assets, page_environment
from pgdyno.watch.panels import WatchFindings

_HERO_HEIGHT_PX = 300
_X_LABEL = "time since the start"


@dataclass(frozen=True, slots=True)
class Fact:
    """One tile: a label, a value, its unit, and what else is to be said of it."""

    label: str
    value: str
    unit: str
    aside: str


def watch_page(findings: WatchFindings) -> str:
    """Return the report of a watch as one self-contained HTML document."""
    document = findings.document
    assets = page_assets()
    over_time = tuple(_since_watching(chart) for chart in figures.time_charts(findings))
    main = _main(findings)
    caption = f"pgdyno watch #{document['number']} · {document['target']}"
    charts = embed.captioned_json(f"pgdyno-{document['number']}", caption, (*main, *over_time))
    return (
        page_environment()
        .get_template("watch.html.j2")
        .render(
            d=document,
            w=findings,
            csp=Markup(assets.policy),
            style=Markup(assets.style),
            early_script=Markup(assets.early_script),
            script=Markup(assets.script),
            echarts=Markup(assets.echarts),
            echarts_version=ECHARTS_VERSION,
            charts_json=Markup(charts),
            hatches=palette.definitions(),
            main=main,
            time_charts=over_time,
            tiles=_tiles(document),
            seen=_seen_words(document),
            cost=_cost_words(document),
            worse=[
                finding for finding in findings.examined if finding["verdict"] in ("bad", "warn")
            ],
        )
    )


def _main(findings: WatchFindings) -> tuple[Chart, ...]:
    """Return the chart of the first screen: waits over time, else whatever comes first."""
    shown = figures.drawable(findings)
    first = next((panel for panel in shown if panel.key == "waits"), None) or next(
        iter(shown), None
    )
    if first is None:
        return ()
    chart = figures.over_time(first, findings, key=f"main-{first.key}", height_px=_HERO_HEIGHT_PX)
    return (_since_watching(chart),)


def _since_watching(chart: Chart) -> Chart:
    return replace(chart, x_label=_X_LABEL)


def _tiles(document: Any) -> tuple[Fact, ...]:
    sessions, hits = document["sessions_at_work"], document["hit_ratio"]
    wal = document["wal_bytes_per_second"]
    return (
        Fact("transactions", _number(document["tps"]), "tps", "whole server, counted"),
        Fact(
            "active sessions",
            _number(sessions["mean"]),
            "",
            f"mean of {sessions['samples']:,} samples; at most {sessions['peak']}"
            if sessions["samples"]
            else "not visible to this role",
        ),
        Fact("WAL", _number(None if wal is None else wal / 1e6), "MB/s", "by its position"),
        Fact(
            "found in shared_buffers",
            _number(None if hits is None else 100 * hits),
            "%",
            "of requested blocks",
        ),
    )


def _number(value: float | None) -> str:
    if value is None:
        return "not measured"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _seen_words(document: Any) -> str:
    words = f"{document['seconds_seen']:,.0f} of {document['seconds']:,.0f} s observed"
    if document["gap_count"]:
        words += f", {document['gap_count']} gap{'s' * (document['gap_count'] > 1)}"
    if document["reset_count"]:
        words += f", {document['reset_count']} resets of statistics left out"
    return f"{words}, from {document['began_utc'][:16].replace('T', ' ')} UTC"


def _cost_words(document: Any) -> str:
    cost = document["cost"]
    size = format_bytes(int(document["bytes"]))
    if cost is None:
        return size
    there = cost["server_cores"]
    server = f", {there:.1%} of a server core" if there is not None else ""
    return f"{cost['lab_cores']:.1%} of a core here{server}; {size}"
