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
    '(?:[^']|'')*'              # a string
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
    """Run every statement of `text` in a separate transaction, in the path of the load.

    Raises: ServerError with the statement and the server's own words.
    """
    connection.use_load_path()
    for statement in statements_of(text):
        try:
            connection.execute(statement.encode())
        except psycopg.Error as error:
            said = error.diag.message_primary or str(error).strip()
            raise ServerError(
                f"{shortened(statement)}: {said}.",
                hint="correct the SQL of this variant",
                sqlstate=error.sqlstate,
            ) from None


def statements_of(text: str) -> Iterator[str]:
    """Yield the statements without the semicolons that end them."""
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
