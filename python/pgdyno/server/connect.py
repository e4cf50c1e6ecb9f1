"""Opens control connections to a server, and says what a session of ours searches and may do."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, TypeVar

import psycopg
from psycopg import generators, pq, sql
from psycopg.abc import PQGen
from psycopg.conninfo import make_conninfo

from pgdyno.clock import monotonic_ns
from pgdyno.errors import InterruptedByUser, ServerError
from pgdyno.process import signals
from pgdyno.server.conninfo import without_pg_environment
from pgdyno.server.failures import failure, shortened, statement_failure
from pgdyno.server.session_start import AT_ONCE, FIRST_TEXT, JIT_SINCE, MARK, OWN_PATH, OWN_SETTINGS
from pgdyno.server.silence import LOOK_S, NoAnswer, hearing
from pgdyno.server.target import Target
from pgdyno.server.user_command import password_of, refuse_password

# Without a handler, Python prints what psycopg notes of a connection that is given up.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

# A dead connection is noticed within half a minute, not within hours.
_PATIENCE = {
    "connect_timeout": "10",
    "tcp_user_timeout": "15000",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
}
_TRIES = 50
# PgBouncer waits 120 s for a connection to its server, unless query_wait_timeout says otherwise.
_FIRST_ANSWER_S = 180
_CANCEL_S = 1.0
# When each server (host, address, port) was given up that was silent after a signal.
_silent: dict[tuple[str, str, str], int] = {}
_T = TypeVar("_T")

_READ_ONLY = "default_transaction_read_only"
# They cannot run inside a transaction, and search no path: their names are qualified.
_ALONE = re.compile(r"\s*(vacuum|(create|drop)\s+database|alter\s+system)\b", re.I)


class _Cursor(psycopg.Cursor[Any]):
    """Keeps the promises of its connection with every statement."""

    def execute(self, query: Any, *args: Any, **kwargs: Any) -> _Cursor:
        """Execute a query.

        Raises: psycopg.Error; ServerError if the session has become able to write.
        """
        connection = self.connection
        assert isinstance(connection, Connection), "made by a connection of this module"
        query = query if connection.is_console else _marked(query)
        is_idle = connection.info.transaction_status == pq.TransactionStatus.IDLE
        if connection.is_pooled and is_idle and not _ALONE.match(_text_of(query, connection)):
            with connection.transaction():
                super().execute(query, *args, **kwargs)
        else:
            super().execute(query, *args, **kwargs)
        connection.require_read_only()
        return self


def _listed(path: str) -> str:
    """Return a path, which is ours or was printed by the server, as SET takes it."""
    return "''" if path.strip() in ("", '""') else path


def _marked(query: Any) -> Any:
    if isinstance(query, sql.Composable):
        return query + sql.SQL(MARK)
    return query + MARK.encode() if isinstance(query, bytes) else query + MARK


def _text_of(query: Any, connection: Connection) -> str:
    if isinstance(query, sql.Composable):
        return query.as_string(connection)
    return query.decode(errors="replace") if isinstance(query, bytes) else str(query)


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A control connection; its `with` block turns errors of the server into ServerError.

    Inside the block they are errors of psycopg with their SQLSTATE. `silence_s_max`: the longest
    time without a byte from the server, for connections that send only short statements.
    `is_interruptible`: a signal ends a long statement, on the server too, and the connection.
    `is_console`: of a pooler, which takes no comments.
    """

    target: Target | None = None
    silence_s_max: int | None = None
    is_interruptible: bool = False
    is_console: bool = False
    is_pooled: bool = False
    is_read_only: bool = False
    load_path: str = ""
    load_schemas: tuple[str, ...] = ()
    tables: Mapping[str, sql.Identifier] = {}
    _path: str = OWN_PATH
    # What else this session sets: the load has other values of it.
    _differing: Mapping[str, str] = {}

    def qualified(self, query: str) -> bytes:
        """Return a query with the schema of each of `tables` that follows FROM or JOIN."""
        if not self.tables:
            return query.encode()
        names = "|".join(map(re.escape, self.tables))

        def name(match: re.Match[str]) -> str:
            return f"{match[1]}{self.tables[match[2]].as_string(self)}"

        return re.sub(rf"(\b(?:FROM|JOIN) )({names})\b", name, query).encode()

    def use_path(self, schemas: Sequence[str]) -> None:
        """Make names without a schema mean the tables of these schemas.

        The server searches pg_catalog before them, but a function there may fit better. So only
        statements follow that are parsed and not executed, or that call nothing.
        """
        quoted = [sql.Identifier(schema).as_string(self) for schema in dict.fromkeys(schemas)]
        self._search(", ".join([*quoted, "pg_temp"]))

    def use_load_path(self, *, local: bool = False) -> None:
        """Search the path of the load from now on: only statements of the user follow.

        Args: local, until the transaction ends.
        """
        if local:
            self.execute("SET LOCAL row_security = on")
            self._set(dict.fromkeys(self._differing, "DEFAULT"), "LOCAL ")
            self.execute(f"SET LOCAL search_path = {_listed(self.load_path)}".encode())
        else:
            if not self.is_pooled:
                self._set(dict.fromkeys(self._differing, "DEFAULT"))
            self._differing = {}
            self._search(self.load_path)

    def use_own_path(self) -> None:
        """Search only what PostgreSQL itself has, as every session does from the beginning."""
        self._search(OWN_PATH)

    def _search(self, path: str) -> None:
        self._path = path
        if not self.is_pooled:
            self.execute(f"SET search_path = {_listed(path)}".encode())

    @contextlib.contextmanager
    def transaction(
        self, savepoint_name: str | None = None, force_rollback: bool = False
    ) -> Iterator[psycopg.Transaction]:
        """Begin a transaction. At a pooler its settings are made again, for it alone."""
        is_outermost = self.info.transaction_status == pq.TransactionStatus.IDLE
        with super().transaction(savepoint_name, force_rollback) as begun:
            if self.is_pooled and is_outermost:
                # SET takes no snapshot, so the isolation of the transaction can still be chosen.
                if self.is_read_only:
                    self.execute("SET TRANSACTION READ ONLY")
                for name, value in OWN_SETTINGS.items():
                    listed = _listed(self._path) if name == "search_path" else f"'{value}'"
                    self.execute(f"SET LOCAL {name} = {listed}".encode())
                self._set(self._differing, "LOCAL ")
            yield begun

    def differs(self, settings: Sequence[str]) -> None:
        """Keep what the first statement has set, as name=value."""
        pairs = (setting.split("=", 1) for setting in settings)
        jit = {"jit": "off"} if self.info.server_version >= JIT_SINCE else {}
        self._differing = {name: sql.quote(value) for name, value in pairs} | jit

    def _set(self, values: Mapping[str, str], scope: str = "") -> None:
        text = "; ".join(f"SET {scope}{name} = {value}" for name, value in values.items())
        if text:
            execute_cheap(self, text.encode())

    def as_it_is(self, send: Callable[..., None], *args: bytes) -> pq.abc.PGresult:
        """Return the answer to a text without our mark, which `send` of libpq sends.

        Raises: as `wait`; psycopg.Error if the connection is lost.
        """
        send(*args)
        result: pq.abc.PGresult = self.wait(generators.execute(self.pgconn))[-1]
        return result

    @contextlib.contextmanager
    def as_the_load(self) -> Iterator[None]:
        """Let pg_settings show what only our sessions set as other sessions have it, and whence."""
        differing, self._differing = self._differing, {}
        if not self.is_pooled:
            self._set(dict.fromkeys(differing, "DEFAULT"))
        try:
            yield
        finally:
            self._differing = differing
            # In a transaction that failed nothing can be set; its rollback undoes the RESET, too.
            status = self.info.transaction_status
            is_settable = status in (pq.TransactionStatus.IDLE, pq.TransactionStatus.INTRANS)
            if is_settable and not self.is_pooled:
                self._set(differing)

    def require_read_only(self) -> None:
        """Close a session that was opened to read, if the server reports that it may write now.

        Raises: ServerError. Limits: up to PostgreSQL 13, and at a pooler, nothing is reported.
        """
        if not self.is_read_only or self.is_pooled or self.closed:
            return
        if self.info.parameter_status(_READ_ONLY) == "off":
            self.close()
            raise ServerError(
                f"A session that only reads was opened, but {_READ_ONLY} was switched off in it.",
                hint="find the function that the statement before it called",
            )

    def wait(self, gen: PQGen[_T], *_args: Any, **_kwargs: Any) -> _T:
        """Wait for an answer.

        Raises: NoAnswer, InterruptedByUser; the connection is closed then.
        """
        silence_s_max = None if self.is_interruptible else self.silence_s_max
        heard = hearing(gen, silence_s_max, until_signal=self.is_interruptible)
        try:
            return super().wait(heard, LOOK_S)
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
        connection: Connection = yield from hearing(begun, None)
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


class _AnyText(psycopg.adapt.Loader):
    """Texts of a database without an encoding: UTF-8, and other bytes as in \\xf6."""

    def load(self, data: psycopg.abc.Buffer) -> str:
        """Return the text."""
        return bytes(data).decode("utf-8", "backslashreplace")


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
    console: bool = False,
) -> Connection:
    """Open one control connection, in autocommit mode, that searches no schema of a user.

    Args: verb and run name it in pg_stat_activity: `pgdyno/<verb>/<run>`; timeouts of 0 keep the
    server's timeouts; `patient` also removes the role's statement_timeout (not at a pooler, where
    the change would stay in somebody else's session); read_only makes every transaction read-only;
    `interruptible`: a signal to pgdyno ends a statement that runs; console: of a pooler, which has
    no settings.
    Raises: ServerError with the next step.
    """
    if read_only:  # A session that writes restores something: it tries a silent server, too.
        _refuse_if_silent(target)
    connection = _opened(target, f"pgdyno/{verb}/{run}")
    connection.is_interruptible = interruptible
    connection.is_console = console
    if console:
        return connection
    settings: dict[str, int | str] = {
        "statement_timeout": statement_timeout_ms,
        "lock_timeout": lock_timeout_ms,
    }
    try:
        _begin(connection)
        if read_only and not connection.is_pooled:
            settings[_READ_ONLY] = "on"
        if patient and not connection.is_pooled:
            connection.execute("SET statement_timeout = 0")
        for name, value in settings.items():
            if value:
                connection.execute(
                    sql.SQL("SET {} = {}").format(sql.Identifier(name), sql.Literal(value))
                )
        connection.is_read_only = read_only
    except BaseException as error:
        # This is also done for an interrupt, because only this function has the connection.
        connection.close()
        _remember_silence(target, error)
        if isinstance(error, psycopg.Error):
            raise failure(target, error) from error
        raise
    return connection


def execute_cheap(
    connection: Connection, query: Any, *args: Any
) -> psycopg.Cursor[tuple[Any, ...]]:
    """Execute a cheap statement, several times if a short statement_timeout cancels it.

    Raises: as `Connection.execute`.
    """
    for _ in range(_TRIES):
        with contextlib.suppress(psycopg.errors.QueryCanceled):
            return connection.execute(query, *args)
    return connection.execute(query, *args)


def took_too_long(error: BaseException) -> bool:
    """Return whether connecting timed out without a refusal: the server may be busy."""
    return isinstance(error, psycopg.errors.ConnectionTimeout) or isinstance(
        error.__context__, psycopg.errors.ConnectionTimeout
    )


def was_given_up(error: BaseException) -> bool:
    """Return whether the server was silent and a signal asks for the end: no other try helps."""
    is_silence = isinstance(error.__cause__, NoAnswer) or isinstance(error.__context__, NoAnswer)
    return signals.requested() is not None and is_silence


def _remember_silence(target: Target, error: BaseException) -> None:
    """Note a server that was given up after a signal, while a session began."""
    if signals.requested() is not None and isinstance(error, NoAnswer):
        _silent[target.host, target.hostaddr, target.ports] = monotonic_ns()


def _refuse_if_silent(target: Target) -> None:
    """Raise at once for a server that has been given up since the signal that asks for the end."""
    at_ns = _silent.get((target.host, target.hostaddr, target.ports), 0)
    if at_ns and (monotonic_ns() - at_ns) / 1e9 < signals.seconds_since_first():
        error = NoAnswer("the server did not answer before, and pgdyno was asked to end")
        raise failure(target, error) from error


def _begin(connection: Connection) -> None:
    """Send the first statement of a session, and keep what the load's path was.

    The statement is cheap, but the statement_timeout of the role or the database applies to it.
    """
    connection.silence_s_max = _FIRST_ANSWER_S
    first = FIRST_TEXT.replace("%s", str(connection.info.backend_pid))
    if connection.info.server_version < JIT_SINCE:
        first = first.removeprefix(AT_ONCE)
    try:  # Several statements in a text are one transaction.
        cursor = execute_cheap(connection, first)
        while cursor.nextset():
            pass
    except psycopg.errors.UndefinedObject:
        cursor = execute_cheap(connection, first.removeprefix(AT_ONCE))
    row = cursor.fetchone()
    connection.silence_s_max = None
    assert row is not None, "a SELECT without FROM returns one row"
    connection.is_pooled = row[0] != connection.info.backend_pid
    connection.load_path, connection.load_schemas = str(row[1]), tuple(map(str, row[2]))
    connection.differs(row[3])


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
                connection = _begun(
                    {
                        **parameters,
                        "application_name": application_name,
                        # The database may set one that lacks characters or that Python lacks.
                        "client_encoding": "UTF8",
                    }
                )
            return _made_ready(connection, target)
        except (psycopg.Error, UnicodeError) as error:
            if isinstance(error, UnicodeError):
                # psycopg encodes names of hosts as the domain name system has them.
                error = psycopg.OperationalError("could not translate host name")
            # The chained text may name the password's source.
            said = failure(target, error)
            _remember_silence(target, error)
            if is_last or said.sqlstate not in ("28P01", "28000"):
                raise said from None
            refuse_password(command, parameters["password"])
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
    connection.cursor_factory = _Cursor
    connection.target = target
    if connection.info.parameter_status("server_encoding") == "SQL_ASCII":
        # Without an encoding, texts may have any bytes, which the server would refuse as UTF-8.
        connection.execute("SET client_encoding = SQL_ASCII")
        # 0: every type that has no loader, such as regclass.
        for name in ("text", "varchar", "name", "bpchar", '"char"', 0):
            connection.adapters.register_loader(name, _AnyText)
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
