"""The reset before every run, so that all runs start from the same place.

In this order: the history of a marked dataset is emptied (as pgbench does), the tables that changed
are vacuumed, a checkpoint is written. A vacuum takes longer than a short run, and 2 % of changed
rows are not felt, so such a table is left as it is. Counters are never reset: their baseline is the
first sample of the telemetry. Steps that rights, ownership or a standby forbid are skipped and
reported.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from pgdyno.clock import monotonic_ns
from pgdyno.server.connect import Connection
from pgdyno.server.dataset.inspection import Dataset
from pgdyno.server.dataset.kinds import KINDS
from pgdyno.server.scratch.cluster import ScratchCluster

_CHANGED_RATIO = 0.02
# No right; locked; a standby or a read-only session.
_LEFT_OUT = ("42501", "55P03", "25006")


@dataclass(frozen=True, slots=True)
class ResetStep:
    """One part of the reset; `skipped` is the reason why it was not done, else empty."""

    name: str
    duration_ns: int = 0
    skipped: str = ""


@dataclass(frozen=True, slots=True)
class Reset:
    """The steps before a run; two runs can be compared only if both had the same."""

    steps: tuple[ResetStep, ...]
    history_rows_removed: int | None
    dead_rows_before: int | None
    database_bytes_before: int | None = None

    def as_document(self) -> dict[str, Any]:
        """Return the reset as values for a stored result."""
        return asdict(self)


def no_reset(connection: Connection, dataset: Dataset) -> Reset:
    """Change nothing; return the number of dead rows at the start of the run."""
    dead_rows = _dead_rows(connection, dataset) if dataset.tables else None
    size = _database_bytes(connection)
    return Reset((ResetStep("reset", skipped="no reset requested"),), None, dead_rows, size)


def restore_database(connection: Connection, database: str) -> ResetStep:
    """Restore `database` to its state at the first call, from a copy in a template.

    Args: connection, to another database of a server of our own. The template is made by the first
    call; its files are copied, not logged, where the version can.
    Limits: a session in `database` is ended.
    """
    started_ns = monotonic_ns()
    template = sql.Identifier(f"{database}_template")
    copied: LiteralString = "CREATE DATABASE {} TEMPLATE {}"
    if connection.info.server_version >= 150000:
        copied = "CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy"
    known = connection.execute(
        "SELECT 1 FROM pg_database WHERE datname = %s", [f"{database}_template"]
    ).fetchone()
    own = sql.Identifier(database)
    if known is None:
        connection.execute(sql.SQL(copied).format(template, own))
        connection.execute(
            sql.SQL("ALTER DATABASE {} IS_TEMPLATE true ALLOW_CONNECTIONS false").format(template)
        )
        return ResetStep("make template", monotonic_ns() - started_ns)
    connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(own))
    connection.execute(sql.SQL(copied).format(own, template))
    return ResetStep("restore", monotonic_ns() - started_ns)


def drop_database(cluster: ScratchCluster, database: str) -> None:
    """Remove a database of a server of our own, and the template that `restore` made of it."""
    template = sql.Identifier(f"{database}_template")
    with cluster.connect() as connection:
        known = "SELECT 1 FROM pg_database WHERE datname = %s"
        if connection.execute(known, [f"{database}_template"]).fetchone() is not None:
            connection.execute(sql.SQL("ALTER DATABASE {} IS_TEMPLATE false").format(template))
            connection.execute(sql.SQL("DROP DATABASE {}").format(template))
        own = sql.Identifier(database)
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(own))


def reset(connection: Connection, dataset: Dataset, *, is_scratch: bool) -> Reset:
    """Bring server and dataset to the state every run starts from.

    Only tables with pgdyno's mark, or on a scratch server, are touched; a checkpoint is written
    where the role may. The session needs no statement_timeout.
    """
    owns_tables = dataset.state != "none" and (dataset.is_marked or is_scratch)
    why_not = "" if owns_tables else "no table has pgdyno's mark"
    dead_rows = _dead_rows(connection, dataset) if dataset.tables else None
    size = _database_bytes(connection)
    history_rows = None
    steps = []
    emptied = [table for table in KINDS[dataset.kind].emptied if table in dataset.tables]
    if owns_tables and emptied and dataset.is_marked:
        names = [sql.Identifier(dataset.schema, table) for table in emptied]
        history_rows = sum(_count(connection, name) for name in names)
        truncate = sql.SQL("TRUNCATE {}").format(sql.SQL(", ").join(names))
        steps.append(_step(connection, "empty history", truncate))
    elif KINDS[dataset.kind].emptied:
        steps.append(ResetStep("empty history", skipped=why_not or "the dataset has no mark"))
    if owns_tables:
        tables = sql.SQL(", ").join(_changed(connection, dataset))
        vacuum = sql.SQL("VACUUM (ANALYZE) {}").format(tables)
        is_needed = bool(tables.as_string(connection))
        steps.append(_step(connection, "vacuum", vacuum) if is_needed else ResetStep("vacuum"))
    else:
        steps.append(ResetStep("vacuum", skipped=why_not))
    steps.append(_step(connection, "checkpoint", sql.SQL("CHECKPOINT").format()))
    return Reset(tuple(steps), history_rows, dead_rows, size)


def _step(connection: Connection, name: str, statement: sql.Composed) -> ResetStep:
    started_ns = monotonic_ns()
    warnings: list[str] = []

    def note(diagnostic: psycopg.errors.Diagnostic) -> None:
        if diagnostic.severity_nonlocalized == "WARNING" and diagnostic.message_primary:
            warnings.append(diagnostic.message_primary)

    connection.add_notice_handler(note)  # VACUUM without the right to only warns.
    try:
        connection.execute(statement)
    except psycopg.Error as error:
        if error.sqlstate not in _LEFT_OUT:
            raise
        warnings.append(error.diag.message_primary or str(error))
    finally:
        connection.remove_notice_handler(note)
    return ResetStep(name, monotonic_ns() - started_ns, "; ".join(dict.fromkeys(warnings)))


def _count(connection: Connection, table: sql.Identifier) -> int:
    row = connection.execute(sql.SQL("SELECT count(*) FROM {}").format(table)).fetchone()
    return 0 if row is None else int(row[0])


def _database_bytes(connection: Connection) -> int | None:
    row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    return None if row is None else int(row[0])


def _changed(connection: Connection, dataset: Dataset) -> list[sql.Identifier]:
    """Return the tables that were never vacuumed, or of which many rows changed since then."""
    names = {name.as_string(connection): name for name in dataset.identifiers}
    rows = connection.execute(
        "SELECT name FROM unnest(%s::text[]) name CROSS JOIN LATERAL"
        " (SELECT to_regclass(name)::oid AS relid UNION"
        "  SELECT relid FROM pg_partition_tree(to_regclass(name))) part"
        " JOIN pg_class c ON c.oid = part.relid LEFT JOIN pg_stat_user_tables s USING (relid)"
        " WHERE c.relkind IN ('r', 'm') GROUP BY name"
        " HAVING bool_or(coalesce(s.last_vacuum, s.last_autovacuum) IS NULL)"
        " OR sum(greatest(s.n_mod_since_analyze, s.n_dead_tup)) > %s * sum(c.reltuples)",
        [list(names), _CHANGED_RATIO],
    ).fetchall()
    return [names[name] for (name,) in rows]


def _dead_rows(connection: Connection, dataset: Dataset) -> int | None:
    row = connection.execute(
        "SELECT sum(n_dead_tup)::int8 FROM pg_stat_user_tables WHERE relid IN"
        " (SELECT to_regclass(name) FROM unnest(%(tables)s::text[]) name UNION"
        "  SELECT t.relid FROM unnest(%(tables)s::text[]) name,"
        "   pg_partition_tree(to_regclass(name)) t)",
        {"tables": [name.as_string(connection) for name in dataset.identifiers]},
    ).fetchone()
    return None if row is None or row[0] is None else int(row[0])


# The small relations have precedence. They are read last, so that the server replaces the others.
# All arguments with their types: in the schema of the extension no function can fit better.
_RELATIONS: LiteralString = (
    "SELECT {}.pg_prewarm(name, 'buffer'::text, 'main'::text, 0::int8,"
    " least(pages, room - before) - 1) FROM (SELECT c.oid::regclass AS name, pages,"
    " (sum(pages) OVER (ORDER BY pages, c.oid) - pages)::int8 AS before,"
    " pg_size_bytes(current_setting('shared_buffers')) / page AS room"
    " FROM pg_class c, CAST(current_setting('block_size') AS int8) page,"
    " LATERAL (SELECT pg_relation_size(c.oid) / page AS pages) sized"
    " WHERE relkind IN ('r', 'i', 'm') AND relpersistence <> 't'"
    " AND relnamespace NOT IN (SELECT oid FROM pg_namespace WHERE nspname LIKE 'pg!_%' ESCAPE '!'"
    " OR nspname = 'information_schema')) relation WHERE pages > 0 AND before < room"
    " ORDER BY before DESC"
)


def make_cold(cluster: ScratchCluster) -> ResetStep:
    """Stop the server, have the kernel forget its files, start it again.

    Raises: ServerError if it does not start.
    """
    started_ns = monotonic_ns()
    cluster.stop()
    forget_files([cluster.data_dir, cluster.wal_dir])
    cluster.start()
    return ResetStep("drop page cache", monotonic_ns() - started_ns)


_PREWARM = (
    "SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace"
    " WHERE e.extname = 'pg_prewarm'"
)


def has_prewarm(connection: Connection) -> bool:
    """Return whether the database has the extension that fills the cache."""
    return connection.execute(_PREWARM).fetchone() is not None


def prewarm(connection: Connection, *, is_scratch: bool) -> ResetStep:
    """Read every table and index of the database into shared_buffers, as far as they hold them.

    The extension is created on a scratch server only.
    """
    started_ns = monotonic_ns()
    try:
        if is_scratch:
            connection.execute("CREATE EXTENSION IF NOT EXISTS pg_prewarm SCHEMA public")
        row = connection.execute(_PREWARM).fetchone()
        if row is None:
            return ResetStep("prewarm", skipped="the database has no extension pg_prewarm")
        connection.execute(sql.SQL(_RELATIONS).format(sql.Identifier(str(row[0]))))
    except psycopg.Error as error:
        why = error.diag.message_primary or str(error)
        return ResetStep("prewarm", monotonic_ns() - started_ns, skipped=why)
    return ResetStep("prewarm", monotonic_ns() - started_ns)


def forget_files(folders: Iterable[Path]) -> int:
    """Ask the kernel to drop the cached pages of all files in the folders; return their bytes.

    Dirty pages are flushed first: they cannot be dropped.
    """
    total = 0
    for folder in folders:
        for place, _, names in os.walk(folder.resolve()):
            total += sum(_forget(Path(place) / name) for name in names)
    return total


def _forget(path: Path) -> int:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return 0  # A socket, or gone meanwhile.
    try:
        os.fdatasync(descriptor)
        size = os.fstat(descriptor).st_size
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        return size
    finally:
        os.close(descriptor)
