"""Which columns of which tables a statement restricts, by PostgreSQL's own grammar.

Limits: columns inside OR and expressions of several columns are left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pgparse

from pgdyno.features.watch.incident.shapes import (
    COMPARED,
    WHOLE_PART,
    SeenShape,
    ShapeMeaning,
    order_of,
    references,
    shapes_of,
)
from pgdyno.server.grammar import sql_name

_KINDS = frozenset(("AEXPR_OP", "AEXPR_OP_ANY", "AEXPR_IN", "AEXPR_BETWEEN"))
# If a statement has one of these, the number of rows that it returns says nothing about its filter.
_SUMMING = frozenset(("groupClause", "distinctClause"))
_EXTREMES = frozenset(("min", "max"))
_AGGREGATES = _EXTREMES | frozenset(
    (
        *("count", "sum", "avg", "array_agg", "string_agg", "bool_and", "bool_or"),
        *("every", "json_agg", "jsonb_agg", "json_object_agg", "jsonb_object_agg", "stddev"),
        *("variance", "percentile_cont", "percentile_disc"),
    )
)
# Conditions on one column without a value: its name stands for the braces.
_TESTS = {
    "IS_NULL": "{} IS NULL", "IS_NOT_NULL": "{} IS NOT NULL", "IS_TRUE": "{} IS TRUE",
    "IS_NOT_TRUE": "{} IS NOT TRUE", "IS_FALSE": "{} IS FALSE", "IS_NOT_FALSE": "{} IS NOT FALSE",
}  # fmt: skip
# The names in a FROM, also those around a subquery; None is not a table, such as a part of WITH.
Names = Mapping[str, tuple[str, str] | None]


@dataclass(frozen=True, slots=True)
class ColumnCondition:
    """A restricted column. `table` is "" if the statement does not say which table has it.

    `function`: a function of one argument around the column, "" without one. `operator`: = for all
    forms of equality; "{} IS NULL" and the like for a condition without a value. `values`: with how
    many values it is compared; None if a list's length is not known. `is_join`: it is compared with
    a column, or with the rows of a subquery.
    """

    schema: str
    table: str
    column: str
    operator: str
    function: str = ""
    values: int | None = 1
    is_join: bool = False

    @property
    def indexed(self) -> str:
        """Return what an index would have to begin with."""
        column = sql_name(self.column)
        return f"{sql_name(self.function)}({column})" if self.function else column

    @property
    def predicate(self) -> str:
        """Return the condition itself if it has no value, as for a partial index; "" if it has."""
        return self.operator.format(sql_name(self.column)) if "{}" in self.operator else ""


@dataclass(frozen=True, slots=True)
class ShapedColumn:
    """A shape, and the column that it is about: "" if it is about none, or not known.

    `function`: as in `ColumnCondition`.
    """

    meaning: ShapeMeaning
    detail: str
    table: str = ""
    column: str = ""
    function: str = ""

    def words(self, table: str, index: str = "") -> tuple[str, str]:
        """Return what the shape means, and the next step. `index` begins with the column, or ""."""
        texts = (self.meaning.why, self.meaning.next_step)
        if index and self.meaning.with_index:
            texts = self.meaning.with_index
        column = sql_name(self.column) if self.column else "the column"
        if self.function:
            column = f"{sql_name(self.function)}({column})"
        names = {"column": column, "detail": self.detail, "table": table, "index": index}
        why, step = (text.format(**names) for text in texts)
        return why, step


@dataclass(frozen=True, slots=True)
class Restricted:
    """The tables of a statement (schema or "", name) and the conditions on their columns.

    Subqueries, WITH and both sides of UNION are parts of it. `sums`: it counts, sums or compares
    what it finds. `limits`: it has LIMIT. `skips`: OFFSET. `sorts`: ORDER BY. `groups`: GROUP BY
    or DISTINCT. `columns`: names of all columns in it. `shapes`: conditions that no ordinary index
    helps. `takes_all`: no condition leaves out a row. `first_of`: the column whose smallest or
    largest value it asks for. `repeated`: tables that it names more than once. `written`: the
    table that it changes. `changed`: columns of SET.
    """

    tables: tuple[tuple[str, str], ...]
    conditions: tuple[ColumnCondition, ...]
    sums: bool
    limits: bool
    skips: bool
    sorts: bool = False
    groups: bool = False
    columns: frozenset[str] = frozenset()
    shapes: tuple[ShapedColumn, ...] = ()
    takes_all: bool = False
    first_of: ColumnCondition | None = None
    repeated: frozenset[str] = frozenset()
    written: tuple[str, str] | None = None
    changed: frozenset[str] = frozenset()

    @property
    def returns_what_it_finds(self) -> bool:
        """Return whether its rows are all that it finds."""
        return not self.sums and not self.limits and not self.skips

    @property
    def needs_what_it_returns(self) -> bool:
        """Return whether a call that reads a whole table needs no more rows than it returns.

        With LIMIT alone, a call reads on because the rows that it finds are too few.
        """
        return not self.sums and not self.skips and not (self.limits and self.sorts)


def restricted(text: str) -> Restricted | None:
    """Return the tables and conditions of a statement; None if it cannot be read or has none."""
    try:
        [parsed] = pgparse.parse(text)
        [(kind, tree)] = parsed["stmt"].items()
        return _parts_of(kind, tree)
    except (pgparse.PGQueryError, RecursionError, ValueError, KeyError):
        return None


def _parts_of(kind: str, tree: Mapping[str, Any]) -> Restricted | None:
    if kind not in ("SelectStmt", "InsertStmt", "UpdateStmt", "DeleteStmt"):
        return None
    reader = _StatementReader()
    relation = tree.get("relation")
    names = reader.read(tree if kind != "InsertStmt" else _select_of(tree), {})
    written = (relation.get("schemaname", ""), relation["relname"]) if relation else None
    if not reader.tables and not written:
        return None
    changed = (item["ResTarget"]["name"] for item in tree.get("targetList", ()) if relation)
    return Restricted(
        tuple(dict.fromkeys(reader.tables)),
        tuple(reader.conditions),
        sums=reader.sums,
        limits=reader.limits,
        skips=bool(tree.get("limitOffset")),
        sorts=bool(tree.get("sortClause")),
        groups=bool(tree.get("groupClause") or tree.get("distinctClause")),
        columns=frozenset(_columns(tree)),
        shapes=(*reader.shapes, *(_shaped(shape, names) for shape in order_of(tree))),
        takes_all=not reader.leaves_out and not tree.get("groupClause"),
        first_of=reader.first_of,
        repeated=frozenset(
            name for (_, name), times in Counter(reader.tables).items() if times > 1
        ),
        written=written,
        changed=frozenset(changed) if kind == "UpdateStmt" else frozenset(),
    )


def with_view(parts: Restricted, view: tuple[str, str], text: str) -> Restricted:
    """Return a statement's parts with the tables of a view in place of the view.

    A view that sums, sorts, limits or has a window stays: conditions on it choose no rows inside.
    """
    inner = restricted(text)
    is_plain = inner is not None and inner.returns_what_it_finds and not inner.sorts
    if inner is None or not is_plain or re.search(r"\bOVER\b", text):
        return parts

    def of_table(column: ColumnCondition) -> ColumnCondition:
        return replace(column, schema="", table="") if column.table == view[1] else column

    tables = (name for name in parts.tables if name != view)
    conditions = tuple(map(of_table, parts.conditions))
    shapes = (
        replace(shape, table="") if shape.table == view[1] else shape for shape in parts.shapes
    )
    return replace(
        parts,
        tables=tuple(dict.fromkeys((*tables, *inner.tables))),
        conditions=(*conditions, *inner.conditions),
        shapes=(*shapes, *inner.shapes),
        first_of=parts.first_of and of_table(parts.first_of),
        repeated=parts.repeated | inner.repeated,
        takes_all=parts.takes_all and inner.takes_all,
    )


def _select_of(insert: Mapping[str, Any]) -> Mapping[str, Any]:
    select: Mapping[str, Any] = insert.get("selectStmt", {}).get("SelectStmt", {})
    if "withClause" in insert:
        return {**select, "withClause": insert["withClause"]}
    return select


class _StatementReader:
    """Reads a statement from its outer query to its inner ones."""

    def __init__(self) -> None:
        self.tables: list[tuple[str, str]] = []
        self.conditions: list[ColumnCondition] = []
        self.shapes: list[ShapedColumn] = []
        self.sums = self.limits = self.leaves_out = False
        self.first_of: ColumnCondition | None = None

    def read(self, tree: Mapping[str, Any], around: Names, *, is_value: bool = False) -> Names:
        """Read a query with its parts; return the names in its FROM, or {"": None} without one.

        Args: around, the names of the queries around it. is_value, its rows become no rows outside,
        as those of a subquery in WHERE.
        """
        names: dict[str, tuple[str, str] | None] = {}
        clause = tree.get("withClause", {})
        parts = [part["CommonTableExpr"] for part in clause.get("ctes", ())]
        if clause.get("recursive"):
            around = {**around, **dict.fromkeys(part["ctename"] for part in parts)}
        for part in parts:
            self._read_inner(part["ctequery"], around, is_value=is_value)
            around = {**around, part["ctename"]: None}
        quals = [tree.get("whereClause")]
        for item in (*tree.get("fromClause", ()), *tree.get("usingClause", ())):
            quals += self._from(item, names, around, is_value=is_value)
        if "relation" in tree:
            self._named(tree["relation"], names, around)
        seen = {**around, **names}
        local = names if names else {"": None}
        for part in filter(None, quals):
            self.conditions += _conditions(part, seen, local)
            self.shapes += (_shaped(shape, seen, local) for shape in shapes_of(part))
        if not is_value:
            self.leaves_out |= any(quals)
            self.sums |= any(tree.get(name) for name in _SUMMING)
            # UNION ALL leaves out nothing.
            self.sums |= tree.get("op", "SETOP_NONE") != "SETOP_NONE" and not tree.get("all")
            self.sums |= _calls(tree.get("targetList"), _AGGREGATES)
            self.limits |= bool(tree.get("limitCount"))
        self.shapes += (
            ShapedColumn(WHOLE_PART, part["ctename"])
            for part in parts
            if part.get("ctematerialized") == "CTEMaterializeAlways"
            and any(quals)
            and not next(iter(part["ctequery"].values())).get("whereClause")
        )
        self.first_of = self.first_of or _first_of(tree, local)
        for side in ("larg", "rarg"):
            if side in tree:
                self.read(tree[side], around, is_value=is_value)
        for inner in _subqueries([quals, tree.get("targetList"), tree.get("havingClause")]):
            self._read_inner(inner, seen, is_value=True)
        return local

    def _read_inner(self, query: Mapping[str, Any], around: Names, *, is_value: bool) -> None:
        for kind, tree in query.items():
            if kind == "SelectStmt":
                self.read(tree, around, is_value=is_value)

    def _from(
        self,
        item: Mapping[str, Any],
        names: dict[str, tuple[str, str] | None],
        around: Names,
        *,
        is_value: bool,
    ) -> Iterator[Any]:
        """Yield the conditions of joins; put tables into `names`, by the name that columns use."""
        [(kind, part)] = item.items()
        if kind == "JoinExpr":
            yield from self._from(part["larg"], names, around, is_value=is_value)
            yield from self._from(part["rarg"], names, around, is_value=is_value)
            yield part.get("quals")
        elif kind == "RangeVar":
            self._named(part, names, around)
        else:
            if kind == "RangeSubselect":
                inner = {**around, **names} if part.get("lateral") else around
                self._read_inner(part["subquery"], inner, is_value=is_value)
            names[part.get("alias", {}).get("aliasname", kind)] = None

    def _named(
        self, table: Mapping[str, Any], names: dict[str, tuple[str, str] | None], around: Names
    ) -> None:
        schema, name = table.get("schemaname", ""), table["relname"]
        alias = table.get("alias", {}).get("aliasname", name)
        is_part = not schema and name in around and around[name] is None
        names[alias] = None if is_part else (schema, name)
        if not is_part:
            self.tables.append((schema, name))


def _shaped(shape: SeenShape, names: Names, local: Names | None = None) -> ShapedColumn:
    reference = shape.reference and {"ColumnRef": shape.reference}
    column = reference and _column(reference, names, local or names, "=")
    if not column:
        return ShapedColumn(shape.meaning, shape.detail)
    return ShapedColumn(shape.meaning, shape.detail, column.table, column.column, shape.function)


def _first_of(tree: Mapping[str, Any], names: Names) -> ColumnCondition | None:
    """Return the column of ORDER BY ... LIMIT, or the one of min or max alone."""
    order, targets = tree.get("sortClause", ()), tree.get("targetList", ())
    if tree.get("groupClause") or tree.get("distinctClause") or len(names) != 1:
        return None
    if order and tree.get("limitCount"):
        return _column(order[0]["SortBy"]["node"], names, names, "<")
    call = targets[0].get("ResTarget", {}).get("val", {}) if len(targets) == 1 else {}
    if not _calls(call, _EXTREMES):
        return None
    return _column(next(iter(call["FuncCall"].get("args", ())), None), names, names, "<")


def _conditions(part: Mapping[str, Any], names: Names, local: Names) -> Iterator[ColumnCondition]:
    """Yield the conditions that AND connects in an expression.

    Args: names, those that its columns may use, also those of queries around it; local, those of
    the FROM: if there is only one, it has the columns without a table.
    """
    [(kind, expression)] = list(part.items())[:1]
    if kind == "BoolExpr" and expression["boolop"] == "AND_EXPR":
        for inner in expression["args"]:
            yield from _conditions(inner, names, local)
        return
    if (test := _test(kind, expression)) is not None:
        made = _column(test[0], names, local, test[1])
        # After an outer join, IS NULL finds the rows without a partner.
        is_partner = kind == "NullTest" and len(local) > 1
        if made is not None and not made.function and not is_partner:
            yield made
        return
    if kind == "SubLink" and expression.get("subLinkType") == "ANY_SUBLINK":
        made = _column(expression.get("testexpr"), names, local, "=")
        if made is not None:
            yield replace(made, is_join=True)
    if kind != "A_Expr" or expression["kind"] not in _KINDS:
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
    sides = (expression.get("lexpr"), None if is_member else right)
    is_join = all(next(references(side), None) is not None for side in sides)
    for side in sides:
        if made := _column(side, names, local, operator):
            yield replace(made, values=values, is_join=is_join)


def _test(kind: str, part: Any) -> tuple[Any, str] | None:
    """Return the tested expression and the test, if a condition has no value."""
    if kind in ("NullTest", "BooleanTest"):
        test = _TESTS.get(part.get("nulltesttype") or part.get("booltesttype"))
        return (part["arg"], test) if test else None
    if kind == "ColumnRef":
        return {kind: part}, "{}"
    if kind == "BoolExpr" and part["boolop"] == "NOT_EXPR" and "ColumnRef" in part["args"][0]:
        return part["args"][0], "NOT {}"
    return None


def _column(
    side: Any, names: Names, local: Names, operator: str, function: str = ""
) -> ColumnCondition | None:
    """Return the condition on the column that a side of it is, perhaps inside a function.

    None if the side is not a column, or its column is not of a table.
    Args: names, local, as `_conditions`.
    """
    if not isinstance(side, Mapping):
        return None
    call = side.get("FuncCall")
    if call is not None and not function and len(call.get("args", ())) == 1:
        name = call["funcname"][-1].get("String", {}).get("sval", "")
        return _column(call["args"][0], names, local, operator, name)
    fields = [
        field.get("String", {}).get("sval") for field in side.get("ColumnRef", {}).get("fields", ())
    ]
    if not fields or None in fields:
        return None
    place: tuple[str, str] | None = ("", "")
    if len(fields) > 1:
        place = names.get(fields[-2])
    elif len(local) == 1:
        [place] = local.values()
    if place is None:
        return None  # Not of a table.
    return ColumnCondition(*place, fields[-1], operator, function)


def _subqueries(part: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the subqueries in expressions, without those inside of them."""
    if isinstance(part, Mapping):
        for name, inner in part.items():
            if name == "subselect":
                yield inner
            else:
                yield from _subqueries(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from _subqueries(inner)


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


def _calls(part: Any, functions: frozenset[str]) -> bool:
    """Return whether a part calls one of these functions, outside of its subqueries."""
    if isinstance(part, Mapping):
        call = part.get("FuncCall")
        if call is not None:
            name = call["funcname"][-1].get("String", {}).get("sval", "")
            if (name in functions or call.get("agg_star")) and not call.get("over"):
                return True
        return any(_calls(inner, functions) for key, inner in part.items() if key != "subselect")
    return isinstance(part, list) and any(_calls(inner, functions) for inner in part)
