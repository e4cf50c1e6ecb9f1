"""The answer of a watch as blocks, from its document; charts and tables of its samples follow."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from pgdyno.features.watch import charts, words
from pgdyno.features.watch.change_blocks import changes_section
from pgdyno.features.watch.incident.finding import clock_text
from pgdyno.features.watch.panels import WatchFindings, watch_findings
from pgdyno.quantities import count, format_bytes, percent, short
from pgdyno.report.block_charts import ListBlock, ListItem, TimeCharts, figure_text
from pgdyno.report.blocks import (
    Block,
    BlockAnswer,
    BlockSection,
    LabelledLine,
    TableBlock,
    TableColumn,
    Tile,
    head_of_document,
)
from pgdyno.report.numbers import estimate_text, interval_text, value_text
from pgdyno.report.telemetry_blocks import doctor_section, fact_table, time_section
from pgdyno.store.folder import ExperimentFolder

_SHOWN = 5
# With a few findings; more of them need the room for themselves.
_SHOWN_WITH_FINDINGS = 2
_FEW_FINDINGS = 2
# Other statements with a smaller share of DB time have no row.
_REST_MIN = 0.005
_STATEMENT_COLUMNS = (
    TableColumn("share"),
    TableColumn("statement", is_name=True, style="sql"),
    TableColumn("calls", is_last_to_fit=True),
    TableColumn("ms per call"),
    TableColumn("mostly waits for", is_name=True),
)
_WAIT_COLUMNS = (
    TableColumn("share"),
    TableColumn("sessions"),
    TableColumn("wait event", is_name=True, style="sql"),
)
_SETTING_COLUMNS = (TableColumn("setting"), TableColumn("value", is_name=True, is_wide=True))

Document = Mapping[str, Any]


def stored_blocks(document: Document, folder: ExperimentFolder | None) -> BlockAnswer:
    """Return the answer from a document; with its folder, also the charts of the samples."""
    return watch_blocks(WatchFindings(document) if folder is None else watch_findings(folder))


def watch_blocks(findings: WatchFindings) -> BlockAnswer:
    """Return the answer; every form of it is drawn from these blocks."""
    document = findings.document
    is_sampled = document["sessions_at_work"].get("how") != "counted"
    return BlockAnswer(
        head_of_document("watch", document),
        tuple(_blocks(findings)),
        method=f"Counters are exact{', active sessions are sampled' * is_sampled}.",
    )


def _blocks(findings: WatchFindings) -> Iterator[Block]:
    document = findings.document
    if wrong := document.get("findings"):
        yield ListBlock(tuple(_finding(finding, document) for finding in wrong))
    yield from _tiles(document)
    if main := charts.main_charts(findings):
        yield TimeCharts(main)
    also = document.get("also_seen") or ()
    if also:
        kinds = ", ".join(dict.fromkeys(finding["kind"] for finding in also))
        yield LabelledLine("also seen", f"{kinds} (each lost less time)")
    yield from _lines(document)
    if changes := document.get("changes"):
        yield changes_section(changes)
    if also:
        listed = ListBlock(tuple(_finding(finding, document) for finding in also), "also")
        yield BlockSection("Also seen", "also", "Also seen", "Each lost less time.", (listed,))
    yield from _where(document)
    if over_time := charts.time_charts(findings):
        lead = "One axis for all charts" + ", with the time of day, UTC" * over_time[0].is_clock
        if findings.marks:
            lead += "; marks are checkpoints and gaps without samples"
        yield time_section(over_time, charts.marks(findings), f"{lead}.")
    if findings.tables:
        tables = tuple(map(fact_table, findings.tables))
        yield BlockSection("Before and after", "state", "Before and after", "", tables)
    yield from doctor_section(findings.examined)
    settings = TableBlock(
        "Settings that differ from the default, or often explain results",
        _SETTING_COLUMNS,
        findings.settings,
    )
    shown = (settings,) if findings.settings else ()
    yield BlockSection("Facts", "facts", "Facts", document["target"], shown)


def _finding(finding: Document, document: Document) -> ListItem:
    said, cost, lines, next_step, is_over = (
        finding[name] for name in ("said", "cost", "lines", "next_step", "is_over")
    )
    if finding["since_s"] is not None:
        # The page is also read on another day.
        ended_ns = _ended_ns(document)
        began_ns = ended_ns - int(finding["since_s"] * 1e9)
        cost = "; ".join(filter(None, (cost, f"since {clock_text(began_ns, ended_ns)}")))
    return ListItem(said, cost, tuple(lines), next_step, is_over)


def _ended_ns(document: Document) -> int:
    began = datetime.fromisoformat(document["began_utc"].replace("Z", "+00:00"))
    return int((began.timestamp() + document["seconds"]) * 1e9)


def _tiles(document: Document) -> Iterator[Tile]:
    sessions, hits = document["sessions_at_work"], document["hit_ratio"]
    wal, mean = document["wal_bytes_per_second"], words.estimate_in(sessions, "mean")
    ends = f"{interval_text(mean)}, " if mean is not None and mean.has_interval else ""
    at_work = "not measured" if mean is None else short(mean.value)
    how = words.peak_words(sessions) if mean is None else f"{ends}{words.how_words(sessions)[2:]}"
    wal_mb, hit_percent = (None if wal is None else wal / 1e6, None if hits is None else 100 * hits)
    made = f"whole server, counted{words.by_waiters(document)}"
    if document.get("tps_counts_parallel_workers"):
        made = f"whole server, at most: {words.WORKERS_COUNTED}"
    for quantity, label, value, unit, range_text in (
        ("tps", "transactions", words.number_text(document["tps"]), "tps", made),
        ("sessions_at_work.mean", "active sessions", at_work, "", how),
        ("wal_bytes_per_second", "WAL", words.number_text(wal_mb), "MB/s", "generated"),
        (
            "hit_ratio",
            "found in shared_buffers",
            words.number_text(hit_percent),
            "%",
            "of requested blocks",
        ),
    ):
        yield Tile(label, value, unit, range_text=range_text, quantity=quantity)


def _lines(document: Document) -> Iterator[LabelledLine]:
    size = format_bytes(int(document["bytes"]))
    if document["bytes_per_hour"] and document["seconds"] >= 60:
        size += f", {format_bytes(int(document['bytes_per_hour']))} per hour"
    seen = f"{document['seconds_seen']:,.0f} of {document['seconds_asked']:,.0f} s observed"
    began = f"{document['began_utc'][:16].replace('T', ' ')} UTC"
    yield LabelledLine("began", began, level="full")
    yield LabelledLine(
        "done", "; ".join(filter(None, (seen, words.cost_words(document["cost"]), size)))
    )
    if document["gap_count"]:
        lengths = [f"{gap['seconds']:.0f} s" for gap in document["gaps"][:_SHOWN]]
        more = ", ..." if document["gap_count"] > len(lengths) else ""
        yield LabelledLine("gaps", f"{document['gap_count']}: {', '.join(lengths)}{more}")
    if resets := document["reset_count"]:
        left_out = f"{resets} of the statistics: the samples at that time are left out"
        yield LabelledLine("resets", left_out)
    for change in document.get("settings_changed", ()):
        said = f"{change['name']}: {change['before']} -> {change['after']}"
        yield LabelledLine("changed", said, "bad")


def _where(document: Document) -> Iterator[Block]:
    """Yield the counters in words, and where DB time went."""
    sessions, statements, waits = (
        document[name] for name in ("sessions_at_work", "statements", "waits")
    )
    seen = f"{words.sessions_words(sessions)}; {words.peak_words(sessions)}"
    blocks: list[Block] = []
    if document["tps"] is not None:
        said = seen if sessions["samples"] else "not visible to this role (pgdyno doctor)"
        blocks = [LabelledLine("sessions", said), *_counted(document)]
    if not statements and not waits:
        yield from blocks
        return
    finding_count = len(document.get("findings") or ())
    shown = _SHOWN_WITH_FINDINGS * (finding_count <= _FEW_FINDINGS) if finding_count else _SHOWN
    by_statement = (
        *(_statement(*numbered) for numbered in enumerate(statements)),
        *_others(statements, len(statements)),
    )
    by_event = tuple(
        (
            percent(wait["share_ratio"]),
            figure_text(_sessions(wait), f"waits.{place}.sessions"),
            str(wait["wait_event"]),
        )
        for place, wait in enumerate(waits)
    )
    # Without query ids, only wait events tell sessions apart.
    # A few sightings have an upper end alone, with which the shares would sum to more than all.
    shown = min(shown, sum(map(words.is_seen_enough, statements))) if statements else shown
    has_texts = shown > 0 and any(statement["text"] for statement in statements)
    others = tuple(_others(statements, shown))
    for title, columns, rows, rest, is_in_text in (
        ("By statement", _STATEMENT_COLUMNS, by_statement, others, has_texts),
        ("By wait event", _WAIT_COLUMNS, by_event, (), not has_texts),
    ):
        if rows:
            shown_count = shown * is_in_text
            table = TableBlock(title, columns, rows, short_row_count=shown_count, short_rest=rest)
            blocks.append(table)
    why = words.why_sampled_words(sessions)
    lead = (
        f"DB time is the time in which sessions are active: {seen}.{why} pg_stat_activity, sampled"
        " at random intervals, splits it by statement and wait event. Shares refer to DB time."
        " Ranges are 95 % intervals."
    )
    yield BlockSection("Where DB time went", "where", "Where DB time went", lead, tuple(blocks))


def _statement(place: int, statement: Document) -> tuple[str, ...]:
    at = f"statements.{place}"
    text = statement["text"] or f"query id {statement['query_id']}"
    calls = "not counted" if statement["calls"] is None else count(statement["calls"])
    return (
        figure_text(words.share_words(statement), f"{at}.share_ratio"),
        text,
        figure_text(calls, f"{at}.calls"),
        figure_text(words.call_words(statement), f"{at}.db_ms_per_call"),
        words.wait_words(statement),
    )


def _others(statements: Sequence[Document], shown_count: int) -> Iterator[tuple[str, ...]]:
    """Yield the row of all statements after the first ones, so that shares sum to 100 %."""
    shown = math.fsum(statement["share_ratio"] for statement in statements[:shown_count])
    if statements and 1.0 - shown >= _REST_MIN:
        yield percent(1.0 - shown), "other statements, such as COMMIT", "", "", ""


def _counted(document: Document) -> Iterator[LabelledLine]:
    """Yield the counters of the tiles in words."""
    wal, hits = document["wal_bytes_per_second"] or 0.0, document["hit_ratio"]
    rest = f"WAL {words.number_text(wal / 1e6)} MB/s"
    if hits is not None:
        rest += f", {percent(hits)} of blocks found in shared_buffers"
    tps = (
        f"{words.number_text(document['tps'])} tps on the whole server{words.by_waiters(document)}"
    )
    tps += " (a statement outside of BEGIN is one, too)" * (not document.get("findings"))
    if document.get("tps_counts_parallel_workers"):
        yield LabelledLine("commits", f"at most {tps}: {words.WORKERS_COUNTED}")
        yield LabelledLine("counted", rest)
    else:
        yield LabelledLine("counted", f"{tps}, {rest}")


def _sessions(part: Document) -> str:
    sessions = words.estimate_in(part, "sessions")
    assert sessions is not None, "every wait event has its sessions"
    return estimate_text(sessions) if sessions.has_interval else value_text(sessions)
