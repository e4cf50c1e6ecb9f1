"""What a scratch server finds in memory: nothing of its files, or all of its tables.

The kernel is asked to forget the files of one cluster; /proc/sys/vm/drop_caches would take the
cache of everything else on the host with them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import psycopg

from pgdyno.clock import monotonic_ns
from pgdyno.server.connect import Connection
from pgdyno.server.reset import Step
from pgdyno.server.scratch import ScratchCluster

_RELATIONS = (
    "SELECT pg_prewarm(oid) FROM pg_class WHERE relkind IN ('r', 'i', 'm')"
    " AND relnamespace NOT IN (SELECT oid FROM pg_namespace WHERE nspname LIKE 'pg\\_%%'"
    " OR nspname = 'information_schema')"
)


def make_cold(cluster: ScratchCluster) -> Step:
    """Stop the server, have the kernel forget its files, start it again.

    Raises: ServerError if it does not start.
    """
    started_ns = monotonic_ns()
    cluster.stop()
    forget_files([cluster.data_dir, cluster.wal_dir])
    cluster.start()
    return Step("drop page cache", monotonic_ns() - started_ns)


def prewarm(connection: Connection) -> Step:
    """Read every table and index of the database into shared_buffers, as far as they hold them."""
    started_ns = monotonic_ns()
    try:
        connection.execute("CREATE EXTENSION IF NOT EXISTS pg_prewarm")
        connection.execute(_RELATIONS)
    except psycopg.Error as error:
        why = error.diag.message_primary or str(error)
        return Step("prewarm", monotonic_ns() - started_ns, skipped=why)
    return Step("prewarm", monotonic_ns() - started_ns)


def forget_files(folders: Iterable[Path]) -> int:
    """Ask the kernel to drop the cached pages of all files in the folders; return their bytes.

    What was written is flushed first: dirty pages cannot be dropped.
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
