"""The schema of a database as SQL: everything that statements can use, and the sizes of tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pgdyno.features.capture.reading import catalog
from pgdyno.features.capture.reading.other_objects import other_objects, sequence_options
from pgdyno.features.capture.reading.utilities import without_comments
from pgdyno.features.capture.schema import IndexShape, KeyReference, SchemaObject, TableShape

Rows = list[tuple[Any, ...]]
Fetch = Callable[[str], Rows]
_CONSTRAINTS = {
    "c": "check",
    "p": "primary_key",
    "u": "unique",
    "x": "exclusion",
    "f": "foreign_key",
}
_IDENTITY = {"a": "always", "d": "by default"}
# Extensions that only observe.
_NOT_OF_THE_LOAD = {"pg_stat_statements", "pg_wait_sampling", "pg_buffercache", "pgstattuple"}
_PERSISTENCE = {"u": "UNLOGGED "}


@dataclass(frozen=True, slots=True)
class CatalogColumn:
    """A column as the catalogs describe it. `place`: schema, table and column without quotes."""

    table: str
    name: str
    bare_name: str
    type: str
    base_type: str
    base_kind: str
    category: str
    is_not_null: bool
    identity: str
    generated: str
    is_virtual: bool
    default: str
    collation: str
    enum_name: str
    element_type: str
    place: tuple[str, str, str]


# Objects before the functions, tables, objects after them; rows of functions; what uses them.
_Parts = tuple[list[SchemaObject], list[SchemaObject], list[SchemaObject], Rows, list[str]]


@dataclass(slots=True)
class Schema:
    """Everything about the schema that a capture keeps, and what its columns need.

    `unused`: the functions that nothing in the capture uses, so that they are not in it.
    """

    objects: list[SchemaObject] = field(default_factory=list)
    tables: list[TableShape] = field(default_factory=list)
    indexes: list[IndexShape] = field(default_factory=list)
    columns: list[CatalogColumn] = field(default_factory=list)
    enums: dict[str, tuple[str, ...]] = field(default_factory=dict)
    unique: set[tuple[str, str]] = field(default_factory=set)
    keys: dict[tuple[str, str], int] = field(default_factory=dict)
    references: dict[tuple[str, str], KeyReference] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    unused: tuple[str, ...] = ()
    _parts: _Parts | None = None

    def use(self, texts: Iterable[str]) -> None:
        """Keep the functions that these statements use, too."""
        if self._parts is None:
            return
        first, tables, rest, rows, uses = self._parts
        uses += texts
        notes: list[str] = []
        early, late = _functions(rows, uses, notes)
        kept = {item.name for item in (*early, *late)}
        self.unused = tuple(name for name, *_ in rows if name not in kept)
        self.notes += [note for note in notes if note not in self.notes]
        self.objects = [*first, *early, *tables, *late, *rest]

    @property
    def every_function(self) -> list[SchemaObject]:
        """Return all functions of the database, and its types."""
        first, _, _, rows, _ = self._parts or ((), (), (), (), ())
        made = [SchemaObject(kind="function", name=n, sql=text.strip()) for n, text, *_ in rows]
        return [*made, *(item for item in first if item.kind == "type")]

    @property
    def names(self) -> set[str]:
        """Return the qualified names of tables and views."""
        views = {item.name for item in self.objects if item.kind == "view"}
        return views | {shape.name for shape in self.tables}


def read_schema(fetch: Fetch, texts: Sequence[str]) -> Schema:
    """Return the schema. `texts`: the statements, which decide what functions are kept."""
    schema = Schema()
    columns = [_column(row) for row in fetch(catalog.COLUMNS_SQL)]
    schema.columns = columns
    by_table: dict[str, list[CatalogColumn]] = {}
    for column in columns:
        by_table.setdefault(column.table, []).append(column)
    schema.objects += _simple_objects(fetch, schema)
    identities = {
        tuple(row[:2]): sequence_options(*row[2:]) for row in fetch(catalog.IDENTITIES_SQL)
    }
    after = [*_keys(fetch(catalog.CONSTRAINTS_SQL), schema)]
    after += _indexes(fetch(catalog.INDEXES_SQL), schema)
    after += _triggers(fetch(catalog.TRIGGERS_SQL))
    after += _statistics(fetch(catalog.EXTENDED_SQL))
    views = list(_views(fetch(catalog.VIEWS_SQL)))
    tables = list(_tables(fetch(catalog.TABLES_SQL), by_table, schema, identities))
    aggregates = [item for item in schema.objects if item.kind == "aggregate"]
    uses = [*texts, *(item.sql for item in (*after, *views, *tables, *aggregates))]
    functions = fetch(catalog.FUNCTIONS_SQL)
    schema._parts = (list(schema.objects), tables, [*views, *after], functions, uses)
    schema.use(())
    return schema


def _column(row: tuple[Any, ...]) -> CatalogColumn:
    table, quoted, bare, type_, base, base_kind, category, not_null, identity, generated = row[:10]
    default, collation, enum_name, element, schema_name, table_name = row[10:16]
    return CatalogColumn(
        table=table,
        name=quoted,
        bare_name=bare,
        type=type_,
        base_type=base,
        base_kind=base_kind,
        category=category,
        is_not_null=not_null,
        identity=_IDENTITY.get(identity, ""),
        generated=default if generated else "",
        is_virtual=generated == "v",
        default="" if generated else default or "",
        collation=collation or "",
        enum_name=enum_name,
        element_type=element or "",
        place=(schema_name, table_name, bare),
    )


def _simple_objects(fetch: Fetch, schema: Schema) -> Iterator[SchemaObject]:
    """Yield schemas, extensions, types and sequences."""
    for (name,) in fetch(catalog.SCHEMAS_SQL):
        if name != "public":
            yield SchemaObject(kind="schema", name=name, sql=f"CREATE SCHEMA {name}")
    for name, home, _ in fetch(catalog.EXTENSIONS_SQL):
        if name in _NOT_OF_THE_LOAD:
            continue
        place = "" if home in ("pg_catalog", "public") else f" SCHEMA {home}"
        sql = f"CREATE EXTENSION IF NOT EXISTS {name}{place}"
        yield SchemaObject(kind="extension", name=name, sql=sql)
    for name, labels in fetch(catalog.ENUMS_SQL):
        schema.enums[name] = tuple(labels)
        listed = ", ".join("'" + label.replace("'", "''") + "'" for label in labels)
        yield SchemaObject(kind="type", name=name, sql=f"CREATE TYPE {name} AS ENUM ({listed})")
    yield from other_objects(fetch, schema.notes)
    for name, fields in fetch(catalog.COMPOSITES_SQL):
        yield SchemaObject(kind="type", name=name, sql=f"CREATE TYPE {name} AS ({fields})")
    for name, base, is_not_null, default, checks in fetch(catalog.DOMAINS_SQL):
        sql = f"CREATE DOMAIN {name} AS {base}" + (f" DEFAULT {default}" if default else "")
        sql += " NOT NULL" if is_not_null else ""
        yield SchemaObject(kind="domain", name=name, sql=" ".join([sql, *(checks or ())]))
    for name, type_, *options in fetch(catalog.SEQUENCES_SQL):
        sql = f"CREATE SEQUENCE {name} AS {type_}{sequence_options(*options)}"
        yield SchemaObject(kind="sequence", name=name, sql=sql)


def _tables(
    rows: Rows,
    by_table: dict[str, list[CatalogColumn]],
    schema: Schema,
    identities: Mapping[tuple[Any, ...], str],
) -> Iterator[SchemaObject]:
    for row in rows:
        _, name, is_parent, is_partition, persistence, parent, bound, key, options = row[:9]
        has_security, count, size, index_bytes, toast_bytes, dead, has_rules, estimated = row[9:17]
        columns = (
            [] if is_partition else [_column_sql(c, identities) for c in by_table.get(name, ())]
        )
        sql = f"CREATE {_PERSISTENCE.get(persistence, '')}TABLE {name}"
        sql += f" PARTITION OF {parent} {bound}" if is_partition else f" ({', '.join(columns)})"
        if parent and not is_partition:
            schema.notes.append(f"{name} inherits from {parent}: the copy has two separate tables")
        sql += f" PARTITION BY {key}" if is_parent else ""
        sql += f" WITH ({options})" if options else ""
        if has_security:
            schema.notes.append(f"{name} has row security: its policies are not in the capture")
        if has_rules:
            schema.notes.append(f"{name} has rules: they are not in the capture")
        if estimated:
            schema.notes.append(
                f"{name} was never analyzed: its {count:,.0f} rows are estimated {estimated},"
                " and nothing is known of its values"
            )
        schema.tables.append(
            TableShape(
                name=name,
                rows=count,
                bytes=size,
                index_bytes=index_bytes,
                toast_bytes=toast_bytes,
                dead_rows=dead,
                partition_of=parent if is_partition else "",
                is_partitioned=is_parent,
            )
        )
        kind = "partition" if is_partition else "table"
        yield SchemaObject(kind=kind, name=name, table=name, sql=sql)


def _column_sql(column: CatalogColumn, identities: Mapping[tuple[Any, ...], str]) -> str:
    sql = f"{column.name} {column.type}"
    sql += f" COLLATE {column.collation}" if column.collation else ""
    if column.generated:
        kept = "VIRTUAL" if column.is_virtual else "STORED"
        sql += f" GENERATED ALWAYS AS ({column.generated}) {kept}"
    elif column.identity:
        sql += f" GENERATED {column.identity.upper()} AS IDENTITY"
        options = identities.get((column.table, column.bare_name), "")
        sql += f" ({options.strip()})" if options else ""
    elif column.default:
        sql += f" DEFAULT {column.default}"
    return sql + (" NOT NULL" if column.is_not_null else "")


def _keys(rows: Rows, schema: Schema) -> Iterator[SchemaObject]:
    """Yield the constraints; note keys and references."""
    for table, kind, name, definition, columns, referenced, their_columns, _ in rows:
        if kind in ("p", "u") and len(columns) == 1:
            schema.unique.add((table, columns[0]))
        if kind == "p":
            schema.keys |= {(table, column): n for n, column in enumerate(columns, 1)}
        if kind == "f":
            for column, theirs in zip(columns, their_columns, strict=True):
                reference = KeyReference(table=referenced, column=theirs, constraint=name)
                schema.references.setdefault((table, column), reference)
        yield SchemaObject(
            kind=_CONSTRAINTS[kind],
            name=name,
            table=table,
            sql=f"ALTER TABLE {table} ADD CONSTRAINT {name} {definition}",
            stage="after_rows",
        )


def _indexes(rows: Rows, schema: Schema) -> Iterator[SchemaObject]:
    """Yield the indexes that belong to no constraint; note the sizes of all."""
    for name, table, definition, size, is_constraint, is_child, is_unique, column in rows:
        schema.indexes.append(IndexShape(name=name, table=table, bytes=size))
        if is_unique and column is not None:
            schema.unique.add((table, column))
        if not is_constraint and not is_child:
            yield SchemaObject(
                kind="index", name=name, table=table, sql=definition, stage="after_rows"
            )


def _triggers(rows: Rows) -> Iterator[SchemaObject]:
    for name, table, definition in rows:
        yield SchemaObject(
            kind="trigger", name=name, table=table, sql=definition, stage="after_rows"
        )


def _statistics(rows: Rows) -> Iterator[SchemaObject]:
    for name, table, definition in rows:
        yield SchemaObject(
            kind="statistics", name=name, table=table, sql=definition, stage="after_rows"
        )


def _views(rows: Rows) -> Iterator[SchemaObject]:
    for name, definition, is_stored in rows:
        body = definition.strip().rstrip(";")
        word, end = ("MATERIALIZED VIEW", " WITH NO DATA") if is_stored else ("VIEW", "")
        stage = "after_rows" if is_stored else "before_rows"
        sql = f"CREATE {word} {name} AS {body}{end}"
        yield SchemaObject(kind="view", name=name, sql=sql, stage=stage)


def _functions(
    rows: Rows, uses: Iterable[str], notes: list[str]
) -> tuple[list[SchemaObject], list[SchemaObject]]:
    """Return the functions that are used: those for before the tables, those for after them.

    A body in standard SQL is checked when the function is created; a body in a string is not
    checked with check_function_bodies = off.
    """
    texts = {(name, definition): is_c for name, definition, is_c, _ in rows}
    words = set(re.findall(r"\w+", " ".join(uses)))
    kept: list[tuple[str, str]] = []
    left = list(texts)
    while used := [item for item in left if _last(item[0]) in words]:
        kept += used
        left = [item for item in left if item not in used]
        words |= {word for _, definition in used for word in re.findall(r"\w+", definition)}
    early: list[SchemaObject] = []
    late: list[SchemaObject] = []
    for item in sorted(kept, key=list(texts).index):
        name, definition = item
        if texts[item]:
            notes.append(f"{name} is a function in C: the copy needs its library")
        is_checked = re.search(r"(?mi)^\s*(BEGIN ATOMIC|RETURN )", definition)
        (late if is_checked else early).append(
            SchemaObject(kind="function", name=name, sql=_without_comments(definition).strip())
        )
    return early, late


def _without_comments(definition: str) -> str:
    """Return the definition of a function without comments in its body, which may have values.

    Limits: only of SQL and PL/pgSQL whose body has no text in another form than '...'.
    """
    parts = re.fullmatch(
        r"(.*?\bLANGUAGE (?:sql|plpgsql)\b.*?AS (\$\w*\$))(.*)(\2\s*)", definition, re.S
    )
    if parts is None or re.search(r"\$\w*\$|\bE'", parts[3], re.I):
        return definition
    return parts[1] + without_comments(parts[3]) + parts[4]


def _last(name: str) -> str:
    return name.rpartition(".")[2].strip('"')
