"""One statement as PostgreSQL's grammar reads it: its kind, its tables, what each `$n` is for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import pgparse

from pgdyno.features.capture.observed import StatementKind
from pgdyno.features.capture.reading import utilities
from pgdyno.features.capture.reading.arbiters import with_index, without_index
from pgdyno.features.capture.reading.names import Names
from pgdyno.features.capture.reading.own_settings import set_again
from pgdyno.features.capture.reading.parameter_uses import Parameter, Reader
from pgdyno.features.capture.reading.rows_of_values import folded
from pgdyno.features.capture.reading.trees import Tree, alone, function_name, nodes, words_of
from pgdyno.features.capture.schema import in_quotes

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
_NUMBERED = re.compile(r"\$(\d+)")
_LARGE_NUMBER = 10_000
# The server's grammar wants a constant here, and pg_stat_statements puts $n in its place.
# A type before its constant: DATE '2026-01-01'.
TYPE_BEFORE = (
    r"\b(date|interval(?:\s*\(\d\))?|(?:time|timestamp)(?:\s*\(\d\))?(?:\s+with(?:out)?\s+time\s+zone)?"
    r"|timetz|timestamptz|uuid|jsonb?|numeric|inet|bytea)\s*"
)
_TYPED = re.compile(rf"{TYPE_BEFORE}(\$\d+)", re.I)
_WORD = re.compile(rb"[A-Za-z]\w*(?![\w'&])")
_EXTRACT = re.compile(r"\bextract\s*\(\s*(\$\d+)\s+FROM\b", re.I)


@dataclass(slots=True)
class Parsed:
    """A statement. `reason`: why it cannot be reproduced, "" if it can.

    `parameters`: by number from 1. `outputs`: table and column of each column of the result, ""
    for expressions. `written`: the table that it changes. `as_long_as`: parameters that are arrays
    of the same length as an earlier one. `open_filters`: parameters that let every row pass if they
    are NULL. `adds`: sign and parameter that an UPDATE adds to a
    column. `sums`: results that are a column plus or minus a parameter, by place: table, column,
    sign, parameter. `aggregates`: places of results that are a call, such as of sum.
    `copies`: it is COPY FROM STDIN, and `parameters` are the columns of its rows. `types`: of the
    parameters of a CALL. `ends_count`: how often a procedure ends its transaction; such a CALL
    fails in a transaction block. `documents`: parameters that are JSON, with the columns with which
    their parts are compared, by key or by the parameter that is the key; `document_keys`: such
    parameters.
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
    open_filters: frozenset[int] = frozenset()
    adds: dict[str, tuple[int, int]] = field(default_factory=dict)
    sums: dict[int, tuple[str, str, int, int]] = field(default_factory=dict)
    aggregates: frozenset[int] = frozenset()
    copies: bool = False
    types: tuple[str, ...] = ()
    ends_count: int = 0
    documents: dict[int, dict[str | int, tuple[str, str]]] = field(default_factory=dict)
    document_keys: frozenset[int] = frozenset()

    @property
    def untyped(self) -> frozenset[int]:
        """Return the numbers of parameters to which no column gives a type."""
        numbers = map(int, _NUMBERED.findall(self.text))
        known = {n for n, use in self.parameters.items() if use.use != "other"}
        return frozenset(numbers) - known


def tables_written(statements: Iterable[Parsed]) -> frozenset[str]:
    """Return the tables that statements may change, by functions and inside of WITH, too."""
    changing = [own for own in statements if not own.reads_only]
    return frozenset(table for own in changing for table in (*own.tables, own.written))


def parse(text: str | None, names: Names) -> Parsed:
    """Return what a text of pg_stat_statements says. Comments and constants do not stay in it."""
    if text is None:
        return Parsed("", reason="text_missing")
    try:
        return _parse(text, names)
    except RecursionError:
        return Parsed(_first_words(utilities.without_comments(text[:100]).strip()), reason="deep")


def _parse(text: str, names: Names) -> Parsed:
    if (many := folded(text, names)) is not None:
        text = many[0]
    clean = utilities.without_comments(_SHORTENED.sub(_as_array, text)).strip().rstrip(";").strip()
    clean = _EXTRACT.sub(r"pg_catalog.date_part(\1,", _TYPED.sub(r"\2::\1", clean))
    try:
        statements = pgparse.parse(clean)
    except pgparse.PGQueryError:
        return Parsed(_first_words(clean), reason="unreadable")
    if len(statements) != 1:
        return Parsed(_first_words(clean), reason="several" if statements else "empty")
    if "CONFLICT" in clean.upper():
        clean = with_index(clean, statements, names)
        statements = pgparse.parse(clean)
    [(node, tree)] = statements[0]["stmt"].items()
    if node == "TransactionStmt":
        kind = _TRANSACTION.get(tree["kind"])
        if (savepoint := _SAVEPOINTS.get(tree["kind"])) is not None:
            return Parsed(savepoint, kind="savepoint", reads_only=True)
        if kind is None:
            return Parsed(_first_words(clean), reason="two_phase")
        return Parsed(clean, kind=kind, reads_only=True)
    if own := set_again(node, tree, names.settings):
        return Parsed(own[0], kind="select", reads_only=True, parameters=own[1])
    made = utilities.text_of(
        node, tree, is_schema=names.has_schema, is_named=names.has_word, is_role=names.has_role
    )
    if made is not None and node == "DoStmt":
        reason = "session_lock" if utilities.takes_session_lock(made) else ""
        return Parsed(made, reason=reason, tables=utilities.tables_in(made, names.table))
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
    if node == "CallStmt":
        return _of_call(clean, tree, names)
    if node == "PrepareStmt" and (query := utilities.prepared(clean)):
        return parse(query, names)
    if _is_temporary(node, tree):
        return Parsed("CREATE TEMP TABLE", reason="temporary_table")
    if node == "SelectStmt" and _makes_table(tree):
        return Parsed(_first_words(clean), kind="other", reason="ddl")
    if node not in _KINDS:
        reason = _REASONS.get(node, "ddl")
        kind = "set" if reason == "session" else "other"
        return Parsed(_first_words(clean), kind=kind, reason=reason)
    return _of_data(clean, node, tree, names)


def _makes_table(tree: Tree) -> bool:
    """Return whether a SELECT has INTO, which the first SELECT of a UNION has."""
    return "intoClause" in tree or ("larg" in tree and _makes_table(tree["larg"]))


def _is_temporary(node: str, tree: Tree) -> bool:
    relation = {"CreateStmt": tree.get("relation"), "CreateTableAsStmt": tree.get("into", {})}
    made = relation.get(node) or {}
    return bool(made.get("rel", made).get("relpersistence") == "t")


def _of_call(text: str, tree: Tree, names: Names) -> Parsed:
    """Return the CALL of a procedure whose text is known."""
    procedure = names.functions.functions.get(function_name(tree["funccall"]))
    if procedure is None:
        return Parsed("CALL", reason="function_missing")
    given = [alone(part) for part in tree["funccall"].get("args", ())]
    types = {
        numbers[0]: argument.type
        for numbers, argument in zip(given, procedure.arguments, strict=False)
        if numbers
    }
    parsed = _of_data(text, "CallStmt", {"call": {"FuncCall": tree["funccall"]}}, names)
    parsed.types = tuple(types.get(number, "") for number in range(1, max(types, default=0) + 1))
    parsed.ends_count = procedure.ends_count
    return parsed


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
    named = words_of(tree.get("attlist"))
    columns = named or names.copied_columns(table)
    if not names.can_add_rows(table, columns):
        return Parsed("COPY", reason="copy")
    return Parsed(
        f"COPY {table} ({', '.join(map(in_quotes, columns))}) FROM STDIN",
        kind="insert",
        tables=(table,),
        written=table,
        parameters={
            number: Parameter("insert", table, column) for number, column in enumerate(columns, 1)
        },
        copies=True,
    )


def _of_data(text: str, node: str, tree: Tree, names: Names) -> Parsed:
    parsed = Parsed(text, kind=_KINDS.get(node, "other"))
    if _has_constants(without_index({node: tree}, names), text.encode()):
        parsed.text, parsed.reason = pgparse.normalize(text), "constants"
        return parsed
    reader = Reader(node, tree, names)
    used = set(reader.aliases.values())
    used |= {name for function in reader.called for name in reader.tables_of(function)}
    parsed.tables = tuple(sorted(used - {""}))
    writes = [name for name, _ in nodes(tree) if name in _KINDS and name != "SelectStmt"]
    parsed.locks_rows = any(name == "LockingClause" for name, _ in nodes(tree))
    parsed.reads_only = node == "SelectStmt" and not writes and not parsed.locks_rows
    parsed.reads_only = parsed.reads_only and not any(f.is_volatile for f in reader.called)
    parsed.locks_rows |= any(f.takes_rows for f in reader.called)
    relation = tree.get("relation")
    parsed.written = reader.qualified(relation) if isinstance(relation, Mapping) else ""
    reader.read()
    parsed.parameters = reader.parameters
    parsed.outputs = tuple(reader.outputs())
    parsed.as_long_as = reader.as_long_as
    parsed.documents, parsed.document_keys = reader.documents, reader.document_keys
    parsed.open_filters = reader.open_filters()
    parsed.adds = reader.adds
    parsed.sums, parsed.aggregates = reader.computed_outputs()
    if utilities.takes_session_lock(text):
        parsed.reason = "session_lock"
    elif reader.sets_session:
        parsed.reason = "session"
    elif reader.of_catalog:
        parsed.reason = "catalog"
    elif reader.missing:
        parsed.reason = "object_missing"
    return parsed


def _has_constants(tree: Tree, raw: bytes) -> bool:
    """Return whether a text or a large number is in the statement: it may be a value of a row.

    Words of the grammar do not count, such as `year` in `extract(year FROM at)`.
    """
    for name, item in nodes(tree):
        if name == "A_Const":
            place = item.get("location", 0)
            number = item.get("ival", {}).get("ival", 0) if "ival" in item else 0
            is_text = item.get("sval", {}).get("sval") and not _WORD.match(raw, max(place, 0))
            if is_text or "fval" in item or (number >= _LARGE_NUMBER and place >= 0):
                return True
    return False


def _as_array(match: re.Match[str]) -> str:
    return f"<> ALL (${match[2]})" if match[1] else f"= ANY (${match[2]})"


def _first_words(text: str) -> str:
    """Return the first words of a statement that may contain values: "ALTER ROLE"."""
    words = re.match(r"\s*([A-Za-z]+(?:\s+[A-Z]+)?)", text)
    return " ".join(words[1].split()).upper() if words else "?"
