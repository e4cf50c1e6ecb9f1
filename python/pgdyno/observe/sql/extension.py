"""Collectors that ask an extension: wherever its schema is, and only where it is installed."""

from __future__ import annotations

from typing import ClassVar

import psycopg

from pgdyno.observe.collector import NotMeasurable, Row
from pgdyno.observe.sql.sql_collector import SqlCollector, pick


def schema_sql(extension: str) -> str:
    """Return the statement that finds an extension's schema in the database that is asked."""
    return (
        "SELECT quote_ident(n.nspname) FROM pg_catalog.pg_extension e"
        " JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace"
        f" WHERE e.extname = '{extension}'"
    )


class ExtensionCollector(SqlCollector):
    """Runs one statement that names the extension's views as `{schema}.view`."""

    extension: ClassVar[str]

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Return the statement's rows.

        Raises: NotMeasurable where the extension is not in the database that is asked, or its
        library is not loaded.
        """
        found = self._session.fetch(schema_sql(self.extension))
        if not found:
            raise NotMeasurable(f"{self.extension} is not in the database that is asked.")
        statement = pick(self.name, self.sql, self._session.version)
        try:
            rows = self._session.fetch(statement.format(schema=found[0][0]))
        except psycopg.errors.ObjectNotInPrerequisiteState as error:
            words = str(error).splitlines()[0].rstrip(".")
            raise NotMeasurable(f"{self.name} cannot be asked: {words}.") from None
        names = [column.name for column in self.columns]
        return [dict(zip(names, row, strict=True)) for row in rows]
