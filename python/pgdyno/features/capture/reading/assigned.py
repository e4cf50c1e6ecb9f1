"""What a statement writes into each column: a parameter, a sum, or something unknown."""

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
    column or subtracted from it; 0 is a constant above 0.
    """

    table: str
    column: str
    parameter: int = 0
    operator: Literal["", "+", "-"] = ""

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
    for name, tree in nodes(statement):
        if name == "InsertStmt":
            yield from _of_insert(tree, names)
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


def _table(tree: Tree, names: Names) -> str:
    return names.table(tree["relation"].get("schemaname"), tree["relation"]["relname"])


def _of_insert(tree: Tree, names: Names) -> Iterator[Assigned]:
    table = _table(tree, names)
    columns = [item["ResTarget"]["name"] for item in tree.get("cols", ())] or names.columns(table)
    select = tree.get("selectStmt", {}).get("SelectStmt", {})
    for row in select.get("valuesLists", ()):
        for column, value in zip(columns, row["List"]["items"], strict=False):
            yield from _of_value(table, column, value)
    targets = select.get("targetList", ())
    if any(map(is_star, targets)):
        yield from (Assigned(table, column) for column in columns)
    else:
        yield from _changed(targets, table, columns)
    yield from _changed(tree.get("onConflictClause", {}).get("targetList", ()), table)


def _changed(
    targets: Sequence[Any], table: str, columns: Sequence[str] | None = None
) -> Iterator[Assigned]:
    """Yield what is written into columns: these, or those that the targets name."""
    names = columns or [item["ResTarget"]["name"] for item in targets]
    for column, item in zip(names, targets, strict=False):
        yield from _of_value(table, column, item["ResTarget"].get("val", {}))


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
