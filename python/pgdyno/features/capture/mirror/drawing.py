"""Values as the load draws them, drawn by the lab: for trying single statements on the copy."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import psycopg
from psycopg import sql

from pgdyno.clock import read_pair
from pgdyno.engine.distribution import Distribution
from pgdyno.features.capture.model import (
    Constant,
    Drawn,
    Equal,
    Fresh,
    Linear,
    ListOf,
    Now,
    OfColumn,
    Source,
    Template,
)
from pgdyno.server.connect import Connection

_SAMPLE_ROWS, _LARGE_ROWS = 200, 100_000
_LENGTH_MAX = 50


class UnknownValueError(Exception):
    """The value comes from what the lab cannot know, such as a returned row."""


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


class StepDrawing:
    """Draws the parameters of one step, with those of earlier steps on which they depend."""

    def __init__(self, template: Template, samples: ColumnSamples, rng: random.Random) -> None:
        self._template, self._samples, self._rng = template, samples, rng
        self._drawn: dict[tuple[int, int], str | None] = {}
        self._rows: dict[tuple[int, str, int], Mapping[str, str | None]] = {}

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
        if isinstance(source, Constant):
            return source.value
        if isinstance(source, Drawn):
            return self._of(source.distribution)
        if isinstance(source, OfColumn | Fresh):
            return self._of_column(step, source, own)
        if isinstance(source, Now):
            past_s = read_pair().unix_ns / 1e9 - source.minus_s
            return datetime.fromtimestamp(past_s, UTC).isoformat()
        if isinstance(source, ListOf):
            mean = max(1, min(_LENGTH_MAX, round(source.length.mean)))
            items = [self._draw(step, source.of, own) for _ in range(mean)]
            return "{" + ",".join(f'"{item}"' for item in items if item is not None) + "}"
        if isinstance(source, Equal) and source.take == "value":
            return self._earlier(step, source.step, source.parameter, own)
        if isinstance(source, Linear) and source.parameter is not None and source.plus is None:
            value = self._earlier(step, source.step, source.parameter, own)
            try:
                number = float(value or 0) * source.slope + source.offset
            except ValueError:
                raise UnknownValueError from None
            return f"{number:g}" if number != int(number) else str(int(number))
        raise UnknownValueError

    def _earlier(self, step: int, other: int, parameter: int, own: Sequence[Source]) -> str | None:
        sources = own if other == step else self._template.steps[other].parameters
        return self._value(other, parameter, sources[parameter], sources)

    def _of_column(self, step: int, source: OfColumn | Fresh, own: Sequence[Source]) -> str | None:
        group = source.group if isinstance(source, OfColumn) else None
        if group is None:
            rows = self._samples.rows(source.table, [source.column])
            known = [row[0] for row in rows if row[0] is not None]
            return self._rng.choice(known) if known else None
        key = step, source.table, group
        if key not in self._rows:
            columns = [
                part.column
                for part in own
                if isinstance(part, OfColumn) and (part.table, part.group) == (source.table, group)
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


def work_of(plan: Mapping[str, Any]) -> tuple[float, float]:
    """Return the rows and the blocks of a plan; of a change, the rows that it changed."""
    rows = float(plan.get("Actual Rows", 0))
    if plan.get("Node Type") == "ModifyTable" and not rows:
        parts = plan.get("Plans", ())
        rows = sum(p.get("Actual Rows", 0) * p.get("Actual Loops", 1) for p in parts[:1])
    blocks = plan.get("Shared Hit Blocks", 0) + plan.get("Shared Read Blocks", 0)
    return rows, float(blocks)


PG_ERRORS = (psycopg.Error, UnknownValueError)
