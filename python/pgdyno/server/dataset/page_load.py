"""Accounts of a scratch server written as files, while nobody else uses the table.

COPY makes five million accounts in two seconds of one core, which is half of a load. Their pages
follow from a page that the server wrote (`heap_pages`), and writing them takes half a second. Only
for tables of a server that pgdyno started, whose files are all synced after the load.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pgdyno.process import signals
from pgdyno.server.connect import Connection
from pgdyno.server.dataset.heap_pages import (
    ACCOUNTS_PER_BRANCH,
    PAGE_BYTES,
    PageModel,
    Pages,
    UnknownPages,
    model_of,
)

# This number is larger than a page at any fill factor, and not a multiple. So the last page is
# incomplete.
_SAMPLE_ROWS = 151
_TELLERS_PER_BRANCH = 10
_PAGES_AT_ONCE = 256
_THREADS = 2
_TABLE_SQL = (
    "SELECT pg_relation_filepath('pgbench_accounts'),"
    " (SELECT atttypid = 'int8'::regtype FROM pg_attribute"
    " WHERE attrelid = 'pgbench_accounts'::regclass AND attname = 'aid'),"
    " current_setting('block_size')::int, current_setting('data_checksums') = 'on',"
    " (pg_size_bytes(current_setting('segment_size'))"
    " / current_setting('block_size')::int)::int"
)
Told = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class _Table:
    """An empty table of accounts: its first file, and how its files are made up."""

    path: Path
    has_wide_aid: bool
    page_bytes: int
    has_checksums: bool
    pages_per_segment: int


@contextmanager
def filled(connection: Connection, data_dir: Path, scale: int, told: Told) -> Iterator[None]:
    """Fill the empty tables of pgbench; sync the accounts during the block.

    Args: connection, of a superuser in autocommit mode, to the database of the tables; told gets
    the share of the accounts that is done.
    Raises: UnknownPages before anything but the sample was written; OSError; InterruptedByUser.
    """
    model = _model(connection, data_dir)
    _copy_small_tables(connection, scale)
    connection.execute("TRUNCATE pgbench_accounts")
    table = _table(connection, data_dir)
    with ThreadPoolExecutor(_THREADS) as threads:
        paths = _write(threads, table, model, scale * ACCOUNTS_PER_BRANCH, told)
        syncing = [threads.submit(_sync, path) for path in paths]
        yield
        for task in syncing:
            task.result()


def _model(connection: Connection, data_dir: Path) -> PageModel:
    """Return the model of the accounts' pages, from a few pages that the server makes."""
    with connection.transaction():
        connection.execute("TRUNCATE pgbench_accounts")
        rows = (f"{aid}\t1\t0\t\n" for aid in range(1, _SAMPLE_ROWS + 1))
        _copy(connection, "pgbench_accounts", rows)
    connection.execute("CHECKPOINT")
    table = _table(connection, data_dir)
    if table.page_bytes != PAGE_BYTES:
        raise UnknownPages
    map_path = Path(f"{table.path}_vm")
    return model_of(
        table.path.read_bytes(),
        map_path.read_bytes() if map_path.exists() else b"",
        _SAMPLE_ROWS,
        aid_bytes=8 if table.has_wide_aid else 4,
        has_checksums=table.has_checksums,
    )


def _table(connection: Connection, data_dir: Path) -> _Table:
    row = connection.execute(_TABLE_SQL).fetchone()
    assert row is not None, "a query of constants"
    path, *rest = row
    return _Table(data_dir / path, *rest)


def _copy_small_tables(connection: Connection, scale: int) -> None:
    with connection.transaction():
        connection.execute("TRUNCATE pgbench_tellers, pgbench_branches")
        last_teller = scale * _TELLERS_PER_BRANCH
        tellers = (
            f"{tid}\t{(tid - 1) // _TELLERS_PER_BRANCH + 1}\t0\t\\N\n"
            for tid in range(1, last_teller + 1)
        )
        _copy(connection, "pgbench_tellers", tellers)
        _copy(connection, "pgbench_branches", (f"{bid}\t0\t\\N\n" for bid in range(1, scale + 1)))


def _copy(connection: Connection, table: str, rows: Iterator[str]) -> None:
    """Fill a table that was truncated in this transaction."""
    with connection.cursor().copy(f"COPY {table} FROM STDIN WITH (FREEZE ON)") as copy:
        for row in rows:
            copy.write(row)


def _write(
    threads: ThreadPoolExecutor, table: _Table, model: PageModel, row_count: int, told: Told
) -> list[Path]:
    """Write all pages, and return the files; a signal is obeyed between two chunks."""
    page_count = model.page_count(row_count)
    firsts = range(0, page_count, _PAGES_AT_ONCE)
    paths = []
    owner = table.path.stat()

    def write(first: int) -> None:
        count = min(_PAGES_AT_ONCE, page_count - first)
        segment, page = divmod(first, table.pages_per_segment)
        _write_at(_segment(table.path, segment), page, model.pages(first, count, row_count))

    for segment in range(-(-page_count // table.pages_per_segment)):
        paths.append(_segment(table.path, segment))
        _create_as(paths[-1], owner)
    running: list[Future[None]] = []
    try:
        for done, first in enumerate(firsts):
            running.append(threads.submit(write, first))
            if len(running) > _THREADS:
                running.pop(0).result()
                told(done / len(firsts))
                signals.check()
    finally:
        for task in running:
            task.result()
    if model.map_header:
        paths.append(Path(f"{table.path}_vm"))
        _create_as(paths[-1], owner)
        _write_at(paths[-1], 0, model.map_pages(row_count))
    return paths


def _segment(path: Path, number: int) -> Path:
    return Path(f"{path}.{number}") if number else path


def _create_as(path: Path, owner: os.stat_result) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, owner.st_mode & 0o777)
    os.fchown(descriptor, owner.st_uid, owner.st_gid)
    os.close(descriptor)


def _write_at(path: Path, page: int, pages: Pages) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        rest = pages.data.cast("B")
        at = page * PAGE_BYTES
        while rest:
            written = os.pwrite(descriptor, rest, at)
            rest, at = rest[written:], at + written
    finally:
        os.close(descriptor)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
