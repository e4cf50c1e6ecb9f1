"""The database that `pgdyno init` names: created if it does not exist and the role may do so."""

from __future__ import annotations

import psycopg
from psycopg import sql

from pgdyno.errors import RefusedError, ServerError
from pgdyno.server.connect import Connection, connect
from pgdyno.server.target import Target

# Databases that every server has; a role may be kept out of one of them.
_USUAL = ("postgres", "template1")
_KNOWN_SQL = (
    "SELECT EXISTS (SELECT FROM pg_catalog.pg_database"
    " WHERE datname OPERATOR(pg_catalog.=) %s::pg_catalog.name),"
    " (SELECT rolcreatedb OR rolsuper FROM pg_catalog.pg_roles"
    " WHERE rolname OPERATOR(pg_catalog.=) current_user)"
)
CREATE_SQL = "CREATE DATABASE {}"
LOADED_SQL = (
    "SELECT pg_catalog.current_setting('shared_preload_libraries')"
    " OPERATOR(pg_catalog.~~) '%pg_stat_statements%'"
    " AND EXISTS (SELECT FROM pg_catalog.pg_available_extensions"
    " WHERE name OPERATOR(pg_catalog.=) 'pg_stat_statements'::pg_catalog.name)"
)
EXTENSION_SQL = "CREATE EXTENSION IF NOT EXISTS pg_stat_statements SCHEMA public"


def is_missing(target: Target, *, verb: str) -> bool:
    """Return whether the server has no database of the target's name, and the role may create it.

    Raises: ServerError if the server cannot be reached; RefusedError if the role may not create it.
    """
    try:
        connect(target, verb=verb).close()
        return False
    except ServerError as error:
        # A server that speaks another language gives no SQLSTATE here, so the catalogue decides.
        if error.sqlstate not in (None, "3D000"):
            raise
        known = _known(target, verb)
        if known is None or known[0]:
            raise
    if not known[1]:
        name, user = (sql.Identifier(part).as_string() for part in (target.database, target.user))
        raise RefusedError(
            f"{target.place} does not exist, and the role {target.user} may not create databases.",
            hint=f"as a role that may: CREATE DATABASE {name} OWNER {user}",
        )
    return True


def create(target: Target, *, verb: str) -> bool:
    """Create the target's database, and let it count statements if the role may.

    Returns: whether pg_stat_statements is in it.
    Raises: ServerError if the server refuses the database.
    """
    session = _usual_session(target, verb)
    if session is None:
        raise ServerError(
            f"{target.place}: no session in {' or '.join(_USUAL)} to create it from.",
            hint="create it with createdb",
        )
    with session as connection:
        try:
            connection.execute(sql.SQL(CREATE_SQL).format(sql.Identifier(target.database)))
        except psycopg.errors.DuplicateDatabase:
            return False  # Somebody else was faster.
    try:
        with connect(target, verb=verb) as connection:
            return make_countable(connection)
    except ServerError:  # Only a superuser may.
        return False


def make_countable(connection: Connection) -> bool:
    """Create pg_stat_statements if the server has loaded its library; return whether it has."""
    row = connection.execute(LOADED_SQL).fetchone()
    is_loaded = row is not None and bool(row[0])
    if is_loaded:
        connection.execute(EXTENSION_SQL)
    return is_loaded


def _known(target: Target, verb: str) -> tuple[bool, bool] | None:
    """Return whether the database exists and whether the role may create it; None if not known."""
    session = _usual_session(target, verb)
    if session is None:
        return None
    with session as connection:
        row = connection.execute(_KNOWN_SQL, [target.database]).fetchone()
    return (bool(row[0]), bool(row[1])) if row is not None else None


def _usual_session(target: Target, verb: str) -> Connection | None:
    for database in _USUAL:
        try:
            return connect(target.with_database(database), verb=verb)
        except ServerError:
            continue
    return None
