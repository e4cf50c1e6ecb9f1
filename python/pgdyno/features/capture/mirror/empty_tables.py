"""Values for parameters that come from a table without rows, as in a dump made before the load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import psycopg
from psycopg import sql

from pgdyno.features.capture.model import (
    Capture,
    Constant,
    Drawn,
    Fresh,
    ListOf,
    Now,
    OfColumn,
    Source,
)
from pgdyno.features.capture.observed import Statement
from pgdyno.features.capture.reading.key_sources import FRESH_KINDS
from pgdyno.features.capture.schema import ColumnShape
from pgdyno.server.connect import Connection

# One value for a column of which nothing is known: so a filter finds what the load has written.
_ASSUMED = {"text": "a", "integer": "1", "numeric": "1", "real": "1", "boolean": "t", "json": "{}"}


class EmptyTables:
    """What takes the place of values that no row of this database has.

    A foreign key takes a key of the table that it references, and any other column a value by the
    statistics of the source. A key that no row has stays: only the load itself can make it. An
    INSERT into such a table is what makes its rows, so none of its values may come from there: the
    values are NULL then, and the probe tries others if the server refuses that.
    """

    def __init__(self, connection: Connection, capture: Capture) -> None:
        self._connection, self._capture = connection, capture
        self._shapes = {(own.table, own.column): own for own in capture.columns}
        self._has_rows: dict[str, bool] = {}

    def sources(self) -> dict[str, dict[int, Source]]:
        """Return other sources, by statement and place."""
        sources: dict[str, dict[int, Source]] = {}
        for statement, place, source in self._given():
            other = self._instead(source, makes_rows=statement.kind == "insert")
            if other is not None:
                sources.setdefault(statement.id, {})[place] = other
        return sources

    def replaced(self, statement: str, values: Mapping[int, Source]) -> dict[int, Source]:
        """Return values for a statement; those of a table without rows are other ones."""
        kinds = {own.id: own.kind for own in self._capture.statements}
        makes_rows = kinds.get(statement) == "insert"
        return {
            place: self._instead(value, makes_rows=makes_rows) or value
            for place, value in values.items()
        }

    def _given(self) -> Iterator[tuple[Statement, int, Source]]:
        statements = {own.id: own for own in self._capture.statements}
        for template in self._capture.templates:
            for step in template.steps:
                for place, source in enumerate(step.parameters):
                    yield statements[step.statement], place, source

    def _instead(self, source: Source, *, makes_rows: bool) -> Source | None:
        if isinstance(source, ListOf):
            of = self._instead(source.of, makes_rows=makes_rows)
            return None if of is None else source.model_copy(update={"of": of})
        if not isinstance(source, OfColumn) or self._is_filled(source.table):
            return None
        shape = self._shapes.get((source.table, source.column))
        if shape is None:
            return None
        other = self._of_shape(shape)
        return _without_rows(shape) if other is None and makes_rows else other

    def _of_shape(self, shape: ColumnShape) -> Source | None:
        key, values = shape.references, shape.distribution
        if key is not None:
            is_known = (key.table, key.column) in self._shapes
            is_filled = is_known and self._is_filled(key.table)
            return OfColumn(table=key.table, column=key.column) if is_filled else None
        if shape.is_unique or shape.key_position:
            return None
        return Drawn(distribution=values) if values.hot or values.bounds else _assumed(shape)

    def _is_filled(self, table: str) -> bool:
        """Return whether a table has rows; also if nobody may look."""
        if table not in self._has_rows:
            query = sql.SQL("SELECT EXISTS (SELECT FROM {})").format(sql.SQL(table))
            try:
                with self._connection.transaction():
                    row = self._connection.execute(query).fetchone()
            except psycopg.Error:
                row = None
            self._has_rows[table] = row is None or bool(row[0])
        return self._has_rows[table]


def _without_rows(shape: ColumnShape) -> Source:
    """Return a value with which a table gets its first row; NULL if nothing else is likely.

    A key with a sequence is not written, but compared: its new value comes from elsewhere.
    """
    is_new = shape.distribution.kind in FRESH_KINDS and not (shape.sequence or shape.identity)
    if shape.is_not_null and is_new and shape.references is None:
        return Fresh(table=shape.table, column=shape.column)
    return Constant(value=None)


def _assumed(shape: ColumnShape) -> Source | None:
    """Return a value for a column without statistics; None if no value is likely."""
    kind, labels = shape.distribution.kind, shape.distribution.labels
    if labels:
        # The first one is often that of a new row.
        return Constant(value=labels[0])
    if kind in ("date", "timestamp", "timestamptz"):
        return Now()
    return Constant(value=_ASSUMED[kind]) if kind in _ASSUMED else None
