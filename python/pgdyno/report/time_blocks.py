"""Where the time of a run goes as blocks: parts, statements, other nodes, transaction types."""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import escape

from pgdyno import quantities
from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.findings import ExperimentFindings
from pgdyno.analysis.where import WhereTheTimeGoes
from pgdyno.analysis.where_statements import StatementTime
from pgdyno.programs.registry import types_by_name
from pgdyno.quantities import fixed, plain_decimals
from pgdyno.report import small_drawings
from pgdyno.report.block_charts import (
    PageText,
    TimeSplit,
    drawn,
    figure_text,
    value_with,
    with_small,
)
from pgdyno.report.blocks import Block, BlockSection, Drawing, LabelledLine, TableBlock, TableColumn
from pgdyno.report.numbers import interval_text, value_text
from pgdyno.report.parts import parts_of, shown_decimals, words_of
from pgdyno.report.words import run_words

_TITLE = "Where the time goes"
_STATEMENTS_SHOWN = 8
# Wait events that are named for each node.
_NODE_EVENTS_SHOWN = 3
_LEAST_RATIO = 0.005
# A second wait event with less than this of a statement's time is not in the text.
_SECOND_RATIO = 0.15
_JIT_MS_MIN = 10.0
_PART_COLUMNS = (
    TableColumn("", style="plotted"),
    TableColumn("part", is_name=True, is_wide=True),
    TableColumn("ms"),
    TableColumn("interval", style="note"),
    TableColumn("", style="plotted opt"),
    TableColumn("share"),
)
_STATEMENT_COLUMNS = (
    TableColumn("ms"),
    TableColumn("statement", is_name=True, style="sql"),
    TableColumn("largest wait", is_name=True),
    TableColumn("second", is_name=True, is_last_to_fit=True),
)
_NODE_COLUMNS = (
    TableColumn("node"),
    *map(TableColumn, ("ms", "share", "CPU", "commits/s", "WAL MB/s", "read/s", "written/s")),
    TableColumn("waits", is_name=True, is_wide=True),
)
_TYPE_COLUMNS = (
    TableColumn("type"),
    *map(TableColumn, ("ms", "core", "waits", "network", "engine", "not explained")),
    TableColumn("most", meaning="largest waits", is_words=True),
)


def time_sections(findings: ExperimentFindings, at: str) -> Iterator[BlockSection]:
    """Yield where the time of the run goes, and the time of each transaction type.

    Args: at, the place of the run in the JSON document, such as "at_the_knee.".
    """
    run = findings.run
    assert run is not None, "only a run has a time"
    where = run.where
    if where is None:
        if run.where_not:
            not_split = LabelledLine("time", f"not split into parts: {run.where_not}.")
            lead = f"Not computed: {run.where_not}."
            yield BlockSection(_TITLE, "where", _TITLE, lead, (not_split,))
        return
    mean = f"{value_text(where.latency_ms)} ms ({interval_text(where.latency_ms)})"
    lead = f"Mean latency of one transaction, {mean}, {run_words(findings)}."
    lead += ' The parts and "not explained" add up to it.'
    load = f"at {quantities.clients_text(run.clients)}" if findings.curves else ""
    yield BlockSection(_TITLE, "where", _TITLE, lead, tuple(_where(where, at, load)))
    if len(where.types) > 1:
        lead = (
            'Mean ms of a transaction while it has a connection. The parts and "not explained"'
            " add up to it. Core: on a core or waiting for one. Waits: in wait events. Samples"
            " divide both among the types; round trips divide network and engine."
        )
        title = "The time by transaction type"
        yield BlockSection(title, "types", "Types", lead, (_types(where),))


def _where(where: WhereTheTimeGoes, at: str, load: str) -> Iterator[Block]:
    parts, decimals = parts_of(where), shown_decimals(where)
    makers = (busy_words, others_words, workers_words, nodes_words, scheduled_words)
    remarks = tuple(words for make in makers if (words := make(where)))
    yield TimeSplit(where.latency_ms, parts, decimals, at, load, remarks)
    yield Drawing(small_drawings.time_bar(parts, decimals))
    rows = [
        (
            drawn(small_drawings.part_swatch(part)),
            with_small(part.words, part.event),
            figure_text(fixed(part.ms.value, decimals), f"{at}where.{part.name}"),
            interval_text(part.ms, decimals) if part.ms.has_interval else "no interval",
            drawn(small_drawings.share_bar(part.share_ratio, part.role.css)),
            quantities.percent(part.share_ratio),
        )
        for part in parts
    ]
    mean = where.latency_ms
    whole = figure_text(fixed(mean.value, decimals), f"{at}latency_ms.mean")
    ends = interval_text(mean, decimals)
    yield TableBlock(
        _TITLE,
        _PART_COLUMNS,
        (*rows, ("", "mean latency", whole, ends, "", quantities.percent(1.0))),
        below=" ".join(f"{said[:1].upper()}{said[1:]}." for said in remarks),
        style="total",
        strong=(*[False] * len(rows), True),
    )
    if where.nodes:
        yield _nodes(where)
    if where.statements:
        yield _statements(where)


def _statements(where: WhereTheTimeGoes) -> TableBlock:
    """Return the server's time by statement; the text has those with most of it."""
    whole = where.server_ms or 0.0
    large = [
        statement for statement in where.statements if statement.ms.value >= _LEAST_RATIO * whole
    ]
    planning, decimals = planning_words(where), _decimals(where, whole)
    rows = [
        (
            _with_interval(statement.ms, decimals),
            _statement_words(statement),
            *_largest_events(statement),
        )
        for statement in where.statements
    ]
    has_second = any(len(statement.events) > 1 for statement in where.statements)
    column_count = len(_STATEMENT_COLUMNS) - (not has_second)
    return TableBlock(
        "The server's time by statement",
        _STATEMENT_COLUMNS[:column_count],
        tuple(row[:column_count] for row in rows),
        summary=f"The server's time by statement; {planning}",
        short_row_count=min(len(large), _STATEMENTS_SHOWN),
        heading=f"by statement, {fixed(whole, decimals)} ms in the server; {planning}",
    )


def _statement_words(statement: StatementTime) -> str:
    """Return "tpcb-like:5 UPDATE ...": the place of a statement and its text."""
    place = ":".join(str(part) for part in (statement.script, statement.line) if part)
    return f"{place} {statement.text}".lstrip()


def _nodes(where: WhereTheTimeGoes) -> TableBlock:
    """Return the work of the workers of a distributed server.

    Mean ms of a transaction, the share of the time of all workers, the share of the processors of
    the host at work, rates of the server; blocks are read and written. "" = not known.
    """
    whole_ms = sum(node.ms for node in where.nodes)
    decimals = _decimals(where, whole_ms)
    rows: list[tuple[str, ...]] = []
    for node in where.nodes:
        wal = node.wal_bytes_per_second
        events = node.waits[:_NODE_EVENTS_SHOWN]
        rows.append(
            (
                node.name,
                fixed(node.ms, decimals),
                quantities.percent(node.ms / whole_ms) if whole_ms else "",
                "" if node.processors_ratio is None else quantities.percent(node.processors_ratio),
                _rate(node.commits_per_second),
                "" if wal is None else quantities.plain(wal / 1e6),
                _rate(node.blocks_read_per_second),
                _rate(node.blocks_written_per_second),
                ", ".join(f"{event} {quantities.percent(ratio)}" for event, ratio in events),
            )
        )
    what = "sessions at work, for each transaction; CPU of the host; blocks"
    return TableBlock(
        "The other nodes",
        _NODE_COLUMNS,
        tuple(rows),
        note=what,
        short_row_count=len(rows),
        heading=f"the other nodes: {what}",
        style="cards",
    )


def _types(where: WhereTheTimeGoes) -> TableBlock:
    rows: list[tuple[str, ...]] = []
    for kind in where.types:
        decimals = max(0, min(3, plain_decimals(kind.held.value)))
        parts = (kind.held, kind.core, kind.waits, kind.network, kind.engine, kind.residual)
        own = types_by_name().get(kind.name)
        name = kind.name if own is None else own[1].words
        name += " (background)" * kind.is_background
        events = [f"{name} {quantities.percent(share)}" for name, share in kind.events]
        cells = (_with_interval(part, decimals) for part in parts)
        rows.append((name, *cells, ", ".join(events)))
    return TableBlock(
        "The time by transaction type",
        _TYPE_COLUMNS,
        tuple(rows),
        short_row_count=len(rows),
        heading="by transaction type, mean ms with a connection; core: on it or waiting for it",
        style="cards",
    )


def _with_interval(ms: Estimate, decimals: int) -> str:
    ends = interval_text(ms, decimals) if ms.has_interval else ""
    return value_with(fixed(ms.value, decimals), ends)


def busy_words(where: WhereTheTimeGoes) -> str:
    """Return the wait events of busy clients while transactions waited for a client; "" if none."""
    if not where.while_busy:
        return ""
    events = [f"{words_of(name)} {quantities.percent(share)}" for name, share in where.while_busy]
    return (
        f"while transactions waited for a client, the busy clients waited for: {', '.join(events)}"
    )


def others_words(where: WhereTheTimeGoes) -> str:
    """Return the share of other sessions in the server's time; "" if not known."""
    if where.others_ratio is None:
        return ""
    if where.others_ratio <= 0:
        return "this load used all of the server's DB time"
    return f"other sessions used {quantities.percent(where.others_ratio)} of the server's DB time"


def workers_words(where: WhereTheTimeGoes) -> str:
    """Return what the parallel workers of the load did; "" without workers."""
    if where.workers is None:
        return ""
    waits = [f"{words_of(name)} {quantities.percent(share)}" for name, share in where.workers.waits]
    return (
        f"parallel workers of the load, not in these parts: {where.workers.at_work_count:.2g} at"
        f" work on average, {', '.join(waits)}"
    )


def nodes_words(where: WhereTheTimeGoes) -> str:
    """Return how many statements needed several nodes; "" without workers, or if not counted."""
    if not where.nodes or where.several_shards_ratio is None:
        return ""
    several = quantities.percent(where.several_shards_ratio)
    return f"{several} of the statements needed several shards"


def _rate(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def scheduled_words(where: WhereTheTimeGoes) -> str:
    """Return the kernel's counts of the backends; "" if they could not be read."""
    scheduled = where.scheduled
    if scheduled is None:
        return ""
    decimals = _decimals(where, scheduled.cpu_ms + scheduled.waiting_ms)
    least_ms = _LEAST_RATIO * where.latency_ms.value
    words = f"the kernel counted {fixed(scheduled.cpu_ms, decimals)} ms of CPU"
    if scheduled.after_answer_ms > least_ms:
        words += f", {fixed(scheduled.after_answer_ms, decimals)} ms of it after the answer"
    words += f" and {fixed(scheduled.waiting_ms, decimals)} ms of waiting for a core"
    inside = [
        f"{fixed(ms, decimals)} ms {what}"
        for ms, what in (
            (scheduled.cpu_inside_events_ms, "of CPU"),
            (scheduled.inside_events_ms, "of waiting"),
        )
        if ms > least_ms
    ]
    if inside:
        words += f"; of these, {' and '.join(inside)} are part of wait events"
    return words


def _decimals(where: WhereTheTimeGoes, whole_ms: float) -> int:
    """Return the decimals of the parts, or more if `whole_ms` is much less than the latency."""
    return max(shown_decimals(where), min(plain_decimals(whole_ms), 2))


def _largest_events(statement: StatementTime) -> tuple[str, str]:
    """Return a statement's two largest wait events with their shares; "" = none.

    A small second one is only on the page, because the text needs the room for the statement.
    """
    shown = [(name, share) for name, share in statement.events if share >= _LEAST_RATIO]
    words = [f"{name} {quantities.percent(share)}" for name, share in shown]
    first, second, *_ = (*words, "", "")
    is_small = len(shown) > 1 and shown[1][1] < _SECOND_RATIO
    return first, PageText("", escape(second)) if is_small else second


def planning_words(where: WhereTheTimeGoes) -> str:
    """Return how much of the statements' time was planning and JIT, or that this is not known."""
    words = f"planning within it: {_known_words(where, where.planning_ms)}"
    is_none = where.compiling_ms == 0
    if where.compiling_ms is None:
        # Compiling takes milliseconds, so shorter statements do not contain it.
        is_none = (where.server_ms or 0.0) < _JIT_MS_MIN
    return words if is_none else f"{words}, JIT: {_known_words(where, where.compiling_ms)}"


def _known_words(where: WhereTheTimeGoes, ms: float | None) -> str:
    return "not known" if ms is None else f"{fixed(ms, _decimals(where, ms))} ms"
