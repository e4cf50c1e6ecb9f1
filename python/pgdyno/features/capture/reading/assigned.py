"""What a statement writes into each column: a parameter, a sum, or the value of another column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pgdyno.features.capture.reading.functions import Function
from pgdyno.features.capture.reading.names import Names
from pgdyno.features.capture.reading.parameter_uses import Tree, alone, is_star, nodes, operator_of

_OPERATORS: dict[str, Literal["+", "-"]] = {"+": "+", "-": "-"}


@dataclass(frozen=True, slots=True)
class Assigned:
    """A column that is written. With nothing else, its new value is not known.

    `parameter`: the number of the one that is written or, with an `operator`, is added to the
    column or subtracted from it; 0 is a constant above 0. `copied`: table and column
    of the new value.
    """

    table: str
    column: str
    parameter: int = 0
    operator: Literal["", "+", "-"] = ""
    copied: tuple[str, str] | None = None

    @property
    def place(self) -> tuple[str, str]:
        """Return table and column."""
        return self.table, self.column


def assigned_in(
    statement: Mapping[str, Tree], names: Names, called: Sequence[Function]
) -> Iterator[Assigned]:
    """Yield each column that a statement writes.

    Args: called, its functions: a column that such a body names may get any value. Limits: joined
    tables are not followed; triggers are not read.
    """
    with_ = {
        item["ctename"]: item["ctequery"]
        for name, item in nodes(statement)
        if name == "CommonTableExpr"
    }
    for name, tree in nodes(statement):
        if name == "InsertStmt":
            yield from _of_insert(tree, names, with_)
        elif name == "UpdateStmt":
            yield from _changed(tree.get("targetList", ()), _table(tree, names))
        elif name == "MergeStmt":
            table = _table(tree, names)
            for part, clause in nodes(tree):
                if part == "MergeWhenClause":
                    for item in clause.get("targetList", ()):
                        yield Assigned(table, item["ResTarget"]["name"])
    for function in called:
        if function.is_volatile:
            for table in filter(None, (names.table(None, word) for word in function.words)):
                for column in names.columns(table):
                    if column in function.words:
                        yield Assigned(table, column)


def deleted_in(statement: Mapping[str, Tree], names: Names) -> frozenset[str]:
    """Return the tables from which a statement deletes rows."""
    return frozenset(_table(tree, names) for name, tree in nodes(statement) if name == "DeleteStmt")


def _table(tree: Tree, names: Names) -> str:
    return names.table(tree["relation"].get("schemaname"), tree["relation"]["relname"])


def _of_insert(tree: Tree, names: Names, with_: Mapping[str, Any]) -> Iterator[Assigned]:
    table = _table(tree, names)
    columns = [item["ResTarget"]["name"] for item in tree.get("cols", ())] or names.columns(table)
    select = tree.get("selectStmt", {}).get("SelectStmt", {})
    for row in select.get("valuesLists", ()):
        for column, value in zip(columns, row["List"]["items"], strict=False):
            yield from _of_value(table, column, value)
    given = _selected(select.get("targetList", ()), _rows_of(select, names, with_))
    for column, (value, place) in zip(columns, given, strict=False):
        made = Assigned(table, column, copied=place)
        yield from [made] if place else _of_value(table, column, value)
    yield from _changed(tree.get("onConflictClause", {}).get("targetList", ()), table)


def _rows_of(
    select: Tree, names: Names, with_: Mapping[str, Any]
) -> list[tuple[str, tuple[str, str] | None]]:
    """Return name and origin of each column of the only table after FROM."""
    tables = select.get("fromClause", ())
    if len(tables) != 1 or "RangeVar" not in tables[0]:
        return []
    item = tables[0]["RangeVar"]
    query = with_.get(item["relname"], {}) if not item.get("schemaname") else {}
    if not query:
        table = names.table(item.get("schemaname"), item["relname"])
        return [(column, (table, column)) for column in names.columns(table)]
    if "DeleteStmt" not in query:
        return []
    table = _table(query["DeleteStmt"], names)
    own: list[tuple[str, tuple[str, str] | None]] = [(c, (table, c)) for c in names.columns(table)]
    listed = query["DeleteStmt"].get("returningList", ())
    return [
        (item["ResTarget"].get("name") or (place or ("", ""))[1], place)
        for item in listed
        if not is_star(item)
        for _, place in _selected([item], own)
    ] or own


def _selected(
    targets: Sequence[Any], rows: Sequence[tuple[str, tuple[str, str] | None]]
) -> Iterator[tuple[Any, tuple[str, str] | None]]:
    """Yield each value that is selected, and from where, if it is a column of these rows."""
    for item in targets:
        if is_star(item):
            yield from (({}, place) for _, place in rows)
        else:
            value = item["ResTarget"].get("val", {})
            yield value, dict(rows).get(_name(value))


def _changed(targets: Sequence[Any], table: str) -> Iterator[Assigned]:
    for item in targets:
        yield from _of_value(table, item["ResTarget"]["name"], item["ResTarget"].get("val", {}))


def _of_value(table: str, column: str, value: Any) -> Iterator[Assigned]:
    """Yield what is written; a default, and what an INSERT would have written, are known."""
    if "SetToDefault" in value or _name(value, of="excluded"):
        return
    for number in alone(value):
        yield Assigned(table, column, number)
        return
    sum_ = value.get("A_Expr", {})
    operator = _OPERATORS.get(operator_of(sum_))
    added = sum_.get("rexpr", {})
    if _name(sum_.get("lexpr", {})) != column:
        operator = None
    if operator and "ival" in added.get("A_Const", {}):
        yield Assigned(table, column, 0, operator)
    elif operator and (numbers := alone(added)):
        yield Assigned(table, column, numbers[0], operator)
    elif value.get("A_Const", {}).get("isnull") is None:
        yield Assigned(table, column)


def _name(value: Any, of: str = "") -> str:
    """Return the bare name of a column; with `of`, only if it belongs to this alias."""
    fields = value.get("ColumnRef", {}).get("fields", ()) if isinstance(value, Mapping) else ()
    parts = [part["String"]["sval"] for part in fields if "String" in part]
    return parts[-1] if parts and (of in ("", *parts[:-1])) else ""
