"""Values that a parameter may have, from what the statement does with it and what the copy has."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pgdyno.errors import SpecError
from pgdyno.features.capture.arrays import items_in
from pgdyno.features.capture.mirror.drawing import ColumnSamples
from pgdyno.features.capture.reading.trees import function_name, operator_of
from pgdyno.server.connect import Connection
from pgdyno.server.grammar import statements_of

_CANDIDATES_MAX = 16
_WORD = re.compile(r"[^\W\d_]\w{1,30}")
_ORDERS = frozenset({"<", ">", "<=", ">="})
_PATTERNS = frozenset({"~~", "~~*", "!~~", "!~~*"})
_SETS = frozenset({"&&", "@>", "<@", "?", "=", "@@"})
# How far apart two bounds are, how many rows are asked for: two of them give each mean.
_AMOUNTS = tuple(str(first * 10**tens) for tens in range(4) for first in (1, 2, 5))
_INTERVALS = ("1 second", "1 minute", "1 hour", "1 day", "7 days", "30 days", "1 year")
_NUMBERS = ("smallint", "integer", "bigint", "numeric", "real", "double precision")
_BOUND = re.compile(r'[\[(]"?([^",)\]]+)')
_TEXTS = ("text", "character varying", "citext", "character")


@dataclass(frozen=True, slots=True)
class FilteredPlace:
    """A parameter that filters rows: its number from 1, the operator, the other column."""

    number: int
    operator: str
    column: str = ""
    function: str = ""


@dataclass(frozen=True, slots=True)
class ColumnOfTable:
    """A column of a statement's tables, with its type."""

    table: str
    name: str
    kind: str


def places_of(text: str) -> list[FilteredPlace]:
    """Return the parameters that operators compare with something, in the order of the text."""
    try:
        statements = statements_of(text, where="a statement")
    except SpecError:
        return []
    places: dict[int, FilteredPlace] = {}
    for name, content in (node for own in statements for node in own.nodes()):
        if name == "A_Expr":
            operator = operator_of(content) or "="
            sides = content.get("lexpr"), content.get("rexpr")
            columns = [column for side in sides for column in _columns_in(side)]
            for number in (n for side in sides for n in _numbers_in(side)):
                column = columns[0] if len(columns) == 1 else ""
                places[number] = FilteredPlace(number, operator, column)
        elif name == "FuncCall":
            function = function_name(content)
            if "tsquery" in function and (numbers := list(_numbers_in(content.get("args")))):
                places[numbers[-1]] = FilteredPlace(numbers[-1], "@@", function=function)
        elif name == "SelectStmt":
            for key, word in (("limitCount", "limit"), ("limitOffset", "offset")):
                for number in _numbers_in(content.get(key)):
                    places[number] = FilteredPlace(number, word)
    return list(places.values())


def columns_of(connection: Connection, tables: Sequence[str]) -> list[ColumnOfTable]:
    """Return the columns of some tables in their order. Raises: psycopg.Error."""
    rows = connection.execute(
        "SELECT t.name, a.attname, pg_catalog.format_type(a.atttypid, NULL)"
        " FROM pg_catalog.unnest(%s::text[]) AS t(name) JOIN pg_catalog.pg_attribute a"
        " ON a.attrelid = pg_catalog.to_regclass(t.name)"
        " WHERE a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
        [list(tables)],
    ).fetchall()
    return [ColumnOfTable(*map(str, row)) for row in rows]


def _numbers_in(tree: Any) -> Iterator[int]:
    if isinstance(tree, Mapping):
        if "ParamRef" in tree:
            yield tree["ParamRef"]["number"]
            return
        for name, content in tree.items():
            # Another expression or query has its own operators.
            if name not in ("A_Expr", "SubLink", "BoolExpr"):
                yield from _numbers_in(content)
    elif isinstance(tree, list):
        for item in tree:
            yield from _numbers_in(item)


def _columns_in(tree: Any) -> Iterator[str]:
    if isinstance(tree, Mapping):
        if "ColumnRef" in tree:
            last = tree["ColumnRef"]["fields"][-1]
            if "String" in last:
                yield last["String"]["sval"]
            return
        for name, content in tree.items():
            if name not in ("SubLink",):
                yield from _columns_in(content)
    elif isinstance(tree, list):
        for item in tree:
            yield from _columns_in(item)


def candidates_of(
    place: FilteredPlace, kind: str, columns: Sequence[ColumnOfTable], samples: ColumnSamples
) -> list[str]:
    """Return values for a parameter, from those that find most rows to those that find fewest.

    Args: kind, the type of the parameter; columns, of the tables of the statement.
    Raises: psycopg.Error.
    """
    if place.operator in ("limit", "offset"):
        return [*_AMOUNTS, *(["0"] if place.operator == "offset" else [])]
    named = [own for own in columns if own.name == place.column] or list(columns)
    if place.operator == "@@" or place.function:
        vectors = [own for own in named if own.kind == "tsvector"] or named
        return _spaced(_words(vectors, samples))
    if place.operator in _PATTERNS:
        texts = [own for own in named if own.kind in _TEXTS]
        words = _spaced(_words(texts, samples), most=_CANDIDATES_MAX // 2)
        return ["%", *(f"%{word}%" for word in words), *(f"{word}%" for word in words[::2])]
    if place.operator in _SETS and any(own.kind.endswith("[]") for own in named):
        elements = _spaced(_elements(named, samples))
        return [f'{{"{item}"}}' for item in elements] if kind.endswith("[]") else elements
    if place.operator in _SETS and any(own.kind in ("jsonb", "json") for own in named):
        return _spaced(_pairs(named, samples, keys=place.operator == "?"))
    own = next((own for own in named if own.name == place.column), None)
    if own is not None and (place.operator in (*_ORDERS, "=") or own.kind.endswith("range")):
        known = [row[0] for row in samples.rows(own.table, [own.name]) if row[0] is not None]
        if own.kind.endswith("range") and not kind.endswith("range"):
            return _quantiles([match[1] for value in known if (match := _BOUND.match(value))])
        if place.operator in _ORDERS:
            return _quantiles(known)
        return [*_spaced(Counter(known)), *_missing(own.kind, known)]
    if kind == "interval":
        return list(_INTERVALS)
    return list(_AMOUNTS) if place.operator in ("-", "+") and kind in _NUMBERS else []


def first_bound_of(place: FilteredPlace, before: Sequence[FilteredPlace]) -> FilteredPlace | None:
    """Return the earlier bound of the same column, near which a second bound is."""
    own = (place.column, place.operator in (*_ORDERS, "&&", "@>", "<@"))
    for other in before:
        if place.column and own == (other.column, other.operator in (*_ORDERS, "&&", "@>", "<@")):
            return other if own[1] and other.number != place.number else None
    return None


def widths_of(kind: str) -> tuple[float, ...]:
    """Return how far apart two bounds may be: numbers, or the seconds between two times."""
    numbers = tuple(float(amount) for amount in _AMOUNTS)
    if kind in _NUMBERS:
        return numbers
    is_time = kind.startswith(("timestamp", "date"))
    return tuple(60 * 6**power for power in range(11)) if is_time else ()


def _spaced(counts: Counter[str], *, most: int = _CANDIDATES_MAX) -> list[str]:
    """Return values by frequency, the most common ones densest."""
    ranked = [value for value, _ in counts.most_common()]
    if len(ranked) <= most:
        return ranked
    places = {round((len(ranked) - 1) * (step / (most - 1)) ** 2) for step in range(most)}
    return [ranked[place] for place in sorted(places)]


def _missing(kind: str, known: list[str]) -> Iterator[str]:
    """Yield a value that no row has: programs also ask for what is not there."""
    if kind in _TEXTS:
        yield max(known, key=len, default="") + "~"
    elif kind in _NUMBERS:
        yield from {"-1"} - set(known)
    elif kind == "uuid":
        yield str(UUID(int=0))


def _quantiles(known: list[str]) -> list[str]:
    def order(value: str) -> tuple[int, float, str]:
        try:
            return 0, float(value), value
        except ValueError:
            return 1, 0.0, value

    ordered = sorted(known, key=order)
    most = min(_CANDIDATES_MAX, len(ordered))
    if most < 2:
        return ordered
    return list(dict.fromkeys(ordered[(len(ordered) - 1) * n // (most - 1)] for n in range(most)))


def _words(columns: Sequence[ColumnOfTable], samples: ColumnSamples) -> Counter[str]:
    counts: Counter[str] = Counter()
    for own in (own for own in columns if own.kind in (*_TEXTS, "tsvector")):
        for (value,) in samples.rows(own.table, [own.name]):
            counts.update(set(_WORD.findall(value or "")))
    return counts


def _elements(columns: Sequence[ColumnOfTable], samples: ColumnSamples) -> Counter[str]:
    counts: Counter[str] = Counter()
    for own in (own for own in columns if own.kind.endswith("[]")):
        for (value,) in samples.rows(own.table, [own.name]):
            counts.update(item for item in items_in(value or "{}") if item is not None)
    return counts


def _pairs(columns: Sequence[ColumnOfTable], samples: ColumnSamples, *, keys: bool) -> Counter[str]:
    counts: Counter[str] = Counter()
    for own in (own for own in columns if own.kind in ("jsonb", "json")):
        for (value,) in samples.rows(own.table, [own.name]):
            document = json.loads(value) if value else None
            if not isinstance(document, dict):
                continue
            for name, item in document.items():
                if keys:
                    counts[name] += 1
                elif not isinstance(item, dict | list):
                    counts[json.dumps({name: item}, ensure_ascii=False)] += 1
                elif isinstance(item, list) and item:
                    counts[json.dumps({name: item[:1]}, ensure_ascii=False)] += 1
    return counts
