"""The one connection of a capture: it only reads, and it is opened again if it is lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from pgdyno.errors import ServerError
from pgdyno.features.capture.reading import catalog
from pgdyno.features.capture.reading.schema import Rows
from pgdyno.server.connect import Connection, connect
from pgdyno.server.target import Target

_STATEMENT_TIMEOUT_MS, _LOCK_TIMEOUT_MS = 30_000, 100
_OLDEST = 12


class SourceConnection:
    """The connection; the version, database and user that the server reports.

    `sent_count`: how many transactions of the source are our own.
    """

    def __init__(self, target: Target) -> None:
        """Connect. Raises: ServerError, also for a pooler and a server before PostgreSQL 12."""
        self._target = target
        self.sent_count = 0
        self.open()

    def open(self) -> None:
        """Connect, or connect again. Raises: ServerError, psycopg.Error."""
        connection = connect(
            self._target,
            verb="capture",
            read_only=True,
            statement_timeout_ms=_STATEMENT_TIMEOUT_MS,
            lock_timeout_ms=_LOCK_TIMEOUT_MS,
            interruptible=True,
        )
        with ExitStack() as stack:
            stack.enter_context(connection)
            self._identify(connection)
            stack.pop_all()
        self._connection = connection

    def _identify(self, connection: Connection) -> None:
        row = connection.execute(catalog.SESSION_SQL).fetchone()
        assert row is not None, "a SELECT without FROM returns one row"
        if connection.is_pooled:
            raise ServerError(
                f"{self._target.place} is a pooler, not a server.",
                hint="name the server itself with -h and -p",
            )
        self.version_num, self.version = int(row[1]), int(row[1]) // 10_000
        if self.version < _OLDEST:
            raise ServerError(
                f"{self._target.place} is PostgreSQL {self.version}, older than {_OLDEST}.",
                hint=f"capture needs PostgreSQL {_OLDEST} or later",
            )
        self.encoding, self.database, self.user = str(row[2]), str(row[3]), str(row[4])
        self.sees_everybody, self.collation = bool(row[5]), str(row[6])
        self.database_oid = int(row[7])

    @property
    def load_schemas(self) -> tuple[str, ...]:
        """Return the schemas that the sessions of this role search here."""
        return self._connection.load_schemas

    @contextmanager
    def searching(self, schemas: Sequence[str]) -> Iterator[None]:
        """Search these schemas, for statements of the load that are parsed and not executed."""
        self._connection.use_path(schemas)
        yield
        if not self._connection.closed:
            self._connection.use_own_path()

    @property
    def is_lost(self) -> bool:
        """Return whether the connection has ended without us."""
        return self._connection.closed or self._connection.broken

    def outlast_interrupts(self) -> None:
        """From now on an interrupt does not close the connection: more is read after it."""
        self._connection.is_interruptible = False

    def fetch(self, sql: str) -> Rows:
        """Return the rows of a statement without parameters."""
        self.sent_count += 1
        rows: Rows = self._connection.execute(sql).fetchall()
        return rows

    def execute(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        """Carry out a statement that sets something or has parameters; return its rows.

        It may contain a text of the load. With the extended protocol, which `binary` asks for, the
        server takes no second statement, so such a text cannot end ours and begin its own.
        """
        cursor = self._connection.execute(sql, parameters or None, binary=True)
        rows: Rows = cursor.fetchall() if cursor.description else []
        return rows

    def __enter__(self) -> SourceConnection:
        return self

    def __exit__(self, *ended: Any) -> None:
        """Close the connection. Raises: ServerError if it was lost."""
        self._connection.__exit__(*ended)

    def give_up(self) -> None:
        """Close a connection that is lost."""
        self._connection.close()
