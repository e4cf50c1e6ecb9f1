"""Whether a server accepts a statement with `$n` in place of its constants: it prepares it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

import psycopg

_NUMBER = re.compile(r"\$(\d+)")
# The types that parameters without a column may need: `SELECT 0 AS depth` had a number.
_GUESSES = ("", "text", "integer")
# A missing right, and temporary tables of other sessions: the load has both.
_OF_THIS_SESSION = ("42501", "42P01", "42P07")
# No guess follows: `SELECT $1 + $2` fits several types, and nothing says which the program meant.
_UNDECIDED = (psycopg.errors.SyntaxError, psycopg.errors.AmbiguousFunction)


def prepared(
    execute: Callable[[str], object], name: str, query: str, untyped: Collection[int]
) -> tuple[bool, str]:
    """Prepare a query. Return whether it is prepared; and why the server refuses it, if so.

    Args: untyped, the numbers of parameters whose type nothing but a constant decided.
    """
    count = max(map(int, _NUMBER.findall(query)), default=0)
    refusal = ""
    for guess in _GUESSES if untyped else _GUESSES[:1]:
        types = [guess if n in untyped and guess else "unknown" for n in range(1, count + 1)]
        declared = f"({', '.join(types)})" if guess else ""
        try:
            execute(f"PREPARE {name}{declared} AS {query}")
        except psycopg.errors.OperationalError:
            raise
        except psycopg.Error as error:
            state = error.sqlstate or ""
            if not state.startswith("42") or state in _OF_THIS_SESSION:
                return False, ""
            refusal = refusal or str(error.diag.message_primary)
            if isinstance(error, _UNDECIDED):
                break
        else:
            return True, ""
    return False, refusal
