"""The likeness of a run as data for every form of the answer: lines, tiles, tables, JSON keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from pgdyno.analysis.findings import CellFindings, RunFindings
from pgdyno.features.capture.mirror.findings import Likeness, Quantity
from pgdyno.quantities import fixed, percent, plain, shares_words
from pgdyno.report.own import Column, OwnShown, OwnTable, Tile

_COLUMNS = tuple(map(Column, ("quantity", "source", "copy", "ratio", "limit", "verdict")))
_NOT_COUNTED = (
    "Rows, blocks and WAL are not known. To count them, add pg_stat_statements to"
    " shared_preload_libraries, and run CREATE EXTENSION pg_stat_statements in the database of the"
    " copy."
)
_NOT_IN_SOURCE = (
    "Rows, blocks and WAL of the source are not known: a log does not have them. A capture without"
    " --log counts them, if the source has pg_stat_statements."
)
_AS_VALUES = ("mix of calls (distance)", "waits (cosine)")
# The quantities in the line of a cell.
_EACH = ("blocks a call", "WAL bytes a call", "active sessions", "waits (cosine)")
_EACH_COLUMNS = (
    *map(Column, ("variant or load", "verdict", "blocks", "WAL", "sessions", "waits")),
    Column("short", meaning="short", is_words=True),
)
_SIDE_BY_SIDE_MAX = 4
_TEXT_MAX = 60
_TYPE_COLUMNS = (Column("type"), Column("quantity", is_name=True), *_COLUMNS[1:])


def shown_of(run: RunFindings) -> OwnShown:
    """Return what a mirror adds to the answer of a run."""
    own: Likeness = run.program.own
    below = _what_is_missing([own])
    table = OwnTable("Likeness to the source", _COLUMNS, tuple(_rows(own.quantities)), below=below)
    types = OwnTable(
        "Likeness by transaction type",
        _TYPE_COLUMNS,
        tuple((kind.name, *row) for kind in own.types for row in _rows(kind.quantities)),
        note="of the statements that only this type has",
        summary="Likeness by transaction type",
    )
    return OwnShown(
        title=f"Load of {own.file}",
        anchor="likeness",
        short="Likeness",
        lead=f"{own.sentence[0].upper()}{own.sentence[1:]}.",
        lines=(("likeness", own.sentence), table, *([("", below)] if below else [])),
        tiles=tuple(_tiles(own)),
        tables=(table, types) if own.types else (table,),
        document={"likeness": _document(own)},
    )


def shown_of_cells(cells: Sequence[CellFindings], *, has_run: bool = False) -> OwnShown:
    """Return what a mirror adds to the answer of several variants or loads.

    One sentence about all; a line for each; the quantities of the main ones side by side.
    Args: has_run, the answer has a run in detail, too. It shows all quantities, so a single column
    of them is left out here.
    """
    sentence = _sentence(cells)
    main = [cell for cell in cells if cell.is_main][:_SIDE_BY_SIDE_MAX] or [cells[0]]
    lines = OwnTable("Likeness of each", _EACH_COLUMNS, tuple(map(_each, cells)))
    tables: tuple[OwnTable, ...] = (lines, _side_by_side(main))
    missing = _what_is_missing([cell.own for cell in cells])
    if has_run and len(main) == 1:
        tables, missing = (lines,), ""
    return OwnShown(
        title=f"Likeness to the source of {cells[0].own.file}",
        anchor="alike",
        short="Likeness",
        lead=f"{sentence[0].upper()}{sentence[1:]}.",
        lines=(
            ("likeness", sentence),
            *tables,
            *([("", missing)] if missing else []),
        ),
        tables=(lines, replace(tables[-1], below=missing)) if missing else tables,
        document={
            "likeness": {
                "sentence": sentence,
                "cells": [{"name": cell.name, **_document(cell.own)} for cell in cells],
            }
        },
    )


def _sentence(cells: Sequence[CellFindings]) -> str:
    """Return how many of the cells are alike, and which quantities are short in some."""
    first: Likeness = cells[0].own
    shares = shares_words(first.reproduced_calls_ratio, first.reproduced_time_ratio)
    alike = sum(cell.own.verdict == "alike" for cell in cells)
    words = [f"{shares} are reproduced"]
    short = list(dict.fromkeys(quantity.name for cell in cells for quantity in cell.own.short))
    if short:
        words.append(f"short: {', '.join(short)}")
    only = " (only what reads)" if first.reads_only else ""
    return f"alike in {alike} of {len(cells)}{only}: {'; '.join(words)}"


def _each(cell: CellFindings) -> tuple[str, ...]:
    own: Likeness = cell.own
    by_name = {quantity.name: quantity for quantity in own.quantities}
    return (
        cell.name,
        own.verdict,
        *(_compared(by_name[name]) for name in _EACH),
        ", ".join(quantity.name for quantity in own.short) or "none",
    )


def _side_by_side(cells: Sequence[CellFindings]) -> OwnTable:
    """Return the quantities of several cells: copy / source, or the value if that has no ratio."""
    heads = (Column("quantity"), Column("source"), *(Column(cell.name) for cell in cells))
    first: Likeness = cells[0].own
    rows = tuple(
        (
            quantity.name,
            _value(quantity.source),
            *(_judged(cell.own.quantities[place]) for cell in cells),
            quantity.limit_words,
        )
        for place, quantity in enumerate(first.quantities)
    )
    limit = Column("limit", meaning="limit", is_words=True)
    return OwnTable("Copy / source", (*heads, limit), rows)


def _judged(quantity: Quantity) -> str:
    is_short = quantity.limit is not None and quantity.verdict == "short"
    return f"{_compared(quantity)}{' short' if is_short else ''}"


def _compared(quantity: Quantity) -> str:
    """Return the ratio; the value of the copy if the source is always 0 or 1."""
    if quantity.ratio is None or quantity.name in _AS_VALUES:
        return _value(quantity.copy)
    return f"{fixed(quantity.ratio, 2)}x"


def _tiles(own: Likeness) -> Iterator[Tile]:
    passed = [quantity for quantity in own.quantities if quantity.verdict == "pass"]
    judged = [quantity for quantity in own.quantities if quantity.verdict != "unknown"]
    yield Tile(
        "likeness",
        f"{len(passed)} of {len(judged)}",
        unit="quantities",
        aside="of an unknown share of the calls"
        if own.reproduced_calls_ratio is None
        else f"{percent(own.reproduced_calls_ratio)} of the calls",
        tone="bad" if own.short else "good",
    )


def _what_is_missing(cells: Sequence[Likeness]) -> str:
    """Return why the work of a call is not compared, and what is not sent; "" without either."""
    rows = [row for own in cells for row in own.quantities if row.name == "rows a call"]
    words = [f"Not sent: {_short(text)}. It could do harm." for text in cells[0].not_sent]
    if all(row.source is None for row in rows):
        words.append(_NOT_IN_SOURCE)
    elif all(row.copy is None for row in rows):
        words.append(_NOT_COUNTED)
    return " ".join(words)


def _short(text: str) -> str:
    shown = " ".join(text.split())
    return shown if len(shown) <= _TEXT_MAX else f"{shown[:_TEXT_MAX]}..."


def _rows(quantities: Sequence[Quantity]) -> Iterator[tuple[str, ...]]:
    for quantity in quantities:
        ratio = quantity.ratio
        yield (
            quantity.name,
            _value(quantity.source),
            _value(quantity.copy),
            "" if ratio is None else f"{fixed(ratio, 2)}x",
            quantity.limit_words,
            "shown" if quantity.limit is None else quantity.verdict,
        )


def _value(value: float | None) -> str:
    return "not known" if value is None else plain(value)


def _document(own: Likeness) -> dict[str, Any]:
    return {
        "file": own.file,
        "reads_only": own.reads_only,
        "reproduced_calls": own.reproduced_calls_ratio,
        "reproduced_time": own.reproduced_time_ratio,
        "not_sent": list(own.not_sent),
        "sentence": own.sentence,
        "quantities": [_quantity(quantity) for quantity in own.quantities],
        "types": [
            {"name": kind.name, "quantities": [_quantity(own) for own in kind.quantities]}
            for kind in own.types
        ],
    }


def _quantity(quantity: Quantity) -> dict[str, Any]:
    return {
        "name": quantity.name,
        "source": quantity.source,
        "copy": quantity.copy,
        "ratio": quantity.ratio,
        "limit": quantity.limit,
        "verdict": quantity.verdict,
    }
