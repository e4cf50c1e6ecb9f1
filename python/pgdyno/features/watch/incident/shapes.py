"""Shapes of conditions for which an ordinary index does not help: one table of their meanings.

The shape is read from the statement by PostgreSQL's own grammar. Whether the statement reads too
much is judged elsewhere, by the server's counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Part = Mapping[str, Any]
COMPARED = frozenset(("=", "<", ">", "<=", ">="))
_PATTERNS = frozenset(("~~", "~~*", "~", "~*"))
_FIELDS = frozenset(("->", "->>", "#>", "#>>"))
_CONTAINS = frozenset(("@>", "<@", "&&", "@@", "?", "?|", "?&", "%"))


@dataclass(frozen=True, slots=True)
class ShapeMeaning:
    """What a shape means. `{column}`, `{table}`, `{index}` and `{detail}` stand for names.

    `with_index`: both texts if an index begins with the column; None if they are the same.
    `is_of_statement`: it is about the whole statement, so an index on one table does not help.
    """

    why: str
    next_step: str
    with_index: tuple[str, str] | None = None
    is_of_statement: bool = False


PATTERN = ShapeMeaning(
    "it searches {column} by a pattern, where an ordinary index does not help",
    "for words inside: pg_trgm and CREATE INDEX CONCURRENTLY ON {table} USING gin ({column}"
    " gin_trgm_ops), on a copy first; for beginnings (LIKE 'a%'): an index ON {table} ({column}"
    " text_pattern_ops)",
)
CAST = ShapeMeaning(
    "it converts {column} to {detail} in each row, so an index on {column} does not help",
    "compare {column} with a value that has its type; or CREATE INDEX CONCURRENTLY ON {table}"
    " (({column}::{detail})), on a copy first",
)
FIELD = ShapeMeaning(
    "it looks for a field inside {column} in each row, so an index on {column} does not help",
    "CREATE INDEX CONCURRENTLY ON {table} (({column} {detail} 'field')), on a copy first",
)
MEMBER = ShapeMeaning(
    "value = ANY ({column}) looks at each row: no index answers it",
    "{column} @> ARRAY[value], and CREATE INDEX CONCURRENTLY ON {table} USING gin ({column}), on a"
    " copy first",
)
COMPUTED = ShapeMeaning(
    "it computes with {column} in each row, so an index on {column} does not help",
    "let {column} stand alone ({column} >= a AND {column} < b), or an index on the expression",
)
EITHER = ShapeMeaning(
    "its conditions are joined by OR, so one index is not enough",
    "an index for each column ({detail}), or UNION of one statement for each condition",
)
COMBINED = ShapeMeaning(
    "it puts several columns together in each row ({detail}), so no index on one of them helps",
    "compare each column with a value that belongs to it; or an index on the expression",
)
EITHER_TABLE = ShapeMeaning(
    "its OR joins conditions on several tables ({detail}), so the tables are joined before any row"
    " is left out",
    "UNION of one statement for each condition",
    is_of_statement=True,
)
WHOLE_PART = ShapeMeaning(
    "WITH {detail} AS MATERIALIZED computes all its rows before the condition outside leaves most"
    " of them out",
    "put the condition inside of WITH; or NOT MATERIALIZED",
    is_of_statement=True,
)
NOT_IN = ShapeMeaning(
    "NOT IN (SELECT ...) reads the list again for each row if the list does not fit into work_mem",
    "NOT EXISTS in place of NOT IN; or a larger work_mem for its role",
)
RANDOM = ShapeMeaning(
    "ORDER BY random() reads and sorts all rows",
    "TABLESAMPLE, or begin at a random key: WHERE key >= value ORDER BY key LIMIT 1",
)
CONTAINS = ShapeMeaning(
    "{column} {detail} ... needs an index that has this operator, such as GIN",
    "CREATE INDEX CONCURRENTLY ON {table} USING gin ({column}), on a copy first",
    (
        "index {index} is slow or is not used for {column} {detail} ...; if it is a GIN index, its"
        " pending list may be long",
        "SELECT gin_clean_pending_list('{index}'); then vacuum {table} more often, or set"
        " fastupdate = off for the index",
    ),
)
OTHER_TYPE = ShapeMeaning(
    "it compares {column} with a value of type {detail}, and an index needs the column's own type",
    "send the value in the type of {column}",
)


@dataclass(frozen=True, slots=True)
class SeenShape:
    """A shape in a statement. `reference`: the parsed column, None without one.

    `detail`: a type, an operator, or several columns. `function`: of one argument, around the
    column.
    """

    meaning: ShapeMeaning
    reference: Part | None = None
    detail: str = ""
    function: str = ""


def shapes_of(condition: Part | None) -> Iterator[SeenShape]:
    """Yield the shapes in a condition, of which all parts joined by AND must hold."""
    if not condition:
        return
    [(kind, part)] = list(condition.items())[:1]
    if kind == "BoolExpr":
        yield from _of_logic(part)
    elif kind == "A_Expr":
        yield from _of_comparison(part)


def order_of(tree: Part) -> Iterator[SeenShape]:
    """Yield the shape of an ORDER BY that no index has."""
    for item in tree.get("sortClause", ()):
        call = item.get("SortBy", {}).get("node", {}).get("FuncCall")
        if call is not None and _last_name(call["funcname"]) == "random":
            yield SeenShape(RANDOM)


def _of_logic(part: Part) -> Iterator[SeenShape]:
    if part["boolop"] == "AND_EXPR":
        for inner in part["args"]:
            yield from shapes_of(inner)
    elif part["boolop"] == "NOT_EXPR":
        link = part["args"][0].get("SubLink", {})
        if link.get("subLinkType") == "ANY_SUBLINK":
            yield SeenShape(NOT_IN, next(references(link.get("testexpr")), None))
    else:
        columns = list(references(part["args"]))
        names = sorted({_last_name(column["fields"]) for column in columns})
        tables = {_last_name(column["fields"][:-1]) for column in columns}
        if len(names) > 1:
            yield SeenShape(EITHER if len(tables) == 1 else EITHER_TABLE, detail=", ".join(names))


def _of_comparison(part: Part) -> Iterator[SeenShape]:
    operator, kind = _last_name(part["name"]), part["kind"]
    left, right = part.get("lexpr"), part.get("rexpr")
    column = next(references([left, right]), None)
    if column is None:
        return
    if operator in _PATTERNS and kind != "AEXPR_OP_ANY":
        call = left.get("FuncCall", {}) if isinstance(left, Mapping) else {}
        name = _last_name(call["funcname"]) if len(call.get("args", ())) == 1 else ""
        yield SeenShape(PATTERN, column, function=name)
    elif operator in _CONTAINS:
        yield SeenShape(CONTAINS, column, operator)
    elif kind == "AEXPR_OP_ANY" and isinstance(right, Mapping) and "ColumnRef" in right:
        yield SeenShape(MEMBER, right["ColumnRef"])
    elif operator in COMPARED or kind.startswith("AEXPR_BETWEEN"):
        yield from _of_sides(left, right)


def _of_sides(left: Any, right: Any) -> Iterator[SeenShape]:
    for side, other in ((left, right), (right, left)):
        column = next(references(side), None)
        if column is None or not isinstance(side, Mapping) or "RowExpr" in side:
            continue
        cast, inner = side.get("TypeCast"), side.get("A_Expr")
        if "ColumnRef" in side:
            value = other.get("TypeCast") if isinstance(other, Mapping) else None
            if value is not None and next(references(value), None) is None:
                yield SeenShape(OTHER_TYPE, column, _last_name(value["typeName"]["names"]))
        elif cast is not None and "ColumnRef" in cast["arg"]:
            yield SeenShape(CAST, column, _last_name(cast["typeName"]["names"]))
        elif inner is not None and _last_name(inner["name"]) in _FIELDS:
            yield SeenShape(FIELD, column, _last_name(inner["name"]))
        elif len(side.get("FuncCall", {}).get("args", ())) != 1 and "SubLink" not in side:
            names = dict.fromkeys(_last_name(part["fields"]) for part in references(side))
            meaning = COMPUTED if len(names) == 1 else COMBINED
            yield SeenShape(meaning, column, ", ".join(names))


def references(part: Any) -> Iterator[Part]:
    """Yield the columns of a part, without those of subqueries."""
    if isinstance(part, Mapping):
        if "ColumnRef" in part:
            yield part["ColumnRef"]
            return
        for name, inner in part.items():
            if name != "subselect":
                yield from references(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from references(inner)


def _last_name(names: Any) -> str:
    last = names[-1] if names else {}
    return str(last.get("String", {}).get("sval", "*"))
