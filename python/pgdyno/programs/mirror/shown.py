"""The likeness of a run as data for every form of the answer: lines, tiles, tables, JSON keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pgdyno.analysis.findings import RunFindings
from pgdyno.programs.mirror.findings import Likeness, Quantity
from pgdyno.quantities import fixed, percent, plain
from pgdyno.report.own import Column, OwnShown, OwnTable, Tile

_COLUMNS = tuple(map(Column, ("quantity", "source", "copy", "ratio", "limit", "verdict")))
_NOT_COUNTED = (
    "Rows, blocks and WAL are not known: the copy counts them only with the extension"
    " pg_stat_statements in its database, and in shared_preload_libraries."
)
_TYPE_COLUMNS = (Column("type"), Column("quantity", is_name=True), *_COLUMNS[1:])


def shown_of(run: RunFindings) -> OwnShown:
    """Return what a mirror adds to the answer of a run."""
    own: Likeness = run.program.own
    is_counted = any(row.copy is not None for row in own.quantities if row.name == "rows a call")
    below = "" if is_counted else _NOT_COUNTED
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


def _tiles(own: Likeness) -> Iterator[Tile]:
    passed = [quantity for quantity in own.quantities if quantity.verdict == "pass"]
    judged = [quantity for quantity in own.quantities if quantity.verdict != "unknown"]
    yield Tile(
        "likeness",
        f"{len(passed)} of {len(judged)}",
        unit="quantities",
        aside=f"{percent(own.reproduced_calls_ratio)} of the calls",
        tone="bad" if own.short else "good",
    )


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
