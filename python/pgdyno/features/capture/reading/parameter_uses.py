"""What each `$n` of a statement is for, and what the columns of its result are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pgdyno.features.capture.reading.document_paths import DocumentPaths
from pgdyno.features.capture.reading.functions import OWN_WORDS, Argument, Function
from pgdyno.features.capture.reading.names import Names
from pgdyno.features.capture.reading.passed import PassedParameters
from pgdyno.features.capture.reading.trees import (
    Tree,
    alone,
    fields_of,
    function_name,
    is_star,
    nodes,
    operator_of,
    parameters_in,
    words_of,
)

Use = Literal[
    "equal", "range", "distance", "list", "insert", "set", "change", "limit", "offset", "other"
]
_COMPARED = ("equal", "range", "list")


@dataclass(frozen=True, slots=True)
class Parameter:
    """What a `$n` is for, and the column that it is compared with, inserted into or added to.

    `distance`: a column is compared with the sum or difference of another parameter and this one.
    """

    use: Use
    table: str = ""
    column: str = ""
    operator: str = ""
    argument: Argument | None = None
    """Of a function, if the parameter is one."""

    @property
    def writes_elements(self) -> bool:
        """Return whether the elements of an array are written, directly or by inner queries."""
        return self.operator in ("unnest", "passed")


class Reader:
    """Reads the parameters of one statement; aliases of all its parts count together."""

    def __init__(self, node: str, tree: Tree, names: Names) -> None:
        self._node, self._tree, self._names = node, tree, names
        self.parameters: dict[int, Parameter] = {}
        self.missing = False
        self.of_catalog = False
        self.as_long_as: dict[int, int] = {}
        self.adds: dict[str, tuple[int, int]] = {}
        self._calls = [item for name, item in nodes(tree) if name == "FuncCall"]
        called = [(function_name(item), item) for item in self._calls]
        self.sets_session = any(name == "set_config" for name, _ in called)
        known = names.functions.functions
        self.called = [known[name] for name, _ in called if name in known]
        inner = {item.get("ctename") for name, item in nodes(tree) if name == "CommonTableExpr"}
        self.aliases: dict[str, str] = {}
        ranges = [item for name, item in nodes(tree) if name == "RangeVar"]
        changing = ("InsertStmt", "UpdateStmt", "DeleteStmt")
        self._changing = [item for name, item in nodes(tree) if name in changing]
        self._changed = ""
        self._passed = PassedParameters(nodes(tree))
        self._paths = DocumentPaths(nodes(tree))
        self.document_keys = frozenset(self._paths.keys)
        self.documents: dict[int, dict[str | int, tuple[str, str]]] = {}
        self.as_long_as.update(self._passed.as_long_as)
        for statement in (*self._changing, tree):
            relation = statement.get("relation")
            if isinstance(relation, Mapping):
                ranges.insert(0, relation)
        for item in ranges:
            if item["relname"] in inner and not item.get("schemaname"):
                continue
            table = self.qualified(item)
            if not table:
                schema = item.get("schemaname", "")
                is_catalog = schema in ("pg_catalog", "information_schema")
                self.of_catalog |= is_catalog or item["relname"].startswith("pg_")
                self.missing = True
            alias = item.get("alias", {}).get("aliasname", item["relname"])
            self.aliases.setdefault(alias, table)
        for item in (item for name, item in nodes(tree) if name == "RangeFunction"):
            self._add_rows_of_function(item)

    def _add_rows_of_function(self, item: Tree) -> None:
        """Note a function in FROM whose rows are those of a table."""
        for name in [function_name(call) for part, call in nodes(item) if part == "FuncCall"][:1]:
            function = self._names.functions.functions.get(name)
            table = self._names.table(None, function.returns) if function else ""
            if table:
                self.aliases.setdefault(item.get("alias", {}).get("aliasname", name), table)

    def tables_of(self, function: Function) -> list[str]:
        """Return the tables that the body of a function names, in their order."""
        return list(
            dict.fromkeys(t for word in function.words if (t := self._names.table(None, word)))
        )

    def qualified(self, item: Tree) -> str:
        """Return the qualified name of a table that a statement names."""
        return self._names.table(item.get("schemaname"), item["relname"])

    def read(self) -> None:
        """Note what each parameter is for."""
        for insert in [self._tree] * (self._node == "InsertStmt") + [
            item for name, item in nodes(self._tree) if name == "InsertStmt"
        ]:
            self._read_insert(insert)
        # A name inside of WITH is first one of the table that is changed there.
        for inner in self._changing:
            self._changed = self.qualified(inner["relation"])
            for name, item in nodes(inner):
                if name == "A_Expr":
                    self._read_expression(item)
        self._changed = ""
        for name, item in nodes(self._tree):
            if name == "A_Expr":
                self._read_expression(item)
            elif name == "UpdateStmt":
                self._read_update(item)
            elif name == "SubLink" and item.get("subLinkType") == "ANY_SUBLINK":
                self._read_any_of_query(item)
        for item in (item for name, item in nodes(self._tree) if name == "MergeWhenClause"):
            self._read_merge(item)
        for item in self._calls:
            self._read_call(item)
        if self._node == "UpdateStmt":
            self._read_update(self._tree)
        selects = [self._tree, *(item for name, item in nodes(self._tree) if name == "SelectStmt")]
        for select in selects:
            for key, use in (("limitCount", "limit"), ("limitOffset", "offset")):
                for number in parameters_in(select.get(key)):
                    self.parameters[number] = Parameter(use)  # type: ignore[arg-type]
        for number in parameters_in(self._tree):
            self.parameters.setdefault(number, Parameter("other"))

    def _read_insert(self, tree: Tree) -> None:
        table = self.qualified(tree["relation"])
        named = [item["ResTarget"]["name"] for item in tree.get("cols", ())]
        columns = named or self._names.columns(table)
        select = tree.get("selectStmt", {}).get("SelectStmt", {})
        for row in select.get("valuesLists", ()):
            for column, item in zip(columns, row["List"]["items"], strict=False):
                for number in alone(item):
                    self.parameters[number] = Parameter("insert", table, column)
        for column, item in zip(columns, select.get("targetList", ()), strict=False):
            self._note_passed(item["ResTarget"].get("val"), "insert", (table, column))

    def _read_merge(self, action: Tree) -> None:
        """Read what a MERGE writes; a key that it also compares stays the key of a row."""
        if action.get("commandType") == "CMD_UPDATE":
            self._read_update({**action, "relation": self._tree["relation"]})
        table = self.qualified(self._tree["relation"])
        named = [item["ResTarget"]["name"] for item in action.get("targetList", ())]
        columns = named or self._names.columns(table)
        for column, value in zip(columns, action.get("values", ()), strict=False):
            self._note_passed(value, "insert", (table, column))

    def _note_passed(self, value: Any, use: Use, place: tuple[str, str]) -> None:
        """Note the parameters whose values, or elements, are written into a column."""
        for number, is_list in self._passed.of(value):
            own = Parameter("list", *place, "passed") if is_list else Parameter(use, *place)
            self.parameters.setdefault(number, own)

    def _read_call(self, call: Tree) -> None:
        """Note the arguments of a function of the database, and the arrays of unnest."""
        name, given = function_name(call), [alone(part) for part in call.get("args", ())]
        numbers = [own[0] if own else 0 for own in given]
        if name == "unnest" and len(numbers) > 1 and all(numbers):
            self.as_long_as |= dict.fromkeys(numbers[1:], numbers[0])
            if self._node == "InsertStmt":
                table = self.qualified(self._tree["relation"])
                named = [item["ResTarget"]["name"] for item in self._tree.get("cols", ())]
                select = self._tree.get("selectStmt", {}).get("SelectStmt", {})
                stars = map(is_star, select.get("targetList", ()))
                first = next((place for place, is_star in enumerate(stars) if is_star), 0)
                columns = named or self._names.columns(table)
                for number, column in zip(numbers, columns[first:], strict=False):
                    self.parameters[number] = Parameter("list", table, column, "unnest")
        function = self._names.functions.functions.get(name)
        if function is None:
            words = OWN_WORDS.get(name, {})
            for place, number in enumerate(numbers):
                if number and place in words:
                    argument = Argument(values=(words[place],), is_word=True)
                    self.parameters[number] = Parameter("other", argument=argument)
            return
        tables = self.tables_of(function)
        for number, argument in zip(numbers, function.arguments, strict=False):
            if number:
                self.parameters[number] = self._of_argument(argument, tables)

    def _of_argument(self, argument: Argument, tables: list[str]) -> Parameter:
        """Return the column of an argument; without one, a column that has its name."""
        bare = re.sub(r"^(?:_|p_|new_|in_)+", "", argument.name)
        for column in (argument.column, bare):
            for table in tables:
                if column and column in self._names.columns(table):
                    return Parameter(argument.use, table, column, "=", argument)
        return Parameter("other", argument=argument)

    def _read_update(self, tree: Tree) -> None:
        table = self.qualified(tree["relation"])
        for item in tree.get("targetList", ()):
            target = item["ResTarget"]
            use: Use = "set" if alone(target.get("val")) else "change"
            for number in parameters_in(target.get("val")):
                # In CASE WHEN state = $1 it is compared, and not written.
                known = self.parameters.get(number)
                if known is None or not known.column or known.use not in _COMPARED:
                    self.parameters[number] = Parameter(use, table, target["name"])
            for number, is_list in self._passed.of(target.get("val")):
                if not is_list and number in parameters_in(target.get("val")):
                    # A value or nothing, as in SET at = coalesce($1, now()).
                    self.parameters[number] = Parameter("set", table, target["name"])
            self._note_passed(target.get("val"), "set", (table, target["name"]))
            added = self._added(target.get("val"))
            if tree is self._tree and added is not None and added[:2] == (table, target["name"]):
                self.adds[target["name"]] = added[2:]

    def _read_expression(self, item: Tree) -> None:
        operator = operator_of(item)
        left, right = item.get("lexpr"), item.get("rexpr")
        # Columns of a row, as in (at, id) < ($1, $2): each has its parameter.
        for own, theirs in zip(_row(left), _row(right), strict=False):
            self._read_expression({**item, "lexpr": own, "rexpr": theirs})
        for side, other in ((left, right), (right, left)):
            place = self._column(side)
            if place is None:
                continue
            kind = item["kind"]
            if kind in ("AEXPR_IN", "AEXPR_OP_ANY", "AEXPR_OP_ALL"):
                use: Use = "list" if kind != "AEXPR_IN" else "equal"
            elif kind == "AEXPR_OP" and operator == "=":
                use = "equal"
            elif operator in ("+", "-", "*", "/"):
                use = "change"
            else:
                use = "range"
            part = self._paths.of(other)
            if part is not None and part.name is not None and use == "equal":
                self.documents.setdefault(part.number, {})[part.name] = place
                continue
            if self._column(other) is None:
                for number, is_list in self._passed.of(other):
                    of = "list" if is_list and use == "equal" else use
                    self.parameters.setdefault(number, Parameter(of, *place, operator))
            distant = _distance(other) if use == "range" else None
            for number in parameters_in(other):
                own = "distance" if number == distant else use
                self.parameters.setdefault(number, Parameter(own, *place, operator))

    def _read_any_of_query(self, item: Tree) -> None:
        """Note `id IN (SELECT unnest($1))`."""
        place = self._column(item.get("testexpr"))
        if place is None:
            return
        targets = item.get("subselect", {}).get("SelectStmt", {}).get("targetList", ())
        for target in targets[:1]:
            for number, is_list in self._passed.of(target["ResTarget"].get("val")):
                use: Use = "list" if is_list else "equal"
                self.parameters.setdefault(number, Parameter(use, *place, "="))

    def _added(self, tree: Any) -> tuple[str, str, int, int] | None:
        """Return table, column, sign and parameter of a column plus or minus a parameter."""
        item = tree.get("A_Expr") if isinstance(tree, Mapping) else None
        if item is None or operator_of(item) not in ("+", "-"):
            return None
        place, numbers = self._column(item.get("lexpr")), alone(item.get("rexpr"))
        if place is None or not numbers:
            return None
        return *place, 1 if operator_of(item) == "+" else -1, numbers[0]

    def computed_outputs(self) -> tuple[dict[int, tuple[str, str, int, int]], frozenset[int]]:
        """Return the results that add a parameter to a column, and the results that are calls."""
        values = [item["ResTarget"].get("val", {}) for item in self._targets()]
        if any(map(is_star, self._targets())):
            return {}, frozenset()
        added = {place: self._added(value) for place, value in enumerate(values)}
        sums = {place: sum_ for place, sum_ in added.items() if sum_ is not None}
        return sums, frozenset(n for n, value in enumerate(values) if "FuncCall" in value)

    def open_filters(self) -> frozenset[int]:
        """Return the parameters of filters such as `$1 IS NULL OR name = $1`."""
        choices = [item for name, item in nodes(self._tree) if name == "BoolExpr"]
        tests = (
            part["NullTest"]
            for item in choices
            if item["boolop"] == "OR_EXPR"
            for part in item["args"]
            if part.get("NullTest", {}).get("nulltesttype") == "IS_NULL"
        )
        return frozenset(number for test in tests for number in alone(test.get("arg")))

    def _targets(self) -> Any:
        name = "targetList" if self._node == "SelectStmt" else "returningList"
        return self._tree.get(name, ())

    def _column(self, tree: Any) -> tuple[str, str] | None:
        """Return table and column of a reference to a column, None for everything else."""
        reference = tree.get("ColumnRef") if isinstance(tree, Mapping) else None
        if reference is None:
            cast = tree.get("TypeCast") if isinstance(tree, Mapping) else None
            return self._column(cast.get("arg")) if cast else None
        parts = words_of(reference["fields"])
        if not parts:
            return None
        tables = [self._changed, *self.aliases.values()]
        if len(parts) > 1:
            tables = [self.aliases.get(parts[-2], "")]
        owners = (name for name in tables if parts[-1] in self._names.columns(name))
        owner = next(owners, "")
        return (owner, parts[-1]) if owner else None

    def outputs(self) -> Iterator[tuple[str, str]]:
        """Yield table and column of each column of the result."""
        for item in self._targets():
            value = item["ResTarget"].get("val", {})
            fields = fields_of(value)
            if fields and "A_Star" in fields[-1]:
                alias = fields[0]["String"]["sval"] if len(fields) > 1 else None
                for name, table in self.aliases.items():
                    if alias in (None, name):
                        yield from ((table, column) for column in self._names.columns(table))
            else:
                named = item["ResTarget"].get("name", "")
                yield self._column(value) or self._given(value, named) or ("", "")

    def _given(self, tree: Tree, name: str) -> tuple[str, str] | None:
        """Return the column that a function returns: one with the name of the result."""
        called = [function_name(call) for part, call in nodes(tree) if part == "FuncCall"]
        functions = [self._names.functions.functions.get(function) for function in called]
        tables = [table for known in functions if known for table in self.tables_of(known)]
        return next(((t, name) for t in tables if name in self._names.columns(t)), None)


def _distance(tree: Any) -> int | None:
    """Return the parameter that is added to another one, or subtracted from it."""
    item = tree.get("A_Expr") if isinstance(tree, Mapping) else None
    if item is None or operator_of(item) not in ("+", "-") or not alone(item.get("lexpr")):
        return None
    return next(iter(alone(item.get("rexpr"))), None)


def _row(tree: Any) -> Any:
    return tree.get("RowExpr", {}).get("args", ()) if isinstance(tree, Mapping) else ()
