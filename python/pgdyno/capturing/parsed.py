"""One statement as PostgreSQL's grammar reads it: its kind, its tables, what each `$n` is for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pgparse

from pgdyno.capture.model import StatementKind
from pgdyno.capturing import utilities
from pgdyno.capturing.functions import Argument, Function, Functions

Use = Literal["equal", "range", "list", "insert", "set", "change", "limit", "offset", "other"]
Tree = Mapping[str, Any]
_KINDS: dict[str, StatementKind] = {
    "SelectStmt": "select",
    "InsertStmt": "insert",
    "UpdateStmt": "update",
    "DeleteStmt": "delete",
    "MergeStmt": "merge",
}
_TRANSACTION: dict[str, StatementKind] = {
    "TRANS_STMT_BEGIN": "begin",
    "TRANS_STMT_START": "begin",
    "TRANS_STMT_COMMIT": "commit",
    "TRANS_STMT_ROLLBACK": "rollback",
}
# A savepoint has the same name everywhere: the innermost one of a name is meant.
_SAVEPOINTS = {
    "TRANS_STMT_SAVEPOINT": "SAVEPOINT s",
    "TRANS_STMT_RELEASE": "RELEASE SAVEPOINT s",
    "TRANS_STMT_ROLLBACK_TO": "ROLLBACK TO SAVEPOINT s",
}
_REASONS = {
    "CopyStmt": "copy",
    "DeclareCursorStmt": "cursor",
    "FetchStmt": "cursor",
    "ClosePortalStmt": "cursor",
    "VacuumStmt": "maintenance",
    "CheckPointStmt": "maintenance",
    "ReindexStmt": "maintenance",
    "ClusterStmt": "maintenance",
    "RefreshMatViewStmt": "maintenance",
    "VariableSetStmt": "session",
    "VariableShowStmt": "session",
    "DiscardStmt": "session",
    "LockStmt": "other",
    "PrepareStmt": "prepared_by_sql",
    "ExecuteStmt": "prepared_by_sql",
    "DeallocateStmt": "prepared_by_sql",
    "CallStmt": "procedure",
    "DoStmt": "procedure",
    "ExplainStmt": "other",
    "CreateTableAsStmt": "ddl",
    "TruncateStmt": "ddl",
    "CreateRoleStmt": "secret",
    "AlterRoleStmt": "secret",
    "AlterRoleSetStmt": "secret",
    "CreateUserMappingStmt": "secret",
    "AlterUserMappingStmt": "secret",
    "CreateForeignServerStmt": "secret",
    "CreateSubscriptionStmt": "secret",
    "AlterSubscriptionStmt": "secret",
    "AlterSystemStmt": "secret",
}
# A list that PostgreSQL 18 has shortened: IN ($1 /*, ... */).
_SHORTENED = re.compile(r"(\bNOT\s+)?\bIN\s*\(\s*\$(\d+)\s*/\*, \.\.\. \*/\s*\)", re.I)
_QUOTED_OR_COMMENT = re.compile(r"(\"[^\"]*\"|'(?:[^']|'')*')|/\*.*?\*/|--[^\n]*", re.S)
_LARGE_NUMBER = 10_000


@dataclass(frozen=True, slots=True)
class Parameter:
    """What a `$n` is for, and the column that it is compared with, inserted into or added to."""

    use: Use
    table: str = ""
    column: str = ""
    operator: str = ""
    argument: Argument | None = None
    """Of a function, if the parameter is one."""


@dataclass(slots=True)
class Parsed:
    """A statement. `reason`: why it cannot be reproduced, "" if it can.

    `parameters`: by number from 1. `outputs`: table and column of each column of the result, ""
    for expressions. `written`: the table that it changes. `as_long_as`: parameters that are arrays
    of the same length as an earlier one. `adds`: sign and parameter that an UPDATE adds to a
    column. `sums`: results that are a column plus or minus a parameter, by place: table, column,
    sign, parameter. `aggregates`: places of results that are a call, such as of sum.
    `copies`: it is COPY FROM STDIN, and `parameters` are the columns of its rows.
    """

    text: str
    kind: StatementKind = "other"
    reads_only: bool = False
    reason: str = ""
    tables: tuple[str, ...] = ()
    written: str = ""
    parameters: dict[int, Parameter] = field(default_factory=dict)
    outputs: tuple[tuple[str, str], ...] = ()
    locks_rows: bool = False
    as_long_as: dict[int, int] = field(default_factory=dict)
    adds: dict[str, tuple[int, int]] = field(default_factory=dict)
    sums: dict[int, tuple[str, str, int, int]] = field(default_factory=dict)
    aggregates: frozenset[int] = frozenset()
    copies: bool = False


class Names:
    """The tables of a database with their columns, found by the names that statements use."""

    def __init__(
        self,
        columns: Mapping[str, list[str]],
        path: list[str],
        functions: Functions = Functions(),  # noqa: B008
        fixed_keys: Mapping[str, Sequence[frozenset[str]]] | None = None,
        generated: Set[tuple[str, str]] = frozenset(),
        roles: Set[str] = frozenset(),
    ) -> None:
        """Take what is known of a database.

        Args: columns by qualified table; path, the schemas in the order of search_path; fixed_keys,
        keys by table that cannot get new values; generated, columns by table and name; roles
        of the server.
        """
        self._fixed_keys, self._generated = fixed_keys or {}, generated
        self._roles = roles
        self._columns = columns
        self._path = path
        self.functions = functions

    def table(self, schema: str | None, name: str) -> str:
        """Return the qualified name of a table, "" without a table."""
        quoted = _quoted(name)
        homes = [schema] if schema else self._path
        tried = [f"{_quoted(home)}.{quoted}" for home in homes]
        if not schema:
            tried += [t for t in self._columns if t.rpartition(".")[2] == quoted]
        return next((name for name in tried if name in self._columns), "")

    def has_schema(self, name: str) -> bool:
        """Return whether a table of the database is in this schema."""
        return any(table.startswith(f"{_quoted(name)}.") for table in self._columns)

    def has_role(self, name: str) -> bool:
        """Return whether the server has a role."""
        return name in self._roles

    def has_word(self, word: str) -> bool:
        """Return whether the body of a function has this word."""
        return any(word in function.words for function in self.functions.functions.values())

    def copied_columns(self, table: str) -> list[str]:
        """Return the columns of COPY without a list."""
        return [c for c in self.columns(table) if (table, c) not in self._generated]

    def can_add_rows(self, table: str, columns: list[str]) -> bool:
        """Return whether rows with these columns can be made so that no key is there twice."""
        return not any(key <= set(columns) for key in self._fixed_keys.get(table, ()))

    def columns(self, table: str) -> list[str]:
        """Return the columns of a table in their order."""
        return list(self._columns.get(table, ()))


def parse(text: str | None, names: Names) -> Parsed:
    """Return what a text of pg_stat_statements says. Comments and constants do not stay in it."""
    if text is None:
        return Parsed("", reason="text_missing")
    clean = _without_comments(_SHORTENED.sub(_as_array, text))
    try:
        statements = pgparse.parse(clean)
    except pgparse.PGQueryError:
        return Parsed(_first_words(clean), reason="unreadable")
    if len(statements) != 1:
        return Parsed(_first_words(clean), reason="unreadable")
    [(node, tree)] = statements[0]["stmt"].items()
    if node == "TransactionStmt":
        kind = _TRANSACTION.get(tree["kind"])
        if (savepoint := _SAVEPOINTS.get(tree["kind"])) is not None:
            return Parsed(savepoint, kind="savepoint", reads_only=True)
        if kind is None:
            return Parsed(_first_words(clean), reason="two_phase")
        return Parsed(clean, kind=kind, reads_only=True)
    made = utilities.text_of(
        node, tree, is_schema=names.has_schema, is_named=names.has_word, is_role=names.has_role
    )
    if made is not None and node == "DoStmt":
        return Parsed(made, tables=utilities.tables_in(made, names.table))
    if made is not None:
        reads_only = not made.startswith(("LISTEN", "UNLISTEN", "NOTIFY", "SELECT pg_notify"))
        kind = "select" if node == "SelectStmt" else "other"
        kind = "set" if node == "VariableSetStmt" else kind
        return Parsed(made, kind=kind, reads_only=reads_only)
    if node == "DeclareCursorStmt" and (parts := utilities.declared(clean, tree)):
        beginning, query = parts
        inner = _of_data(query, "SelectStmt", tree["query"]["SelectStmt"], names)
        return replace(inner, text=beginning + inner.text, kind="other", outputs=())
    if node == "LockStmt":
        ranges = [item["RangeVar"] for item in tree.get("relations", ())]
        tables = tuple(names.table(item.get("schemaname"), item["relname"]) for item in ranges)
        if all(tables):
            return Parsed(clean, tables=tables)
    if node == "CopyStmt" and utilities.copied_in(tree):
        return _of_copy_in(tree, names)
    if node == "CopyStmt" and utilities.copied_out(tree):
        return _of_copy(clean, tree, names)
    if node not in _KINDS:
        reason = _REASONS.get(node, "ddl")
        kind = "set" if reason == "session" else "other"
        return Parsed(_first_words(clean), kind=kind, reason=reason)
    return _of_data(clean, node, tree, names)


def _of_copy(text: str, tree: Tree, names: Names) -> Parsed:
    """Return COPY TO STDOUT; a constant of its query may be a value, and cannot be a parameter."""
    query = tree.get("query", {}).get("SelectStmt")
    if query is None:
        table = names.table(tree["relation"].get("schemaname"), tree["relation"]["relname"])
        reason = "" if table else "object_missing"
        return Parsed(text if table else "COPY", reads_only=True, reason=reason, tables=(table,))
    inner = _of_data(text, "SelectStmt", query, names)
    if inner.reason or inner.parameters:
        return Parsed("COPY", reason="copy")
    return replace(inner, kind="other", outputs=())


def _of_copy_in(tree: Tree, names: Names) -> Parsed:
    """Return COPY FROM STDIN in the text format, with the names of its columns."""
    table = names.table(tree["relation"].get("schemaname"), tree["relation"]["relname"])
    if not table:
        return Parsed("COPY", reason="object_missing")
    named = [item["String"]["sval"] for item in tree.get("attlist", ())]
    columns = named or names.copied_columns(table)
    if not names.can_add_rows(table, columns):
        return Parsed("COPY", reason="copy")
    return Parsed(
        f"COPY {table} ({', '.join(map(_always_quoted, columns))}) FROM STDIN",
        kind="insert",
        tables=(table,),
        written=table,
        parameters={
            number: Parameter("insert", table, _quoted(column))
            for number, column in enumerate(columns, 1)
        },
        copies=True,
    )


def _always_quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _of_data(text: str, node: str, tree: Tree, names: Names) -> Parsed:
    parsed = Parsed(text, kind=_KINDS[node])
    if _has_constants(tree):
        parsed.text, parsed.reason = pgparse.normalize(text), "constants"
        return parsed
    reader = _Reader(node, tree, names)
    used = set(reader.aliases.values())
    used |= {name for function in reader.called for name in reader.tables_of(function)}
    parsed.tables = tuple(sorted(used - {""}))
    writes = [name for name, _ in _nodes(tree) if name in _KINDS and name != "SelectStmt"]
    parsed.locks_rows = any(name == "LockingClause" for name, _ in _nodes(tree))
    parsed.reads_only = node == "SelectStmt" and not writes and not parsed.locks_rows
    parsed.reads_only = parsed.reads_only and not tree.get("intoClause")
    parsed.reads_only = parsed.reads_only and not any(f.is_volatile for f in reader.called)
    relation = tree.get("relation")
    parsed.written = reader.qualified(relation) if isinstance(relation, Mapping) else ""
    reader.read()
    parsed.parameters = reader.parameters
    parsed.outputs = tuple(reader.outputs())
    parsed.as_long_as = reader.as_long_as
    parsed.adds = reader.adds
    parsed.sums, parsed.aggregates = reader.computed_outputs()
    if reader.sets_session:
        parsed.reason = "session"
    elif reader.of_catalog:
        parsed.reason = "catalog"
    elif reader.missing:
        parsed.reason = "object_missing"
    return parsed


class _Reader:
    """Reads the parameters of one statement; aliases of all its parts count together."""

    def __init__(self, node: str, tree: Tree, names: Names) -> None:
        self._node, self._tree, self._names = node, tree, names
        self.parameters: dict[int, Parameter] = {}
        self.missing = False
        self.of_catalog = False
        self.as_long_as: dict[int, int] = {}
        self.adds: dict[str, tuple[int, int]] = {}
        self._calls = [item for name, item in _nodes(tree) if name == "FuncCall"]
        called = [(_called(item), item) for item in self._calls]
        self.sets_session = any(name == "set_config" for name, _ in called)
        known = names.functions.functions
        self.called = [known[name] for name, _ in called if name in known]
        inner = {item.get("ctename") for name, item in _nodes(tree) if name == "CommonTableExpr"}
        self.aliases: dict[str, str] = {}
        ranges = [item for name, item in _nodes(tree) if name == "RangeVar"]
        relation = tree.get("relation")
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
        for item in (item for name, item in _nodes(tree) if name == "RangeFunction"):
            self._add_rows_of_function(item)

    def _add_rows_of_function(self, item: Tree) -> None:
        """Note a function in FROM whose rows are those of a table."""
        for name in [_called(call) for part, call in _nodes(item) if part == "FuncCall"][:1]:
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
        if self._node == "InsertStmt":
            self._read_insert()
        for name, item in _nodes(self._tree):
            if name == "A_Expr":
                self._read_expression(item)
            elif name == "UpdateStmt":
                self._read_update(item)
        for item in self._calls:
            self._read_call(item)
        if self._node == "UpdateStmt":
            self._read_update(self._tree)
        selects = [self._tree, *(item for name, item in _nodes(self._tree) if name == "SelectStmt")]
        for select in selects:
            for key, use in (("limitCount", "limit"), ("limitOffset", "offset")):
                for number in _parameters_in(select.get(key)):
                    self.parameters[number] = Parameter(use)  # type: ignore[arg-type]
        for number in _parameters_in(self._tree):
            self.parameters.setdefault(number, Parameter("other"))

    def _read_insert(self) -> None:
        table = self.qualified(self._tree["relation"])
        named = [item["ResTarget"]["name"] for item in self._tree.get("cols", ())]
        columns = named or self._names.columns(table)
        select = self._tree.get("selectStmt", {}).get("SelectStmt", {})
        for row in select.get("valuesLists", ()):
            for column, item in zip(columns, row["List"]["items"], strict=False):
                for number in _alone(item):
                    self.parameters[number] = Parameter("insert", table, column)
        for column, item in zip(columns, select.get("targetList", ()), strict=False):
            for number in _alone(item["ResTarget"].get("val")):
                self.parameters[number] = Parameter("insert", table, column)

    def _read_call(self, call: Tree) -> None:
        """Note the arguments of a function of the database, and the arrays of unnest."""
        name, given = _called(call), [_alone(part) for part in call.get("args", ())]
        numbers = [alone[0] if alone else 0 for alone in given]
        if name == "unnest" and len(numbers) > 1 and all(numbers):
            self.as_long_as |= dict.fromkeys(numbers[1:], numbers[0])
            if self._node == "InsertStmt":
                table = self.qualified(self._tree["relation"])
                named = [item["ResTarget"]["name"] for item in self._tree.get("cols", ())]
                select = self._tree.get("selectStmt", {}).get("SelectStmt", {})
                stars = map(_is_star, select.get("targetList", ()))
                first = next((place for place, is_star in enumerate(stars) if is_star), 0)
                for number, column in zip(numbers, named[first:], strict=False):
                    self.parameters[number] = Parameter("list", table, column, "unnest")
        function = self._names.functions.functions.get(name)
        if function is None:
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
            use: Use = "set" if _alone(target.get("val")) else "change"
            for number in _parameters_in(target.get("val")):
                self.parameters[number] = Parameter(use, table, target["name"])
            added = self._added(target.get("val"))
            if tree is self._tree and added is not None and added[:2] == (table, target["name"]):
                self.adds[target["name"]] = added[2:]

    def _read_expression(self, item: Tree) -> None:
        operator = _operator(item)
        left, right = item.get("lexpr"), item.get("rexpr")
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
            for number in _parameters_in(other):
                self.parameters.setdefault(number, Parameter(use, *place, operator))

    def _added(self, tree: Any) -> tuple[str, str, int, int] | None:
        """Return table, column, sign and parameter of a column plus or minus a parameter."""
        item = tree.get("A_Expr") if isinstance(tree, Mapping) else None
        if item is None or _operator(item) not in ("+", "-"):
            return None
        place, numbers = self._column(item.get("lexpr")), _alone(item.get("rexpr"))
        if place is None or not numbers:
            return None
        return *place, 1 if _operator(item) == "+" else -1, numbers[0]

    def computed_outputs(self) -> tuple[dict[int, tuple[str, str, int, int]], frozenset[int]]:
        """Return the results that add a parameter to a column, and the results that are calls."""
        values = [item["ResTarget"].get("val", {}) for item in self._targets()]
        if any(map(_is_star, self._targets())):
            return {}, frozenset()
        added = {place: self._added(value) for place, value in enumerate(values)}
        sums = {place: sum_ for place, sum_ in added.items() if sum_ is not None}
        return sums, frozenset(n for n, value in enumerate(values) if "FuncCall" in value)

    def _targets(self) -> Any:
        name = "targetList" if self._node == "SelectStmt" else "returningList"
        return self._tree.get(name, ())

    def _column(self, tree: Any) -> tuple[str, str] | None:
        """Return table and column of a reference to a column, None for everything else."""
        reference = tree.get("ColumnRef") if isinstance(tree, Mapping) else None
        if reference is None:
            cast = tree.get("TypeCast") if isinstance(tree, Mapping) else None
            return self._column(cast.get("arg")) if cast else None
        parts = [part["String"]["sval"] for part in reference["fields"] if "String" in part]
        if not parts:
            return None
        tables = list(self.aliases.values())
        if len(parts) > 1:
            tables = [self.aliases.get(parts[-2], "")]
        owners = (name for name in tables if parts[-1] in self._names.columns(name))
        owner = next(owners, "")
        return (owner, parts[-1]) if owner else None

    def outputs(self) -> Iterator[tuple[str, str]]:
        """Yield table and column of each column of the result."""
        for item in self._targets():
            value = item["ResTarget"].get("val", {})
            fields = value.get("ColumnRef", {}).get("fields", ())
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
        called = [_called(call) for part, call in _nodes(tree) if part == "FuncCall"]
        functions = [self._names.functions.functions.get(function) for function in called]
        tables = [table for known in functions if known for table in self.tables_of(known)]
        return next(((t, name) for t in tables if name in self._names.columns(t)), None)


def _is_star(item: Tree) -> bool:
    fields = item["ResTarget"].get("val", {}).get("ColumnRef", {}).get("fields", ())
    return bool(fields) and "A_Star" in fields[-1]


def _called(call: Tree) -> str:
    names = [part["String"]["sval"] for part in call.get("funcname", ()) if "String" in part]
    return names[-1] if names else ""


def _operator(item: Tree) -> str:
    names = [part["String"]["sval"] for part in item.get("name", ()) if "String" in part]
    return names[-1] if names else ""


def _alone(tree: Any) -> list[int]:
    """Return the number of a parameter that stands alone or under a cast."""
    if isinstance(tree, Mapping):
        if "ParamRef" in tree:
            return [tree["ParamRef"].get("number", 0)]
        if "TypeCast" in tree:
            return _alone(tree["TypeCast"].get("arg"))
        if "NamedArgExpr" in tree:
            return _alone(tree["NamedArgExpr"].get("arg"))
    return []


def _parameters_in(tree: Any) -> list[int]:
    return [item.get("number", 0) for name, item in _nodes(tree) if name == "ParamRef"]


def _nodes(tree: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(tree, Mapping):
        for name, content in tree.items():
            if isinstance(content, Mapping):
                yield name, content
            yield from _nodes(content)
    elif isinstance(tree, list):
        for item in tree:
            yield from _nodes(item)


def _has_constants(tree: Tree) -> bool:
    """Return whether a text or a large number is in the statement: it may be a value of a row."""
    for name, item in _nodes(tree):
        if name == "A_Const":
            number = item.get("ival", {}).get("ival", 0) if "ival" in item else 0
            if item.get("sval", {}).get("sval") or "fval" in item or number >= _LARGE_NUMBER:
                return True
    return False


def _as_array(match: re.Match[str]) -> str:
    return f"<> ALL (${match[2]})" if match[1] else f"= ANY (${match[2]})"


def _without_comments(text: str) -> str:
    return _QUOTED_OR_COMMENT.sub(lambda match: match[1] or " ", text).strip().rstrip(";").strip()


def _first_words(text: str) -> str:
    """Return the first words of a statement that may contain values: "ALTER ROLE"."""
    words = re.match(r"\s*([A-Za-z]+(?:\s+[A-Z]+)?)", text)
    return " ".join(words[1].split()).upper() if words else "?"


def _quoted(name: str) -> str:
    """Return an identifier as quote_ident writes it. Limits: reserved words are not quoted."""
    return name if re.fullmatch(r"[a-z_][a-z0-9_]*", name) else '"' + name.replace('"', '""') + '"'
