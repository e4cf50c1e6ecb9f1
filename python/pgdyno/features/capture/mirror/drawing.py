"""Values as the load draws them, drawn by the lab: for trying single statements on the copy."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from psycopg import sql

from pgdyno.clock import read_pair
from pgdyno.engine.distribution import Distribution
from pgdyno.features.capture.arrays import items_in, quoted_items
from pgdyno.features.capture.model import (
    Between,
    Cases,
    Constant,
    Count,
    Drawn,
    Equal,
    Fresh,
    KnownValue,
    Linear,
    ListOf,
    Now,
    OfColumn,
    Recalled,
    Record,
    Returned,
    Source,
    Taken,
    Template,
    Turn,
    parts_of,
)
from pgdyno.server.connect import Connection

_SAMPLE_ROWS, _LARGE_ROWS = 200, 100_000
_LENGTH_MAX = 1000
Row = Sequence[str | None]
# Carries out a step with its values, and returns its rows as texts.
CarryOut = Callable[[int, Row], Sequence[Row]]
# Carries out a statement of another transaction, and returns its rows as texts.
Others = Callable[[str], Sequence[Row]]


class UnknownValueError(Exception):
    """The value comes from what the lab cannot know, such as another transaction."""


class ColumnSamples:
    """Rows of the copy, read once for each set of columns; as texts."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: dict[tuple[str, ...], list[tuple[str | None, ...]]] = {}

    def rows(self, table: str, columns: Sequence[str]) -> list[tuple[str | None, ...]]:
        """Return random rows of a table. Raises: psycopg.Error."""
        key = (table, *columns)
        if key not in self._known:
            names = sql.SQL(", ").join(
                sql.SQL("{}::text").format(sql.Identifier(c)) for c in columns
            )
            row = self._connection.execute(
                "SELECT reltuples::float8 FROM pg_catalog.pg_class WHERE oid ="
                " pg_catalog.to_regclass(%s)",
                [table],
            ).fetchone()
            size = row[0] if row is not None else 0.0
            share = min(100.0, 100 * 20 * _SAMPLE_ROWS / max(size, 1.0))
            part = sql.SQL(" TABLESAMPLE SYSTEM ({})").format(sql.Literal(share))
            query = sql.SQL("SELECT {} FROM {}{} ORDER BY pg_catalog.random() LIMIT {}").format(
                names,
                sql.SQL(table),
                part if size > _LARGE_ROWS else sql.SQL(""),
                sql.Literal(_SAMPLE_ROWS),
            )
            self._known[key] = list(self._connection.execute(query).fetchall())
        return self._known[key]

    def largest(self, table: str, column: str) -> str | None:
        """Return the largest value of a column. Raises: psycopg.Error."""
        key = ("", table, column)
        if key not in self._known:
            query = sql.SQL(
                "SELECT {0}::text FROM {1} ORDER BY {0} DESC NULLS LAST LIMIT 1"
            ).format(sql.Identifier(column), sql.SQL(table))
            self._known[key] = list(self._connection.execute(query).fetchall())
        rows = self._known[key]
        return rows[0][0] if rows else None


class StepDrawing:
    """Draws the parameters of one step, with those of earlier steps on which they depend."""

    def __init__(
        self,
        template: Template,
        samples: ColumnSamples,
        rng: random.Random,
        carry_out: CarryOut,
        others: Others,
    ) -> None:
        self._template, self._samples, self._rng = template, samples, rng
        self._carry_out, self._others = carry_out, others
        self._given: dict[tuple[str, int | None], list[str | None]] = {}
        self._drawn: dict[tuple[int, int], str | None] = {}
        self._rows: dict[tuple[int, str, int], Mapping[str, str | None]] = {}
        self._returned: dict[int, Sequence[Row]] = {}

    def values(self, step: int, changed: Mapping[int, Source] | None = None) -> list[str | None]:
        """Return the values of a step. Args: changed, sources in place of others, from 0.

        Raises: UnknownValueError, psycopg.Error.
        """
        sources = self._template.steps[step].parameters
        own = [(changed or {}).get(place, source) for place, source in enumerate(sources)]
        return [self._value(step, place, source, own) for place, source in enumerate(own)]

    def _value(self, step: int, place: int, source: Source, own: Sequence[Source]) -> str | None:
        if (step, place) not in self._drawn:
            self._drawn[step, place] = self._draw(step, source, own)
        return self._drawn[step, place]

    def _draw(self, step: int, source: Source, own: Sequence[Source]) -> str | None:
        match source:
            case Constant():
                return source.value
            case Drawn():
                return self._of(source.distribution)
            case OfColumn():
                return self._of_column(step, source, own)
            case Fresh():
                return self._fresh(source)
            case Turn():
                return str(source.offset)
            case Now():
                past_s = read_pair().unix_ns / 1e9 - source.minus_s
                return datetime.fromtimestamp(past_s, UTC).isoformat()
            case ListOf():
                return self._list(step, source, own)
            case Record():
                return self._record(step, source, own)
            case Cases():
                value = self._earlier(step, step, source.parameter, own)
                return self._draw(step, source_of_case(source, value), own)
            case Returned():
                return self._of_row(source)
            case Recalled():
                return self._draw(step, source.otherwise, own)
            case KnownValue():
                kept = {name: getattr(source, name) for name in ("table", "column", "given")}
                return self._of_column(step, OfColumn(**kept), own)
            case Taken():
                return self._taken(source)
            case Equal(take="value"):
                return self._earlier(step, source.step, source.parameter, own)
            case Count(parameter=int(parameter)):
                return str(self._length(step, source.step, parameter, own) + source.offset)
        return self._number(step, source, own)

    def _number(self, step: int, source: Source, own: Sequence[Source]) -> str:
        """Return a number that follows from a parameter or from a returned column."""
        try:
            if isinstance(source, Linear) and source.plus is None and source.parameter is not None:
                value = self._earlier(step, source.step, source.parameter, own)
                number = float(value or 0) * source.slope + source.offset
            elif isinstance(source, Linear) and source.plus is None and source.column is not None:
                rows = self._rows_of(source.step)
                number = float((rows[0][source.column] if rows else None) or 0) * source.slope
                number += source.offset
            elif isinstance(source, Between):
                value = self._earlier(step, source.step, source.parameter, own) or ""
                apart = round(self._rng.uniform(source.least, source.most))
                if not value.lstrip("-").replace(".", "", 1).isdecimal():
                    return (datetime.fromisoformat(value) + timedelta(seconds=apart)).isoformat()
                number = float(value) + apart
            else:
                raise UnknownValueError
        except ValueError:
            raise UnknownValueError from None
        return f"{number:g}" if number != int(number) else str(int(number))

    def _earlier(self, step: int, other: int, parameter: int, own: Sequence[Source]) -> str | None:
        sources = own if other == step else self._template.steps[other].parameters
        return self._value(other, parameter, sources[parameter], sources)

    def _rows_of(self, step: int) -> Sequence[Row]:
        if step not in self._returned:
            self._returned[step] = self._carry_out(step, self.values(step))
        return self._returned[step]

    def _of_row(self, source: Returned) -> str | None:
        rows = self._rows_of(source.step)
        if source.pick == "all":
            return _joined([row[source.column] for row in rows], "{}")
        if not rows:
            raise UnknownValueError
        return rows[0][source.column]

    def _taken(self, source: Taken) -> str | None:
        """Return what another transaction gives; each value once. Raises: UnknownValueError."""
        if source.column is None:
            raise UnknownValueError
        key = _key(source)
        if key not in self._given:
            self._given[key] = [row[source.column] for row in self._others(source.statement)]
        if not self._given[key]:
            raise UnknownValueError
        return self._given[key].pop(0)

    def _length(self, step: int, other: int, parameter: int, own: Sequence[Source]) -> int:
        """Return how many elements a list has: its mean, so that trials vary little."""
        sources = own if other == step else self._template.steps[other].parameters
        source = sources[parameter]
        if not isinstance(source, ListOf):
            value = self._earlier(step, other, parameter, own)
            return value.count(",") + 1 if value and value != "{}" else 0
        if source.as_long_as is not None and source.as_long_as != parameter:
            return self._length(step, other, source.as_long_as, sources)
        count = source.count
        if count is not None and count.parameter is not None:
            return self._length(step, count.step, count.parameter, own) + count.offset
        return max(1, min(_LENGTH_MAX, round(source.length.mean)))

    def _list(self, step: int, source: ListOf, own: Sequence[Source]) -> str:
        place = next(place for place, other in enumerate(own) if other is source)
        length = self._length(step, step, place, own)
        if isinstance(source.of, Turn):
            return _joined([str(source.of.offset + number) for number in range(length)], "{}")
        count = 1 if source.is_one_value else length
        taken = [part for part in parts_of(source) if isinstance(part, Taken)]
        others: Sequence[str | None] = ()
        if isinstance(source.of, Cases):
            others = items_in(self._earlier(step, step, source.of.parameter, own) or "{}")
        items: list[str | None] = []
        for number in range(count):
            # As in the load: if others have left no more values, the list is shorter.
            if taken and items and not self._given[_key(taken[0])]:
                break
            of: Source = source.of
            if isinstance(of, Cases):
                of = source_of_case(of, others[number] if number < len(others) else None)
            item = self._draw(step, of, own)
            # As in the load: an empty table gives no elements.
            if item is None and isinstance(of, OfColumn) and not of.by_frequency:
                break
            items.append(item)
        items = items * length if source.is_one_value else items
        if source.is_json:
            return "[" + ",".join("null" if item is None else item for item in items) + "]"
        return _joined(items, "{}")

    def _record(self, step: int, source: Record, own: Sequence[Source]) -> str:
        fields = [self._draw(step, item, own) for item in source.fields]
        if not source.names:
            return _joined(fields, "()")
        texts = [
            "null" if field is None else field if place in source.bare else json.dumps(field)
            for place, field in enumerate(fields)
        ]
        pairs = zip(source.names, texts, strict=True)
        return "{" + ", ".join(f"{json.dumps(name)}: {text}" for name, text in pairs) + "}"

    def _fresh(self, source: Fresh) -> str:
        """Return a key that no row has: a number above all, or a text by chance."""
        rows = self._samples.largest(source.table, source.column)
        if rows is not None and rows.lstrip("-").isdecimal():
            return str(int(rows) + 1 + self._rng.randrange(1 << 20))
        return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))

    def _of_column(self, step: int, source: OfColumn, own: Sequence[Source]) -> str | None:
        shape = source.distribution
        if source.by_frequency and shape and self._rng.random() < shape.null_fraction:
            return None
        if source.given:
            given = [self._earlier(step, row.step, row.parameter, own) for row in source.given]
            rows = self._samples.rows(
                source.table, [source.column, *(row.column for row in source.given)]
            )
            fitting = [first for first, *others in rows if others == given]
            if fitting:
                return self._rng.choice(fitting)
        if source.group is None:
            rows = self._samples.rows(source.table, [source.column])
            known = [row[0] for row in rows if row[0] is not None]
            return self._rng.choice(known) if known else None
        key = step, source.table, source.group
        if key not in self._rows:
            columns = [
                part.column
                for part in own
                if isinstance(part, OfColumn)
                and (part.table, part.group) == (source.table, source.group)
            ]
            columns = list(dict.fromkeys(columns))
            rows = self._samples.rows(source.table, columns)
            chosen = self._rng.choice(rows) if rows else (None,) * len(columns)
            self._rows[key] = dict(zip(columns, chosen, strict=True))
        return self._rows[key][source.column]

    def _of(self, distribution: Distribution) -> str | None:
        if self._rng.random() < distribution.null_fraction:
            return None
        point = self._rng.random()
        for hot in distribution.hot:
            point -= hot.fraction
            if point < 0:
                return hot.value
        known = [*distribution.bounds, *(hot.value for hot in distribution.hot)]
        if known:
            return self._rng.choice(known)
        if distribution.kind in ("text", "other"):
            letters = "abcdefghijklmnopqrstuvwxyz"
            length = max(1, round(distribution.width or 8))
            return "".join(self._rng.choice(letters) for _ in range(length))
        raise UnknownValueError


def source_of_case(source: Cases, value: str | None) -> Source:
    """Return the source that belongs to a value of the other parameter."""
    known = (case.source for case in source.cases if case.value == value)
    return next(known, source.otherwise)


def _key(source: Taken) -> tuple[str, int | None]:
    return source.statement, source.column


def plan_of(
    connection: Connection, text: str, types: Sequence[str], values: Sequence[str | None]
) -> Mapping[str, Any]:
    """Return the plan of one execution with its rows and blocks; the transaction is rolled back.

    The caller is inside a transaction that ends with a rollback, with the path of the load.
    Raises: psycopg.Error.
    """
    declared = f"({', '.join(types)})" if types else ""
    connection.execute(f"PREPARE pgdyno_fit{declared} AS {text}".encode())
    given = sql.SQL(", ").join(map(sql.Literal, values))
    listed = sql.SQL("({})").format(given) if values else sql.SQL("")
    explain = "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) EXECUTE pgdyno_fit{}"
    row = connection.execute(sql.SQL(explain).format(listed)).fetchone()
    assert row is not None, "EXPLAIN returns one row"
    plan: Mapping[str, Any] = row[0][0]["Plan"]
    return plan


def rows_of(
    connection: Connection, text: str, types: Sequence[str], values: Sequence[str | None]
) -> list[Row]:
    """Return the rows of one execution, as texts. Raises: psycopg.Error."""
    declared = f"({', '.join(types)})" if types else ""
    connection.execute(f"PREPARE pgdyno_step{declared} AS {text}".encode())
    given = sql.SQL(", ").join(map(sql.Literal, values))
    listed = sql.SQL("({})").format(given) if values else sql.SQL("")
    cursor = connection.execute(sql.SQL("EXECUTE pgdyno_step{}").format(listed))
    connection.execute("DEALLOCATE pgdyno_step")
    answer = cursor.pgresult
    if answer is None:
        return []
    cells = [
        [answer.get_value(row, column) for column in range(answer.nfields)]
        for row in range(min(answer.ntuples, _SAMPLE_ROWS))
    ]
    return [[None if cell is None else cell.decode() for cell in row] for row in cells]


def _joined(items: Row, brackets: str) -> str:
    """Return an array or a record as the server writes it."""
    null = "NULL" if brackets == "{}" else ""
    return brackets[0] + quoted_items(items, null=null) + brackets[1]


def work_of(plan: Mapping[str, Any]) -> tuple[float, float]:
    """Return the rows and the blocks of a plan; of a change, the rows that it changed."""
    rows = float(plan.get("Actual Rows", 0))
    if plan.get("Node Type") == "ModifyTable" and not rows:
        parts = plan.get("Plans", ())
        rows = sum(p.get("Actual Rows", 0) * p.get("Actual Loops", 1) for p in parts[:1])
        # With ON CONFLICT the server tells how many rows are new.
        rows = plan.get("Tuples Inserted", rows) if plan.get("Operation") == "Insert" else rows
    blocks = plan.get("Shared Hit Blocks", 0) + plan.get("Shared Read Blocks", 0)
    return rows, float(blocks)


PG_ERRORS = (psycopg.Error, UnknownValueError)
