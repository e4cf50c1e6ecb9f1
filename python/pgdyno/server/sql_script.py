"""SQL of several statements, run one by one.

VACUUM and CREATE DATABASE cannot run inside a transaction.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import psycopg

from pgdyno.errors import ServerError
from pgdyno.server.connect import Connection
from pgdyno.server.failures import shortened

_PIECES = re.compile(
    r"""
    (?<=\b[eE])'(?:[^'\\]|''|\\.)*'  # a string with escapes
    | '(?:[^']|'')*'            # a string
    | "[^"]*"                   # a quoted name
    | (\$\w*\$).*?\1            # a dollar-quoted string
    | --[^\n]*                  # a comment to the end of the line
    | /\*.*?\*/                 # a comment
    | ;
    | [^'"$;/-]+ | .
    """,
    re.X | re.S,
)


def run_script(connection: Connection, text: str) -> None:
    """Run every statement of `text` in a separate transaction, with the search_path of the load.

    Raises: ServerError with the statement and the server's own words.
    """
    connection.use_load_path()
    for statement in split_statements(text):
        try:
            connection.execute(statement.encode())
        except psycopg.Error as error:
            said = error.diag.message_primary or str(error).strip()
            raise ServerError(
                f"{shortened(statement)}: {said}.",
                hint="correct the SQL of this variant",
                sqlstate=error.sqlstate,
            ) from None


def split_statements(text: str) -> Iterator[str]:
    """Yield the statements without comments and without the semicolons that end them.

    Example: "VACUUM a; -- now\nSELECT ';'" -> "VACUUM a", "SELECT ';'".
    Limits: a function with a body in BEGIN ATOMIC and a comment inside a comment are split in the
    wrong place. `grammar.statements_of` splits them right, but reads no newer syntax than its own.
    """
    current = ""
    for match in _PIECES.finditer(text):
        if match[0] == ";":
            if current.strip():
                yield current.strip()
            current = ""
        elif not match[0].startswith(("--", "/*")):
            current += match[0]
        else:
            current += " "
    if current.strip():
        yield current.strip()
