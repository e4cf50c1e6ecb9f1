"""Errors of libpq and the server, as pgdyno's errors with a next step."""

from __future__ import annotations

import re

import psycopg
from psycopg import sql

from pgdyno.errors import ServerError
from pgdyno.redaction import redacted
from pgdyno.server.target import Target

_STATEMENT_LENGTH = 80
# The next step by SQLSTATE, or by its class, for a statement of ours that the server refused.
_STEPS = {
    "42501": "grant the missing privilege: pgdyno doctor --grants prints the statements",
    "25006": "connect to a primary, or remove default_transaction_read_only from the role",
    "55P03": "another session holds the lock: end that session, or try again",
    "08P01": "see the log of the server or of the pooler: one of them refused a message",
    "57014": (
        "if nobody cancelled the statement, statement_timeout did: ALTER ROLE ... SET "
        "statement_timeout = 0 lets this role wait"
    ),
    "57": "the server was stopped, or ended the session: see the server's log",
    "08": "the connection broke: check that the server runs, and see its log",
    "40": "other sessions caused a conflict: try again",
    "53": "free disk space or memory, or end sessions; the server's log says which is used up",
    "58": "the operating system of the server refused a request: see the server's log",
    "XX": "the server found damaged data or a defect: see the server's log",
}
_UNREACHED = "check -h and -p, that the server runs, and that no firewall blocks the connection"
_NO_SOCKET = "check that the server runs, and -h and -p: its unix_socket_directories and its port"
_STEP_ELSE = "see the server's log; pgdyno doctor checks the server"

# Messages of a failed connection, in the server's or libpq's English: libpq keeps no SQLSTATE.
_FAILURES: tuple[tuple[str, str | None, str], ...] = (
    (
        r"password authentication failed|no password supplied",
        "28P01",
        "check -U and the password: ~/.pgpass, PGPASSWORD or the service file",
    ),
    (
        r"(rejects connection|no pg_hba\.conf entry) .*no encryption|server requires SSL",
        "28000",
        "if the server wants TLS, connect with sslmode=require (PGSSLMODE=require)",
    ),
    (
        r"root certificate file .* does not exist",
        None,
        "name the certificate of the authority with sslrootcert, or use sslmode=require",
    ),
    (r"no pg_hba\.conf entry", "28000", "the server's pg_hba.conf must allow this host and user"),
    (r"authentication failed", "28000", "check -U and the server's pg_hba.conf"),
    (r'role ".*" does not exist', "28000", "name an existing role with -U"),
    (
        r'database ".*" does not exist',
        "3D000",
        "name one that psql -l lists with -d, or create it with createdb",
    ),
    (
        r"too many clients|remaining connection slots|too many connections",
        "53300",
        "end other sessions, or raise the server's max_connections",
    ),
    (
        "is starting up|not yet accepting connections|in recovery mode",
        "57P03",
        "try again when start-up or recovery is complete",
    ),
    (r"is shutting down", "57P03", "start the server again"),
    (
        r"could not (access|load) (file|library)",
        "58P01",
        "a *_preload_libraries setting of the server, database or role names a library that is"
        " not there: as a superuser, in another database, ALTER DATABASE or ALTER ROLE ... RESET",
    ),
    (
        r"could not translate host name|[Nn]ame or service not known",
        None,
        "check the host name in -h",
    ),
    (
        r"Connection refused|No such file or directory|timeout expired|No route to host"
        r"|Network is unreachable|timed out|nothing came back",
        None,
        _UNREACHED,
    ),
    (
        r"the answer had|lost synchronization|unexpected message|expected authentication",
        "08P01",
        "check -h and -p: no PostgreSQL server answers like this",
    ),
    (
        r"unsupported startup parameter",
        "08P01",
        "a pooler is in the path: add the parameter to its ignore_startup_parameters, or "
        "connect to the server directly with -h and -p",
    ),
    (
        r"no more connections allowed",
        "08P01",
        "a pooler is in the path: raise its max_client_conn, or use fewer clients",
    ),
    (r"does not support SSL", None, "use sslmode=prefer or sslmode=disable"),
)


def failure(target: Target, error: psycopg.Error) -> ServerError:
    """Return a failed connection as one error for a person.

    The server's message and SQLSTATE stay untouched.
    """
    said = _last_words(str(error)) or type(error).__name__
    sqlstate, hint = error.sqlstate, "check -h -p -U -d and the PG* variables"
    for pattern, state, advice in _FAILURES:
        if re.search(pattern, said):
            is_no_socket = advice == _UNREACHED and target.is_socket
            sqlstate, hint = sqlstate or state, _NO_SOCKET if is_no_socket else advice
            break
    state = f" (SQLSTATE {sqlstate})" if sqlstate else ""
    if target.is_socket and said in ("No such file or directory", "Connection refused"):
        said = f"{target.host}/.s.PGSQL.{target.ports}: {said}"
    return ServerError(
        f"{target.place} as user {target.user}: {said}{state}.", hint=hint, sqlstate=sqlstate
    )


def statement_failure(target: Target, error: psycopg.Error) -> ServerError:
    """Return the failure of a statement of ours as one error for a person.

    It names server and statement (from a note of the error), and the server's message and SQLSTATE,
    untouched.
    """
    said = error.diag.message_primary or _last_words(str(error)) or type(error).__name__
    code = error.sqlstate or ("08006" if isinstance(error, psycopg.OperationalError) else None)
    step = _STEPS.get(code or "") or _STEPS.get((code or "")[:2]) or _STEP_ELSE
    state = f" (SQLSTATE {error.sqlstate})" if error.sqlstate else ""
    notes: list[str] = getattr(error, "__notes__", [])
    what = f", for: {notes[0]}" if notes else ""
    return ServerError(
        f"{target.place} as user {target.user}: {said.rstrip('.')}{state}{what}.",
        hint=step,
        sqlstate=error.sqlstate,
    )


def step_for(sqlstate: str | None, otherwise: str) -> str:
    """Return the next step for the SQLSTATE of a user's statement, `otherwise` if none fits."""
    state = sqlstate or ""
    if state == "42501":
        return "grant the missing privilege to the user of the statement"
    if state[:2] == "42":
        return otherwise
    return _STEPS.get(state) or _STEPS.get(state[:2]) or otherwise


def shortened(statement: object) -> str:
    """Return the beginning of a statement in one line, without a password that it may set."""
    if isinstance(statement, sql.Composable):
        statement = statement.as_string(None)
    text = statement.decode("utf-8", "replace") if isinstance(statement, bytes) else str(statement)
    words = redacted(" ".join(text.split()))
    return words if len(words) <= _STATEMENT_LENGTH else f"{words[: _STATEMENT_LENGTH - 3]}..."


def _last_words(text: str) -> str:
    """Return the last failure of libpq's message, without its preamble."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if "failed:" in line or "FATAL:" in line or "ERROR:" in line]
    line = (telling or lines or [""])[-1]
    for marker in ("FATAL:", "ERROR:", "failed:"):
        if marker in line:
            line = line.rsplit(marker, 1)[1]
            break
    return line.strip().rstrip(".").removeprefix("connection is bad: ")
