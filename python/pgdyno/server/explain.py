"""The plan of each statement of a script, and its query identifier, without running it.

Only the shape of a plan is kept, not its costs. Parameters are unknown here, so the generic plan is
read, which a prepared statement uses after some executions. A plan for one value may differ.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import psycopg
from psycopg import pq

from pgdyno.server.connect import Connection

_PLANNED = re.compile(r"\s*(select|insert|update|delete|merge|with|values|table)\b", re.I)
_BLOCK = re.compile(
    r"\s*(begin|start\s+transaction|end|commit|abort|rollback)\s*(work|transaction)?\s*;?\s*$", re.I
)
# A script variable, but not a cast, and not inside a string or a quoted name.
_TOKENS = re.compile(r"('(?:[^']|'')*'|\"[^\"]*\"|::)|(?<![\w:]):([A-Za-z_]\w*)")
_NUMBERED = re.compile(r"\$(\d+)")
# Types whose constants are numbers: int8, int2, int4, oid, float4, float8, numeric.
_NUMBERS = frozenset((20, 21, 23, 26, 700, 701, 1700))
_NAME = "pgdyno_explain"
_AS_JSON = "FORMAT JSON, VERBOSE, COSTS OFF"
_GENERIC_PLAN_SINCE = 160_000
_COMMANDS_NORMALISED_SINCE = 160_000
# A superuser may keep our statements out of pg_stat_statements; returns what is still tracked.
_UNTRACKED = (
    "SELECT CASE current_setting('is_superuser')"
    " WHEN 'on' THEN set_config('pg_stat_statements.track', 'none', true)"
    " ELSE current_setting('pg_stat_statements.track', true) END"
)
# The planner executes functions that call themselves immutable: they must not write.
_BOUNDED = "SET LOCAL transaction_read_only = on; SET LOCAL statement_timeout = '5s'"


def plans_of(
    connection: Connection, scripts: Mapping[str, Iterable[tuple[int, str]]]
) -> dict[str, dict[str, str]]:
    """Return script -> line of the statement -> its plan in one line.

    Args: scripts, the lines and texts of each script's statements. Statements that cannot be
    planned without their script (they need its temporary tables, or are not queries) are left out.
    """
    return {
        script: {
            str(line): plan
            for line, text in statements
            if (plan := plan_of(connection, text)) is not None
        }
        for script, statements in scripts.items()
    }


def plan_of(connection: Connection, text: str) -> str | None:
    """Return "Update pgbench_accounts > Index Scan pgbench_accounts_pkey", or None."""
    if _PLANNED.match(text) is None:
        return None
    document = _explained(connection, *_with_parameters(text))
    return _shape(document["Plan"]) if document is not None else None


def _explained(connection: Connection, statement: str, count: int) -> Mapping[str, Any] | None:
    """Return EXPLAIN's plan of a statement with `count` parameters, None if EXPLAIN fails.

    Limits: up to PostgreSQL 15 EXPLAIN needs values. NULL in place of a partition key leaves no
    partition in the plan. This is also true if a role that is not superuser finds
    pg_stat_statements.track = all: the view would list later calls of the statement in functions
    under our EXPLAIN.
    """
    is_prepared = False
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(_BOUNDED)
            connection.execute("SET LOCAL plan_cache_mode = force_generic_plan")
            [track] = connection.execute(_UNTRACKED).fetchone() or (None,)
            connection.use_load_path(local=True)
            # The protocol parses the statement, not PREPARE. pg_stat_statements keeps the first
            # text of a statement, and would list the application's calls under our PREPARE.
            parsed = _parse(connection, statement, _NAME)
            is_prepared = parsed.status == pq.ExecStatus.COMMAND_OK
            if not is_prepared:
                return None
            if connection.info.server_version >= _GENERIC_PLAN_SINCE and track != "all":
                explain = f"EXPLAIN ({_AS_JSON}, GENERIC_PLAN) {statement}"
            else:
                nulls = ", ".join(["NULL"] * count)
                explain = f"EXPLAIN ({_AS_JSON}) EXECUTE {_NAME}" + f"({nulls})" * (count > 0)
            row = connection.execute(explain.encode()).fetchone()
    except psycopg.Error:
        return None
    finally:
        # The server would log a DEALLOCATE that fails.
        if is_prepared:
            _forget(connection)
    explained = row[0] if row else None
    documents = json.loads(explained) if isinstance(explained, str) else explained
    return documents[0] if documents else None


def query_ids_of(
    connection: Connection,
    onlooker: Connection,
    scripts: Mapping[str, Iterable[tuple[int, str]]],
) -> dict[str, dict[str, list[int]]]:
    """Return script -> line of the statement -> its query identifiers.

    A query has two identifiers: as a prepared statement, and with numbers in place of parameters,
    as in the simple protocol. EXPLAIN returns both. For CALL and other commands, the separate
    session `onlooker` reads the identifier while the command is parsed, which executes nothing; for
    BEGIN, END and similar commands, while they are executed. Statements that need temporary tables
    of their script are left out. With compute_query_id off, there are no identifiers.
    Limits: up to PostgreSQL 15 the identifier of a command depends on its exact text, so in the
    simple protocol the identifier of a command with variables is not known.
    """
    return {
        script: {
            str(line): identifiers
            for line, text in statements
            if (identifiers := _query_ids(connection, onlooker, text))
        }
        for script, statements in scripts.items()
    }


def _query_ids(connection: Connection, onlooker: Connection, text: str) -> list[int]:
    if _BLOCK.match(text):
        return _seen_query_id(connection, onlooker, text)
    statement, count = _with_parameters(text)
    is_planned = _PLANNED.match(text) is not None
    ways = [(statement, count)]
    is_normalised = connection.info.server_version >= _COMMANDS_NORMALISED_SINCE
    if count > 0 and (is_planned or is_normalised):
        ways.append((_with_literals(connection, statement), 0))
    if not is_planned:
        query_ids = [_parsed_query_id(connection, onlooker, way) for way, _ in ways]
    else:
        explained = [_explained(connection, *way) for way in ways]
        query_ids = [
            document.get("Query Identifier") for document in explained if document is not None
        ]
    return [int(query_id) for query_id in dict.fromkeys(query_ids) if query_id]


def _parse(connection: Connection, statement: str, name: str = "") -> pq.abc.PGresult:
    send = connection.pgconn.send_prepare
    return connection.as_it_is(send, name.encode(), statement.encode())


def _with_literals(connection: Connection, statement: str) -> str:
    """Return a statement with constants as the simple protocol has them.

    A number stands without quotes and has a type. Any other constant gets its type from its place,
    as NULL does. The values have no influence on the identifier.
    """
    types: list[int] = []
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(_BOUNDED)
            connection.use_load_path(local=True)
            if _parse(connection, statement).status == pq.ExecStatus.COMMAND_OK:
                described = connection.as_it_is(connection.pgconn.send_describe_prepared, b"")
                types = [described.param_type(place) for place in range(described.nparams)]
    except psycopg.Error:
        types = []

    def literal(match: re.Match[str]) -> str:
        place = int(match[1]) - 1
        is_number = place >= len(types) or types[place] in _NUMBERS
        return "1" if is_number else "NULL"

    return _NUMBERED.sub(literal, statement)


def _parsed_query_id(connection: Connection, onlooker: Connection, statement: str) -> int | None:
    """Return the identifier of a command that is parsed and not executed, None if it has none."""
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(_BOUNDED)
            connection.use_load_path(local=True)
            parsed = _parse(connection, statement)
            is_parsed = parsed.status == pq.ExecStatus.COMMAND_OK
            return _shown_query_id(connection, onlooker) if is_parsed else None
    except psycopg.Error:
        return None


def _seen_query_id(connection: Connection, onlooker: Connection, text: str) -> list[int]:
    """Return the identifier of a command that begins or ends a transaction; none may be open."""
    try:
        # Up to PostgreSQL 15 a comment of ours would change the identifier.
        sent = connection.as_it_is(connection.pgconn.send_query, text.encode())
        if sent.status != pq.ExecStatus.COMMAND_OK:
            return []
        shown = _shown_query_id(connection, onlooker)
    except psycopg.Error:
        return []
    finally:
        connection.rollback()
    return [shown] if shown else []


def _shown_query_id(connection: Connection, onlooker: Connection) -> int | None:
    """Return the identifier of the last statement of a session. Raises: psycopg.Error."""
    row = onlooker.execute(
        "SELECT query_id FROM pg_catalog.pg_stat_get_activity(%s)", [connection.info.backend_pid]
    ).fetchone()
    return int(row[0]) if row and row[0] else None


def _with_parameters(text: str) -> tuple[str, int]:
    """Return the statement with $1, $2 ... for its script variables, and how many there are.

    Each place has a separate number, as in the statements of the engine.
    """
    places = itertools.count(1)

    def replace(match: re.Match[str]) -> str:
        return match[0] if match[2] is None else f"${next(places)}"

    statement = _TOKENS.sub(replace, text.rstrip().rstrip(";"))
    numbered = max((int(number) for number in _NUMBERED.findall(statement)), default=0)
    return statement, max(next(places) - 1, numbered)


def _shape(plan: Mapping[str, Any]) -> str:
    """Return a node, its table or index, and its children in one line, from the top down."""
    node = str(plan.get("Operation") or plan["Node Type"])
    if plan.get("Parallel Aware"):
        node = f"Parallel {node}"
    join = plan.get("Join Type")
    if join and join != "Inner":
        node = f"{node} {join}"
    on = [str(plan[key]) for key in ("Index Name", "Relation Name", "CTE Name") if key in plan]
    words = " ".join([node, *on[:1]])
    children = [_shape(child) for child in plan.get("Plans", ())]
    if not children:
        return words
    below = children[0] if len(children) == 1 else f"({'; '.join(children)})"
    return f"{words} > {below}"


def _forget(connection: Connection) -> None:
    try:
        connection.execute(f"DEALLOCATE {_NAME}")
    except psycopg.Error:
        return  # The connection is lost, and the prepared statement with it.
