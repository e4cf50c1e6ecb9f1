"""The observing connection of one thread: read-only, limited in time, renewed when it is lost."""

from __future__ import annotations

import itertools
import re
import select
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import psycopg
from psycopg.pq.abc import PGconn, PGresult

from pgdyno.clock import monotonic_ns, process_cpu_ns
from pgdyno.server.connect import Connection, execute_cheap
from pgdyno.server.silence import NoAnswer, answer, poll_of

Connect = Callable[[], Connection]

STATEMENT_TIMEOUT_MS = 2_000
# The server ends every statement earlier. A connection that is silent for this time is dead.
SILENCE_S_MAX = 5
# With many busy sessions our backend waits for a core: a time slice of about 3 ms for each of them,
# and a statement needs several slices. With 8,000 sessions this is 42 s instead of 2 s.
BUSY_SESSION_MS = 5
_MANY_SESSIONS = 200
LOCK_TIMEOUT_MS = 100

# At the end of each statement glibc returns memory to the kernel. Getting this memory back is a
# third of the cost of a sample of 250 sessions. After a block of this size was freed, glibc keeps
# twice as much.
# Source: mallopt(3), M_MMAP_THRESHOLD, "dynamic". It costs the server 2 ms: its pieces are long,
# nothing reads it, and the planner, which does not evaluate version(), does not make it as well.
# As length(repeat(' ', 4194304)) it cost 25 ms.
_KEPT_SQL = f"octet_length(repeat(repeat(left(version(), 1), 2048), {(4 << 20) // 2048}))"

# One statement, so that one round trip makes the session harmless. set_config rather than SET:
# it takes parameters.
SESSION_SQL = (
    "SELECT pg_backend_pid(), current_setting('server_version_num')::int,"
    " set_config('application_name', %s, false),"
    f" set_config('statement_timeout', '{STATEMENT_TIMEOUT_MS}', false),"
    f" set_config('lock_timeout', '{LOCK_TIMEOUT_MS}', false),"
    # Since 11.
    " CASE WHEN current_setting('server_version_num')::int >= 110000"
    " THEN set_config('jit', 'off', false) END,"
    # Since 12. No plan depends on a parameter here; PostgreSQL would make five plans to learn that.
    " CASE WHEN current_setting('server_version_num')::int >= 120000"
    " THEN set_config('plan_cache_mode', 'force_generic_plan', false) END,"
    " set_config('max_parallel_workers_per_gather', '0', false),"
    " set_config('default_transaction_read_only', 'on', false),"
    f" {_KEPT_SQL},"
    # The time of this statement so far. It is most of our time in the server during a short run.
    " (extract(epoch FROM pg_catalog.clock_timestamp() - pg_catalog.statement_timestamp())"
    " * 1000000000)::int8,"
    " current_user, pg_has_role('pg_read_all_stats', 'USAGE')"
)
# Something on the path loses prepared statements: the session continues without them.
_FORGOTTEN = (
    psycopg.errors.InvalidSqlStatementName,
    psycopg.errors.DuplicatePreparedStatement,
)
_GOOD = (psycopg.pq.ExecStatus.TUPLES_OK, psycopg.pq.ExecStatus.COMMAND_OK)
_WHOLE_NUMBERS = frozenset((20, 21, 23))
PID_SQL = "SELECT pg_backend_pid()"
# For a role whose own statement_timeout is too short for SESSION_SQL.
PATIENCE_SQL = f"SELECT set_config('statement_timeout', '{STATEMENT_TIMEOUT_MS}', false)"
# For servers with many busy sessions.
MORE_TIME_SQL = "SELECT set_config('statement_timeout', %s, false)"
# The statement reads a small table: a session that has touched no table since its last report
# reports nothing, not even its transactions.
REPORT_SQL = "SELECT pg_catalog.pg_stat_force_next_flush() FROM pg_catalog.pg_am LIMIT 1"
_REPORTS_SINCE = 15


class PoolerInThePath(Exception):
    """The connection ends at a pooler, where our settings would reach sessions of other users."""


class Session(Protocol):
    """The connection of one thread of the observer to any source.

    `kind` is a name in one word, `what` the name in messages. If `sees_everybody` is false, `user`
    lacks the privilege to read the statistics of all users.
    """

    kind: str
    what: str
    user: str
    sees_everybody: bool

    def before_sample(self, interval_ns: int) -> int:
        """Prepare a sample; return the Unix time of its values in ns, or 0 for the present."""
        ...

    def open(self) -> None:
        """Connect. Raises: NotMeasurable if trying again is useless; other errors are temporary."""
        ...

    @property
    def is_open(self) -> bool:
        """True until the connection is seen to be lost, or closed."""
        ...

    def backend_cpu_ns(self) -> int:
        """Return the CPU time that the other end spent for us, or 0 if it is unknown."""
        ...

    def cancel(self) -> None:
        """End the statement that runs now. For another thread; never raises."""
        ...

    def close(self) -> None:
        """Close the connection. Never raises."""
        ...


class ConnectionSession:
    """What the sessions of a server and of a console share: a connection that may be lost."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._connection: Connection | None = None

    @property
    def is_open(self) -> bool:
        """True until the connection is seen to be lost, or closed."""
        return self._connection is not None and not self._connection.closed

    def before_sample(self, interval_ns: int) -> int:  # noqa: ARG002 - of every session
        """Return 0: the other end answers at once."""
        return 0

    def close(self) -> None:
        """Close the connection. Never raises."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class ServerSession(ConnectionSession):
    """The connection of one thread of the observer.

    `connect` must return an autocommit connection directly to the server. A database other than the
    load's is best: otherwise our activity counts as the load's. `busy_sessions`: number of sessions
    that the load will have; with many sessions, statements may take longer.
    """

    kind = "server"
    what = "server"

    def __init__(
        self, connect: Connect, application_name: str, *, is_local: bool, busy_sessions: int = 0
    ) -> None:
        is_many = busy_sessions >= _MANY_SESSIONS
        # The additional time that a statement may take because all cores are busy.
        self.more_ms = busy_sessions * BUSY_SESSION_MS if is_many else 0
        super().__init__(connect)
        self._application_name = application_name
        self._is_local = is_local
        self._ready: select.poll | None = None
        self._can_prepare = True
        self._prepared: set[str] = set()
        self._names: dict[str, bytes] = {}
        self.database = ""
        # Only this thread writes it; a reader may be one transaction behind.
        self.transaction_count = 0
        # Time of our statements as measured here, and the same time without the round trips.
        self.active_ns = self.active_least_ns = 0
        self._way_ns = 0
        self.version = 0
        self.backend_pid = 0
        self.user = ""
        self.sees_everybody = True

    def open(self) -> None:
        """Connect and make the session harmless.

        Raises: what `connect` raises; PoolerInThePath before any setting was made.
        """
        connection = self._connect()
        connection.silence_s_max = SILENCE_S_MAX + self.more_ms // 1000
        try:
            began_ns = monotonic_ns()
            row = execute_cheap(connection, PID_SQL).fetchone()
            # A statement without work takes little more than the round trip.
            self._way_ns = monotonic_ns() - began_ns
            if connection.is_pooled or row is None or row[0] != connection.info.backend_pid:
                raise PoolerInThePath
            name = (self._application_name,)
            try:
                row = connection.execute(SESSION_SQL, name).fetchone()
            except psycopg.errors.QueryCanceled:
                execute_cheap(connection, PATIENCE_SQL)
                row = connection.execute(SESSION_SQL, name).fetchone()
            assert row is not None
            if self.more_ms:
                timeout_ms = STATEMENT_TIMEOUT_MS + self.more_ms
                connection.execute(MORE_TIME_SQL, (str(timeout_ms),))
            connection.is_read_only = True
        except BaseException:
            connection.close()
            raise
        connection.prepare_threshold = 0
        self._prepared.clear()
        self._names.clear()
        self.database = connection.info.dbname
        # Starting a session is a transaction, too.
        self.transaction_count += 5 if self.more_ms else 4
        self.backend_pid, self.version = int(row[0]), int(row[1]) // 10_000
        self.user, self.sees_everybody = str(row[-2]), bool(row[-1])
        self.active_ns += int(row[-3])
        self.active_least_ns += int(row[-3])
        self._ready = poll_of(connection.pgconn)
        self._connection = connection

    def fetch(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of one read-only statement, prepared if that works.

        Each statement is a transaction, and so is its preparation; `transaction_count` has both.
        Raises: psycopg.Error; the session is then either usable, or not `is_open`.
        """
        if self._connection is None:
            raise psycopg.OperationalError("the observing connection is closed")
        cursor, began_ns = self._connection.cursor(), monotonic_ns()
        # Without parameters psycopg sends a % as it is; with an empty list, it is a placeholder.
        values = parameters or None
        try:
            cursor.execute(sql, values, prepare=self._can_prepare)
        except _FORGOTTEN:
            self._can_prepare = False
            self._connection.prepare_threshold = None
            cursor.execute(sql, values, prepare=False)
        is_new = self._can_prepare and sql not in self._prepared
        self._prepared.add(sql)
        self._ended(began_ns, 1 + is_new)
        return cursor.fetchall()

    def fetch_often(self, sql: str, parameters: Sequence[str] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a statement that is sent every second: numbers and texts.

        Raises: psycopg.Error; the session is then either usable, or not `is_open`.
        """
        return rows_of(self.ask_often(sql, [parameter.encode() for parameter in parameters]))

    def ask_often(self, sql: str, values: list[bytes]) -> PGresult:
        """Return the answer to a statement that is sent many times a second, for `rows_of`.

        This method calls libpq directly: with cold caches, psycopg's own work costs three times as
        much. It blocks until the server answers, so only threads of the observer may call it.
        Raises: psycopg.Error; the session is then either usable, or not `is_open`.
        """
        if self._connection is None:
            raise psycopg.OperationalError("the observing connection is closed")
        libpq, name, began_ns = self._connection.pgconn, self._names.get(sql), monotonic_ns()
        try:
            if not self._can_prepare:
                libpq.send_query_params(_numbered(sql), values)
            else:
                libpq.send_query_prepared(name or self._prepare(libpq, sql), values)
            result = self._answer()
        except _FORGOTTEN:
            self._can_prepare = False
            libpq.send_query_params(_numbered(sql), values)
            result = self._answer()
        self._ended(began_ns, 1)
        return result

    def _ended(self, began_ns: int, transaction_count: int) -> None:
        """Count our own transactions, and their time."""
        took_ns = monotonic_ns() - began_ns
        self.transaction_count += transaction_count
        self.active_ns += took_ns
        self.active_least_ns += max(0, took_ns - self._way_ns)

    def _prepare(self, libpq: PGconn, sql: str) -> bytes:
        """Return the name under which a statement is prepared now."""
        name = f"often_{len(self._names)}".encode()
        libpq.send_prepare(name, _numbered(sql))
        self._answer()
        self._names[sql] = name
        self.transaction_count += 1
        return name

    def _answer(self) -> PGresult:
        """Return the result of the statement that was sent. Raises: psycopg.Error."""
        connection, ready = self._connection, self._ready
        assert connection is not None, "a statement was sent"
        assert ready is not None, "a connection is open"
        try:
            result = answer(connection.pgconn, ready, connection.silence_s_max or SILENCE_S_MAX)
        except NoAnswer:
            connection.close()
            raise
        if result.status not in _GOOD:
            raise psycopg.errors.error_from_result(result)
        connection.require_read_only()
        return result

    def report_transactions(self) -> None:
        """Make the server count the session's transactions now, including this one.

        Raises: psycopg.Error. Limits: up to PostgreSQL 14 this does nothing, because a separate
        process counts them, up to half a second later.
        """
        if self.version >= _REPORTS_SINCE:
            self.fetch_often(REPORT_SQL)

    def backend_cpu_ns(self) -> int:
        """Return the CPU time of our own backend, or 0 if it is on another host."""
        if not self._is_local or not self.is_open:
            return 0
        return process_cpu_ns(self.backend_pid)

    def cancel(self) -> None:
        """Ask the server to end the statement that runs now. For another thread; never raises."""
        connection = self._connection
        if connection is None:
            return
        try:
            connection.cancel_safe(timeout=1.0)
        except (psycopg.Error, OSError):
            return


def rows_of(result: PGresult) -> list[tuple[Any, ...]]:
    """Return the rows of an answer; each value is a number, a text or None."""
    columns = range(result.nfields)
    readers = [int if result.ftype(column) in _WHOLE_NUMBERS else _text for column in columns]
    return [
        tuple(
            None if (value := result.get_value(row, column)) is None else readers[column](value)
            for column in columns
        )
        for row in range(result.ntuples)
    ]


def _numbered(sql: str) -> bytes:
    """Return a statement whose parameters are $1, $2 and so on instead of %s."""
    numbers = itertools.count(1)
    return re.sub("%s", lambda _: f"${next(numbers)}", sql).encode()


def _text(value: bytes) -> str:
    return value.decode(errors="replace")
