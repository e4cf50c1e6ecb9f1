"""Which dataset is there, whose it is, and how a dataset of pgdyno's own is dropped.

The loader leaves a mark on every table it makes, as the table's comment:
`pgdyno dataset pgbench scale=50 fillfactor=100 ...`. Without the mark tables belong to somebody
else: never dropped, truncated or vacuumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, LiteralString

import psycopg
from psycopg import sql

from pgdyno.errors import RefusedError, ServerError
from pgdyno.server.connect import Connection

MARK = "pgdyno dataset pgbench"
# The loader's journal: there as long as a load is not finished; its comment begins with the mark.
JOURNAL = "pgdyno_load"
TABLES = ("pgbench_accounts", "pgbench_branches", "pgbench_history", "pgbench_tellers")
ACCOUNTS_PER_SCALE = 100_000

_INTERRUPTED = "their load was interrupted"

DatasetState = Literal["none", "partial", "complete"]


@dataclass(frozen=True, slots=True)
class Dataset:
    """The pgbench tables of one database, as far as they are there.

    `scale` is the number of branches, None if there is no branches table to ask; `options` is what
    the mark says. `why_partial` names what is missing.
    `interrupted` is what a load that was not finished was asked for, None if there is none.
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

    def as_document(self) -> dict[str, Any]:
        """Return what a result keeps of it."""
        return asdict(self)

    def __str__(self) -> str:
        if self.state == "none":
            return "no pgbench tables"
        owner = "by pgdyno" if self.is_marked else "not by pgdyno"
        if self.state == "partial":
            return f"incomplete pgbench tables {owner}: {self.why_partial}"
        return f"scale {self.scale} {owner}"


def inspect(connection: Connection) -> Dataset:
    """Return the dataset that unqualified table names mean in this session.

    Reads the catalogue, the branches and the two ends of the accounts' key; never a whole table.
    Raises: ServerError if the tables may not be read.
    """
    rows = connection.execute(
        "SELECT c.relname, n.nspname, obj_description(c.oid, 'pg_class'), c.relkind,"
        " (SELECT coalesce(sum(pg_total_relation_size(t.relid)), 0)"
        "    FROM pg_partition_tree(c.oid) t)::int8 + CASE WHEN c.relkind = 'r'"
        "    AND NOT c.relispartition THEN pg_total_relation_size(c.oid) ELSE 0 END,"
        " EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary"
        "    AND i.indisvalid)"
        " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE c.oid IN (SELECT to_regclass(name)::oid FROM unnest(%s::text[]) AS name)"
        " ORDER BY c.relname",
        [list(TABLES)],
    ).fetchall()
    interrupted = _interrupted(connection)
    if not rows and interrupted is not None:
        return Dataset("partial", True, interrupted=interrupted, why_partial=_INTERRUPTED)
    if not rows:
        return Dataset("none")
    names = tuple(str(row[0]) for row in rows)
    marks = [str(row[2] or "") for row in rows]
    dataset = Dataset(
        state="partial",
        is_marked=all(mark == MARK or mark.startswith(MARK + " ") for mark in marks),
        schema=str(rows[0][1]),
        tables=names,
        size_bytes=sum(int(row[4]) for row in rows),
        options=_options(marks[0]),
        interrupted=interrupted,
    )
    missing = [name for name in TABLES if name not in names]
    has_key = {str(row[0]): bool(row[5]) for row in rows}
    return _judged(connection, dataset, missing, has_key)


def mark_text(options: Mapping[str, object]) -> str:
    """Return the mark the loader shall leave, with what the tables were loaded with."""
    words = [f"{name}={value}" for name, value in sorted(options.items()) if value is not None]
    return " ".join([MARK, *words])


def drop_statement(dataset: Dataset) -> sql.Composed:
    """Return the one statement that drops a marked dataset, whole or partial.

    Raises: RefusedError if the tables carry no mark.
    """
    if not dataset.is_marked:
        raise RefusedError(
            f"The pgbench tables in schema {dataset.schema} were not made by pgdyno.",
            hint="drop them yourself if they are yours to drop",
        )
    names = sorted(dataset.tables)
    if dataset.interrupted is not None:
        names.append(JOURNAL)
    tables = sql.SQL(", ").join(sql.Identifier(dataset.schema, name) for name in names)
    return sql.SQL("DROP TABLE {}").format(tables)


def drop(connection: Connection, *, lock_timeout_ms: int = 5000) -> Dataset:
    """Drop the marked dataset and return what it was; nothing happens if there is none.

    Raises: RefusedError if it is not pgdyno's; ServerError if the tables are in use.
    """
    dataset = inspect(connection)
    if dataset.state == "none":
        return dataset
    statement = drop_statement(dataset)
    try:
        with connection.transaction():
            connection.execute(
                sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(lock_timeout_ms))
            )
            connection.execute(statement)
    except psycopg.Error as error:
        raise ServerError(
            f"The dataset was not dropped: {str(error).splitlines()[0]}.",
            hint="end the sessions that use it, or become its owner with -U",
            sqlstate=error.sqlstate,
        ) from error
    return dataset


def require_complete(dataset: Dataset) -> int:
    """Return the scale. Raises: ServerError saying what is missing and how to load it."""
    if dataset.state == "complete" and dataset.scale is not None:
        return dataset.scale
    raise ServerError(
        f"This database has {dataset}.",
        hint=_how_to_complete(dataset),
        sqlstate="42P01" if dataset.state == "none" else None,
    )


def _how_to_complete(dataset: Dataset) -> str:
    if dataset.interrupted is not None:
        scale = dataset.interrupted.get("scale", "SCALE")
        return f"go on with pgdyno init -s {scale} and the options it had, or pgdyno drop"
    is_ours = dataset.state == "partial" and dataset.is_marked
    return "load the tables with pgdyno init -s SCALE" + (", after pgdyno drop" if is_ours else "")


def _interrupted(connection: Connection) -> dict[str, str] | None:
    row = connection.execute(
        "SELECT obj_description(to_regclass(%s), 'pg_class')", [JOURNAL]
    ).fetchone()
    title = str(row[0] or "") if row is not None else ""
    return _options(title) if title.startswith(MARK + " ") else None


def _judged(
    connection: Connection, dataset: Dataset, missing: list[str], has_key: Mapping[str, bool]
) -> Dataset:
    """Return the dataset with its scale, and complete if everything a load needs is there."""
    fields = {name: getattr(dataset, name) for name in Dataset.__slots__}
    try:
        if "pgbench_branches" in dataset.tables:
            fields["scale"] = _number(connection, dataset, "pgbench_branches", "count(*)")
        fields["why_partial"] = _why_partial(
            connection, dataset, missing=missing, has_key=has_key, scale=fields["scale"]
        )
    except psycopg.Error as error:
        raise ServerError(
            f"The pgbench tables cannot be read: {str(error).splitlines()[0]}.",
            hint=f"GRANT SELECT ON ALL TABLES IN SCHEMA {dataset.schema} TO your role",
            sqlstate=error.sqlstate,
        ) from error
    fields["state"] = "partial" if fields["why_partial"] else "complete"
    return Dataset(**fields)


def _why_partial(
    connection: Connection,
    dataset: Dataset,
    *,
    missing: list[str],
    has_key: Mapping[str, bool],
    scale: int | None,
) -> str:
    if dataset.interrupted is not None:
        return _INTERRUPTED
    if missing:
        return f"{', '.join(missing)} missing"
    keyless = [name for name in TABLES if name != "pgbench_history" and not has_key[name]]
    if keyless:
        return f"{', '.join(keyless)} without a primary key"
    if not scale:
        return "pgbench_branches is empty"
    last_aid = _number(connection, dataset, "pgbench_accounts", "max(aid)")
    if last_aid != scale * ACCOUNTS_PER_SCALE:
        return f"the last account is {last_aid}, not {scale * ACCOUNTS_PER_SCALE}"
    return ""


def _number(
    connection: Connection, dataset: Dataset, table: str, expression: LiteralString
) -> int | None:
    row = connection.execute(
        sql.SQL("SELECT {} FROM {}").format(
            sql.SQL(expression),
            sql.Identifier(dataset.schema, table),
        )
    ).fetchone()
    return None if row is None or row[0] is None else int(row[0])


def _options(mark: str) -> dict[str, str]:
    pairs = (word.partition("=") for word in mark.removeprefix(MARK).split())
    return {name: value for name, separator, value in pairs if separator}
