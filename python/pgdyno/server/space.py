"""Whether a load fits into the free space of the user's own server."""

from __future__ import annotations

from pathlib import Path

import psycopg

from pgdyno.errors import RefusedError, ServerError
from pgdyno.quantities import counted, gigabytes
from pgdyno.server.connect import Connection
from pgdyno.server.dataset.kinds import kind_of, needed_bytes
from pgdyno.server.server_facts import ServerFacts
from pgdyno.server.storage import free_bytes, mount_of
from pgdyno.spec.dataset import Dataset

_WHERE = (
    "SELECT coalesce(nullif(pg_tablespace_location(t.oid), ''), current_setting('data_directory'))"
    " FROM pg_database d JOIN pg_tablespace t ON t.oid = coalesce("
    "   (SELECT oid FROM pg_tablespace WHERE spcname = current_setting('default_tablespace')),"
    "   d.dattablespace)"
    " WHERE d.datname = current_database()"
)


# Source: the manual on max_locks_per_transaction, and MaxBackends in the server's postinit.c. The
# first worker processes and the autovacuum launcher count as well.
_LOCKS = (
    "SELECT current_setting('max_locks_per_transaction')::int,"
    " current_setting('max_connections')::int"
    " + current_setting('max_prepared_transactions')::int"
    " + coalesce(current_setting('autovacuum_worker_slots', true),"
    "            current_setting('autovacuum_max_workers'))::int + 1"
    " + current_setting('max_worker_processes')::int"
    " + current_setting('max_wal_senders')::int"
)


def refuse_too_few_locks(connection: Connection, dataset: Dataset) -> None:
    """Raise RefusedError if a load of many partitions needs more locks than the server has."""
    needed = kind_of(dataset).locks_count(dataset)
    if not needed:
        return
    row = connection.execute(_LOCKS).fetchone()
    assert row is not None, "a SELECT without FROM returns one row"
    locks_per_session, sessions = int(row[0]), int(row[1])
    if needed <= locks_per_session * sessions:
        return
    enough = -(-needed // sessions)
    partitions = getattr(dataset, "partitions", 0)
    raise RefusedError(
        f"The keys of {counted(partitions, 'partition')} need about {needed:,} locks in one"
        f" transaction, but the server has room for {locks_per_session * sessions:,}:"
        f" max_locks_per_transaction is {locks_per_session}.",
        hint=(
            f"set max_locks_per_transaction to at least {enough} and restart the server, or use"
            f" at most {partitions * locks_per_session * sessions // needed:,} partitions"
        ),
    )


def check_own_server(
    connection: Connection, facts: ServerFacts, dataset: Dataset, *, replaced_bytes: int
) -> str:
    """Return why free space was not checked; "" if it was checked and is enough.

    Args: facts, of this connection; replaced_bytes, size of the tables that the load replaces,
    which counts as free.
    Raises: ServerError with the room needed and the room there is.
    """
    if not facts.is_local:
        return "the server is not on this host"
    try:
        row = connection.execute(_WHERE).fetchone()
    except psycopg.Error:
        return f"{facts.user} may not read data_directory (GRANT pg_read_all_settings)"
    if row is None or not row[0]:
        return "the folder of the database is not known"
    data = Path(str(row[0]))
    wal = Path(facts.settings.get("data_directory", str(data))) / "pg_wal"
    tables = kind_of(dataset).tables_bytes(dataset)
    # Never more WAL than the load writes, or than the server keeps before it writes a checkpoint.
    wal_bytes = min(tables * 11 // 10, _max_wal_size_bytes(connection))
    needed = needed_bytes(dataset, wal_bytes=wal_bytes)
    needed["data"] = max(0, needed["data"] - replaced_bytes)
    try:
        is_one_disk = mount_of(data.resolve()) == mount_of(wal.resolve())
        free, free_wal = free_bytes(data), free_bytes(wal)
    except OSError:
        return f"{data} is not readable"
    if is_one_disk:
        _refuse(data, needed["data"] + needed["wal"], free, "The dataset with its WAL")
    else:
        _refuse(data, needed["data"], free, "The dataset")
        _refuse(wal, needed["wal"], free_wal, "The WAL of the load")
    return ""


def _refuse(folder: Path, needed: int, free: int, what: str) -> None:
    if free < needed:
        raise ServerError(
            f"{what} needs about {gigabytes(needed)} more in {folder}, but only "
            f"{gigabytes(free)} are free.",
            hint="free some space, choose a smaller dataset, or add --skip-space-check",
        )


def _max_wal_size_bytes(connection: Connection) -> int:
    row = connection.execute("SELECT pg_size_bytes(current_setting('max_wal_size'))").fetchone()
    return int(row[0]) if row else 1 << 30
