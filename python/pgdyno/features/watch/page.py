"""A watch as one offline page: the main numbers, where DB time went, all panels over time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pgdyno.features.watch.changes_text import change_words
from pgdyno.features.watch.page_words import (
    WORKERS_COUNTED,
    by_waiters,
    call_words,
    estimate_in,
    how_words,
    is_seen_enough,
    peak_words,
    sessions_words,
    share_words,
    why_sampled_words,
)
from pgdyno.features.watch.panels import WatchFindings
from pgdyno.quantities import format_bytes, percent, short
from pgdyno.report import embed, figures
from pgdyno.report.blocks import Tile, head_of_document
from pgdyno.report.chart import Chart, Line
from pgdyno.report.html import ECHARTS_VERSION, page_of_template
from pgdyno.report.numbers import interval_text

_HERO_HEIGHT_PX = 300
# The number of a tile below this is as good as none.
_LEAST = 0.001
_X_LABEL = "time since the start"
# Panel and line of a rate that the document has, too: its place there, the factor to the unit here.
_COUNTED = {
    ("tps", "committed"): ("tps", 1.0),
    ("wal", "generated"): ("wal_bytes_per_second", 1e-6),
}


def watch_page(findings: WatchFindings) -> str:
    """Return the report of a watch as one self-contained HTML document."""
    document = findings.document
    sessions = document["sessions_at_work"]
    over_time = tuple(_shown(chart, document) for chart in figures.time_charts(findings))
    main = _main(findings)
    caption = f"pgdyno watch #{document['number']} · {document['target']}"
    charts = embed.captioned_json(f"pgdyno-{document['number']}", caption, (*main, *over_time))
    return page_of_template(
        "watch.html.j2",
        head_of_document("watch", document),
        _sections(findings, has_charts=bool(over_time)),
        charts,
        d=document,
        w=findings,
        echarts_version=ECHARTS_VERSION,
        method="Counters are exact"
        + ", active sessions are sampled" * (sessions.get("how") != "counted")
        + ".",
        main=main,
        time_charts=over_time,
        tiles=[*_tiles(document)],
        seen=_seen_words(document),
        cost=_cost_words(document),
        change_words=change_words,
        sessions=f"{sessions_words(sessions)}; {peak_words(sessions)}",
        why_sampled=why_sampled_words(sessions),
        call_words=call_words,
        is_seen_enough=is_seen_enough,
        estimate_in=estimate_in,
        share_words=share_words,
        worse=[finding for finding in findings.examined if finding["verdict"] in ("bad", "warn")],
    )


def _sections(findings: WatchFindings, *, has_charts: bool) -> list[tuple[str, str]]:
    document = findings.document
    known = (
        ("where", "Where DB time went", document["statements"] or document["waits"]),
        ("changes", "What changed", document.get("changes")),
        ("time", "Over time", has_charts),
        ("state", "Before and after", findings.tables),
        ("doctor", "Doctor", findings.examined),
        ("facts", "Facts", True),
    )
    return [(anchor, word) for anchor, word, is_there in known if is_there]


def _main(findings: WatchFindings) -> tuple[Chart, ...]:
    """Return the chart of the first screen: waits over time, else the first panel."""
    shown = figures.drawable(findings)
    first = next((panel for panel in shown if panel.key == "waits"), None) or next(
        iter(shown), None
    )
    if first is None:
        return ()
    chart = figures.over_time(first, findings, key=f"main-{first.key}", height_px=_HERO_HEIGHT_PX)
    return (_shown(chart, findings.document),)


def _shown(chart: Chart, document: Any) -> Chart:
    """Return a chart whose legend shows the figures of the document, as tiles and tables do."""
    panel = chart.key.partition("-")[2]
    lines = tuple(_with_figure(line, panel, document) for line in chart.lines)
    return replace(chart, x_label=_X_LABEL, lines=lines)


def _with_figure(line: Line, panel: str, document: Any) -> Line:
    """Return a line with the document's figure in the legend, if the document has this quantity.

    A line without a figure next to lines with one has no mean: it would not add up with theirs.
    """
    if panel == "waits":
        for place, event in enumerate(document["waits"]):
            if event["wait_event"] == line.name:
                mean = estimate_in(event, "sessions")
                assert mean is not None, "every wait event has a number of sessions"
                quantity = f"waits.{place}.sessions"
                return replace(line, summary=f"mean {short(mean.value)}", quantity=quantity)
        return replace(line, summary="")
    sessions = document["sessions_at_work"]
    if (panel, line.name) == ("session_time", "at work"):
        counted = estimate_in(sessions, "mean") if sessions.get("how") == "counted" else None
        # The line is the server's count. If the answer does not use it, it is another quantity.
        if counted is None:
            return replace(line, summary="")
        words = f"mean {short(counted.value)}"
        return replace(line, summary=words, quantity="sessions_at_work.mean")
    quantity, factor = _COUNTED.get((panel, line.name), ("", 1.0))
    value = document[quantity] if quantity else None
    if value is None:
        return line
    return replace(line, summary=f"mean {_number(factor * value)}", quantity=quantity)


def _tps_words(document: Any) -> str:
    """Return how the transactions per second were made."""
    if document.get("tps_counts_parallel_workers"):
        return f"whole server, at most: {WORKERS_COUNTED}"
    return f"whole server, counted{by_waiters(document)}"


def _tiles(document: Any) -> Iterator[Tile]:
    sessions, hits = document["sessions_at_work"], document["hit_ratio"]
    wal, mean = document["wal_bytes_per_second"], estimate_in(sessions, "mean")
    ends = f"{interval_text(mean)}, " if mean is not None and mean.has_interval else ""
    at_work = "not measured" if mean is None else short(mean.value)
    how = peak_words(sessions) if mean is None else f"{ends}{how_words(sessions)[2:]}"
    wal_mb, hit_percent = (None if wal is None else wal / 1e6, None if hits is None else 100 * hits)
    for quantity, label, value, unit, said in (
        ("tps", "transactions", _number(document["tps"]), "tps", _tps_words(document)),
        ("sessions_at_work.mean", "active sessions", at_work, "", how),
        ("wal_bytes_per_second", "WAL", _number(wal_mb), "MB/s", "by its position"),
        ("hit_ratio", "found in shared_buffers", _number(hit_percent), "%", "of requested blocks"),
    ):
        yield Tile(label, value, unit, range_text=said, quantity=quantity)


def _number(value: float | None) -> str:
    if value is None:
        return "not measured"
    if 0 < value < _LEAST:
        return f"< {_LEAST:g}"
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
    server = f", {percent(there)} of a server core" if there is not None else ""
    return f"{percent(cost['lab_cores'])} of a core here{server}; {size}"
