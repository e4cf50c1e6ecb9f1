"""Which columns of which tables a statement restricts, by PostgreSQL's own grammar.

Limits: columns inside subqueries, OR and expressions of several columns are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pgparse

from pgdyno.features.watch.incident.shapes import (
    COMPARED,
    SeenShape,
    ShapeMeaning,
    order_of,
    shapes_of,
)
from pgdyno.server.grammar import sql_name

_KINDS = frozenset(("AEXPR_OP", "AEXPR_OP_ANY", "AEXPR_IN", "AEXPR_BETWEEN"))
_STATEMENTS = ("SelectStmt", "UpdateStmt", "DeleteStmt")
# If a statement has one of these, the number of rows that it returns says nothing about its filter.
_SUMMING = frozenset(("groupClause", "distinctClause", "setOperations"))
_AGGREGATES = frozenset(
    (
        *("count", "sum", "avg", "min", "max", "array_agg", "string_agg", "bool_and", "bool_or"),
        *("every", "json_agg", "jsonb_agg", "json_object_agg", "jsonb_object_agg", "stddev"),
        *("variance", "percentile_cont", "percentile_disc"),
    )
)


@dataclass(frozen=True, slots=True)
class ColumnCondition:
    """A restricted column. `table` is "" if the statement does not say which table has it.

    `function`: a function of one argument around the column, "" without one. `operator`: = for all
    forms of equality. `values`: with how many values it is compared; None if a list's length is not
    known.
    """

    schema: str
    table: str
    column: str
    operator: str
    function: str = ""
    values: int | None = 1

    @property
    def indexed(self) -> str:
        """Return what an index would have to begin with."""
        column = sql_name(self.column)
        return f"{sql_name(self.function)}({column})" if self.function else column


@dataclass(frozen=True, slots=True)
class ShapedColumn:
    """A shape, and the column that it is about: "" if it is about none, or not known."""

    meaning: ShapeMeaning
    detail: str
    table: str = ""
    column: str = ""

    def words(self, table: str, index: str = "") -> tuple[str, str]:
        """Return what the shape means, and the next step. `index` begins with the column, or ""."""
        texts = (self.meaning.why, self.meaning.next_step)
        if index and self.meaning.with_index:
            texts = self.meaning.with_index
        column = sql_name(self.column) if self.column else "the column"
        names = {"column": column, "detail": self.detail, "table": table, "index": index}
        why, step = (text.format(**names) for text in texts)
        return why, step


@dataclass(frozen=True, slots=True)
class Restricted:
    """The tables of a statement (schema or "", name) and the conditions on their columns.

    `sums`: it counts, sums or compares what it finds. `limits`: it has LIMIT. `skips`: OFFSET.
    `columns`: names of all columns in it. `shapes`: conditions that no ordinary index helps.
    `takes_all`: no condition leaves out a row.
    """

    tables: tuple[tuple[str, str], ...]
    conditions: tuple[ColumnCondition, ...]
    sums: bool
    limits: bool
    skips: bool
    columns: frozenset[str] = frozenset()
    shapes: tuple[ShapedColumn, ...] = ()
    takes_all: bool = False

    @property
    def returns_what_it_finds(self) -> bool:
        """Return whether its rows are all that it finds."""
        return not self.sums and not self.limits


def restricted(text: str) -> Restricted | None:
    """Return the tables and conditions of a statement; None if it cannot be read or has none."""
    try:
        [parsed] = pgparse.parse(text)
        [(kind, tree)] = parsed["stmt"].items()
    except (pgparse.PGQueryError, RecursionError, ValueError, KeyError):
        return None
    if kind not in _STATEMENTS:
        return None
    named: dict[str, tuple[str, str]] = {}
    conditions: list[Any] = [tree.get("whereClause")]
    for item in (*tree.get("fromClause", ()), *tree.get("usingClause", ())):
        conditions += _from(item, named)
    if "relation" in tree:
        _named({"RangeVar": tree["relation"]}, named)
    conditions_found = [made for part in conditions for made in _conditions(part, named)]
    if not named:
        return None
    sums = any(tree.get(name) for name in _SUMMING) or _calls_aggregate(tree.get("targetList"))
    return Restricted(
        tuple(dict.fromkeys(named.values())),
        tuple(conditions_found),
        sums=sums,
        limits=bool(tree.get("limitCount")),
        skips=bool(tree.get("limitOffset")),
        columns=frozenset(_columns(tree)),
        shapes=tuple(
            _shaped(shape, named)
            for shape in (
                *(shape for part in conditions for shape in shapes_of(part)),
                *order_of(tree),
            )
        ),
        takes_all=not any(conditions) and not tree.get("groupClause"),
    )


def _shaped(shape: SeenShape, named: Mapping[str, tuple[str, str]]) -> ShapedColumn:
    column = shape.reference and _column({"ColumnRef": shape.reference}, named, "=")
    if not column:
        return ShapedColumn(shape.meaning, shape.detail)
    return ShapedColumn(shape.meaning, shape.detail, column.table, column.column)


def _from(item: Mapping[str, Any], named: dict[str, tuple[str, str]]) -> Iterator[Any]:
    """Yield the conditions of joins; put tables into `named`, by the name that columns use."""
    if "JoinExpr" in item:
        join = item["JoinExpr"]
        yield from _from(join["larg"], named)
        yield from _from(join["rarg"], named)
        yield join.get("quals")
    else:
        _named(item, named)


def _named(item: Mapping[str, Any], named: dict[str, tuple[str, str]]) -> None:
    table = item.get("RangeVar")
    if table is not None:
        name = table.get("alias", {}).get("aliasname", table["relname"])
        named[name] = (table.get("schemaname", ""), table["relname"])


def _conditions(
    part: Mapping[str, Any] | None, named: Mapping[str, tuple[str, str]]
) -> Iterator[ColumnCondition]:
    if not part:
        return
    if "BoolExpr" in part and part["BoolExpr"]["boolop"] == "AND_EXPR":
        for inner in part["BoolExpr"]["args"]:
            yield from _conditions(inner, named)
    expression = part.get("A_Expr")
    if expression is None or expression["kind"] not in _KINDS:
        return
    values: int | None = 1
    if expression["kind"] != "AEXPR_OP":
        listed = expression.get("rexpr", {}).get("List", {}).get("items", ())
        # pg_stat_statements of 18 and later counts lists of all lengths as one of one value.
        values = len(listed) if len(listed) > 1 else None
    operator = expression["name"][-1].get("String", {}).get("sval", "")
    if expression["kind"] == "AEXPR_BETWEEN":
        operator, values = "<", 1
    if operator not in COMPARED:
        return
    right = expression.get("rexpr")
    # An index on an array does not find its members.
    is_member = expression["kind"] == "AEXPR_OP_ANY" and "ColumnRef" in (right or ())
    for side in (expression.get("lexpr"), None if is_member else right):
        made = _column(side, named, operator)
        if made is not None:
            yield replace(made, values=values)


def _column(
    side: Any, named: Mapping[str, tuple[str, str]], operator: str, function: str = ""
) -> ColumnCondition | None:
    if not isinstance(side, Mapping):
        return None
    call = side.get("FuncCall")
    if call is not None and not function and len(call.get("args", ())) == 1:
        name = call["funcname"][-1].get("String", {}).get("sval", "")
        return _column(call["args"][0], named, operator, name)
    fields = [
        field.get("String", {}).get("sval") for field in side.get("ColumnRef", {}).get("fields", ())
    ]
    if not fields or None in fields:
        return None
    if len(fields) == 1:
        schema, table = next(iter(named.values())) if len(named) == 1 else ("", "")
    else:
        schema, table = named.get(fields[-2], ("", ""))
        if not table:
            return None  # A column of a query around this one.
    return ColumnCondition(schema, table, fields[-1], operator, function)


def _columns(part: Any) -> Iterator[str]:
    """Yield the names of all columns in a part of a statement; "*" for a join or a whole row."""
    if isinstance(part, Mapping):
        yield from ("*",) * ("JoinExpr" in part)
        for field in part.get("ColumnRef", {}).get("fields", ())[-1:]:
            yield field.get("String", {}).get("sval", "*")
        for inner in part.values():
            yield from _columns(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from _columns(inner)


def _calls_aggregate(part: Any) -> bool:
    if isinstance(part, Mapping):
        call = part.get("FuncCall")
        if call is not None:
            name = call["funcname"][-1].get("String", {}).get("sval", "")
            if name in _AGGREGATES or call.get("agg_star"):
                return True
        return any(_calls_aggregate(inner) for inner in part.values())
    return isinstance(part, list) and any(_calls_aggregate(inner) for inner in part)
