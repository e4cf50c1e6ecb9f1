"""The base of collectors that query PostgreSQL: one statement, chosen by version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import psycopg

from pgdyno.observe.collector import SECOND_NS, Column, NotMeasurable, Row, Scope
from pgdyno.observe.session import ServerSession

_LACKING = (
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedColumn,
    psycopg.errors.UndefinedFunction,
    psycopg.errors.FeatureNotSupported,
)


@dataclass(frozen=True, slots=True)
class ServerSource:
    """The sessions of one server, for its collectors.

    `database`: the load's database. `observing`: every session whose transactions are our own.
    """

    session: ServerSession
    database: str
    observing: Sequence[ServerSession] = ()
    is_local: bool = False


class SqlCollector:
    """Runs one statement; the result's columns are `columns`, in order."""

    name: ClassVar[str]
    scope: ClassVar[Scope] = "server"
    meaning: ClassVar[str]
    interval_ns: ClassVar[int] = SECOND_NS
    columns: ClassVar[tuple[Column, ...]]
    # By the first major version of each statement.
    sql: ClassVar[Mapping[int, str]]
    # The largest number of keys, if a collector lists only the largest keys; 0: it lists all keys.
    rows_max: ClassVar[int] = 0

    def __init__(self, session: ServerSession, *parameters: str) -> None:
        self._session = session
        self._parameters = parameters

    @classmethod
    def of(cls, source: ServerSource) -> Self:
        """Return the collector of a server."""
        return cls(source.session)

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Return the statement's rows.

        Raises: NotMeasurable if an old server or a fork does not have the view.
        """
        statement = pick(self.name, self.sql, self._session.version)
        names = [column.name for column in self.columns]
        try:
            rows = self._session.fetch_often(statement, self._parameters)
        except _LACKING as error:
            words = str(error).splitlines()[0].rstrip(".")
            raise NotMeasurable(f"{self.name} is not in this server: {words}.") from None
        return [dict(zip(names, row, strict=True)) for row in rows]


class OwnDatabaseCollector(SqlCollector):
    """Runs one statement in the load's database; the name of this database is its parameter."""

    scope: ClassVar[Scope] = "database"
    interval_ns: ClassVar[int] = 10 * SECOND_NS

    @classmethod
    def of(cls, source: ServerSource) -> Self:
        """Return the collector of a server."""
        return cls(source.session, source.database)


def pick(name: str, variants: Mapping[int, str], version: int) -> str:
    """Return the newest variant that is not newer than the server's major version.

    Raises: NotMeasurable if the server is older than all variants.
    """
    fitting = [first for first in variants if first <= version]
    if not fitting:
        raise NotMeasurable(
            f"{name} needs PostgreSQL {min(variants)} or later, the server is {version}."
        )
    return variants[max(fitting)]


def reset_ns(expression: str) -> str:
    """Return SQL for the Unix time in ns of a timestamp; 0 for NULL."""
    return f"coalesce((extract(epoch FROM {expression}) * 1000000)::int8 * 1000, 0)"


def schema_sql(extension: str) -> str:
    """Return the statement that finds an extension's schema in the session's database."""
    return (
        "SELECT quote_ident(n.nspname) FROM pg_catalog.pg_extension e"
        " JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace"
        f" WHERE e.extname = '{extension}'"
    )


class ExtensionCollector(SqlCollector):
    """Runs one statement that names the extension's views as `{schema}.view`."""

    extension: ClassVar[str]

    def statement(self) -> str:
        """Return the statement for the server's version."""
        return pick(self.name, self.sql, self._session.version)

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Return the statement's rows.

        Raises: NotMeasurable if the extension is not in the session's database, or its library is
        not loaded.
        """
        schemas = self._session.fetch(schema_sql(self.extension))
        if not schemas:
            raise NotMeasurable(f"{self.extension} is not in the database that is observed.")
        statement = self.statement()
        try:
            rows = self._session.fetch(statement.format(schema=schemas[0][0]))
        except psycopg.errors.ObjectNotInPrerequisiteState as error:
            words = str(error).splitlines()[0].rstrip(".")
            raise NotMeasurable(f"{self.name} cannot be queried: {words}.") from None
        names = [column.name for column in self.columns]
        return [dict(zip(names, row, strict=True)) for row in rows]
