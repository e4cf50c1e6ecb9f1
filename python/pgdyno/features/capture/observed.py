"""What a capture saw of its source: statements with counters, totals, and what is left out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from pgdyno.engine.distribution import CapturePart

Origin = Literal["statistics", "log"]
Protocol = Literal["simple", "extended", "prepared"]
StatementKind = Literal[
    "select",
    "insert",
    "update",
    "delete",
    "merge",
    "begin",
    "commit",
    "rollback",
    "savepoint",
    "set",
    "other",
]
# Why something cannot be reproduced.
REASONS = {
    "text_missing": "the server lost the text of the statement, or the text has more than 1 MB",
    "hidden": "statements of other roles, whose texts the server hides from this one",
    "evicted": "pg_stat_statements removed the entry",
    "unreadable": "the text cannot be read as SQL",
    "several": "several statements in one text",
    "empty": "texts without a statement, such as a comment alone",
    "deep": "the text has hundreds of operators, each inside of the next one",
    "refused": "the server does not accept the statement with parameters, such as $1 + $2 without"
    " types, or with parameters in place of its constants",
    "constants": "the text has constants in place of parameters",
    "copy": "COPY in the binary format, of files or programs, with WHERE or constants in its query,"
    " with an unknown number of rows, or into a table whose key has only columns of other tables",
    "cursor": "cursors WITH HOLD or outside a transaction; statistics do not show their place",
    "temporary_table": "temporary tables",
    "function_missing": "the text of a function is not readable",
    "object_missing": "a table or function of the statement is not in the capture",
    "session_lock": "advisory locks of a session; with --log --keep-values they are repeated",
    "two_phase": "two-phase commit",
    "ddl": "changes of the schema",
    "maintenance": "VACUUM, ANALYZE, CHECKPOINT and similar",
    "session": "settings that are not harmless, or whose values or place are not known",
    "savepoint": "savepoints: statistics do not show their place",
    "prepared_by_sql": "EXECUTE and DEALLOCATE, and PREPARE in a log",
    "catalog": "questions to the system catalogs",
    "procedure": "DO with values, with dynamic SQL or with changes of the schema",
    "secret": "utility statements that may contain a secret",
    "parameter": "a parameter whose values are not known",
    "harmful": "functions that read files, open connections, execute texts or act on other"
    " sessions, and functions of the user that the capture does not make",
    "other": "other utility statements",
}


class Counters(CapturePart):
    """What pg_stat_statements counts, for one statement or for all."""

    calls: int = 0
    rows: int = 0
    time_ms: float = 0
    plan_time_ms: float = 0
    hit_blocks: int = 0
    read_blocks: int = 0
    dirtied_blocks: int = 0
    written_blocks: int = 0
    temp_read_blocks: int = 0
    temp_written_blocks: int = 0
    wal_records: int = 0
    wal_full_pages: int = 0
    wal_bytes: int = 0

    @classmethod
    def total(cls, parts: Iterable[Counters]) -> Counters:
        """Return the sum of counters."""
        known = list(parts)
        return cls(**{name: sum(getattr(c, name) for c in known) for name in cls.model_fields})


class Statement(CapturePart):
    """A statement with `$1` ... in place of its parameters.

    `id` depends on text, role and search_path alone. `parameter_types` as SQL, for each `$n`;
    "" if it is not known. `constant_count`: this many of the last parameters are constants in the
    text that the program sends. `tables`: those that it names, qualified. `counters` are of the
    time of the capture; without pg_stat_statements only calls and time are known. `is_counted`: the
    server counted the rows and blocks of a statement of a log, even if all are 0. `counted_ratio`:
    how many calls the server counted for one of the log.
    """

    id: str
    text: str
    kind: StatementKind
    reads_only: bool
    tables: tuple[str, ...] = ()
    parameter_types: tuple[str, ...] = ()
    constant_count: int = 0
    role: str = ""
    search_path: str = ""
    counters: Counters = Counters()
    is_counted: bool = False
    counted_ratio: float = 1


class RecordedType(CapturePart):
    """Transactions of a recording with one name. `count`: how many there are.

    `statements`: the places of their statements in `Recording.statements`.
    """

    name: str
    protocol: Protocol
    count: int
    statements: tuple[int, ...]


class Recording(CapturePart):
    """The transactions of a log with their values, in a file next to the capture.

    `sessions_at_once`: how many were open at most. `statements`: the ids of the statements that the
    file numbers. `keys`: how many keys that the load made are used later. `left_out_count`:
    statements that cannot be repeated, and all of a transaction with a value that the log lacks.
    """

    file: str
    transactions: int
    sessions: int
    sessions_at_once: int = 0
    keys: int
    left_out_count: int
    statements: tuple[str, ...]
    types: tuple[RecordedType, ...]


class Arrivals(CapturePart):
    """The load from second to second: finished transactions, and sessions that were active.

    `interval_s`: the length of one entry.
    """

    interval_s: float = 1
    transactions: tuple[float, ...] = ()
    active_sessions: tuple[float, ...] = ()


class SessionKind(CapturePart):
    """Sessions of one role. `count`: their mean number. `settings`: those of role and database."""

    role: str
    count: float
    settings: dict[str, str] = Field(default_factory=dict)


class Profile(CapturePart):
    """Totals of the source, for the comparison with a copy.

    `waits`: share of the active time by wait event, "CPU" included. `seconds`: what was counted.
    """

    seconds: float = 0
    total: Counters = Counters()
    commits: int = 0
    rollbacks: int = 0
    active_sessions: float | None = None
    waits: dict[str, float] = Field(default_factory=dict)
    updates: int = 0
    hot_updates: int = 0
    dealloc_count: int = 0


class LeftOut(CapturePart):
    """Work that a copy of this load does not have; `reason` is a key of REASONS."""

    reason: str
    text: str
    calls: int
    time_ms: float
