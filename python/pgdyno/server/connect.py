"""Control connections: few, named, bounded in time; what libpq says becomes a clear error."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import psycopg
from psycopg import sql

from pgdyno.errors import ServerError
from pgdyno.server.conninfo import without_pg_environment
from pgdyno.server.password import password_of, refused
from pgdyno.server.target import Target

# A line that dies without a word is noticed within half a minute, not within hours.
_PATIENCE = {
    "connect_timeout": "10",
    "tcp_user_timeout": "15000",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
}
_TRIES = 50
Connection = psycopg.Connection[tuple[Any, ...]]

# What a failed start-up says, in the server's or libpq's English: libpq keeps no SQLSTATE of it.
_FAILURES: tuple[tuple[str, str | None, str], ...] = (
    (
        r"password authentication failed|no password supplied",
        "28P01",
        "check -U and the password: ~/.pgpass, PGPASSWORD or the service file",
    ),
    (r"no pg_hba\.conf entry", "28000", "the server's pg_hba.conf must allow this host and user"),
    (r"authentication failed", "28000", "check -U and the server's pg_hba.conf"),
    (r'role ".*" does not exist', "28000", "name an existing role with -U"),
    (
        r'database ".*" does not exist',
        "3D000",
        "create it with createdb, or name another with -d",
    ),
    (
        r"too many clients|remaining connection slots|too many connections",
        "53300",
        "end other sessions, or raise the server's max_connections",
    ),
    (
        r"is starting up|not yet accepting connections|in recovery mode",
        "57P03",
        "try again when its start or recovery is over",
    ),
    (r"is shutting down", "57P03", "start the server again"),
    (r"could not translate host name|[Nn]ame or service not known", None, "check the host in -h"),
    (
        r"Connection refused|No such file or directory|timeout expired|No route to host"
        r"|Network is unreachable|timed out",
        None,
        "check -h and -p, that the server runs there, and that no firewall is between",
    ),
    (
        r"unsupported startup parameter",
        "08P01",
        "a pooler is in the path: its ignore_startup_parameters must name that parameter, or give"
        " the server itself with -h and -p",
    ),
    (r"does not support SSL", None, "give sslmode=prefer or sslmode=disable"),
)


def connect(
    target: Target,
    *,
    verb: str,
    run: str = "control",
    statement_timeout_ms: int = 0,
    lock_timeout_ms: int = 0,
    read_only: bool = False,
    patient: bool = False,
) -> Connection:
    """Open one control connection, in autocommit mode.

    Args: verb and run name it in pg_stat_activity: `pgdyno/<verb>/<run>`; timeouts of 0 leave the
    server's own, unless `patient` takes the role's statement_timeout away (not at a pooler: it
    would stay in a session of somebody else's); read_only makes every transaction read-only.
    Raises: ServerError with the next step.
    """
    connection = _opened(target, f"pgdyno/{verb}/{run}")
    settings = {
        "statement_timeout": statement_timeout_ms,
        "lock_timeout": lock_timeout_ms,
        "default_transaction_read_only": "on" if read_only else 0,
    }
    try:
        if patient:
            _be_patient(connection)
        for name, value in settings.items():
            if value:
                connection.execute(
                    sql.SQL("SET {} = {}").format(sql.Identifier(name), sql.Literal(value))
                )
    except psycopg.Error as error:
        connection.close()
        raise failure(target, error) from error
    return connection


def _be_patient(connection: Connection) -> None:
    """Take away the statement_timeout of the role or the database, cheaply: it bounds this, too."""
    for tries_left in reversed(range(_TRIES)):
        try:
            row = connection.execute("SELECT pg_backend_pid()").fetchone()
            if row is not None and row[0] == connection.info.backend_pid:
                connection.execute("SET statement_timeout = 0")
            return
        except psycopg.errors.QueryCanceled:
            if not tries_left:
                raise


def _opened(target: Target, application_name: str) -> Connection:
    """Return a new connection; a password that a command printed is asked for again if refused."""
    parameters = target.libpq_parameters()
    for name, value in _PATIENCE.items():
        parameters.setdefault(name, value)
    command = target.password_command
    for is_last in (False, True) if command else (True,):
        if command:
            parameters["password"] = password_of(command)
        try:
            with without_pg_environment():
                return psycopg.connect(
                    "",
                    autocommit=True,
                    application_name=application_name,
                    # Nothing of ours is sent often; a pooler on the path may not know statements.
                    prepare_threshold=None,
                    **parameters,  # type: ignore[arg-type]
                )
        except psycopg.Error as error:
            # The chained text may name the password's source.
            said = failure(target, error)
            if is_last or said.sqlstate not in ("28P01", "28000"):
                raise said from None
            refused(command, parameters["password"])
    raise AssertionError("the last try returns or raises")


def pinned(target: Target, connection: Connection) -> Target:
    """Return the target with the one host, address and port that `connection` reached."""
    info = connection.info
    hostaddr = "" if info.host.startswith(("/", "@")) else info.hostaddr
    return replace(
        target,
        host=info.host,
        ports=str(info.port),
        hostaddr=hostaddr,
        hosts_given=target.hosts_given or (target.host, target.hostaddr, target.ports),
    )


def failure(target: Target, error: psycopg.Error) -> ServerError:
    """Return what went wrong between us and the server, as one error for a person.

    The server's own message and SQLSTATE are kept untouched.
    """
    said = _last_words(str(error)) or type(error).__name__
    sqlstate, hint = error.sqlstate, "check the connection options -h -p -U -d"
    for pattern, state, advice in _FAILURES:
        if re.search(pattern, said):
            sqlstate, hint = sqlstate or state, advice
            break
    state = f" (SQLSTATE {sqlstate})" if sqlstate else ""
    if target.is_socket and said in ("No such file or directory", "Connection refused"):
        said = f"{target.host}/.s.PGSQL.{target.ports}: {said}"
    return ServerError(
        f"{target.place} as user {target.user}: {said}{state}.", hint=hint, sqlstate=sqlstate
    )


def _last_words(text: str) -> str:
    """Return the telling part of libpq's message: the last failure, without its preamble."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if "failed:" in line or "FATAL:" in line or "ERROR:" in line]
    line = (telling or lines or [""])[-1]
    for marker in ("FATAL:", "ERROR:", "failed:"):
        if marker in line:
            line = line.rsplit(marker, 1)[1]
            break
    return line.strip().rstrip(".").removeprefix("connection is bad: ")
