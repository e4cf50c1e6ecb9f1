"""The plan of each statement of a script, without running it: its shape, not its costs.

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
    statement, count = _with_parameters(text)
    try:
        with connection.transaction(force_rollback=True):
            connection.execute("SET LOCAL statement_timeout = '5s'")
            connection.execute("SET LOCAL plan_cache_mode = force_generic_plan")
            connection.execute(f"PREPARE {_NAME} AS {statement}".encode())
            nulls = ", ".join(["NULL"] * count)
            call = sql.SQL(f"{_NAME}({nulls})" if count else _NAME)
            row = connection.execute(
                sql.SQL("EXPLAIN (FORMAT JSON, COSTS OFF) EXECUTE {}").format(call)
            ).fetchone()
    except psycopg.Error:
        return None
    finally:
        _forget(connection)
    found = row[0] if row else None
    documents = json.loads(found) if isinstance(found, str) else found
    return _shape(documents[0]["Plan"]) if documents else None


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
