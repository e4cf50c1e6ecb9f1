"""The plan of each statement of a script, and its query identifier, without running it.

Of a plan the shape, not the costs.

Parameters are unknown here, so the generic plan is asked for: the one a prepared statement settles
on. A plan made for one value may differ from it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import psycopg
from psycopg import sql

from pgdyno.server.connect import Connection

_PLANNED = re.compile(r"\s*(select|insert|update|delete|merge|with|values|table)\b", re.I)
_BLOCK = re.compile(
    r"\s*(begin|start\s+transaction|end|commit|abort|rollback)\s*(work|transaction)?\s*;?\s*$", re.I
)
# A script variable, but not a cast, and not inside a string or a quoted name.
_TOKENS = re.compile(r"('(?:[^']|'')*'|\"[^\"]*\"|::)|(?<![\w:]):([A-Za-z_]\w*)")
_NAME = "pgdyno_explain"


def plans_of(
    connection: Connection, scripts: Mapping[str, Iterable[tuple[int, str]]]
) -> dict[str, dict[str, str]]:
    """Return script -> line of the statement -> its plan in one line.

    Args: scripts, the lines and texts of each script's statements. Those that cannot be planned
    apart from their script (they need its temporary tables, or are no queries) are left out.
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
    found = _explained(connection, *_with_parameters(text))
    return _shape(found["Plan"]) if found is not None else None


def _explained(connection: Connection, statement: str, count: int) -> Mapping[str, Any] | None:
    """Return what EXPLAIN says of a statement with so many parameters, or None if it cannot."""
    try:
        with connection.transaction(force_rollback=True):
            connection.execute("SET LOCAL statement_timeout = '5s'")
            connection.execute("SET LOCAL plan_cache_mode = force_generic_plan")
            connection.execute(f"PREPARE {_NAME} AS {statement}".encode())
            nulls = ", ".join(["NULL"] * count)
            call = sql.SQL(f"{_NAME}({nulls})" if count else _NAME)
            row = connection.execute(
                sql.SQL("EXPLAIN (FORMAT JSON, VERBOSE, COSTS OFF) EXECUTE {}").format(call)
            ).fetchone()
    except psycopg.Error:
        return None
    finally:
        _forget(connection)
    found = row[0] if row else None
    documents = json.loads(found) if isinstance(found, str) else found
    return documents[0] if documents else None


def query_ids_of(
    connection: Connection,
    onlooker: Connection,
    scripts: Mapping[str, Iterable[tuple[int, str]]],
) -> dict[str, dict[str, list[int]]]:
    """Return script -> line of the statement -> its query identifiers.

    One as a prepared statement, and one with numbers in place of parameters, as simple protocol has
    them. BEGIN, END and their like have the one that `onlooker`, a session of its own, sees them
    have. Statements without any (what needs its script's temporary tables, other commands) are left
    out, and so are all where compute_query_id is off.
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
    if _PLANNED.match(text) is None:
        return []
    statement, count = _with_parameters(text)
    found = [_explained(connection, statement, count)]
    if count:
        found.append(_explained(connection, re.sub(r"\$\d+", "1", statement), 0))
    identifiers = [one.get("Query Identifier") for one in found if one is not None]
    return [int(one) for one in dict.fromkeys(identifiers) if one]


def _seen_query_id(connection: Connection, onlooker: Connection, text: str) -> list[int]:
    """Return the identifier of a command that begins or ends a transaction; there is none open."""
    try:
        connection.execute(text.encode())
        row = onlooker.execute(
            "SELECT query_id FROM pg_catalog.pg_stat_get_activity(%s)",
            [connection.info.backend_pid],
        ).fetchone()
    except psycopg.Error:
        return []
    finally:
        connection.rollback()
    return [int(row[0])] if row and row[0] else []


def _with_parameters(text: str) -> tuple[str, int]:
    """Return the statement with $1, $2 ... for its script variables, and how many there are."""
    names: list[str] = []

    def replace(match: re.Match[str]) -> str:
        if match[2] is None:
            return match[0]
        if match[2] not in names:
            names.append(match[2])
        return f"${names.index(match[2]) + 1}"

    return _TOKENS.sub(replace, text.rstrip().rstrip(";")), len(names)


def _shape(plan: Mapping[str, Any]) -> str:
    """Return node, what it works on, and its children: one line, read from the top down."""
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
        return  # It was never prepared.
