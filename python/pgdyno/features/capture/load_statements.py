"""The statements that a captured load may have, and the names that they use. Pure.

A load asks, changes rows, and sets what is harmless in a session. It makes temporary tables alone.
`safety.py` refuses a capture with other statements.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from pgdyno.errors import SpecError
from pgdyno.features.capture.bodies import statements_of_block
from pgdyno.features.capture.model import Capture
from pgdyno.features.capture.object_names import Use, uses_of, uses_of_type
from pgdyno.server.grammar import SyntaxNode, statements_of

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


@lru_cache(maxsize=4096)
def is_part_of_load(text: str) -> bool:
    """Return whether the load of a capture may have a statement; a text that cannot be read: no."""
    try:
        return all(is_of_load(part) for part in statements_of(text, where="the load"))
    except (SpecError, RecursionError):
        return False


def is_of_load(statement: SyntaxNode) -> bool:
    """Return whether a load may have a statement."""
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


def harmless(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a session that change no rights and start no programs."""
    return {name: value for name, value in settings.items() if _SESSION_SETTING.fullmatch(name)}


def uses_of_load(capture: Capture) -> Iterator[tuple[str, Use]]:
    """Yield the statement and the name for all that the transactions of a capture use."""
    used = capture.sent_ids
    for own in (statement for statement in capture.statements if statement.id in used):
        for statement in statements_of(own.text, where=f"statement {own.id}"):
            for use in uses_of_statement(statement):
                yield own.id, use
        for kind in filter(None, own.parameter_types):
            for use in uses_of_type(kind) or ():
                yield own.id, use


def uses_of_statement(statement: SyntaxNode) -> Iterator[Use]:
    """Yield the names that a statement of a load uses, in a DO block, too."""
    yield from uses_of({statement.kind: statement.tree})
    for block in _blocks_of(statement):
        yield from uses_of({block.kind: block.tree})


def _blocks_of(statement: SyntaxNode) -> Iterator[SyntaxNode]:
    """Yield the statements of a DO block."""
    if statement.kind == "DoStmt":
        for item in statement.tree.get("args", ()):
            yield from statements_of_block(item["DefElem"]["arg"]["String"]["sval"])


def projected_in_load(capture: Capture) -> Iterator[tuple[str, str]]:
    """Yield the statement and the name for what a load writes as a column and no table has.

    The server reads `row.name` as the call `name(row)` if the row has no such column.
    """
    used = capture.sent_ids
    columns = {column.column for column in capture.columns}
    for own in (statement for statement in capture.statements if statement.id in used):
        for statement in statements_of(own.text, where=f"statement {own.id}"):
            for part in (statement, *_blocks_of(statement)):
                names = (_projected(kind, content) for kind, content in part.nodes())
                yield from ((own.id, name) for name in names if name and name not in columns)


def _projected(kind: str, content: Any) -> str:
    """Return the name after the last dot of a part that may be a column; "" without one."""
    parts = content["fields"][1:] if kind == "ColumnRef" else ()
    parts = content["indirection"] if kind == "A_Indirection" else parts
    return str(parts[-1].get("String", {}).get("sval", "")) if parts else ""
