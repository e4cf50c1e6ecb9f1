"""Drops a dataset that pgdyno made: only what has its mark, and a few partitions at a time."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg
from psycopg import sql

from pgdyno.errors import RefusedError, ServerError
from pgdyno.server.connect import Connection
from pgdyno.server.dataset.inspection import MARK, Dataset, inspect, journal_of, marked_datasets
from pgdyno.server.dataset.kind import DatasetKind
from pgdyno.server.dataset.kinds import KINDS
from pgdyno.server.dataset.marked_objects import removal_of_marked

# Number of partitions that one transaction drops. Each takes up to 12 locks.
_LEAVES_AT_ONCE = 50


def drop(
    connection: Connection, kind: DatasetKind | None = None, *, lock_timeout_ms: int = 5000
) -> Dataset:
    """Drop the marked dataset and return its description; without one, do nothing.

    Args: kind, to drop; None: the only dataset of the database.
    Raises: RefusedError if it is not pgdyno's, or if no kind is named and the database has two;
    ServerError if the tables are in use.
    """
    if kind is None:
        _require_only_one(list(marked_datasets(connection)))
    dataset = inspect(connection, kind)
    if dataset.state == "none":
        return dataset
    _refuse_foreign_partitions(connection, dataset)
    journal = journal_of(connection, dataset)
    drops = [
        *_drop_of_partitions(connection, dataset),
        *_drop_of_routines(connection, dataset),
        drop_statement(dataset, *journal),
    ]
    if KINDS[dataset.kind].is_found_by_mark:
        # Its objects depend on each other. Their marks say which they are.
        marked = sql.SQL(removal_of_marked(dataset.kind))
        journals = [sql.SQL("DROP TABLE IF EXISTS {}").format(own) for own in journal]
        drops = [sql.Composed([marked]), *journals]
    _execute_drops(connection, drops, lock_timeout_ms)
    return dataset


def drop_many_partitions(connection: Connection, kind: DatasetKind) -> None:
    """Drop the partitions of a marked dataset if they are too many to drop with their table.

    Raises: RefusedError if it is not pgdyno's; ServerError if the tables are in use.
    """
    dataset = inspect(connection, kind)
    if dataset.state != "none":
        _execute_drops(connection, _drop_of_partitions(connection, dataset), 5000)


def drop_statement(dataset: Dataset, *others: sql.Identifier) -> sql.Composed:
    """Return the statement that drops a marked dataset, whole or partial, and `others` with it.

    Raises: RefusedError if the tables have no mark.
    """
    require_mark(dataset)
    tables = sql.SQL(", ").join([*dataset.identifiers, *others])
    return sql.SQL("DROP TABLE IF EXISTS {}").format(tables)


def require_mark(dataset: Dataset) -> None:
    """Raise RefusedError if the tables have no mark."""
    if not dataset.is_marked:
        raise RefusedError(
            f"The {dataset.kind} tables in schema {dataset.schema} were not made by pgdyno.",
            hint="drop the tables yourself if you no longer need them",
        )


def _require_only_one(marked: Sequence[Dataset]) -> None:
    if len(marked) > 1:
        listed = " and ".join(f"{dataset.kind} ({dataset})" for dataset in marked)
        names = " or ".join(f"pgdyno drop {dataset.kind}" for dataset in marked)
        raise RefusedError(
            f"This database has {len(marked)} datasets: {listed}.",
            hint=f"name the one to drop, with the same server: {names}",
        )


def _refuse_foreign_partitions(connection: Connection, dataset: Dataset) -> None:
    """Raise RefusedError if somebody attached a table, which would go with its parent.

    pgdyno numbers the partitions that it makes, and gives those of a capture the mark.
    """
    require_mark(dataset)
    rows = connection.execute(
        "SELECT c.oid::regclass::text FROM unnest(%s::text[]) AS t(name)"
        " JOIN pg_class root ON root.oid = to_regclass(t.name),"
        " LATERAL pg_partition_tree(root.oid) AS p JOIN pg_class c ON c.oid = p.relid"
        " WHERE p.level > 0 AND coalesce(obj_description(c.oid, 'pg_class'), '') NOT LIKE %s"
        " AND NOT starts_with(c.relname, root.relname || '_') ORDER BY c.oid",
        [[name.as_string(connection) for name in dataset.identifiers], f"{MARK} %"],
    ).fetchall()
    if rows:
        listed = ", ".join(str(name) for (name,) in rows)
        raise RefusedError(
            f"Somebody attached partitions that pgdyno did not make: {listed}. They would be "
            "dropped with their table.",
            hint="detach them with ALTER TABLE ... DETACH PARTITION; then run pgdyno drop again",
        )


def _drop_of_partitions(connection: Connection, dataset: Dataset) -> list[sql.Composed]:
    """Return statements that drop most of many partitions, a few in each.

    Each partition takes several locks until the transaction ends, and the room for locks is
    limited. The tables of the dataset go last: until then, their mark shows who owns the rest.
    """
    require_mark(dataset)
    rows = connection.execute(
        "SELECT n.nspname, c.relname FROM unnest(%s::text[]) AS t(name),"
        " LATERAL pg_partition_tree(to_regclass(format('%%I.%%I', %s::text, t.name))) AS p"
        " JOIN pg_class c ON c.oid = p.relid JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE p.isleaf AND p.level > 0 ORDER BY c.oid",
        [list(dataset.tables), dataset.schema],
    ).fetchall()
    if len(rows) <= _LEAVES_AT_ONCE:
        return []
    # A foreign key to all partitions protects each of them; it goes with its table.
    referring = [name for name in dataset.tables if name in KINDS[dataset.kind].emptied]
    first = [_drop_tables([(dataset.schema, name)]) for name in referring]
    leaves = [(str(schema), str(name)) for schema, name in rows]
    starts = range(0, len(leaves), _LEAVES_AT_ONCE)
    return first + [_drop_tables(leaves[start : start + _LEAVES_AT_ONCE]) for start in starts]


def _drop_of_routines(connection: Connection, dataset: Dataset) -> list[sql.Composed]:
    """Return statements that drop the routines which pgdyno made for a program of the dataset.

    The comment of each has its fingerprint; a routine without one is not pgdyno's, and stays.
    """
    rows = connection.execute(
        "SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = to_regnamespace(%s)"
        " AND proname LIKE %s AND obj_description(oid, 'pg_proc') ~ %s ORDER BY oid",
        [
            sql.Identifier(dataset.schema).as_string(connection),
            rf"pgdyno\_{dataset.kind}\_%",
            f"^{MARK.split()[0]} {dataset.kind} procedure [0-9a-f]{{16}}$",
        ],
    ).fetchall()
    # The server writes the signature with the necessary quotes.
    return [sql.SQL("DROP ROUTINE {}").format(sql.SQL(str(signature))) for (signature,) in rows]


def _drop_tables(names: Sequence[tuple[str, str]]) -> sql.Composed:
    tables = sql.SQL(", ").join(sql.Identifier(*name) for name in names)
    return sql.SQL("DROP TABLE IF EXISTS {}").format(tables)


def _execute_drops(
    connection: Connection, statements: Sequence[sql.Composed], lock_timeout_ms: int
) -> None:
    """Execute each statement in a transaction. Raises: ServerError if the tables are in use."""
    try:
        for statement in statements:
            with connection.transaction():
                connection.execute(
                    sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(lock_timeout_ms))
                )
                connection.execute(statement)
    except psycopg.Error as error:
        if isinstance(error, psycopg.errors.DependentObjectsStillExist):
            raise _refused_for_dependents(error) from None
        is_privilege = isinstance(error, psycopg.errors.InsufficientPrivilege)
        raise ServerError(
            f"The dataset was not dropped: {str(error).splitlines()[0]}.",
            hint="connect as the owner of the tables with -U"
            if is_privilege
            else "end the sessions that use the tables",
            sqlstate=error.sqlstate,
        ) from error


def _refused_for_dependents(error: psycopg.Error) -> RefusedError:
    """Return the refusal to drop tables with dependents of the user; it never names CASCADE."""
    lines = (error.diag.message_detail or "").splitlines()
    depending = dict.fromkeys(line.partition(" depends on ")[0] for line in lines)
    return RefusedError(
        f"Other objects depend on the tables: {', '.join(depending)}. pgdyno drops only what it "
        "made.",
        hint="keep the tables, or drop these objects yourself; then run pgdyno drop again",
        sqlstate=error.sqlstate,
    )
