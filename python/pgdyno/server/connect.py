"""Opens control connections to a server; gets passwords from the user's command if there is one."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import threading
from collections.abc import Generator
from dataclasses import replace
from types import TracebackType
from typing import Any, TypeVar

import psycopg
from psycopg import pq, sql
from psycopg.abc import PQGen
from psycopg.conninfo import make_conninfo

from pgdyno.clock import monotonic_ns
from pgdyno.errors import InterruptedByUser, ServerError
from pgdyno.process.child import start
from pgdyno.server.conninfo import without_pg_environment
from pgdyno.server.failures import failure, shortened, statement_failure
from pgdyno.server.silence import LOOK_S, NoAnswer, ending, hearing, until_signal
from pgdyno.server.target import Target

# As in the engine. A cloud's passwords last a quarter of an hour.
MAX_AGE_NS = 300_000_000_000
TIMEOUT_S = 30.0
_HINT = "run the command by hand: it must print the password as one line, and nothing else"

_lock = threading.Lock()
_printed: dict[str, tuple[str, int]] = {}


def password_of(command: str) -> str:
    """Return the password that the command printed, at most 5 minutes old; else run it again.

    Its standard error goes to ours at once. The password is kept only in memory.
    Raises: ServerError if it fails, prints no line or several, or takes more than 30 s.
    """
    with _lock:
        text, at_ns = _printed.get(command, ("", 0))
        if not text or monotonic_ns() - at_ns > MAX_AGE_NS:
            text = _run(command)
            _printed[command] = text, monotonic_ns()
        return text


def refused(command: str, password: str) -> None:
    """Forget a password that the server refused; the next call of `password_of` gets a new one."""
    with _lock:
        if _printed.get(command, ("", 0))[0] == password:
            del _printed[command]


def _run(command: str) -> str:
    # The kernel ends a child with the thread that started it; only the main thread stays.
    is_main = threading.current_thread() is threading.main_thread()
    with tempfile.TemporaryFile() as out:
        # The command is in the environment: every user of the host can read arguments.
        with start(
            ["/bin/sh", "-c", 'eval "$PGDYNO_PASSWORD_COMMAND"'],
            name="password command",
            env={**os.environ, "PGDYNO_PASSWORD_COMMAND": command},
            stdout=out,
            stderr=None,
            death_signal=signal.SIGTERM if is_main else None,
        ) as child:
            if not child.ends_within(TIMEOUT_S):
                raise ServerError(
                    f"The password command took more than {TIMEOUT_S:g} s and was stopped.",
                    hint=_HINT,
                )
            code = child.wait()
        if code != 0:
            raise ServerError(f"The password command failed with exit status {code}.", hint=_HINT)
        out.seek(0)
        lines = out.read(1 << 16).decode("utf-8", "replace").splitlines()
    if len(lines) != 1 or not lines[0]:
        raise ServerError(
            f"The password command printed {len(lines)} lines, or an empty line; it must print "
            "one line.",
            hint=_HINT,
        )
    return lines[0]


# A dead connection is noticed within half a minute, not within hours.
_PATIENCE = {
    "connect_timeout": "10",
    "tcp_user_timeout": "15000",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
}
_TRIES = 50
_CANCEL_S = 1.0
_T = TypeVar("_T")


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A control connection; its `with` block turns errors of the server into ServerError.

    Inside the block they are errors of psycopg with their SQLSTATE. `silence_s_max`: the longest
    time without a byte from the server, for connections that send only short statements.
    `is_interruptible`: a signal ends a long statement, on the server too, and the connection.
    """

    target: Target | None = None
    silence_s_max: int | None = None
    is_interruptible: bool = False

    def wait(self, gen: PQGen[_T], *_args: Any, **_kwargs: Any) -> _T:
        """Wait for an answer.

        Raises: NoAnswer, InterruptedByUser; the connection is closed then.
        """
        if self.is_interruptible:
            try:
                return super().wait(until_signal(gen), LOOK_S)
            except InterruptedByUser:
                with contextlib.suppress(psycopg.Error):
                    self.cancel_safe(timeout=_CANCEL_S)
                self.close()
                raise
        heard = gen if self.silence_s_max is None else hearing(gen, self.silence_s_max)
        try:
            return super().wait(ending(heard), LOOK_S)
        except NoAnswer:
            self.close()
            raise
        except InterruptedByUser:
            with contextlib.suppress(psycopg.Error):
                self.cancel_safe(timeout=_CANCEL_S)
            self.close()
            raise

    @classmethod
    def _connect_gen(cls, conninfo: str = "") -> Generator[Any, Any, Connection]:
        begun: Any = super()._connect_gen(conninfo)
        connection: Connection = yield from ending(begun)
        return connection

    def execute(self, query: Any, *args: Any, **kwargs: Any) -> psycopg.Cursor[tuple[Any, ...]]:
        """Execute a query. Raises: psycopg.Error with the statement as a note."""
        try:
            return super().execute(query, *args, **kwargs)
        except psycopg.Error as error:
            error.add_note(shortened(query))
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close. Raises: ServerError if the block ended with an error of psycopg."""
        super().__exit__(kind, error, trace)
        if isinstance(error, psycopg.Error) and self.target is not None:
            raise statement_failure(self.target, error) from error


def connect(
    target: Target,
    *,
    verb: str,
    run: str = "control",
    statement_timeout_ms: int = 0,
    lock_timeout_ms: int = 0,
    read_only: bool = False,
    patient: bool = False,
    interruptible: bool = False,
) -> Connection:
    """Open one control connection, in autocommit mode.

    Args: verb and run name it in pg_stat_activity: `pgdyno/<verb>/<run>`; timeouts of 0 keep the
    server's timeouts; `patient` also removes the role's statement_timeout (not at a pooler, where
    the change would stay in somebody else's session); read_only makes every transaction read-only;
    `interruptible`: a signal to pgdyno ends a statement that runs.
    Raises: ServerError with the next step.
    """
    connection = _opened(target, f"pgdyno/{verb}/{run}")
    connection.is_interruptible = interruptible
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
    except BaseException as error:
        # This is also done for an interrupt, because only this function has the connection.
        connection.close()
        if isinstance(error, psycopg.Error):
            raise failure(target, error) from error
        raise
    return connection


def took_too_long(error: BaseException) -> bool:
    """Return whether connecting timed out without a refusal: the server may be busy."""
    return isinstance(error, psycopg.errors.ConnectionTimeout) or isinstance(
        error.__context__, psycopg.errors.ConnectionTimeout
    )


def _be_patient(connection: Connection) -> None:
    """Remove the statement_timeout of the role or the database.

    The statement must be cheap, because the timeout applies to it, too.
    """
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
    """Return a new connection; if the server refuses a command's password, get a new one once."""
    parameters = target.libpq_parameters()
    for name, value in _PATIENCE.items():
        parameters.setdefault(name, value)
    command = target.password_command
    for is_last in (False, True) if command else (True,):
        if command:
            parameters["password"] = password_of(command)
        try:
            with without_pg_environment():
                connection = _begun({**parameters, "application_name": application_name})
            return _made_ready(connection, target)
        except psycopg.Error as error:
            # The chained text may name the password's source.
            said = failure(target, error)
            if is_last or said.sqlstate not in ("28P01", "28000"):
                raise said from None
            refused(command, parameters["password"])
    raise AssertionError("the last try returns or raises")


def _made_ready(connection: Connection, target: Target) -> Connection:
    """Return the connection with our usual settings; close it if it is already lost."""
    try:
        connection.autocommit = True
    except BaseException:
        connection.close()
        raise
    # We send no statement often, and a pooler on the path may not support prepared statements.
    connection.prepare_threshold = None
    connection.target = target
    return connection


def _begun(parameters: dict[str, str]) -> Connection:
    if not any(host.startswith("@") for host in parameters.get("host", "").split(",")):
        return Connection.connect("", **parameters)  # type: ignore[arg-type]
    # psycopg takes the name of an abstract socket for a host name; libpq recognises it.
    reached = pq.PGconn.connect(make_conninfo("", **parameters).encode())
    if reached.status != pq.ConnStatus.OK:
        raise psycopg.OperationalError(reached.get_error_message())
    reached.nonblocking = 1
    return Connection(reached)


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
