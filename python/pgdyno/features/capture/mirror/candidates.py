"""Values that a parameter may have, from what the statement does with it and what the copy has."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pgdyno.errors import SpecError
from pgdyno.features.capture.mirror.drawing import ColumnSamples
from pgdyno.server.grammar import statements_of

_CANDIDATES_MAX = 16
_WORD = re.compile(r"[^\W\d_]\w{1,30}")
_ORDERS = frozenset({"<", ">", "<=", ">="})
_PATTERNS = frozenset({"~~", "~~*", "!~~", "!~~*"})
_SETS = frozenset({"&&", "@>", "<@", "?", "=", "@@"})
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
            operator = content["name"][-1]["String"]["sval"] if content.get("name") else "="
            sides = content.get("lexpr"), content.get("rexpr")
            columns = [column for side in sides for column in _columns_in(side)]
            for number in (n for side in sides for n in _numbers_in(side)):
                column = columns[0] if len(columns) == 1 else ""
                places[number] = FilteredPlace(number, operator, column)
        elif name == "FuncCall":
            function = content["funcname"][-1]["String"]["sval"]
            if "tsquery" in function and (numbers := list(_numbers_in(content.get("args")))):
                places[numbers[-1]] = FilteredPlace(numbers[-1], "@@", function=function)
    return list(places.values())


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
    if place.column and place.operator in (*_ORDERS, "="):
        own = next((own for own in named if own.name == place.column), None)
        if own is not None:
            known = [row[0] for row in samples.rows(own.table, [own.name]) if row[0] is not None]
            return _quantiles(known) if place.operator in _ORDERS else _spaced(Counter(known))
    return []


def _spaced(counts: Counter[str], *, most: int = _CANDIDATES_MAX) -> list[str]:
    """Return values by frequency, the most common ones densest."""
    ranked = [value for value, _ in counts.most_common()]
    if len(ranked) <= most:
        return ranked
    places = {round((len(ranked) - 1) * (step / (most - 1)) ** 2) for step in range(most)}
    return [ranked[place] for place in sorted(places)]


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
            items = (value or "{}")[1:-1]
            parts = re.findall(r'"((?:[^"\\]|\\.)*)"|([^,"{}]+)', items)
            counts.update(quoted or plain for quoted, plain in parts)
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
