"""Evidence for work_mem from a server: what spilled so far, and statements tried with EXPLAIN."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from pgdyno.engine.log_events import events_of
from pgdyno.errors import EngineError, RefusedError, ServerError, SpecError
from pgdyno.features.tune.spill import Need, Probe, SpillTrial, search, trial_of
from pgdyno.observe.session import ServerSession
from pgdyno.observe.sql.statements import SCHEMA_SQL
from pgdyno.server.connect import Connection
from pgdyno.server.failures import step_for
from pgdyno.server.grammar import SyntaxNode, statements_of, with_literals, without_meta_commands
from pgdyno.server.permission import refuse_foreign_tables, unpermitted
from pgdyno.user_file import read_text, require_long_file

TEMPORARY_SQL = (
    "SELECT datname, temp_files::int8, temp_bytes::int8, stats_reset::text"
    " FROM pg_catalog.pg_stat_database WHERE temp_files > 0 ORDER BY temp_bytes DESC"
)
# Statements that pgdyno itself tried begin with this. Their files say nothing about the load.
TRIED_AS = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON, TIMING OFF) "
STATEMENTS_SQL = (
    "SELECT pg_catalog.pg_get_userbyid(s.userid), s.query, s.calls::int8,"
    " (s.temp_blks_written * current_setting('block_size')::int8)::int8"
    " FROM {schema}.pg_stat_statements s WHERE s.temp_blks_written > 0"
    f" AND s.query NOT LIKE '{TRIED_AS}%'"
    " ORDER BY s.temp_blks_written DESC LIMIT 10"
)
TRIED_SQL = (
    "SELECT coalesce(sum(s.temp_blks_written), 0)::int8 * current_setting('block_size')::int8"
    " FROM {schema}.pg_stat_statements s "
    f"WHERE s.query LIKE '{TRIED_AS}%'"
)
_SHOWN_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class Spiller:
    """A statement that wrote temporary files, as pg_stat_statements counts it."""

    role: str
    text: str
    calls: int
    temp_bytes: int

    @property
    def bytes_per_call(self) -> int:
        """Return how much one execution wrote on average."""
        return self.temp_bytes // max(1, self.calls)


@dataclass(frozen=True, slots=True)
class Spilled:
    """Temporary files since the statistics were reset. `why_no_statements`: "" if known.

    `tried_bytes`: the part that was written when statements were tried, as far as it is known.
    """

    file_count: int
    temp_bytes: int
    since: str
    statements: tuple[Spiller, ...]
    why_no_statements: str = ""
    tried_bytes: int = 0

    def as_document(self) -> dict[str, Any]:
        """Return the document for JSON."""
        return {
            "file_count": self.file_count,
            "temp_bytes": self.temp_bytes,
            "since": self.since,
            "statements": [
                {
                    "role": statement.role,
                    "text": statement.text,
                    "calls": statement.calls,
                    "bytes": statement.temp_bytes,
                }
                for statement in self.statements
            ],
            "why_no_statements": self.why_no_statements,
            "tried_bytes": self.tried_bytes,
        }


@dataclass(frozen=True, slots=True)
class LoggedFiles:
    """Sizes of temporary files in a log, in bytes."""

    count: int
    median_bytes: int
    p90_bytes: int
    max_bytes: int


def read_spilled(session: ServerSession) -> Spilled:
    """Return the temporary files of all databases. Raises: psycopg.Error if the session is lost."""
    rows = session.fetch(TEMPORARY_SQL)
    since = min((str(row[3]) for row in rows if row[3]), default="")
    spillers: tuple[Spiller, ...] = ()
    why, tried_bytes = "", 0
    try:
        schemas = session.fetch(SCHEMA_SQL)
        if schemas:
            sql = STATEMENTS_SQL.format(schema=schemas[0][0])
            spillers = tuple(
                Spiller(str(role), _shown(str(text)), int(calls), int(size))
                for role, text, calls, size in session.fetch(sql)
            )
            tried_bytes = int(session.fetch(TRIED_SQL.format(schema=schemas[0][0]))[0][0])
        else:
            why = "pg_stat_statements is not in this database"
    except psycopg.Error as error:
        if not session.is_open:
            raise
        why = str(error.diag.message_primary or error).strip()
    files, size = sum(int(row[1]) for row in rows), sum(int(row[2]) for row in rows)
    return Spilled(files, size, since, spillers, why, tried_bytes)


def read_log(path: Path) -> LoggedFiles | None:
    """Return the sizes of temporary files in a log (log_temp_files = 0); None if it has none.

    Args: path, of a log of any form (stderr, csvlog, jsonlog), which gzip or zstd may have
    compressed.
    Raises: SpecError if the file cannot be read.
    """
    require_long_file(path, of="--log")
    try:
        sizes = sorted(event.size_bytes for event in events_of(path) if event.size_bytes)
    except EngineError as error:
        raise SpecError(
            f"--log {path} is damaged or cut off: {error}",
            hint="copy it once more, or give the part that can be unpacked",
        ) from None
    if not sizes:
        return None
    # 90 % are below it.
    p90 = sizes[min(len(sizes) - 1, int(0.9 * len(sizes)))]
    return LoggedFiles(len(sizes), int(statistics.median(sizes)), p90, sizes[-1])


def statements_in(path: Path, variables: Mapping[str, str]) -> list[SyntaxNode]:
    """Return the statements of a script, read after literals have replaced its variables.

    Raises: SpecError for a variable without a value, a text that is not SQL, and a file without a
    statement.
    """
    text = without_meta_commands(read_text(path))
    statements = statements_of(with_literals(text, variables, where=str(path)), where=str(path))
    if not statements:
        raise SpecError(f"{path} has no statement.", hint="give the statements that spill")
    return list(statements)


def needs_of(
    connection: Connection,
    statements: Mapping[str, list[SyntaxNode]],
    *,
    now_bytes: int,
    max_bytes: int,
    is_scratch: bool,
    timeout_ms: int,
) -> tuple[Need, ...]:
    """Try every statement under several values of work_mem.

    Args: statements, by the name of their file; timeout_ms, of each execution.
    Raises: RefusedError for a statement that writes, on a server that is not scratch; ServerError
    with the server's own words.
    """
    needs = []
    for name, tried in statements.items():
        for number, statement in enumerate(tried, 1):
            text = statement.text
            is_query = statement.kind == "SelectStmt"
            why = unpermitted(statement) if is_query else "does more than read"
            if why is not None and not is_scratch:
                raise RefusedError(
                    f"{name}, statement {number} {why}: {_shown(text)[:60]}.",
                    hint="give only what reads, or try the others on a scratch copy (--scratch)",
                )
            if not is_scratch:
                refuse_foreign_tables(connection, name, [text])
            place = f"{Path(name).name}:{number}" if len(tried) > 1 else Path(name).name
            probe = _probe(connection, text, place, is_scratch=is_scratch, timeout_ms=timeout_ms)
            needs.append(
                search(_shown(text), place, probe, now_bytes=now_bytes, max_bytes=max_bytes)
            )
    return tuple(needs)


_LONGER = "give it longer with --timeout"
_CORRECT = "correct the statement: the server refuses it"


def _probe(
    connection: Connection, text: str, place: str, *, is_scratch: bool, timeout_ms: int
) -> Probe:
    def probe(work_mem_bytes: int) -> SpillTrial:
        try:
            with connection.transaction(force_rollback=True):
                if not is_scratch:
                    connection.execute("SET TRANSACTION READ ONLY")
                connection.execute(f"SET LOCAL statement_timeout = {timeout_ms}".encode())
                connection.execute(f"SET LOCAL work_mem = '{work_mem_bytes // 1024}kB'".encode())
                connection.use_load_path(local=True)
                # A binary result needs the extended protocol, which takes one statement only.
                asked = f"{TRIED_AS}{text}".encode()
                row = connection.execute(asked, binary=True).fetchone()
        except psycopg.Error as error:
            said = error.diag.message_primary or str(error)
            is_slow = isinstance(error, psycopg.errors.QueryCanceled)
            raise ServerError(
                f"{place} under work_mem = {work_mem_bytes >> 10}kB: {said}.",
                hint=_LONGER if is_slow else step_for(error.sqlstate, _CORRECT),
                sqlstate=error.sqlstate,
            ) from None
        assert row is not None, "EXPLAIN returns a row"
        return trial_of(work_mem_bytes, row[0][0])

    return probe


def _shown(text: str) -> str:
    return " ".join(text.split())[:_SHOWN_CHARACTERS]
