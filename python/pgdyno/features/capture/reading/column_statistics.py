"""What pg_stats says about columns: their statistics, kinds and raw values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pgdyno.engine.distribution import ValueKind
from pgdyno.features.capture.reading.schema import CatalogColumn, Schema

KINDS: dict[str, ValueKind] = {
    **dict.fromkeys(("int2", "int4", "int8", "oid"), "integer"),
    **dict.fromkeys(("float4", "float8"), "real"),
    **dict.fromkeys(("numeric", "money"), "numeric"),
    **dict.fromkeys(("text", "varchar", "bpchar", "char", "name", "citext", "xml"), "text"),
    **dict.fromkeys(("json", "jsonb"), "json"),
    **dict.fromkeys(("inet", "cidr"), "inet"),
    **dict.fromkeys(("time", "timetz"), "time"),
    **{name: name for name in ("uuid", "date", "timestamp", "timestamptz", "interval")},
    **{"bool": "boolean", "bytea": "bytes"},
}


@dataclass(frozen=True, slots=True)
class Statistics:
    """One row of pg_stats. `distinct` below 0: a share of the rows, as PostgreSQL has it."""

    null_fraction: float
    width: int
    distinct: float
    hot: tuple[str, ...]
    hot_fractions: tuple[float, ...]
    bounds: tuple[str, ...]
    correlation: float | None
    elements: tuple[str, ...]
    element_fractions: tuple[float, ...]
    element_counts: tuple[float, ...]

    @property
    def values(self) -> tuple[str, ...]:
        """Return all values that the row shows."""
        return (*self.hot, *self.bounds, *self.elements)


def read_statistics(rows: Iterable[Sequence[Any]]) -> dict[tuple[str, ...], Statistics]:
    """Return the rows of pg_stats by schema, table and column."""
    by_place: dict[tuple[str, ...], Statistics] = {}
    for row in rows:
        nulls, width, distinct, hot, fractions, bounds, correlation, *elements = row[3:]
        lists = [tuple(items or ()) for items in (hot, fractions, bounds, *elements)]
        by_place[tuple(row[:3])] = Statistics(
            null_fraction=min(max(nulls, 0.0), 1.0),
            width=width,
            distinct=distinct,
            hot=lists[0],
            hot_fractions=lists[1],
            bounds=lists[2],
            correlation=correlation,
            elements=lists[3],
            element_fractions=lists[4],
            element_counts=lists[5],
        )
    return by_place


@dataclass(frozen=True, slots=True)
class RawColumn:
    """Values of a column, which are used and not kept.

    `range`: the first and the last bound, of integers. `common`: the most common values of other
    columns, each with its share of the rows. `known`: all values of a text that statistics show.
    """

    range: tuple[str, str] | None = None
    common: tuple[tuple[str, float], ...] = ()
    known: frozenset[str] = frozenset()


def raw_columns(
    schema: Schema, statistics: Mapping[tuple[str, ...], Statistics]
) -> dict[tuple[str, str], RawColumn]:
    """Return the raw values of the columns with statistics."""
    raw: dict[tuple[str, str], RawColumn] = {}
    for column in schema.columns:
        seen = statistics.get(column.place)
        if seen is None:
            continue
        if kind_of(column) != "integer":
            common = tuple(zip(seen.hot, seen.hot_fractions, strict=False))
            known = {*seen.hot, *seen.bounds} if kind_of(column) == "text" else ()
            raw[column.table, column.bare_name] = RawColumn(common=common, known=frozenset(known))
        elif len(seen.bounds) > 1:
            raw[column.table, column.bare_name] = RawColumn((seen.bounds[0], seen.bounds[-1]))
    return raw


def kind_of(column: CatalogColumn) -> ValueKind:
    """Return the kind of a column's values."""
    if column.base_kind == "e":
        return "enum"
    if column.category == "A":
        return "array"
    if column.base_kind == "m":
        return "other"
    return "range" if column.category == "R" else KINDS.get(column.base_type, "other")
