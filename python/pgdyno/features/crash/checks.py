"""The checks after a crash: rows, indexes, files, and the server's own log."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import LiteralString

import psycopg
from psycopg import sql

from pgdyno.features.crash.losses import Key, SentCommit
from pgdyno.features.crash.record import CheckSeen
from pgdyno.process.child import UserIds, run
from pgdyno.server.connect import Connection
from pgdyno.server.find import Binaries
from pgdyno.server.scratch.postmaster import server_environment

# Each returns the number of rows that violate the rule, read without an index.
ROW_RULES = {
    "payload checksums": (
        "SELECT count(*) FROM pgdyno_ledger WHERE checksum IS DISTINCT FROM sha256(convert_to("
        "client || ':' || sequence || ':' || amount || ':' || payload, 'UTF8'))"
    ),
    "balance = sum of the entries": (
        "SELECT count(*) FROM pgdyno_ledger_balances AS b FULL JOIN (SELECT client, sum(amount)"
        " AS total FROM pgdyno_ledger GROUP BY client) AS e USING (client)"
        " WHERE b.balance IS DISTINCT FROM coalesce(e.total, 0)"
    ),
    "primary keys unique": (
        "SELECT (SELECT count(*) - count(DISTINCT (client, sequence)) FROM pgdyno_ledger)"
        " + (SELECT count(*) - count(DISTINCT client) FROM pgdyno_ledger_balances)"
    ),
    "sequence above max(id)": (
        "SELECT count(*) FROM pgdyno_ledger_id_seq AS s"
        " WHERE s.last_value < (SELECT max(id) FROM pgdyno_ledger)"
    ),
}
_SCANS = ("enable_indexscan", "enable_indexonlyscan", "enable_bitmapscan")
# The order makes PostgreSQL read the index that has it.
_INDEXES = {
    "pgdyno_ledger_pkey": ("pgdyno_ledger", "client, sequence"),
    "pgdyno_ledger_checksum": ("pgdyno_ledger", "checksum"),
    "pgdyno_ledger_balances_pkey": ("pgdyno_ledger_balances", "client"),
}
_SUM_OF_ROWS = (
    "SELECT count(*), coalesce(sum(hashtext(r::text)), 0) FROM (SELECT * FROM {} ORDER BY {}) AS r"
)
_BTREES = (
    "SELECT i.indexrelid::regclass::text, i.indexrelid FROM pg_index AS i"
    " JOIN pg_class AS c ON c.oid = i.indexrelid JOIN pg_am AS a ON a.oid = c.relam"
    " WHERE a.amname = 'btree' AND i.indisvalid AND c.relpersistence = 'p'"
)
_AMCHECK = (
    "SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace"
    " WHERE e.extname = 'amcheck'"
)
# All arguments with their types: in the schema of the extension no function can fit better.
_HEAPS: LiteralString = (
    "SELECT c.oid::regclass::text, v.msg FROM pg_class AS c, LATERAL"
    " {}.verify_heapam(c.oid::regclass, false, false, 'none'::text, NULL::int8, NULL::int8) AS v"
    " WHERE c.relkind IN ('r', 'm', 't') AND c.relpersistence = 'p' LIMIT 3"
)
_RELATIONS = (
    "SELECT oid::regclass::text, pg_relation_filepath(oid) FROM pg_class"
    " WHERE relkind IN ('r', 'i', 'm', 't', 'S') AND relpersistence = 'p'"
    " AND pg_relation_filepath(oid) IS NOT NULL"
)
_MISTRUSTED = re.compile(
    r"PANIC|invalid page|page verification failed|could not read block|unexpected zero page"
    r"|could not access status of transaction|missing chunk number"
)
_FILE = re.compile(r"^(\d+)(?:_(?:fsm|vm|init))?(?:\.\d+)?$")
_OF_FREE_SPACE = re.compile(r"_fsm(\.\d+)?\"")
_CHECKSUMS_TIMEOUT_S = 300.0
_PAGE = 8192


def rows_of(connection: Connection) -> dict[Key, int]:
    """Return the transaction of each entry by its key, read without an index."""
    with connection.transaction():
        _without_indexes(connection)
        rows = connection.execute(
            connection.qualified("SELECT client, sequence, xid::text::bigint FROM pgdyno_ledger")
        ).fetchall()
    return {(client, sequence): xid for client, sequence, xid in rows}


def next_xid(connection: Connection) -> int:
    """Return the number that the server has not yet given to a transaction."""
    row = connection.execute(
        "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
    ).fetchone()
    return int(row[0]) if row is not None else 0


def statuses(
    connection: Connection, commits: Sequence[SentCommit], *, recovered_xid: int
) -> dict[int, str | None]:
    """Return what the server says of each transaction in doubt.

    Args: recovered_xid, the next number after recovery: a transaction with this or a higher number
    left no trace in the WAL ("aborted"), although the server may have given its number again.
    """
    doubtful = [commit.xid for commit in commits if commit.is_in_doubt]
    rows = connection.execute(
        "SELECT xid::bigint, pg_xact_status(xid::xid8) FROM unnest(%s::text[]) AS xid",
        [[str(xid) for xid in doubtful if xid < recovered_xid]],
    ).fetchall()
    status: dict[int, str | None] = dict.fromkeys(doubtful, "aborted")
    return status | dict(rows)


def row_checks(connection: Connection) -> Iterator[CheckSeen]:
    """Yield the checks of the rows and indexes of the ledger."""
    for name, query in ROW_RULES.items():
        yield _checked(name, connection, query)
    try:
        home = connection.execute(_AMCHECK).fetchone()
    except psycopg.Error as error:
        yield CheckSeen("amcheck", "bad", _words(error))
        return
    if home is not None:
        schema = sql.Identifier(str(home[0]))
        yield _amcheck_of_indexes(connection, schema)
        yield _amcheck_of_tables(connection, schema)
    else:
        yield from (_index_against_table(connection, index) for index in _INDEXES)


def own_checks(connection: Connection, statements: Sequence[str]) -> Iterator[CheckSeen]:
    """Yield a check for each statement of --check-sql: it must return no rows."""
    if statements:
        connection.use_load_path()
    for number, statement in enumerate(statements, start=1):
        name = f"--check-sql, statement {number}"
        try:
            rows = connection.execute(statement.encode()).fetchmany(1)
        except psycopg.Error as error:
            yield CheckSeen(name, "bad", _words(error))
            continue
        shown = f"it returned {rows[0]}" if rows else "no rows"
        yield CheckSeen(name, "bad" if rows else "good", shown)


def file_checks(connection: Connection, data_dir: Path) -> Iterator[CheckSeen]:
    """Yield whether every relation has its file, and which files belong to no relation.

    A crash may leave files of transactions that did not commit: PostgreSQL does not remove them.
    They take space and are no corruption.
    """
    # Looking at files needs the right of their owner; the server's paths are relative to data_dir.
    relations = connection.execute(_RELATIONS).fetchall()
    missing = [name for name, path in relations if not (data_dir / path).exists()]
    shown = f"missing: {', '.join(missing[:3])}" if missing else f"{len(relations)} relations"
    yield CheckSeen("files of all relations", "bad" if missing else "good", shown)
    orphans = files_without_relation(connection, data_dir)
    size = sum(path.stat().st_size for path in orphans)
    shown = f"{len(orphans)} files, {size:,} bytes" if orphans else "none"
    yield CheckSeen("files without a catalogue entry", "note" if orphans else "good", shown)


def files_without_relation(connection: Connection, data_dir: Path) -> list[Path]:
    """Return the files of this database that belong to no relation."""
    known = {Path(path) for _, path in connection.execute(_RELATIONS).fetchall()}
    return [
        path
        for folder in {path.parent for path in known if path.parts[0] == "base"}
        for path in (data_dir / folder).iterdir()
        if (named := _FILE.match(path.name)) is not None
        and int(named[1]) >= 16384
        and folder / named[1] not in known
    ]


def log_check(log: str) -> CheckSeen:
    """Return whether the server's log since the restart has a PANIC or an invalid page.

    A warning is not damage: the free space map is not in the WAL, and a torn page of it is zeroed.
    PostgreSQL 18 writes LOG for the first of these lines.
    """
    lines = [line for line in log.splitlines() if _MISTRUSTED.search(line)]
    lines = [line for line in lines if "WARNING:" not in line and "LOG:" not in line]
    shown = lines[0].split("] ")[-1].strip() if lines else "no PANIC, no invalid page"
    return CheckSeen("server's log", "bad" if lines else "good", shown)


def checksum_check(
    binaries: Binaries, user: UserIds, data_dir: Path, orphans: Sequence[Path]
) -> CheckSeen:
    """Return what pg_checksums finds in a stopped cluster, whose data nobody needs any more.

    Args: orphans, files without a relation. A CREATE INDEX that did not commit may leave torn pages
    there, and nobody reads them.
    """
    _cut_parts_of_pages(data_dir)
    program = binaries.program("pg_checksums")
    argv: list[str | Path] = [program, "--check", "-D", data_dir]
    done = run(
        argv, user=user, env=server_environment(user), cwd="/", timeout_s=_CHECKSUMS_TIMEOUT_S
    )
    if done.returncode == 0:
        return CheckSeen("pg_checksums", "good", "every page has its checksum")
    words = (done.stderr or done.stdout).strip().splitlines()
    if any("not enabled" in line for line in words):
        return CheckSeen("pg_checksums", "skipped", "checksums are not enabled")
    unread = [f'"{path}"' for path in orphans]
    failed = [line for line in words if "verification failed" in line]
    of_relations = [line for line in failed if not any(path in line for path in unread)]
    if failed and not of_relations:
        return CheckSeen("pg_checksums", "note", f"only in files without a relation: {failed[0]}")
    failed = of_relations
    if failed and all(_OF_FREE_SPACE.search(line) for line in failed):
        # PostgreSQL does not log this map: it zeroes a torn page of it when it reads the page.
        return CheckSeen("pg_checksums", "note", f"only in free space maps: {failed[0]}")
    shown = failed[0] if failed else words[0] if words else "it failed"
    return CheckSeen("pg_checksums", "bad", shown)


def _cut_parts_of_pages(data_dir: Path) -> None:
    """Cut off a part of a page at the end of a file: a page that the WAL does not know.

    PostgreSQL ignores the part and writes over it; pg_checksums stops there.
    """
    for path in (*data_dir.glob("base/*/*"), *data_dir.glob("global/*")):
        if _FILE.match(path.name) and path.is_file() and (part := path.stat().st_size % _PAGE):
            os.truncate(path, path.stat().st_size - part)


def _checked(name: str, connection: Connection, query: str) -> CheckSeen:
    try:
        with connection.transaction():
            _without_indexes(connection)
            row = connection.execute(connection.qualified(query)).fetchone()
    except psycopg.Error as error:
        return CheckSeen(name, "bad", _words(error))
    count = row[0] if row is not None else 0
    return CheckSeen(name, "bad" if count else "good", f"{count} violations" if count else "holds")


def _without_indexes(connection: Connection) -> None:
    for name in _SCANS:
        connection.execute(sql.SQL("SET LOCAL {} = off").format(sql.Identifier(name)))


def prepare(connection: Connection) -> None:
    """Install amcheck before any crash, where the server offers it."""
    offered = connection.execute(
        "SELECT 1 FROM pg_available_extensions WHERE name = 'amcheck'"
    ).fetchone()
    if offered is not None:
        connection.execute("CREATE EXTENSION IF NOT EXISTS amcheck SCHEMA public")


def _amcheck_of_indexes(connection: Connection, schema: sql.Identifier) -> CheckSeen:
    name, count = "amcheck: indexes have every row", 0
    check = sql.SQL("SELECT {}.bt_index_check(%s::regclass, true)").format(schema)
    try:
        for _index, oid in connection.execute(_BTREES).fetchall():
            connection.execute(check, [oid])
            count += 1
    except psycopg.Error as error:
        return CheckSeen(name, "bad", _words(error))
    return CheckSeen(name, "good", f"{count} indexes")


def _amcheck_of_tables(connection: Connection, schema: sql.Identifier) -> CheckSeen:
    name = "amcheck: tables"
    try:
        bad = connection.execute(sql.SQL(_HEAPS).format(schema)).fetchone()
    except psycopg.Error as error:
        return CheckSeen(name, "bad", _words(error))
    return CheckSeen(name, "bad" if bad else "good", f"{bad[0]}: {bad[1]}" if bad else "holds")


def _index_against_table(connection: Connection, index: str) -> CheckSeen:
    """Return whether a scan of the index finds the rows that a scan of the table finds."""
    name = f"{index} has every row"
    table, order = _INDEXES[index]
    query = connection.qualified(_SUM_OF_ROWS.format(table, order))
    sums = []
    try:
        for scan in ("enable_seqscan", "enable_indexscan"):
            with connection.transaction():
                off = {*_SCANS} if scan == "enable_indexscan" else {scan, "enable_bitmapscan"}
                for setting in (*off, *(["enable_sort"] if scan == "enable_seqscan" else [])):
                    connection.execute(
                        sql.SQL("SET LOCAL {} = off").format(sql.Identifier(setting))
                    )
                sums.append(connection.execute(query).fetchone())
    except psycopg.Error as error:
        return CheckSeen(name, "bad", _words(error))
    is_same = sums[0] == sums[1]
    return CheckSeen(name, "good" if is_same else "bad", "holds" if is_same else "rows differ")


def _words(error: psycopg.Error) -> str:
    return str(error.diag.message_primary or error).strip().splitlines()[0]
