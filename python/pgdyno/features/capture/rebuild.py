"""From a capture to tables with the same shape: what the engine is to make. Pure.

Each column keeps its distribution. On top of it: unique columns have as many values as rows,
columns of a foreign key refer to rows that exist, columns of a key differ together, and texts fit
into their types. What cannot be kept is in `notes`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

from pgdyno.engine.distribution import Distribution, Spread, ValueKind
from pgdyno.features.capture.checks import (
    holds,
    holds_in_domain,
    within_domain,
    within_partitions,
    without_checks,
)
from pgdyno.features.capture.keys import Column, Table, foreign_keys, with_keys
from pgdyno.features.capture.model import Capture
from pgdyno.features.capture.ranks import as_counted, scaled, together, unique
from pgdyno.features.capture.schema import ColumnShape, SchemaObject, TableShape, domains_by_type

# Tables up to this size are lists of something: a smaller copy has them whole.
KEPT_WHOLE_ROWS = 1000
_DIGITS = re.compile(r"numeric\((\d+)(?:,(\d+))?\)")
_LIMITED = re.compile(r"^(?:character varying|character|varchar|char|bpchar)\((\d+)\)$")
# Values of types whose statistics have none.
_TYPICAL = {
    "tsvector": ("text", ()),
    "name": ("text", ()),
    "xml": ("text", ()),
    "oid": ("integer", ()),
    "money": ("numeric", ("0.00", "1000.00")),
    "macaddr": ("other", ("08:00:2b:01:02:03", "08:00:2b:ff:ff:ff")),
    "point": ("other", ("(0,0)", "(1,1)")),
    "pg_lsn": ("other", ("0/1", "0/FF")),
    "bit": ("other", ("0", "1")),
    "bit varying": ("other", ("0", "1")),
}
_RANGE = re.compile(r"FOR VALUES FROM \('?([^'(),]+)'?\) TO \('?([^'(),]+)'?\)")
# Of arrays and ranges without statistics: what they are made of.
_ELEMENTS: dict[str, ValueKind] = {
    **dict.fromkeys(("integer", "bigint", "smallint", "int4range", "int8range"), "integer"),
    **dict.fromkeys(("numeric", "numrange", "real", "double precision"), "numeric"),
    **dict.fromkeys(("date", "daterange"), "date"),
    **dict.fromkeys(("timestamp without time zone", "tsrange"), "timestamp"),
    **dict.fromkeys(("timestamp with time zone", "tstzrange"), "timestamptz"),
    "uuid": "uuid",
    "boolean": "boolean",
}
_JSONB_BYTES = 13
# The header of a row, and its pointer in the page.
_ROW_MIN_BYTES = 28
# Even a NOT VALID condition is checked when the load changes a row.
_BROKEN = "rows made from statistics, or the load on them, may break its condition"
_OF_TABLE = ("index", "primary_key", "unique", "exclusion", "check")


@dataclass(frozen=True)
class Rebuilt:
    """The copy of a capture. `fraction`: of the rows of the original, 0 to 1."""

    capture: Capture
    fraction: float

    @cached_property
    def _made(self) -> tuple[dict[str, Table], dict[str, str], tuple[str, ...]]:
        notes: list[str] = []
        made = {}
        rows = self._rows_by_table()
        for name, parts in self.parts_by_table().items():
            shape = next(shape for shape in self.capture.tables if shape.name == name)
            columns = self._columns(shape, parts, rows[name], notes)
            made[name] = Table(shape, rows[name], {c.shape.column: c for c in columns})
        tables, left_out = with_keys(self.capture, made)
        checks = [item for item in self.capture.objects if item.kind == "check"]
        broken = {_id(item): _BROKEN for item in checks if not _surely_holds(item, tables)}
        notes += [f"{table}.{name} is left out: {why}" for (table, name), why in broken.items()]
        notes += [f"{name} is left out: {why}" for name, why in sorted(left_out.items())]
        return tables, left_out, tuple(notes)

    @property
    def tables(self) -> Mapping[str, Table]:
        """Return the tables with rows, by name. A partitioned table has the rows of its parts."""
        return self._made[0]

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what the copy does not keep, in words."""
        domains = [f"the CHECK of {name} is left out: {_BROKEN}" for name in self._broken_domains]
        return (*self._made[2], *domains)

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
    ) -> Iterator[Column]:
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
            distribution = _typed(column, scaled(distribution, rows=rows, made_rows=made_rows))
            if distribution.kind == "other" and not (distribution.bounds or distribution.hot):
                if column.is_not_null and not column.has_default:
                    notes.append(f"{shape.name}.{column.column}: no values of type {column.type}")
                continue
            if (limits := self._partition_limits(shape.name, column.column)) is not None:
                distribution = within_partitions(*limits, distribution)
            if (domain := self._domains.get(column.type)) is not None:
                distribution = within_domain(domain, distribution)
            if column.is_unique:
                distribution = unique(distribution, made_rows)
            yield Column(column, distribution)

    @cached_property
    def _columns_by_table(self) -> Mapping[str, Mapping[str, ColumnShape]]:
        tables: dict[str, dict[str, ColumnShape]] = {}
        for column in self.capture.columns:
            tables.setdefault(column.table, {})[column.column] = column
        return tables

    @cached_property
    def _domains(self) -> Mapping[str, str]:
        return domains_by_type(self.capture.objects)

    @cached_property
    def _broken_domains(self) -> Mapping[str, str]:
        """Return domains whose conditions the values may break, without these conditions."""
        broken = {}
        for item in self.capture.objects:
            if item.kind != "domain":
                continue
            distributions = [
                column.distribution
                for table in self.tables.values()
                for column in table.columns.values()
                if column.shape.type in (item.name, item.name.rpartition(".")[2])
            ]
            if item.is_broken_by_load or not all(
                holds_in_domain(item.sql, values) for values in distributions
            ):
                broken[item.name] = without_checks(item.sql)
        return broken

    def _partition_limits(self, table: str, column: str) -> tuple[str, str] | None:
        """Return the first value of all partitions by range of a column, and the end of them."""
        objects = {item.name: item.sql for item in self.capture.objects if item.table == item.name}
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

    @property
    def extensions(self) -> tuple[str, ...]:
        """Return the names of the extensions that the schema needs."""
        return tuple(item.name for item in self.capture.objects if item.kind == "extension")

    @property
    def made_last(self) -> tuple[str, ...]:
        """Return what is made after the rows and has a mark of its kind, such as `view a.b`."""
        last = [item for item in self.capture.objects if item.stage == "after_rows"]
        return tuple(thing for item in last if (thing := _named(item)))

    def distribution(self, table: str, column: str) -> Distribution | None:
        """Return the distribution that a column of the copy has."""
        made = self.tables.get(table)
        column_made = made.columns.get(column) if made is not None else None
        return column_made.distribution if column_made is not None else None

    def as_engine(self, seed: int) -> dict[str, Any]:
        """Return the copy for the engine's job."""
        left_out = self._made[1]
        before = [item for item in self.capture.objects if item.stage == "before_rows"]
        indexes: dict[str, list[str]] = {}
        completion = []
        for item in self.capture.objects:
            if item.stage != "after_rows" or item.name in left_out:
                continue
            if item.kind in _OF_TABLE and item.table in self.tables:
                if item.kind != "check" or _surely_holds(item, self.tables):
                    indexes.setdefault(item.table, []).append(_on_all_parts(item))
            else:
                completion.append(_created(item))
        return {
            "kind": "capture",
            # The bodies of functions may name tables that are made after them.
            "creation": [
                "set check_function_bodies = off",
                *(self._broken_domains.get(item.name) or _created(item) for item in before),
            ],
            "marked": [thing for item in before if (thing := _named(item))],
            "removal": _removal(before),
            "tables": [
                _table_for_engine(table, indexes.get(name, []))
                for name, table in self.tables.items()
            ],
            "completion": [*self._counters(), *completion, *self._sequences()],
            "seed": seed,
        }

    def _counters(self) -> Iterator[str]:
        """Yield statements that put each counter above the keys that it has given."""
        for counter in self.capture.counters:
            group = [f"g{number}" for number, _ in enumerate(counter.group)]
            listed = "".join(f"{name}, " for name in group)
            by_group = f" GROUP BY {', '.join(group)}" if group else ""
            rows = []
            for key in counter.keys:
                named = [
                    f"{_quoted(c)} AS {name}, " for c, name in zip(key.group, group, strict=True)
                ]
                rows.append(f"SELECT {''.join(named)}{_quoted(key.column)} AS k FROM {key.table}")
            last = f"SELECT {listed}max(k) + 1 AS next FROM ({' UNION ALL '.join(rows)}) AS r"
            column = _quoted(counter.column)
            matched = [
                f"c.{_quoted(c)} = l.{name}" for c, name in zip(counter.group, group, strict=True)
            ]
            yield (
                f"UPDATE {counter.table} AS c SET {column} = l.next FROM ({last}{by_group}) AS l"
                f" WHERE {' AND '.join([*matched, f'c.{column} <> l.next'])}"
            )

    def _sequences(self) -> Iterator[str]:
        """Yield statements that put each sequence above the keys of all columns that it gives."""
        largest: dict[str, list[str]] = {}
        for name, table in self.tables.items():
            for column in table.columns.values():
                shape = column.shape
                if not (shape.sequence or shape.identity):
                    continue
                target = _literal(shape.sequence)
                if not shape.sequence:
                    names = f"{_literal(name)}, {_literal(shape.column)}"
                    target = f"pg_get_serial_sequence({names})"
                last = f"(select max({_quoted(shape.column)}) from {name})"
                largest.setdefault(target, []).append(last)
        for target, keys in largest.items():
            yield f"select setval({target}, greatest(1, {', '.join(keys)}))"


def _id(item: SchemaObject) -> tuple[str, str]:
    return item.table, item.name


def _surely_holds(check: SchemaObject, tables: Mapping[str, Table]) -> bool:
    """Return whether all rows satisfy a CHECK; without its rows, a table has no condition."""
    table = tables.get(check.table)
    if table is None:
        return True
    if check.is_broken_by_load:
        return False
    distributions = {name: column.distribution for name, column in table.columns.items()}
    return holds(check.sql, distributions)


def _on_all_parts(item: SchemaObject) -> str:
    """Return the statement of an index or key: that of a partitioned table is on its parts, too."""
    return item.sql.rstrip("; \n").replace(" ON ONLY ", " ON ", 1)


def _table_for_engine(table: Table, indexes: list[str]) -> dict[str, Any]:
    return {
        "name": table.shape.name,
        "is_partitioned": table.shape.is_partitioned,
        "rows": table.rows,
        "columns": [
            {
                "name": _quoted(column.shape.column),
                "distribution": column.distribution.model_dump(mode="json", exclude_defaults=True),
                "correlation": min(1.0, max(-1.0, column.shape.correlation or 0.0)),
                **_parents(table, column),
            }
            for column in table.columns.values()
        ],
        "keys": [[_quoted(column) for column in key] for key in table.keys],
        "links": [
            {
                **link,
                **{
                    part: [_quoted(column) for column in link[part]]
                    for part in ("columns", "referenced", "extra")
                },
            }
            for link in table.links
        ],
        "indexes": indexes,
    }


def _parents(table: Table, column: Column) -> dict[str, str]:
    """Return the key of the same table to which a column of a tree refers."""
    key = column.shape.references
    is_tree = key and key.table == table.shape.name and column.distribution.kind == "rank"
    is_unique = key and is_tree and table.columns[key.column].shape.is_unique
    return {"parent_in": _quoted(key.column)} if key and is_unique else {}


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _quoted(name: str) -> str:
    """Return the name of a column as SQL, always quoted."""
    return '"' + name.replace('"', '""') + '"'


def _removal(made: list[SchemaObject]) -> list[str]:
    """Return statements that drop the objects; schemas and extensions stay."""
    statements = []
    for kind in ("view", "table", "function", "type", "domain", "sequence"):
        names = [item.name for item in made if item.kind == kind]
        if names:
            word = "routine" if kind == "function" else kind
            statements.append(f"drop {word} if exists {', '.join(reversed(names))}")
    return statements


def _created(item: SchemaObject) -> str:
    """Return the statement that creates an object; schemas and extensions may exist already.

    A function that exists is somebody's: it is never replaced.
    """
    sql = item.sql.rstrip("; \n")
    if item.kind == "function":
        return sql.replace("CREATE OR REPLACE ", "CREATE ", 1)
    for kind in ("SCHEMA", "EXTENSION"):
        if sql.startswith(f"CREATE {kind} ") and "IF NOT EXISTS" not in sql:
            return sql.replace(f"CREATE {kind} ", f"CREATE {kind} IF NOT EXISTS ", 1)
    return sql


def _named(item: SchemaObject) -> str | None:
    """Return how COMMENT names an object; None for a kind without a mark."""
    word = {"partition": "table", "function": "routine"}.get(item.kind, item.kind)
    marked = ("table", "view", "routine", "type", "domain", "sequence")
    if word == "view" and "MATERIALIZED" in item.sql.split(" AS ")[0]:
        return f"materialized view {item.name}"
    return f"{word} {item.name}" if word in marked else None


def _within_digits(distribution: Distribution, digits: int, scale: int) -> Distribution:
    """Return the distribution without numbers that are too large for their type.

    A number in place of the largest one may be larger.
    """
    most = Decimal(10) ** (digits - scale) - Decimal(10) ** -scale

    def within(value: str) -> str:
        number = Decimal(value)
        return (
            value if not number.is_finite() or abs(number) <= most else f"{most.copy_sign(number)}"
        )

    hot = tuple(h.model_copy(update={"value": within(h.value)}) for h in distribution.hot)
    changes = {"bounds": tuple(map(within, distribution.bounds)), "hot": hot}
    return distribution.model_copy(update=changes)


def _typed(column: ColumnShape, distribution: Distribution) -> Distribution:
    """Return the distribution with what the column's type demands."""
    if column.type == "cidr" and distribution.bounds:
        # An address between two networks has another form.
        return distribution.model_copy(update={"kind": "other"})
    if distribution.kind == "other" and not (distribution.bounds or distribution.hot):
        kind, bounds = _TYPICAL.get(column.type.partition("(")[0], ("other", ()))
        return distribution.model_copy(update={"kind": kind, "bounds": bounds})
    if distribution.kind == "numeric" and (digits := _DIGITS.match(column.type)):
        return _within_digits(distribution, int(digits[1]), int(digits[2] or 0))
    if distribution.kind in ("array", "range") and distribution.element is None:
        if distribution.bounds or distribution.hot:
            return distribution.model_copy(update={"kind": "other"})
        named = column.type.removesuffix("[]").partition("(")[0]
        element = Distribution(kind=_ELEMENTS.get(named, "text"), distinct=100)
        return distribution.model_copy(update={"element": element})
    if distribution.kind in ("text", "bytes", "json"):
        # The server counts the header of a value: a byte, or four for long values.
        header_bytes = 1 if distribution.width < 127 else 4
        if column.type == "jsonb" and not distribution.bounds:
            # What jsonb adds to the document that the engine makes.
            header_bytes += _JSONB_BYTES
        width = max(0.0, distribution.width - header_bytes)
        distribution = distribution.model_copy(update={"width": width})
    limit = _LIMITED.match(column.type)
    if limit is not None and distribution.kind == "text":
        most = float(limit[1])
        length = Spread(least=0, mean=min(most, distribution.width or most), most=most)
        return distribution.model_copy(update={"length": length})
    return distribution
