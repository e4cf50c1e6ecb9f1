"""The text below the parts of the time: other sessions, statements, transaction types."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from pgdyno import quantities
from pgdyno.analysis.where import WhereTheTimeGoes
from pgdyno.analysis.where_statements import StatementTime
from pgdyno.programs.registry import types_by_name
from pgdyno.quantities import fixed, plain_decimals
from pgdyno.report.numbers import interval_text
from pgdyno.report.parts import shown_decimals, words_of

_STATEMENTS_SHOWN = 8
_EVENTS_SHOWN = 2
# Wait events that are named for each node.
_NODE_EVENTS_SHOWN = 3
_NODES_SHOWN = 4
_ROOM_MIN = 28
_LEAST_RATIO = 0.005
_JIT_MS_MIN = 10.0


def busy_words(where: WhereTheTimeGoes) -> str:
    """Return the wait events of busy clients while transactions waited for a client; "" if none."""
    if not where.while_busy:
        return ""
    events = [f"{words_of(name)} {quantities.percent(share)}" for name, share in where.while_busy]
    return f"while transactions waited for a client, the busy clients: {', '.join(events)}"


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


NODE_COLUMNS = ("node", "ms", "share", "CPU", "commits/s", "WAL MB/s", "read/s", "written/s")


def node_rows(where: WhereTheTimeGoes) -> list[tuple[tuple[str, ...], str]]:
    """Return the work of the workers of a distributed server, with the words about their waits.

    The numbers have the columns of `NODE_COLUMNS`: mean ms of a transaction, the share of the time
    of all workers, the share of the processors of the host at work, rates of the server; blocks are
    read and written. "" = not known.
    """
    whole_ms = sum(node.ms for node in where.nodes)
    decimals = _decimals(where, whole_ms)
    rows: list[tuple[tuple[str, ...], str]] = []
    for node in where.nodes:
        wal = node.wal_bytes_per_second
        numbers = (
            node.name,
            fixed(node.ms, decimals),
            quantities.percent(node.ms / whole_ms) if whole_ms else "",
            "" if node.processors_ratio is None else quantities.percent(node.processors_ratio),
            _rate(node.commits_per_second),
            "" if wal is None else quantities.plain(wal / 1e6),
            _rate(node.blocks_read_per_second),
            _rate(node.blocks_written_per_second),
        )
        events = node.waits[:_NODE_EVENTS_SHOWN]
        said = ", ".join(f"{event} {quantities.percent(ratio)}" for event, ratio in events)
        rows.append((numbers, said))
    return rows


def node_lines(where: WhereTheTimeGoes) -> list[str]:
    """Return the work of the busiest workers as a small table; nothing without workers."""
    rows = node_rows(where)
    if not rows:
        return []
    shown = [NODE_COLUMNS, *(numbers for numbers, _ in rows[:_NODES_SHOWN])]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    lines = ["sessions of other nodes at work, for each transaction; CPU of the host; blocks"]
    for place, row in enumerate(shown):
        cells = (f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))
        lines.append("  ".join([f"  {row[0]:<{widths[0]}}", *cells]))
        if place and (said := rows[place - 1][1]):
            lines.append(f"      waits: {said}")
    more = len(rows) - _NODES_SHOWN
    return [*lines, *([f"  and {quantities.counted(more, 'more node')}"] if more > 0 else [])]


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


def event_words(statement: StatementTime, at_most: int = _EVENTS_SHOWN) -> str:
    """Return a statement's largest wait events with their shares."""
    shown = [(name, share) for name, share in statement.events if share >= _LEAST_RATIO]
    return ", ".join(f"{name} {quantities.percent(share)}" for name, share in shown[:at_most])


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


def statement_lines(where: WhereTheTimeGoes, width: int) -> Iterator[str]:
    """Yield the share of other sessions, and the statements with most of the server's time."""
    for make in (busy_words, others_words, workers_words, nodes_words, scheduled_words):
        if words := make(where):
            yield from textwrap.wrap(words, width, initial_indent="  ", subsequent_indent="    ")
    yield from (f"  {line[: width - 2]}" for line in node_lines(where))
    whole = where.server_ms or 0.0
    shown = [
        statement for statement in where.statements if statement.ms.value >= _LEAST_RATIO * whole
    ]
    if not shown:
        return
    decimals = _decimals(where, whole)
    has_several = len({statement.script for statement in shown if statement.script}) > 1
    yield f"by statement, {fixed(whole, decimals)} ms in the server; {planning_words(where)}"
    for statement in shown[:_STATEMENTS_SHOWN]:
        start = f"    {fixed(statement.ms.value, decimals)}  "
        text = " ".join(statement.text.split())
        if has_several and statement.script:
            text = f"{statement.script}: {text}"
        # A second event is shown only if there is room left for the statement's text.
        for at_most in (_EVENTS_SHOWN, 1):
            events = event_words(statement, at_most)
            room = width - len(start) - len(events) - 2
            if room >= min(_ROOM_MIN, len(text)):
                break
        room = max(room, 1)
        if len(text) > room:
            text = text[: room - 1] + "\N{HORIZONTAL ELLIPSIS}"
        yield f"{start}{text:{room}}  {events}"


TYPE_COLUMNS = ("type", "ms", "core", "waits", "network", "engine", "not explained")


def type_rows(
    where: WhereTheTimeGoes,
) -> Iterator[tuple[str, tuple[tuple[str, str], ...], str]]:
    """Yield a row a transaction type: its name, its numbers with intervals, its largest waits.

    The numbers have the columns of `TYPE_COLUMNS`: mean ms of a transaction; "" = no interval.
    """
    for kind in where.types:
        decimals = max(0, min(3, plain_decimals(kind.held.value)))
        parts = (kind.held, kind.core, kind.waits, kind.network, kind.engine, kind.residual)
        cells = tuple(
            (fixed(ms.value, decimals), interval_text(ms, decimals) if ms.has_interval else "")
            for ms in parts
        )
        events = [f"{name} {quantities.percent(share)}" for name, share in kind.events]
        own = types_by_name().get(kind.name)
        name = kind.name if own is None else own[1].words
        name += " (background)" * kind.is_background
        yield name, cells, ", ".join(events)


def type_lines(where: WhereTheTimeGoes) -> Iterator[str]:
    """Yield the parts of the time of each transaction type, if there are several types."""
    if len(where.types) < 2:
        return
    named = [(name, *(text for text, _ in cells)) for name, cells, _ in type_rows(where)]
    rows = (TYPE_COLUMNS, *named)
    yield "by transaction type, mean ms with a connection; core: on it or waiting for it"
    widths = [max(len(row[column]) for row in rows) for column in range(len(TYPE_COLUMNS))]
    for row in rows:
        first, *rest = zip(row, widths, strict=True)
        cells = "".join(f"   {text:>{width}}" for text, width in rest)
        yield f"    {first[0]:{first[1]}}{cells}"
