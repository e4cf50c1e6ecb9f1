"""The schema of a captured database, and the shape of its tables: no value of any row.

Names of tables and other objects are qualified and quoted where SQL needs it: `public."Order"`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field

from pgdyno.engine.distribution import ROWS_MAX, CapturePart, Distribution, ValueKind

ObjectKind = Literal[
    "schema",
    "extension",
    "type",
    "domain",
    "function",
    "sequence",
    "table",
    "partition",
    "index",
    "primary_key",
    "unique",
    "check",
    "exclusion",
    "foreign_key",
    "trigger",
    "statistics",
    "view",
    "default",
    "collation",
    "aggregate",
    "search_dictionary",
    "search_configuration",
]
Stage = Literal["before_rows", "after_rows"]


# A name, or a part of a qualified name, as quote_ident writes it. Subtle: "a""b" is one name and
# never two, or a name of 30 quotes in the index of a tenant would take hours.
_NAME = r'(?>"(?:[^"]|"")*")'
_PART = re.compile(rf'{_NAME}|[^."]+')
_LISTED = re.compile(rf"\s*({_NAME}|[^\s,]+)(?:{_NAME}|[^,])*")
_LOWER = re.compile(rf"\b(?:lower|upper)\(\(?({_NAME}|\w+)\)?(?:::text)?\)")
_KEY = re.compile(rf"\b(?:UNIQUE|USING btree)\b[^()]*\(((?:{_NAME}|[^()\"])*)\)")


KIND_OF_TYPE: dict[str, ValueKind] = {
    **dict.fromkeys(("smallint", "integer", "bigint"), "integer"),
    **dict.fromkeys(("real", "double precision"), "real"),
    **dict.fromkeys(("text", "character varying", "character", "name", "unknown"), "text"),
    **dict.fromkeys(("json", "jsonb"), "json"),
    **{name: name for name in ("numeric", "boolean", "date", "uuid", "interval")},
    "timestamp without time zone": "timestamp",
    "timestamp with time zone": "timestamptz",
    "bytea": "bytes",
}
"""The kind of the values of a type, as the server shows the type."""


class SchemaObject(CapturePart):
    """One object as SQL. The order of the objects of a stage is the order to create them.

    `table`: the table of an index, a constraint, a trigger or statistics.
    `is_broken_by_load`: the load may write values that the condition of a CHECK or domain refuses.
    """

    kind: ObjectKind
    name: str
    sql: str
    stage: Stage = "before_rows"
    table: str = ""
    is_broken_by_load: bool = False


class TableShape(CapturePart):
    """The size of a table. `partition_of`: its parent; a parent has the rows of no partition."""

    name: str
    rows: Annotated[float, Field(ge=0, le=ROWS_MAX)]
    bytes: Annotated[int, Field(ge=0)]
    index_bytes: Annotated[int, Field(ge=0)] = 0
    toast_bytes: Annotated[int, Field(ge=0)] = 0
    dead_rows: int = 0
    partition_of: str = ""
    is_partitioned: bool = False


class IndexShape(CapturePart):
    """The size of an index."""

    name: str
    table: str
    bytes: int


class KeyReference(CapturePart):
    """The column that a foreign key references. `constraint` joins the columns of one key."""

    table: str
    column: str
    constraint: str = ""


class ColumnShape(CapturePart):
    """A column and the distribution of its values.

    `type`: as SQL. `is_unique`: it is a unique key or primary key alone. `key_position`: its
    place in the primary key from 1, 0 outside. `generated`: the expression of a generated column.
    `identity`: "always", "by default", or "". `sequence`: the one that its default uses.
    `moves_to`: not used any more.
    `correlation` is that of its order with the order of the rows on disk.
    """

    table: str
    column: str
    type: str
    is_not_null: bool = False
    is_unique: bool = False
    key_position: int = 0
    generated: str = ""
    identity: Literal["", "always", "by default"] = ""
    sequence: str = ""
    has_default: bool = False
    references: KeyReference | None = None
    moves_to: tuple[KeyReference, ...] = ()
    distribution: Distribution
    correlation: float | None = None


class ColumnGroup(CapturePart):
    """How many different combinations columns have, in captures of earlier versions."""

    table: str
    columns: tuple[str, ...]
    distinct: Annotated[float, Field(ge=0, allow_inf_nan=False)]


def domains_by_type(objects: Iterable[SchemaObject]) -> dict[str, str]:
    """Return the SQL of each domain by the names that a column's type may have."""
    domains = [item for item in objects if item.kind == "domain"]
    # A type has no schema if its schema is in the search path.
    by_bare_name = {item.name.rpartition(".")[2]: item.sql for item in domains}
    return {**by_bare_name, **{item.name: item.sql for item in domains}}


def bare(name: str) -> str:
    """Return an identifier without its quotes."""
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def in_quotes(name: str) -> str:
    """Return a name as SQL, in quotes because it may be a keyword; example: a"b -> "a""b"."""
    return '"' + name.replace('"', '""') + '"'


def as_literal(text: str) -> str:
    """Return a text as a constant of SQL; example: it's -> 'it''s'."""
    return "'" + text.replace("'", "''") + "'"


def parts_of(name: str) -> tuple[str, str]:
    """Return schema and name of a qualified name, without quotes; "" without a schema."""
    *schema, own = map(bare, _PART.findall(name))
    return (schema[0] if schema else "", own)


def key_columns(sql: str, *, with_lower: bool = False) -> tuple[str, ...]:
    """Return the columns of a unique constraint or a unique index, without quotes.

    An index on lower(a) has the column a: different texts there are different here, too.
    Limits: none if it has other expressions.
    """
    plain = _LOWER.sub(r"\1", sql) if with_lower else sql
    listed = _KEY.search(plain) if " UNIQUE " in sql else None
    return tuple(bare(name) for name in _LISTED.findall(listed[1])) if listed else ()
