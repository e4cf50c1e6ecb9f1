"""The likeness of a run as blocks for every form of the answer: lines, tiles, tables, JSON keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pgdyno.analysis.findings import CellFindings, RunFindings
from pgdyno.features.capture.mirror.findings import (
    FailedKind,
    Likeness,
    StatementLikeness,
    shortened,
)
from pgdyno.quantities import percent, plain
from pgdyno.report.blocks import (
    BlockSection,
    DocumentKeys,
    LabelledLine,
    TableBlock,
    TableColumn,
    Tile,
)

_SHOWN_MAX, _FAILED_MAX, _ROWS_MAX = 3, 2, 12
_COLUMNS = (
    *map(TableColumn, ("#", "of time", "calls", "rows", "blocks", "WAL bytes", "temp", "failed")),
    TableColumn("verdict"),
    TableColumn("statement", is_name=True),
    TableColumn("why", meaning="why it is not alike", is_words=True),
)
_NOTE = "source -> copy, a call; calls: source -> copy, of all"
_EACH_COLUMNS = (
    *map(TableColumn, ("variant or load", "alike: time", "calls", "failed")),
    TableColumn("most time that is not alike", meaning="what is not alike", is_words=True),
)
_NOT_COUNTED = (
    "Rows, blocks and WAL of the copy are not known. To count them, add pg_stat_statements to"
    " shared_preload_libraries, and run CREATE EXTENSION pg_stat_statements in the database of the"
    " copy."
)
_NOT_IN_SOURCE = (
    "Rows, blocks and WAL of the source are not known: a log does not have them. Capture again with"
    " --duration with --log, if the source has pg_stat_statements."
)
_TEXT_MAX = 60


def shown_of(run: RunFindings) -> BlockSection:
    """Return what a mirror adds to the answer of a run."""
    own: Likeness = run.program.own
    missing = _what_is_missing([own])
    table = TableBlock(
        "Likeness to the source",
        _COLUMNS,
        tuple(_rows(own)),
        note=_NOTE,
        below=missing,
        short_row_count=_ROWS_MAX,
    )
    return BlockSection(
        title=f"Load of {own.file}",
        anchor="likeness",
        short="Likeness",
        lead=f"{own.sentence[0].upper()}{own.sentence[1:]}.",
        blocks=(
            _tile(own),
            *_lines(own),
            table,
            *([LabelledLine("", missing)] if missing else []),
            DocumentKeys({"likeness": _document(own)}),
        ),
    )


def shown_of_cells(cells: Sequence[CellFindings], *, has_run: bool = False) -> BlockSection:
    """Return what a mirror adds to the answer of several variants or loads.

    The lines of the cell that is least alike; a line for each; its statements.
    Args: has_run, the answer has a run in detail, too, which shows the statements.
    """
    worst = min(cells, key=lambda cell: cell.own.share if cell.own.share is not None else -1.0)
    least: Likeness = worst.own
    missing = _what_is_missing([cell.own for cell in cells])
    lines = TableBlock(
        "Likeness of each", _EACH_COLUMNS, tuple(map(_each, cells)), short_row_count=len(cells)
    )
    whole = TableBlock(
        f"Statements of {worst.name}", _COLUMNS, tuple(_rows(least)), note=_NOTE, below=missing
    )
    sentence = f"least alike is {worst.name}: {least.sentence}"
    by_cell = [{"name": cell.name, **_document(cell.own)} for cell in cells]
    document = {"sentence": sentence, "cells": by_cell}
    return BlockSection(
        title=f"Likeness to the source of {least.file}",
        anchor="alike",
        short="Likeness",
        lead=f"{sentence[0].upper()}{sentence[1:]}.",
        blocks=(
            *_lines(least),
            lines,
            *([LabelledLine("", missing)] if missing else []),
            *(() if has_run else (whole,)),
            DocumentKeys({"likeness": document}),
        ),
    )


def _lines(own: Likeness) -> Iterator[LabelledLine]:
    """Yield the first lines of an answer: what is alike, what is not, what failed."""
    yield LabelledLine("alike", _alike_words(own))
    others = [
        statement for statement in own.others if statement.time_ratio or statement.calls_ratio
    ]
    yield from _named("not", [row for row in others if row.verdict != "left out"])
    yield from _named("left out", [row for row in others if row.verdict == "left out"])
    yield from _failed_lines(own)


def _named(label: str, rows: Sequence[StatementLikeness]) -> Iterator[LabelledLine]:
    """Yield the statements with most time, and the sum of the others."""
    for place, row in enumerate(rows[:_SHOWN_MAX]):
        said = f"{_share(row)}: {shortened(row.text)}, {row.reason}"
        yield LabelledLine("" if place else label, said)
    if len(rows) > _SHOWN_MAX:
        rest = rows[_SHOWN_MAX:]
        yield LabelledLine("", f"and {len(rest)} others, {_sum_words(rest)}")


def _alike_words(own: Likeness) -> str:
    only = "; statements that write are not sent" if own.reads_only else ""
    if own.not_known:
        return f"not known: {own.not_known}{only}"
    shares = [
        f"{percent(share)} of {words}"
        for share, words in ((own.alike_time, "the source's time"), (own.alike_calls, "its calls"))
        if share is not None
    ]
    fitted = sum(statement.is_fitted for statement in own.statements)
    words = f"; fitted on the copy: {fitted} of {len(own.statements)} statements" if fitted else ""
    return f"{', '.join(shares)}{only}{words}"


def _share(statement: StatementLikeness) -> str:
    if statement.time_ratio is not None:
        return f"{percent(statement.time_ratio)} of the time"
    return f"{percent(statement.calls_ratio)} of the calls"


def _sum_words(rest: Sequence[StatementLikeness]) -> str:
    if any(statement.time_ratio is None for statement in rest):
        return f"{percent(sum(statement.calls_ratio for statement in rest))} of the calls"
    return f"{percent(sum(statement.time_ratio or 0.0 for statement in rest))} of the time"


def _failed_lines(own: Likeness) -> Iterator[LabelledLine]:
    whole = sum(failed.count for failed in own.failed)
    if not whole:
        return
    ranked = sorted(own.failed, key=lambda failed: -failed.count)
    words = "; ".join(map(_failed_words, ranked[:_FAILED_MAX]))
    more = f"; and {len(ranked) - _FAILED_MAX} other kinds" if len(ranked) > _FAILED_MAX else ""
    share = percent(whole / max(own.transactions, 1))
    said = f"{whole:,} of {own.transactions:,} transactions, {share}: {words}{more}"
    yield LabelledLine("failed", said)


def _failed_words(failed: FailedKind) -> str:
    place = f" in {shortened(failed.text, 40)}" if failed.text else ""
    return f"{failed.count:,} {failed.code}{place}: {failed.message}"


def _rows(own: Likeness) -> Iterator[tuple[str, ...]]:
    for statement in own.statements:
        source, copy = statement.source, statement.copy
        yield (
            str(statement.number),
            "" if statement.time_ratio is None else percent(statement.time_ratio),
            _pair(source.share_ratio, copy.share_ratio, is_share=True),
            _pair(source.rows, copy.rows),
            _pair(source.blocks, copy.blocks),
            _pair(source.wal_bytes, copy.wal_bytes),
            _pair(source.temp_blocks, copy.temp_blocks),
            plain(copy.failures),
            statement.verdict,
            shortened(statement.text, 40),
            statement.reason,
        )


def _pair(source: float | None, copy: float | None, *, is_share: bool = False) -> str:
    def text(value: float | None) -> str:
        if value is None:
            return "?"
        return percent(value) if is_share else plain(value)

    return f"{text(source)} -> {text(copy)}"


def _each(cell: CellFindings) -> tuple[str, ...]:
    own: Likeness = cell.own
    worst = next(iter(own.others), None)
    return (
        cell.name,
        "not known" if own.alike_time is None else percent(own.alike_time),
        "not known" if own.alike_calls is None else percent(own.alike_calls),
        f"{sum(failed.count for failed in own.failed):,}",
        "" if worst is None else f"{shortened(worst.text)}: {worst.reason}",
    )


def _tile(own: Likeness) -> Tile:
    share = own.share
    return Tile(
        "alike",
        "not known" if share is None else percent(share),
        unit="of the time" if own.alike_time is not None else "of the calls" * (share is not None),
        aside=f"of {len(own.statements)} statements of the source",
        tone="bad" if own.share is None or own.share < 0.9 else "good",
    )


def _what_is_missing(cells: Sequence[Likeness]) -> str:
    """Return why the work of a call is not compared, and what is not sent; "" without either."""
    words = [f"Not sent: {_short(text)}. It could do harm." for text in cells[0].not_sent]
    sent = [
        statement
        for own in cells
        for statement in own.statements
        if statement.verdict != "left out"
    ]
    if sent and all(statement.source.rows is None for statement in sent):
        words.append(_NOT_IN_SOURCE)
    elif sent and all(statement.copy.rows is None for statement in sent):
        words.append(_NOT_COUNTED)
    return " ".join(words)


def _short(text: str) -> str:
    shown = " ".join(text.split())
    return shown if len(shown) <= _TEXT_MAX else f"{shown[:_TEXT_MAX]}..."


def _document(own: Likeness) -> dict[str, Any]:
    return {
        "file": own.file,
        "reads_only": own.reads_only,
        "alike_time": own.alike_time,
        "alike_calls": own.alike_calls,
        "reproduced_calls": own.reproduced_calls_ratio,
        "reproduced_time": own.reproduced_time_ratio,
        "not_sent": list(own.not_sent),
        "sentence": own.sentence,
        "statements": [statement.as_document() for statement in own.statements],
        "failed": [
            {
                "statement": failed.text,
                "sqlstate": failed.code,
                "message": failed.message,
                "count": failed.count,
            }
            for failed in own.failed
        ],
    }
