"""What a statement may be without permission to write: read by the grammar, not by its words.

Only `refuse_foreign_tables` asks the server. A function of the user's own hides what it does; the
read-only transaction refuses its writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pgdyno.errors import RefusedError, SpecError
from pgdyno.server.connect import Connection
from pgdyno.server.grammar import SyntaxNode, statements_of

_PERMITTED = frozenset(
    (
        *("SelectStmt", "TransactionStmt", "VariableSetStmt", "VariableShowStmt", "ExplainStmt"),
        *("DeclareCursorStmt", "FetchStmt", "ClosePortalStmt"),
    )
)
_BLOCKS = frozenset(
    f"TRANS_STMT_{kind}"
    for kind in ("BEGIN", "START", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "ROLLBACK_TO")
)
_ENDS = frozenset(("TRANS_STMT_COMMIT", "TRANS_STMT_ROLLBACK"))
_AFTER_AN_END = "begins another transaction in the same message"
# Parts of a statement that write, or lock rows.
_WRITING_PARTS = {
    **dict.fromkeys(("InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt"), "writes"),
    "CreateTableAsStmt": "writes",
    "intoClause": "creates a table",
    "lockingClause": "locks rows",
    "ExecuteStmt": "executes a prepared statement",
}
_SWITCHES = frozenset(("transaction_read_only", "default_transaction_read_only"))
# Functions that a read-only transaction permits or that hide a statement in a text.
_FUNCTIONS = re.compile(
    r"""
    pg_(terminate|cancel)_backend | pg_reload_conf | pg_rotate_logfile\w* | pg_promote
    | pg_switch_\w+ | pg_create_\w+ | pg_drop_\w+ | pg_copy_\w+ | pg_(start|stop)_backup
    | pg_backup_\w+ | pg_wal_replay_\w+ | pg_replication_\w+ | pg_logical_\w+ | pg_log_\w+
    | pg_stat_\w*reset\w* | pg_(try_)?advisory_\w+ | pg_file_\w+ | pg_notify | pg_import_\w+
    | pg_sync_\w+ | pg_(restore|clear)_\w+ | pg_current_xact_id | txid_current
    | brin_(de)?summarize_\w+ | gin_clean_pending_list | pg_prewarm | autoprewarm_\w+
    # It keeps others from writing to the table.
    | bt_index_parent_check
    # They work outside of this session: in others, on other servers, in the numbers of objects.
    | run_command_on_\w+ | master_run_on_worker | pg_background_launch | postgres_fdw_disconnect\w*
    | pg_wait_sampling_reset\w* | pg_nextoid | binary_upgrade_\w+
    | pg_truncate_visibility_map | heap_force_\w+ | pg_buffercache_(evict|mark)\w*
    | lo_\w+ | lowrite | loread | nextval | setval | dblink\w* | query_to_xml\w*
    | cursor_to_xml\w* | ts_stat | ts_rewrite | crosstab\w* | connectby | xpath_table
    """,
    re.X,
)
# As pgbench and the engine find it: inside strings and comments, too.
_VARIABLE = re.compile(r"(?<!:):([A-Za-z_\x80-\U0010ffff][A-Za-z0-9_\x80-\U0010ffff]*)")
# Where a number can begin a comment or end a string between dollar signs.
_MISPLACED = re.compile(rf"-{_VARIABLE.pattern}")
# What may stand for a variable: a value, a part of a name, a number, a text.
_STAND_INS = (" $1", "x", "1", "'x'")


def refuse_unpermitted(
    name: str, texts: Iterable[str], variables: Mapping[str, str], *, is_simple: bool
) -> None:
    """Raise RefusedError if a script does what needs --allow-write.

    Args: texts, its statements with their :variables; variables, those with a value of the user;
    is_simple, the simple protocol, which pastes values into the text.
    """
    for text in texts:
        if is_simple:
            _refuse_misplaced_variable(name, text)
        statements = _read(name, text, variables if is_simple else {})
        for index, statement in enumerate(statements):
            # Statements of one text are one message: nobody sees a report of the server in between.
            follows_an_end = any(_ends_a_transaction(before) for before in statements[:index])
            why = _AFTER_AN_END if follows_an_end else unpermitted(statement)
            if why is not None:
                shown = " ".join(statement.text.split())[:60]
                raise RefusedError(
                    f"Script {name} {why}: {shown}.",
                    hint="add --allow-write, or run a script that only reads (-b select-only)",
                )


def refuse_unenforced(names: Sequence[str], *, writing: Sequence[str], is_pooled: bool) -> None:
    """Raise RefusedError for scripts of the user whose sessions cannot be kept read-only.

    A function hides what it does, so the text of a script is not enough.
    Args: names, the scripts of the user; writing, scripts of pgdyno in the same sessions that
    write; is_pooled, sessions of the server are shared with others.
    """
    if not names:
        return
    if is_pooled:
        raise RefusedError(
            f"Script {names[0]} would run through a pooler, which cannot keep a session "
            "read-only: a function that the script calls could write.",
            hint="add --allow-write, or connect to the server directly",
        )
    if writing:
        raise RefusedError(
            f"Script {names[0]} would share its sessions with {writing[0]}, which writes. The "
            "sessions cannot be read-only, so a function that the script calls could write.",
            hint="add --allow-write, or measure one script after the other",
        )


def _refuse_misplaced_variable(name: str, text: str) -> None:
    """Raise RefusedError for a variable whose value could move the end of a string or comment.

    Of values that are not known here, the engine pastes only numbers into a read-only load.
    """
    seen = _MISPLACED.search(text) or (_VARIABLE.search(text) if "$" in text else None)
    if seen is not None:
        raise RefusedError(
            f"Script {name} has the variable {seen[0].lstrip('-')} after a minus, or in a text "
            "with a dollar sign. In the simple protocol its value could change the statement.",
            hint="use -M extended, write a blank before the variable, or add --allow-write",
        )


def unpermitted(statement: SyntaxNode) -> str | None:
    """Return what a statement does that needs permission, None if it only reads."""
    if statement.kind not in _PERMITTED:
        return "does more than read"
    if statement.kind == "TransactionStmt" and statement.tree.get("kind") not in _BLOCKS:
        return "does more than read"
    for name, content in statement.nodes():
        if name in _WRITING_PARTS:
            return _WRITING_PARTS[name]
        if name == "DefElem" and _permits_writes(content):
            return "permits writes"
        if name == "VariableSetStmt" and _sets_a_switch(content):
            return "changes whether its session is read-only"
        if name == "FuncCall" and (why := _unpermitted_call(content)) is not None:
            return why
    return None


def tables_in(name: str, texts: Iterable[str]) -> set[tuple[str, str]]:
    """Return schema ("" if none is given) and name of the tables that the statements name."""
    return {
        (str(content.get("schemaname", "")), str(content["relname"]))
        for text in texts
        for statement in _read(name, text, {})
        for node, content in statement.nodes()
        if node == "RangeVar"
    }


def _ends_a_transaction(statement: SyntaxNode) -> bool:
    return statement.kind == "TransactionStmt" and statement.tree.get("kind") in _ENDS


def _permits_writes(option: Mapping[str, Any]) -> bool:
    if option.get("defname") != "transaction_read_only":
        return False
    constant = option.get("arg", {}).get("A_Const", {})
    return bool(constant.get("ival") != {"ival": 1})


def _sets_a_switch(setting: Mapping[str, Any]) -> bool:
    is_all = setting.get("kind") == "VAR_RESET_ALL"
    return is_all or str(setting.get("name", "")).lower() in _SWITCHES


def _unpermitted_call(call: Mapping[str, Any]) -> str | None:
    function = str(call["funcname"][-1].get("String", {}).get("sval", ""))
    if function == "set_config":
        constant = (call.get("args") or [{}])[0].get("A_Const", {})
        changed = constant.get("sval", {}).get("sval")
        # A name that is computed may be any name.
        if changed is None or changed.lower() in _SWITCHES:
            return "changes whether its session is read-only"
    return f"calls {function}()" if _FUNCTIONS.fullmatch(function) else None


def unpermitted_function(name: str) -> bool:
    """Return whether a function of the server may do more than compute."""
    return _FUNCTIONS.fullmatch(name) is not None


def _read(name: str, text: str, pasted: Mapping[str, str]) -> tuple[SyntaxNode, ...]:
    """Return the statements of a text, with stand-ins for variables that have no value yet."""
    for stand_in in _STAND_INS:
        filled = _filled(text, pasted, stand_in)
        try:
            return statements_of(filled, where=name)
        except SpecError as error:
            failure = error
    raise RefusedError(
        f"{failure} What it would do is not known.",
        hint="correct the statement, or permit it with --allow-write",
    )


def _filled(text: str, pasted: Mapping[str, str], stand_in: str) -> str:
    return _VARIABLE.sub(lambda variable: pasted.get(variable[1], stand_in), text)


_SQL = (
    "WITH RECURSIVE named (oid) AS ("
    "SELECT c.oid FROM unnest(%s::text[], %s::text[]) AS a (home, name)"
    " CROSS JOIN LATERAL (SELECT c.oid FROM unnest(CASE WHEN a.home = '' THEN %s::text[]"
    " ELSE ARRAY[a.home] END) WITH ORDINALITY AS path (name, place)"
    " JOIN pg_namespace n ON n.nspname = path.name JOIN pg_class c ON c.relnamespace = n.oid"
    " WHERE c.relname = a.name AND c.relkind IN ('r', 'p', 'v', 'm', 'f')"
    " ORDER BY path.place LIMIT 1) AS c),"
    " edges (upper, lower) AS (SELECT inhparent, inhrelid FROM pg_inherits"
    " UNION ALL SELECT w.ev_class, d.refobjid FROM pg_rewrite w JOIN pg_class v"
    " ON v.oid = w.ev_class AND v.relkind = 'v' JOIN pg_depend d"
    " ON d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid"
    " AND d.refclassid = 'pg_class'::regclass),"
    " reached (oid) AS (SELECT oid FROM named UNION"
    " SELECT e.lower FROM reached r JOIN edges e ON e.upper = r.oid)"
    " SELECT n.nspname || '.' || c.relname FROM reached r JOIN pg_class c ON c.oid = r.oid"
    " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'f' ORDER BY 1"
)


def refuse_foreign_tables(connection: Connection, script: str, texts: Iterable[str]) -> None:
    """Raise RefusedError if a script that only reads would read a foreign table.

    Args: connection, with the user, database and options of the load.
    """
    names = sorted(tables_in(script, texts))
    schemas = list(connection.load_schemas)
    homes, bare = [home for home, _ in names], [name for _, name in names]
    rows = connection.execute(_SQL, [homes, bare, schemas]).fetchall()
    if rows:
        listed = ", ".join(str(name) for (name,) in rows)
        raise RefusedError(
            f"Script {script} would read the foreign table {listed}. Reading a foreign table may "
            "run a program or act on another server, where nothing is read-only.",
            hint="add --allow-write, or run a script that reads other tables",
        )
