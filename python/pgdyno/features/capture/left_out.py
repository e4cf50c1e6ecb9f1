"""What the server refused when a copy was made: read from the table that `init` wrote."""

from __future__ import annotations

import psycopg
from psycopg import sql

from pgdyno.features.capture.attempts import LEFT_OUT
from pgdyno.server.connect import Connection
from pgdyno.server.dataset.inspection import MARK, foreign_code

_FOUND = (
    "SELECT c.oid::regclass::text FROM pg_class c WHERE c.oid = to_regclass(%s)"
    " AND c.relkind = 'r' AND obj_description(c.oid, 'pg_class') LIKE %s"
)
_BY_MARK = (
    "SELECT c.oid::regclass::text, c.oid FROM pg_class c WHERE c.relname = %s AND c.relkind = 'r'"
    " AND obj_description(c.oid, 'pg_class') LIKE %s"
)


def left_out_of(connection: Connection, table: str) -> tuple[str, ...]:
    """Return a sentence for each object that the copy lacks or has in another form.

    Args: table, of what is left out; it exists only if there is something.
    """
    return tuple(_sentence(*map(str, row)) for row in _rows(connection, table))


def replaced_by(connection: Connection, table: str, instead: str) -> list[tuple[str, str]]:
    """Return the table and the name of each object that has a certain form in the copy.

    Args: table, of what is left out; instead, the words for the other form.
    """
    rows = _rows(connection, table)
    return [(str(of), str(name)) for _, name, of, form, _ in rows if form == instead]


def left_out_words(connection: Connection) -> str:
    """Return one line for a summary: how many objects of which kind; "" if nothing is missing."""
    missing: dict[str, int] = {}
    replaced = 0
    marked = connection.execute(_BY_MARK, [LEFT_OUT, f"{MARK} capture %"]).fetchall()
    # A table with functions of others would run them.
    tables = [str(name) for name, oid in marked if not foreign_code(connection, [int(oid)])]
    for kind, _, _, instead, _ in (row for table in tables for row in _rows(connection, table)):
        replaced += bool(instead)
        if not instead:
            missing[str(kind)] = missing.get(str(kind), 0) + 1
    words = [f"{kind} {count}" for kind, count in sorted(missing.items())]
    said = [f"left out: {', '.join(words)}"] if words else []
    said += [f"in another form: {replaced}"] if replaced else []
    return "; ".join(said)


def _rows(connection: Connection, table: str) -> list[tuple[object, ...]]:
    own = connection.execute(_FOUND, [table, f"{MARK} capture %"]).fetchone() if table else None
    if own is None:
        return []
    # The server writes the name with the necessary quotes.
    query = sql.SQL("SELECT kind, name, of_table, instead, reason FROM {} ORDER BY 3, 1, 2")
    try:
        return list(connection.execute(query.format(sql.SQL(str(own[0])))).fetchall())
    except psycopg.errors.InsufficientPrivilege:
        return []


def _sentence(kind: str, name: str, table: str, instead: str, reason: str) -> str:
    of_table = f" of {table}" if table and table not in name else ""
    if instead:
        return f"the {kind} {name}{of_table} is replaced by {instead}: {reason}"
    # The check `extensions` compares the servers of this host.
    step = "; `pgdyno doctor --scratch --all` tells where it is" if kind == "extension" else ""
    return f"the {kind} {name}{of_table} is left out: {reason}{step}"
