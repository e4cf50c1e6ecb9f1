"""Names of a database: which table, schema, role or function a statement means."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import TYPE_CHECKING

from pgdyno.features.capture.reading.functions import Functions
from pgdyno.features.capture.schema import parts_of

if TYPE_CHECKING:
    from pgdyno.features.capture.reading.arbiters import Arbiter


class Names:
    """The tables of a database with their columns, found by the names that statements use."""

    def __init__(
        self,
        columns: Mapping[str, list[str]],
        path: list[str],
        functions: Functions = Functions(),  # noqa: B008
        fixed_keys: Mapping[str, Sequence[frozenset[str]]] | None = None,
        generated: Set[tuple[str, str]] = frozenset(),
        roles: Set[str] = frozenset(),
        accepts: Callable[[str], bool] = lambda _: True,
        arbiters: Mapping[str, Sequence[Arbiter]] | None = None,
        settings: Mapping[str, tuple[str, str]] | None = None,
        types: Mapping[tuple[str, str], str] | None = None,
    ) -> None:
        """Take what is known of a database.

        Args: columns by qualified table; path, the schemas in the order of search_path; fixed_keys,
        keys by table that cannot get new values; generated, columns by table and name; roles
        of the server; accepts, whether the server accepts a statement with its parameters;
        arbiters, the unique indexes with constants by table; settings, those of the application
        that the schema reads, with the column of each value; types, by table and column.
        """
        self._fixed_keys, self._generated = fixed_keys or {}, generated
        self._roles, self.accepts = roles, accepts
        self._columns = dict(columns)
        self._tables = {parts_of(name): name for name in columns}
        self._path = path
        self.functions = functions
        self.arbiters = arbiters or {}
        self.settings = settings or {}
        self._types = types or {}

    def table(self, schema: str | None, name: str) -> str:
        """Return the qualified name of a table, "" without a table."""
        tried = [(home, name) for home in ([schema] if schema else self._path)]
        if not schema:
            tried += [parts for parts in self._tables if parts[1] == name]
        return next((self._tables[parts] for parts in tried if parts in self._tables), "")

    def has_schema(self, name: str) -> bool:
        """Return whether a table of the database is in this schema."""
        return any(schema == name for schema, _ in self._tables)

    def has_role(self, name: str) -> bool:
        """Return whether the server has a role."""
        return name in self._roles

    def has_word(self, word: str) -> bool:
        """Return whether the body of a function has this word."""
        return any(word in function.words for function in self.functions.functions.values())

    def copied_columns(self, table: str) -> list[str]:
        """Return the columns of COPY without a list."""
        return [c for c in self.columns(table) if (table, c) not in self._generated]

    def can_add_rows(self, table: str, columns: list[str]) -> bool:
        """Return whether rows with these columns can be made so that no key is there twice."""
        return not any(key <= set(columns) for key in self._fixed_keys.get(table, ()))

    def type_of(self, table: str, column: str) -> str:
        """Return the type of a column, "" if it is not known."""
        return self._types.get((table, column), "")

    def columns(self, table: str) -> list[str]:
        """Return the columns of a table in their order."""
        return list(self._columns.get(table, ()))
