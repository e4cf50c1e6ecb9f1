"""From a capture to tables with the same shape: what the engine is to make. Pure.

Each column keeps its distribution. On top of it: unique columns have as many values as rows,
columns of a foreign key refer to rows that exist, columns of a key differ together, and texts fit
into their types. What cannot be kept is in `notes`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pgdyno.engine.distribution import Distribution
from pgdyno.features.capture.attempts import (
    Attempt,
    Choice,
    block,
    left_out_creation,
    left_out_end,
    left_out_table,
)
from pgdyno.features.capture.checks import within_partitions
from pgdyno.features.capture.keys import CopyColumn, CopyTable, foreign_keys, with_keys
from pgdyno.features.capture.model import Capture
from pgdyno.features.capture.plan import (
    attempt_of,
    domain_conditions,
    domain_without_conditions,
    marked_as,
)
from pgdyno.features.capture.ranks import as_counted, as_listed, scaled, together, unique
from pgdyno.features.capture.repeats import changeable
from pgdyno.features.capture.schema import (
    ColumnShape,
    SchemaObject,
    TableShape,
    as_literal,
    in_quotes,
    parts_of,
)
from pgdyno.features.capture.typical import CANDIDATES, others_of, typed
from pgdyno.server.dataset.marked_objects import removal_of_marked

# Tables up to this size are lists of something: a smaller copy has them whole.
KEPT_WHOLE_ROWS = 1000
_RANGE = re.compile(r"FOR VALUES FROM \('?([^'(),]+)'?\) TO \('?([^'(),]+)'?\)")
# The header of a row, and its pointer in the page.
_ROW_MIN_BYTES = 28
# Even a NOT VALID condition is checked when the load changes a row.
_BROKEN = "the load changes its table, and may break its condition"
_OF_TABLE = ("index", "primary_key", "unique", "exclusion", "check")
# What may need objects that exist only after the rows, such as a key.
_AGAIN = (
    *("function", "aggregate", "view", "default", "type", "domain", "search configuration"),
    *("search dictionary", "sequence", "extension", "collation"),
)
# A foreign key, or statistics, is one transaction: none of them needs another one.
_ALONE = ("foreign key", "trigger", "statistics")


@dataclass(frozen=True)
class Rebuilt:
    """The copy of a capture. `fraction`: of the rows of the original, 0 to 1."""

    capture: Capture
    fraction: float

    @cached_property
    def _made(self) -> tuple[dict[str, CopyTable], dict[str, str], tuple[str, ...]]:
        notes: list[str] = []
        made = {}
        rows = self._rows_by_table()
        for name, parts in self.parts_by_table().items():
            shape = next(shape for shape in self.capture.tables if shape.name == name)
            columns = self._columns(shape, parts, rows[name], notes)
            made[name] = CopyTable(shape, rows[name], {c.shape.column: c for c in columns})
        tables, left_out = with_keys(self.capture, made)
        return tables, left_out, tuple(notes)

    @property
    def tables(self) -> Mapping[str, CopyTable]:
        """Return the tables with rows, by name. A partitioned table has the rows of its parts."""
        return self._made[0]

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what no server is asked about: columns for which nothing is known."""
        return self._made[2]

    def parts_by_table(self) -> dict[str, list[TableShape]]:
        """Return the shapes with the rows of each table: its own, or those of its partitions."""
        shapes = {shape.name: shape for shape in self.capture.tables}
        roots = [shape for shape in shapes.values() if not shape.partition_of]
        return {root.name: list(self._parts(root, shapes)) for root in roots}

    def _rows_by_table(self) -> dict[str, int]:
        """Return how many rows each table gets.

        A table whose unique column refers to another table has at most as many rows as that one.
        """
        rows = {
            name: self._made_rows(sum(part.rows for part in parts))
            for name, parts in self.parts_by_table().items()
        }
        foreign = foreign_keys(self.capture)
        for _ in rows:
            before = dict(rows)
            for name, keys in foreign.items():
                for key in keys:
                    columns = [self._columns_by_table[name][column] for column, _ in key.pairs]
                    positions = sum(
                        1 for c in self._columns_by_table[name].values() if c.key_position
                    )
                    is_key = all(c.key_position for c in columns) and positions == len(columns)
                    if (is_key or any(c.is_unique for c in columns)) and key.table in rows:
                        nulls = max(c.distribution.null_fraction for c in columns)
                        most = rows[key.table] / max(1e-9, 1 - nulls)
                        rows[name] = min(rows.get(name, 0), int(most))
            if rows == before:
                break
        return rows

    def _parts(self, shape: TableShape, shapes: Mapping[str, TableShape]) -> Iterator[TableShape]:
        if not shape.is_partitioned:
            yield shape
        for part in shapes.values():
            if part.partition_of == shape.name:
                yield from self._parts(part, shapes)

    def _made_rows(self, rows: float) -> int:
        return round(max(min(rows, KEPT_WHOLE_ROWS), rows * self.fraction))

    def _columns(
        self, shape: TableShape, parts: list[TableShape], made_rows: int, notes: list[str]
    ) -> Iterator[CopyColumn]:
        by_name = self._columns_by_table
        rows = sum(part.rows for part in parts)
        for column in by_name.get(shape.name, {}).values():
            if column.generated:
                continue
            own = [
                (part.rows, by_name[part.name][column.column].distribution)
                for part in parts
                if column.column in by_name.get(part.name, {})
            ]
            counted = [(part_rows, as_counted(d, part_rows)) for part_rows, d in own]
            distribution = together(counted) if own else as_counted(column.distribution, rows)
            distribution = typed(
                column,
                scaled(distribution, rows=rows, made_rows=made_rows),
                self._types,
            )
            if distribution.kind == "other" and not (distribution.bounds or distribution.hot):
                # The engine tries values, one after another, until the server takes one.
                distribution = distribution.model_copy(update={"bounds": CANDIDATES[:1]})
                notes.append(f"{shape.name}.{column.column}: no values of type {column.type}")
            if (limits := self._partition_limits(shape.name, column.column)) is not None:
                distribution = within_partitions(*limits, distribution)
            if column.is_unique:
                distribution = unique(distribution, made_rows)
            yield CopyColumn(column, as_listed(distribution))

    @cached_property
    def _columns_by_table(self) -> Mapping[str, Mapping[str, ColumnShape]]:
        tables: dict[str, dict[str, ColumnShape]] = {}
        for column in self.capture.columns:
            tables.setdefault(column.table, {})[column.column] = column
        return tables

    @cached_property
    def _referenced(self) -> frozenset[tuple[str, str]]:
        keys = [column.references for column in self.capture.columns]
        return frozenset((key.table, key.column) for key in keys if key is not None)

    @cached_property
    def _types(self) -> tuple[SchemaObject, ...]:
        return tuple(item for item in self.capture.objects if item.kind in ("type", "domain"))

    @cached_property
    def _sql_of_tables(self) -> Mapping[str, str]:
        return {item.name: item.sql for item in self.capture.objects if item.table == item.name}

    def _partition_limits(self, table: str, column: str) -> tuple[str, str] | None:
        """Return the first value of all partitions by range of a column, and the end of them."""
        objects = self._sql_of_tables
        if not re.search(
            rf'PARTITION BY RANGE \("?{re.escape(column)}"?\)', objects.get(table, "")
        ):
            return None
        parts = [sql for sql in objects.values() if f" PARTITION OF {table} " in sql]
        ends = [_RANGE.search(sql) for sql in parts]
        limits = [(match[1], match[2]) for match in ends if match is not None]
        if not limits or len(limits) < len(parts):
            return None
        is_number = all(low.lstrip("-").isdigit() for low, _ in limits)
        order: Any = int if is_number else str
        return min((low for low, _ in limits), key=order), max(
            (end for _, end in limits), key=order
        )

    @property
    def rows(self) -> int:
        """Return the number of rows of all tables."""
        return sum(table.rows for table in self.tables.values())

    @property
    def bytes(self) -> int:
        """Return the size that tables and indexes will have, in proportion to the original.

        It is not less than the rows need: a file could have many rows and few bytes.
        """
        total = 0.0
        for name, parts in self.parts_by_table().items():
            size = sum(part.bytes + part.index_bytes + part.toast_bytes for part in parts)
            rows = self.tables[name].rows
            in_proportion = size * rows / max(1.0, sum(part.rows for part in parts))
            total += max(in_proportion, rows * _ROW_MIN_BYTES)
        return round(total)

    def distribution(self, table: str, column: str) -> Distribution | None:
        """Return the distribution that a column of the copy has."""
        made = self.tables.get(table)
        column_made = made.columns.get(column) if made is not None else None
        return column_made.distribution if column_made is not None else None

    @property
    def left_out_table(self) -> str:
        """Return the table of what the copy lacks; "" if the capture has no table."""
        return left_out_table(self.capture.tables[0].name) if self.capture.tables else ""

    def as_engine(self, seed: int) -> dict[str, Any]:
        """Return the copy for the engine's job."""
        notes = self.left_out_table or left_out_table("")
        before = [item for item in self.capture.objects if item.stage == "before_rows"]
        indexes: dict[str, list[str]] = {}
        last: list[Attempt] = []
        for item in self.capture.objects:
            if item.stage != "after_rows":
                continue
            change = changeable(self._columns_by_table.get(item.table, {}), self._referenced)
            attempt = attempt_of(item, why_not=self._why_not(item), change=change)
            if item.kind in _OF_TABLE and item.table in self.tables:
                indexes.setdefault(item.table, []).append(block([attempt], notes))
            else:
                last.append(attempt)
        first = [self._first(item) for item in before]
        schemas = [attempt for attempt in first if attempt.kind == "schema"]
        # What could not be made before the rows may need a key, a view or a function.
        again = [replace(attempt, again=True) for attempt in first if attempt.kind in _AGAIN]
        keys = [attempt for attempt in last if attempt.kind not in _ALONE]
        alone = [attempt for attempt in last if attempt.kind in _ALONE]
        conditions = [
            condition
            for item in before
            if item.kind == "domain" and not item.is_broken_by_load
            for condition in domain_conditions(item)
        ]
        filled = [*self._counters(), *self._sequences()]
        completion = [
            [*again, *keys],
            *([attempt] for attempt in (*alone, *conditions, *filled)),
        ]
        # The bodies of functions may name tables that are made after them.
        settings = "set check_function_bodies = off"
        return {
            "kind": "capture",
            "creation": [
                settings,
                *(choice.steps[0] for attempt in schemas for choice in attempt.choices),
                *left_out_creation(notes),
                block([attempt for attempt in first if attempt.kind != "schema"], notes),
            ],
            "marked": [*(thing for item in before if (thing := marked_as(item))), f"table {notes}"],
            "removal": [
                removal_of_marked("capture", [*(item.name for item in self.capture.objects), notes])
            ],
            "tables": [
                self._table(table, indexes.get(name, [])) for name, table in self.tables.items()
            ],
            "left_out": notes,
            "candidates": list(CANDIDATES),
            "completion": [
                *(f"{settings};\n{block(group, notes)}" for group in completion if group),
                left_out_end(notes),
            ],
            "seed": seed,
        }

    def _first(self, item: SchemaObject) -> Attempt:
        """Return the attempt to make an object before the rows."""
        columns = tuple(self._columns_by_table.get(item.name, {}).values())
        why_not = _BROKEN if item.kind == "domain" and item.is_broken_by_load else ""
        if item.kind == "domain" and not why_not and " CHECK (" in item.sql:
            # Its conditions are added after the rows, as far as the server lets them.
            item = item.model_copy(update={"sql": domain_without_conditions(item)})
        return attempt_of(item, columns if item.kind == "table" else (), why_not=why_not)

    def _why_not(self, item: SchemaObject) -> str:
        """Return why a constraint is not even tried; "" if the server decides.

        Without rows the server accepts every condition, and the load may break it later.
        """
        table = self.tables.get(item.table)
        is_empty = table is not None and not table.rows
        if item.kind == "exclusion":
            return "values that exclude each other are not made"
        if item.kind == "check":
            return _BROKEN if item.is_broken_by_load else ""
        return self._made[1].get(item.name, "") if item.kind == "foreign_key" and is_empty else ""

    def _table(self, table: CopyTable, indexes: list[str]) -> dict[str, Any]:
        """Return a table as the engine's job has it."""
        return {
            "name": table.shape.name,
            "is_partitioned": table.shape.is_partitioned,
            "rows": table.rows,
            "columns": [
                {
                    "name": in_quotes(column.shape.column),
                    "distribution": column.distribution.model_dump(mode="json", exclude_none=True),
                    "correlation": min(1.0, max(-1.0, column.shape.correlation or 0.0)),
                    **_parents(table, column),
                    **self._otherwise(column),
                }
                for column in table.columns.values()
            ],
            "keys": [[in_quotes(column) for column in key] for key in table.keys],
            "links": [
                {
                    **link,
                    **{
                        part: [in_quotes(column) for column in link[part]]
                        for part in ("columns", "referenced", "extra")
                    },
                }
                for link in table.links
            ],
            "indexes": indexes,
            "rescues": list(self._rescues(table)),
        }

    def _otherwise(self, column: CopyColumn) -> dict[str, Any]:
        """Return distributions to try if the server refuses the values of a column."""
        others = others_of(column.shape.type, column.distribution, self._types)
        dumped = [other.model_dump(mode="json", exclude_none=True) for other in others]
        return {"otherwise": dumped} if dumped else {}

    def _rescues(self, table: CopyTable) -> Iterator[dict[str, str]]:
        """Yield changes of a table that let the server take rows that it refuses."""
        name = table.shape.name
        if table.shape.is_partitioned:
            schema, own = parts_of(name)
            part = ".".join(in_quotes(part) for part in (schema, f"{own[:50]}_others") if part)
            notes = as_literal(self.left_out_table)
            sql = (
                f"create table {part} partition of {name} default; do $pgdyno$ begin execute"
                f" pg_catalog.format('comment on table %s is %L', {as_literal(part)},"
                f" pg_catalog.obj_description({notes}::regclass, 'pg_class')); end $pgdyno$"
            )
            yield {"sql": sql, "words": "some rows are in a partition for all other values"}
        for column in self._columns_by_table.get(name, {}).values():
            if column.generated:
                own = in_quotes(column.column)
                sql = f"alter table {name} alter column {own} drop expression"
                yield {"sql": sql, "words": f"the column {own} is not generated"}

    def _counters(self) -> Iterator[Attempt]:
        """Yield statements that put each counter above the keys that it has given."""
        for counter in self.capture.counters:
            group = [f"g{number}" for number, _ in enumerate(counter.group)]
            listed = "".join(f"{name}, " for name in group)
            by_group = f" GROUP BY {', '.join(group)}" if group else ""
            rows = []
            for key in counter.keys:
                named = [
                    f"{in_quotes(c)} AS {name}, " for c, name in zip(key.group, group, strict=True)
                ]
                rows.append(f"SELECT {''.join(named)}{in_quotes(key.column)} AS k FROM {key.table}")
            last = f"SELECT {listed}max(k) + 1 AS next FROM ({' UNION ALL '.join(rows)}) AS r"
            column = in_quotes(counter.column)
            matched = [
                f"c.{in_quotes(c)} = l.{name}" for c, name in zip(counter.group, group, strict=True)
            ]
            sql = (
                f"UPDATE {counter.table} AS c SET {column} = l.next FROM ({last}{by_group}) AS l"
                f" WHERE {' AND '.join([*matched, f'c.{column} <> l.next'])}"
            )
            yield Attempt("counter", f"{counter.table}.{counter.column}", (Choice((sql,)),))

    def _sequences(self) -> Iterator[Attempt]:
        """Yield statements that put each sequence after the keys of all columns that it gives."""
        largest: dict[str, list[tuple[str, str]]] = {}
        for name, table in self.tables.items():
            for column in table.columns.values():
                shape = column.shape
                if not (shape.sequence or shape.identity):
                    continue
                target = as_literal(shape.sequence)
                if not shape.sequence:
                    names = f"{as_literal(name)}, {as_literal(shape.column)}"
                    target = f"pg_get_serial_sequence({names})"
                key = in_quotes(shape.column)
                ends = (f"(select max({key}) from {name})", f"(select min({key}) from {name})")
                largest.setdefault(target, []).append(ends)
        for target, keys in largest.items():
            most, least = (", ".join(ends) for ends in zip(*keys, strict=True))
            sql = (
                "select setval(s.seqrelid, case when s.seqincrement > 0"
                f" then least(s.seqmax, greatest(s.seqstart, {most}))"
                f" else greatest(s.seqmin, least(s.seqstart, {least})) end)"
                f" from pg_catalog.pg_sequence s where s.seqrelid = {target}::regclass"
            )
            yield Attempt("counter", target, (Choice((sql,)),))


def _parents(table: CopyTable, column: CopyColumn) -> dict[str, str]:
    """Return the key of the same table to which a column of a tree refers."""
    key = column.shape.references
    is_tree = key and key.table == table.shape.name and column.distribution.kind == "rank"
    is_unique = key and is_tree and table.columns[key.column].shape.is_unique
    return {"parent_in": in_quotes(key.column)} if key and is_unique else {}
