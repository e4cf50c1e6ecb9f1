"""What a capture may do on a server: make its objects, and send its load; nothing else.

A capture is a file that somebody may have changed. PostgreSQL's grammar reads each of its
statements before `init` sends one, so that a text cannot do more than its object needs.
Limits: a function of the capture may do anything once a statement or a trigger calls it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pgdyno.errors import SpecError
from pgdyno.features.capture.model import Capture, Fresh, OfColumn, parts_of
from pgdyno.features.capture.schema import SchemaObject
from pgdyno.server.grammar import Statement, statements_of

_OF_TABLE = frozenset(("AlterTableStmt",))
_PERMITTED: Mapping[str, frozenset[str]] = {
    "schema": frozenset(("CreateSchemaStmt",)),
    "extension": frozenset(("CreateExtensionStmt",)),
    "type": frozenset(("CreateEnumStmt", "CompositeTypeStmt", "CreateRangeStmt")),
    "domain": frozenset(("CreateDomainStmt",)),
    "function": frozenset(("CreateFunctionStmt",)),
    "sequence": frozenset(("CreateSeqStmt", "AlterSeqStmt")),
    "table": frozenset(("CreateStmt",)),
    "partition": frozenset(("CreateStmt", "AlterTableStmt")),
    "index": frozenset(("IndexStmt", "AlterTableStmt")),
    "primary_key": _OF_TABLE,
    "unique": _OF_TABLE,
    "check": _OF_TABLE,
    "exclusion": _OF_TABLE,
    "foreign_key": _OF_TABLE,
    "default": _OF_TABLE,
    "trigger": frozenset(("CreateTrigStmt", "AlterTableStmt")),
    "statistics": frozenset(("CreateStatsStmt",)),
    "view": frozenset(("ViewStmt", "CreateTableAsStmt")),
}
"""The statements, as the grammar names them, that make an object of each kind."""
# These name a table that exists: it must be one that the capture makes.
_CHANGES_TABLE = frozenset(("AlterTableStmt", "IndexStmt", "CreateTrigStmt"))
_DROPPED_AS = {"partition": "table", "function": "routine"}
_NAMED = frozenset(("table", "partition", "view", "function", "type", "domain", "sequence"))
# A load of a capture consists of these, of settings that are harmless, and of COPY of the client.
_OF_LOADS = frozenset(
    (
        *("SelectStmt", "InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt", "TransactionStmt"),
        *("DeclareCursorStmt", "FetchStmt", "ClosePortalStmt"),
        *("ListenStmt", "UnlistenStmt", "NotifyStmt", "LockStmt", "CallStmt"),
    )
)
# Of SET TRANSACTION: READ WRITE is not among them.
_MODES = frozenset(("transaction_isolation", "transaction_deferrable"))
# Settings of a session that change plans, waits or forms of values, and no rights.
_SESSION_SETTING = re.compile(
    r"enable_\w+|\w+_cost|jit\w*|geqo\w*|\w+_collapse_limit|plan_cache_mode|cursor_tuple_fraction"
    r"|constraint_exclusion|(work|temp|hash)_\w*(mem|buffers|multiplier)|recursive_worktable_factor"
    r"|max_parallel_workers_per_gather|parallel_leader_participation|effective_\w+"
    r"|default_statistics_target|default_transaction_isolation|synchronous_commit|search_path"
    r"|(statement|lock|idle_in_transaction_session|transaction)_timeout"
    r"|timezone|datestyle|intervalstyle|bytea_output|extra_float_digits|lc_\w+",
    re.IGNORECASE,
)
# A block of PL/pgSQL has no dynamic SQL, and changes no settings, rights or objects: what does so
# begins the block, follows one of these words, or is one of these functions. Comments, other quotes
# and texts that continue on the next line could hide something.
_NOT_IN_BLOCKS = re.compile(
    r"--|/\*|\*/|\$|\"|\\|\bEXECUTE\b|\bset_config\b|\bquery_to_xml|\bdblink|'\s*\n\s*'"
    r"|(?:^|;|>>|\bBEGIN|\bTHEN|\bELSE|\bLOOP)\s*"
    r"(?:COPY|CREATE|ALTER|DROP|GRANT|REVOKE|TRUNCATE|SECURITY|IMPORT|LOAD|SET|RESET|CALL|DO|VACUUM"
    r"|ANALYZE|REINDEX|CLUSTER|REFRESH|LOCK|COMMENT|DISCARD|REASSIGN|PREPARE|CHECKPOINT)\b",
    re.IGNORECASE,
)
_CONSTANT_IN_BLOCK = re.compile(r"'(?:[^']|'')*'|\b\d[\w.]*")


def refuse_other_statements(capture: Capture, *, file: str) -> None:
    """Check every statement and every name of the schema.

    Raises: SpecError with the object and what it would do.
    """
    tables = {relation for shape in capture.tables for relation in _relations(shape.name, file)}
    made = " ".join(item.sql for item in capture.objects if item.kind == "table")
    for shape in capture.tables:
        _check_name(shape.name, "table", file)
    for column in capture.columns:
        _check_name(column.table, "table", file)
        if column.sequence:
            _check_name(column.sequence, "sequence", file)
        # A name with quotes is one if a table is made with it; pgdyno always writes it quoted.
        written = '"' + column.column.replace('"', '""') + '"'
        is_made = '"' not in column.column or written in made
        if not column.column or "\x00" in column.column or not is_made:
            _refuse(
                file, f"the column {column.column} of {column.table}", "its name ends too early"
            )
    columns = {(column.table, column.column) for column in capture.columns}
    for counter in capture.counters:
        for part in (counter, *counter.keys):
            if not {(part.table, name) for name in (part.column, *part.group)} <= columns:
                _refuse(file, f"a counter with {part.table}", "it has a column of no table")
            if len(part.group) != len(counter.group):
                _refuse(file, f"a counter with {part.table}", "its groups do not fit")
    for item in capture.objects:
        if item.kind in _NAMED:
            _check_name(item.name, _DROPPED_AS.get(item.kind, item.kind), file)
        for statement in statements_of(item.sql, where=f"{file}: {item.kind} {item.name}"):
            _check_statement(item, statement, tables, file)


def refuse_other_loads(capture: Capture, *, file: str) -> None:
    """Check the statements of a capture's transactions, and the columns of their parameters.

    Raises: SpecError with the statement and what it would do.
    """
    columns = {(column.table, column.column) for column in capture.columns}
    used = {step.statement for template in capture.templates for step in template.steps}
    for statement in (own for own in capture.statements if own.id in used):
        for part in statements_of(statement.text, where=f"{file}: statement {statement.id}"):
            if not _is_of_load(part):
                why = f"it is not part of a load: {part.text[:60]}"
                _refuse(file, f"the statement {statement.id}", why)
    for template in capture.templates:
        for step in template.steps:
            for own in (part for source in step.parameters for part in parts_of(source)):
                if not isinstance(own, OfColumn | Fresh):
                    continue
                given = own.given if isinstance(own, OfColumn) else ()
                named = [own.column, *(part.column for part in given)]
                for column in (name for name in named if (own.table, name) not in columns):
                    place = f"{own.table}.{column}"
                    _refuse(file, f"the transaction {template.name}", f"it has no column {place}")


def is_harmless_block(body: str) -> bool:
    """Return whether a body of PL/pgSQL has no values, no dynamic SQL, and no change of the schema.

    Values are texts of more than two characters, and numbers that are not whole and below 100.
    """
    if _NOT_IN_BLOCKS.search(body):
        return False
    return all(
        len(part) <= 4 if part.startswith("'") else part.isdecimal() and int(part) < 100
        for part in _CONSTANT_IN_BLOCK.findall(body)
    )


def _is_of_load(statement: Statement) -> bool:
    tree = statement.tree
    if statement.kind == "DoStmt":
        given = [item["DefElem"]["arg"]["String"]["sval"] for item in tree.get("args", ())]
        return len(given) == 1 and is_harmless_block(given[0])
    if statement.kind in ("CreateStmt", "CreateTableAsStmt"):
        relation = tree["into"]["rel"] if "into" in tree else tree["relation"]
        return relation.get("relpersistence") == "t" and not tree.get("inhRelations")
    if statement.kind == "SelectStmt":
        return all(name != "intoClause" for name, _ in statement.nodes())
    if statement.kind == "DropStmt":
        return _drops_temporary(tree)
    if statement.kind == "CopyStmt":
        return not (tree.get("filename") or tree.get("is_program"))
    if statement.kind != "VariableSetStmt":
        return statement.kind in _OF_LOADS
    name = str(tree.get("name", "")).lower()
    if name in ("role", "session_authorization"):
        return bool(tree.get("is_local"))
    if tree["kind"] != "VAR_SET_MULTI":
        return bool(harmless({name: ""}))
    modes = [argument["DefElem"] for argument in tree.get("args", ())]
    return name == "transaction" and all(
        mode["defname"] in _MODES or _is_read_only(mode) for mode in modes
    )


def _drops_temporary(tree: Mapping[str, Any]) -> bool:
    """Return whether a DROP names temporary tables alone, and drops nothing else."""
    names = [item.get("List", {}).get("items", ()) for item in tree["objects"]]
    are_temporary = all(
        len(own) == 2 and own[0].get("String") == {"sval": "pg_temp"} for own in names
    )
    is_plain = (tree["removeType"], tree["behavior"]) == ("OBJECT_TABLE", "DROP_RESTRICT")
    return is_plain and are_temporary


def _is_read_only(mode: Mapping[str, Any]) -> bool:
    value = mode.get("arg", {}).get("A_Const", {}).get("ival")
    return bool(mode["defname"] == "transaction_read_only" and value == {"ival": 1})


def harmless(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a session that change no rights and start no programs."""
    return {name: value for name, value in settings.items() if _SESSION_SETTING.fullmatch(name)}


def _check_statement(
    item: SchemaObject, statement: Statement, tables: set[tuple[str, ...]], file: str
) -> None:
    thing = f"the {item.kind.replace('_', ' ')} {item.name}"
    if statement.kind not in _PERMITTED[item.kind]:
        _refuse(file, thing, f"it has a statement that makes none: {statement.text[:60]}")
    if statement.kind in _CHANGES_TABLE and _relation(statement.tree["relation"]) not in tables:
        _refuse(file, thing, "it changes a table that the capture does not make")


def _check_name(name: str, word: str, file: str) -> None:
    """Raise SpecError unless `name` is one name wherever a statement has it."""
    statements = statements_of(f"drop {word} {name}", where=f"{file}: the name {name!r}")
    trees = [statement.tree for statement in statements]
    is_one = len(trees) == 1 and len(trees[0].get("objects", ())) == 1
    if not is_one or trees[0]["behavior"] != "DROP_RESTRICT" or "--" in name or "/*" in name:
        _refuse(file, f"the {word} {name}", "its name is more than a name")


def _relations(name: str, file: str) -> Iterator[tuple[str, ...]]:
    """Yield a qualified name as the grammar reads it."""
    for statement in statements_of(f"drop table {name}", where=f"{file}: the name {name!r}"):
        for parts in statement.tree.get("objects", ()):
            yield tuple(part["String"]["sval"] for part in parts["List"]["items"])


def _relation(tree: Mapping[str, Any]) -> tuple[str, ...]:
    schema = tree.get("schemaname")
    return (schema, tree["relname"]) if schema else (tree["relname"],)


def _refuse(file: str, thing: str, why: str) -> None:
    raise SpecError(
        f"{file} is not a capture as pgdyno writes it: {thing}: {why}.",
        hint="nothing was sent; capture the source again, or ask where the file comes from",
    )
