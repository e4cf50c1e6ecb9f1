"""Which dataset a database has, and who owns it. `removal.py` drops what pgdyno made.

The loader leaves a mark on every table it makes, as the table's comment:
`pgdyno dataset pgbench scale=50 fillfactor=100 ...`. Tables without the mark belong to somebody
else: pgdyno never drops, truncates or vacuums them. The mark names the kind of dataset.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, LiteralString

import psycopg
from psycopg import sql

from pgdyno.errors import ServerError
from pgdyno.server.connect import Connection
from pgdyno.server.dataset.kind import DatasetKind
from pgdyno.server.dataset.kinds import KINDS
from pgdyno.server.dataset.pgbench_tables import PGBENCH
from pgdyno.server.failures import step_for

MARK = "pgdyno dataset"
# The loader's journal exists until a load is finished. Its comment begins with the mark.
JOURNAL = "pgdyno_load"

_INTERRUPTED = "their load was interrupted"

DatasetState = Literal["none", "partial", "complete"]


@dataclass(frozen=True, slots=True)
class Dataset:
    """The existing tables of one kind of dataset in one database.

    `scale`: the size in the kind's unit (pgbench: branches), None if the table with the size does
    not exist. `options`: from the mark. `why_partial`: the missing parts. `interrupted`: the
    options of a load that was not finished, None without such a load.
    """

    state: DatasetState
    is_marked: bool = False
    scale: int | None = None
    schema: str = "public"
    tables: tuple[str, ...] = ()
    size_bytes: int = 0
    options: Mapping[str, str] = field(default_factory=dict)
    why_partial: str = ""
    interrupted: Mapping[str, str] | None = None
    kind: str = PGBENCH.name
    schemas: tuple[str, ...] = ()
    """The schema of each table, if they are in several schemas."""
    lacks: str = ""
    """What the server refused when the tables were made, in words."""

    @property
    def identifiers(self) -> list[sql.Identifier]:
        """Return the qualified names of the tables."""
        schemas = self.schemas or (self.schema,) * len(self.tables)
        return [sql.Identifier(*name) for name in zip(schemas, self.tables, strict=True)]

    def as_document(self) -> dict[str, Any]:
        """Return the dataset as values for a stored result."""
        return asdict(self)

    def __str__(self) -> str:
        if self.state == "none":
            return f"no {self.kind} tables"
        owner = "by pgdyno" if self.is_marked else "not by pgdyno"
        if self.state == "partial":
            return f"incomplete {self.kind} tables {owner}: {self.why_partial}"
        lacks = f" ({self.lacks})" if self.lacks else ""
        return f"{KINDS[self.kind].size_words(self.scale)} {owner}{lacks}"


def inspect(connection: Connection, kind: DatasetKind | None = None) -> Dataset:
    """Return the dataset that unqualified table names refer to in a session of the load.

    Args: connection, with the user, database and options of the load; kind, to look for; None: the
    first whose tables carry the mark, else the pgbench tables.
    Reads the catalogue and, in read-only transactions, few rows of small tables and keys; never a
    whole large table, a view, or a table with code of others.
    Raises: ServerError if the tables may not be read.
    """
    if kind is not None:
        return _inspect(connection, kind)
    return next(marked_datasets(connection), None) or _inspect(connection, PGBENCH)


def marked_datasets(connection: Connection) -> Iterator[Dataset]:
    """Yield the marked datasets, those of pgbench first.

    Tables with common names such as "customer" are examined only if they are marked.
    """
    looked_at = (_inspect(connection, kind) for kind in _marked_kinds(connection))
    yield from (dataset for dataset in looked_at if dataset.is_marked)


def _marked_kinds(connection: Connection) -> list[DatasetKind]:
    row = connection.execute(
        "SELECT array_agg(DISTINCT split_part(d.description, ' ', 3))"
        " FROM pg_description d JOIN pg_class c ON c.oid = d.objoid"
        " JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE d.classoid = 'pg_class'::regclass AND d.objsubid = 0"
        " AND d.description LIKE %s AND (n.nspname = ANY (%s)"
        " OR split_part(d.description, ' ', 3) = ANY (%s))",
        [
            MARK + " %",
            list(connection.load_schemas),
            [kind.name for kind in KINDS.values() if not kind.tables],
        ],
    ).fetchone()
    names = (row[0] if row is not None else None) or []
    return [kind for name, kind in KINDS.items() if name in names]


def _inspect(connection: Connection, kind: DatasetKind) -> Dataset:
    rows = connection.execute(
        "SELECT c.relname, n.nspname, obj_description(c.oid, 'pg_class'), c.relkind,"
        " (SELECT coalesce(sum(pg_total_relation_size(t.relid)), 0)"
        "    FROM pg_partition_tree(c.oid) t)::int8 + CASE WHEN c.relkind = 'r'"
        "    AND NOT c.relispartition THEN pg_total_relation_size(c.oid) ELSE 0 END,"
        " EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary"
        "    AND i.indisvalid), asked.name, c.oid"
        " FROM unnest(%s::text[], %s::oid[]) AS asked (name, oid)"
        " JOIN pg_class c ON c.oid = asked.oid"
        " JOIN pg_namespace n ON n.oid = c.relnamespace"
        " ORDER BY c.relname, n.nspname",
        list(_asked(connection, kind)),
    ).fetchall()
    interrupted = _interrupted(connection, kind)
    if not rows and interrupted is not None:
        return Dataset(
            "partial", True, interrupted=interrupted, why_partial=_INTERRUPTED, kind=kind.name
        )
    if not rows:
        return Dataset("none", kind=kind.name)
    names = tuple(str(row[0]) for row in rows)
    schemas = tuple(str(row[1]) for row in rows)
    marks = [str(row[2] or "") for row in rows]
    # A view leads elsewhere, and code of others would run with the rights of this role.
    odd = [row[1:2] + row[0:1] for row in rows if str(row[3]) not in _TABLES]
    odd += foreign_code(connection, [int(row[7]) for row in rows])
    dataset = Dataset(
        state="partial",
        is_marked=not odd and all(_is_of(mark, kind) for mark in marks),
        schema=schemas[0],
        schemas=schemas if len(set(schemas)) > 1 else (),
        tables=names,
        size_bytes=sum(int(row[4]) for row in rows),
        options=_options(marks[0]),
        interrupted=interrupted,
        kind=kind.name,
    )
    if dataset.is_marked:
        dataset = replace(dataset, lacks=kind.lacks(connection))
    if dataset.options.get("distribute", "").startswith("citus"):
        shards_bytes = _shards_bytes(connection, [int(row[7]) for row in rows])
        dataset = replace(dataset, size_bytes=dataset.size_bytes + shards_bytes)
    if odd:
        named = ", ".join(".".join(map(str, name)) for name in dict.fromkeys(map(tuple, odd)))
        return replace(dataset, why_partial=f"{named} {_NOT_READ}")
    present = {str(row[6]) for row in rows}
    missing = [name for name in kind.tables if name not in present]
    has_key = {str(row[0]): bool(row[5]) for row in rows}
    keyed = [] if kind.is_found_by_mark else [n for n in names if n not in kind.keyless]
    keyless = [name for name in keyed if not has_key[name]]
    return _judged(connection, dataset, missing, keyless)


def _asked(connection: Connection, kind: DatasetKind) -> tuple[list[str], list[int]]:
    """Return the names of the tables of a kind, and the relations that they mean for the load."""
    if kind.tables and kind.is_found_by_mark:
        # The file of a capture has the names of its tables qualified and quoted.
        rows = connection.execute(
            "SELECT name, to_regclass(name)::oid FROM unnest(%s::text[]) AS name"
            " WHERE to_regclass(name) IS NOT NULL",
            [list(kind.tables)],
        ).fetchall()
        return [str(name) for name, _ in rows], [int(oid) for _, oid in rows]
    if kind.tables:
        relations = relations_of(connection, kind.tables)
        return list(relations), list(relations.values())
    rows = connection.execute(
        "SELECT c.oid::regclass::text, c.oid, c.relname FROM pg_description d"
        " JOIN pg_class c ON c.oid = d.objoid"
        " WHERE d.classoid = 'pg_class'::regclass AND d.objsubid = 0 AND c.relkind IN ('r', 'p')"
        " AND NOT c.relispartition AND d.description LIKE %s",
        [f"{MARK} {kind.name} %"],
    ).fetchall()
    named = [(str(name), int(oid)) for name, oid, bare in rows if bare != JOURNAL]
    return [name for name, _ in named], [oid for _, oid in named]


def relations_of(connection: Connection, names: Iterable[str]) -> dict[str, int]:
    """Return the relation (its oid) that each name without a schema means in the load's path."""
    rows = connection.execute(
        "SELECT DISTINCT ON (c.relname) c.relname::text, c.oid"
        " FROM unnest(%s::text[]) WITH ORDINALITY AS path (name, place)"
        " JOIN pg_namespace n ON n.nspname = path.name"
        " JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = ANY (%s::text[])"
        " WHERE c.relkind NOT IN ('i', 'I', 'c') ORDER BY c.relname, path.place",
        [list(connection.load_schemas), list(names)],
    ).fetchall()
    return {str(name): int(oid) for name, oid in rows}


def use_tables(connection: Connection) -> None:
    """Let `connection.qualified` know the tables of all kinds, as the load means them."""
    names = [name for kind in KINDS.values() for name in (*kind.tables, *kind.sequences)]
    connection.tables = {
        name: sql.Identifier(schema, name) for schema, name in _places(connection, names)
    }


def schemas_of(connection: Connection, names: Iterable[str]) -> list[str]:
    """Return the schemas of the relations that the load means by these names."""
    return [schema for schema, _ in _places(connection, names)]


def _places(connection: Connection, names: Iterable[str]) -> list[tuple[str, str]]:
    """Return schema and name of the relations that the load means by these names."""
    rows = connection.execute(
        "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE c.oid = ANY (%s::oid[])",
        [list(relations_of(connection, names).values())],
    ).fetchall()
    return [(str(schema), str(name)) for schema, name in rows]


_TABLES = ("r", "p")
_NOT_READ = "is a view, a foreign table, or has functions of other users, so it was not read"


def foreign_code(connection: Connection, oids: Sequence[int]) -> list[tuple[str, str]]:
    """Return the tables (schema, name), of these and their children, that have code of others.

    Code: a function, operator or type that a trigger, rule, policy, constraint, default, index or
    statistics object of the table names, or a table with a foreign key to it. It would run with the
    rights of this role. Of others: its owner is neither a role whose rights we have, nor a
    superuser. A foreign table is code as well.
    """
    rows = connection.execute(_FOREIGN_CODE, [list(oids)]).fetchall()
    return [(str(schema), str(name)) for schema, name in rows]


def landlords(connection: Connection, schemas: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the roles that can put another table in the place of one of ours.

    Who owns a schema can drop its tables, and who may create in the database or in an earlier
    schema of the path can make a table that is found first. Returns: none, if the role of the
    session is not a superuser.
    Args: schemas, those of the tables, in addition to the path of the load.
    """
    path = [*connection.load_schemas, *schemas]
    first = list(connection.load_schemas[:-1])
    rows = connection.execute(_LANDLORDS, [path, first]).fetchall()
    return tuple(str(name) for (name,) in rows)


_LANDLORDS: LiteralString = (
    "SELECT DISTINCT coalesce(o.rolname, 'PUBLIC') FROM ("
    "  SELECT datdba FROM pg_database WHERE datname = current_database()"
    "  UNION SELECT a.grantee FROM pg_database, aclexplode(datacl) a"
    "  WHERE datname = current_database() AND a.privilege_type = 'CREATE'"
    "  UNION SELECT nspowner FROM pg_namespace WHERE nspname = ANY (%s)"
    "  UNION SELECT a.grantee FROM pg_namespace, aclexplode(nspacl) a"
    "  WHERE nspname = ANY (%s) AND a.privilege_type = 'CREATE'"
    " ) may (oid) LEFT JOIN pg_roles o ON o.oid = may.oid JOIN pg_roles me"
    " ON me.rolname = session_user AND me.rolsuper"
    # The owner of the database is named by itself.
    " WHERE NOT coalesce(o.rolsuper, false) AND o.rolname IS DISTINCT FROM 'pg_database_owner'"
    " ORDER BY 1"
)


# What PostgreSQL brings is pinned, and has no entry in pg_depend.
_FOREIGN_CODE: LiteralString = (
    "WITH RECURSIVE family (oid) AS (SELECT unnest(%s::oid[])"
    " UNION SELECT i.inhrelid FROM pg_inherits i JOIN family f ON f.oid = i.inhparent),"
    " parts (family, class, oid) AS ("
    "  SELECT oid, 'pg_class'::regclass::oid, oid FROM family"
    "  UNION SELECT indrelid, 'pg_class'::regclass, indexrelid FROM pg_index"
    "  UNION SELECT tgrelid, 'pg_trigger'::regclass, oid FROM pg_trigger"
    "  UNION SELECT ev_class, 'pg_rewrite'::regclass, oid FROM pg_rewrite"
    "  UNION SELECT polrelid, 'pg_policy'::regclass, oid FROM pg_policy"
    "  UNION SELECT conrelid, 'pg_constraint'::regclass, oid FROM pg_constraint"
    "  UNION SELECT adrelid, 'pg_attrdef'::regclass, oid FROM pg_attrdef"
    "  UNION SELECT stxrelid, 'pg_statistic_ext'::regclass, oid FROM pg_statistic_ext),"
    " used (family, owner) AS ("
    "  SELECT p.family, coalesce(f.proowner, o.oprowner, t.typowner, c.opcowner)"
    "  FROM parts p JOIN pg_depend d ON d.classid = p.class AND d.objid = p.oid"
    "  LEFT JOIN pg_proc f ON d.refclassid = 'pg_proc'::regclass AND f.oid = d.refobjid"
    "  LEFT JOIN pg_operator o ON d.refclassid = 'pg_operator'::regclass AND o.oid = d.refobjid"
    "  LEFT JOIN pg_type t ON d.refclassid = 'pg_type'::regclass AND t.oid = d.refobjid"
    "  LEFT JOIN pg_opclass c ON d.refclassid = 'pg_opclass'::regclass AND c.oid = d.refobjid"
    "  WHERE p.family IN (SELECT oid FROM family)"
    # What a foreign key deletes or changes in another table fires triggers there.
    "  UNION SELECT k.confrelid, r.relowner FROM pg_constraint k JOIN pg_class r"
    "  ON r.oid = k.conrelid WHERE k.contype = 'f' AND k.confrelid IN (SELECT oid FROM family)"
    "  UNION SELECT p.family, r.relowner FROM parts p JOIN pg_class r ON r.oid = p.family"
    "  WHERE p.family IN (SELECT oid FROM family)"
    "  AND (r.relkind = 'f' OR p.class = 'pg_rewrite'::regclass AND r.relkind IN ('r', 'p')))"
    " SELECT DISTINCT n.nspname, c.relname FROM used u JOIN pg_class c ON c.oid = u.family"
    " JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_roles o ON o.oid = u.owner"
    # A database may set another role, which every function can leave again. A superuser is a member
    # of every role, so membership says nothing of it.
    " JOIN pg_roles me ON me.rolname = session_user"
    " WHERE NOT o.rolsuper AND CASE WHEN me.rolsuper THEN true"
    " ELSE NOT pg_has_role(o.oid, 'USAGE') END"
)


def _shards_bytes(connection: Connection, oids: list[int]) -> int:
    """Return the size of these tables on the workers of Citus; the coordinator has empty ones."""
    row = connection.execute(
        "SELECT coalesce(sum(pg_catalog.citus_total_relation_size(logicalrelid, false)), 0)::int8"
        " FROM pg_catalog.pg_dist_partition WHERE logicalrelid::oid = ANY (%s::oid[])",
        [oids],
    ).fetchone()
    return int(row[0]) if row is not None else 0


def mark_text(kind: str, options: Mapping[str, object]) -> str:
    """Return the mark that the loader writes, with the options of the load."""
    words = [f"{name}={value}" for name, value in sorted(options.items()) if value is not None]
    return " ".join([MARK, kind, *words])


def _is_of(mark: str, kind: DatasetKind) -> bool:
    start = f"{MARK} {kind.name}"
    return mark == start or mark.startswith(start + " ")


def require_complete(dataset: Dataset) -> int:
    """Return the scale. Raises: ServerError with the missing parts and how to load them."""
    if dataset.state == "complete" and dataset.scale is not None:
        return dataset.scale
    raise ServerError(
        f"This database has {dataset}.",
        hint=_how_to_complete(dataset),
        sqlstate="42P01" if dataset.state == "none" else None,
    )


def _how_to_complete(dataset: Dataset) -> str:
    kind = KINDS[dataset.kind]
    verb = "init" if kind is PGBENCH else f"init {kind.name}"
    option = "-s" if kind is PGBENCH else f"--{kind.size_option}"
    if dataset.interrupted is not None:
        size = dataset.interrupted.get(kind.size_option, kind.size_option.upper())
        return (
            f"continue with pgdyno {verb} {option} {size} and the same options, or use pgdyno drop"
        )
    is_ours = dataset.state == "partial" and dataset.is_marked
    load = f"load the tables with pgdyno {verb} {option} {kind.size_option.upper()}"
    return load + (", after pgdyno drop" if is_ours else "")


def _interrupted(connection: Connection, kind: DatasetKind) -> dict[str, str] | None:
    oid = relations_of(connection, [JOURNAL]).get(JOURNAL)
    row = connection.execute("SELECT obj_description(%s::oid, 'pg_class')", [oid]).fetchone()
    title = str(row[0] or "") if row is not None else ""
    return _options(title) if _is_of(title, kind) else None


def _judged(
    connection: Connection, dataset: Dataset, missing: list[str], keyless: list[str]
) -> Dataset:
    """Return the dataset with its size, and complete if everything a load needs is there."""
    kind = KINDS[dataset.kind]

    def number(table: str, expression: LiteralString) -> int | None:
        if table not in dataset.tables:
            return None
        return _number(connection, dataset, table, expression)

    try:
        size = kind.read_size(number)
        if size is None and kind.is_found_by_mark:
            size = int(dataset.options.get("rows", 0))
        if dataset.interrupted is not None:
            why = _INTERRUPTED
        elif missing:
            why = f"{', '.join(missing)} missing"
        elif keyless:
            why = f"{', '.join(keyless)} without a primary key"
        else:
            why = kind.why_partial(number, size)
    except psycopg.Error as error:
        # In every language of the server: the function that refuses it.
        step = (
            "use the owner of the tables or a role with BYPASSRLS: policies hide rows from yours"
            if error.diag.source_function == "check_enable_rls"
            else f"GRANT SELECT ON ALL TABLES IN SCHEMA {dataset.schema} TO your role"
        )
        raise ServerError(
            f"The {kind.name} tables cannot be read: {str(error).splitlines()[0]}.",
            hint=step_for(error.sqlstate if error.sqlstate != "42501" else None, step),
            sqlstate=error.sqlstate,
        ) from error
    state: DatasetState = "partial" if why else "complete"
    return replace(dataset, scale=size, why_partial=why, state=state)


def _number(
    connection: Connection, dataset: Dataset, table: str, expression: LiteralString
) -> int | None:
    with connection.transaction():
        connection.execute("SET TRANSACTION READ ONLY")
        row = connection.execute(
            sql.SQL("SELECT {} FROM {}").format(
                sql.SQL(expression),
                sql.Identifier(dataset.schema, table),
            )
        ).fetchone()
    return None if row is None or row[0] is None else int(row[0])


def journal_of(connection: Connection, dataset: Dataset) -> list[sql.Identifier]:
    """Return the journal of an interrupted load, with its schema."""
    if dataset.interrupted is None:
        return []
    return [sql.Identifier(schema, name) for schema, name in _places(connection, [JOURNAL])]


def _options(mark: str) -> dict[str, str]:
    pairs = (word.partition("=") for word in mark.split())
    return {name: value for name, separator, value in pairs if separator}
