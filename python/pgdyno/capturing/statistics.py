"""Makes a capture from a server's statistics. It only reads, with one connection."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version as version_of
from typing import Any

import psycopg

from pgdyno.capture.model import (
    Capture,
    Counters,
    Header,
    StatementKind,
)
from pgdyno.capturing import catalog, counted
from pgdyno.capturing.assembly import Assembly
from pgdyno.capturing.columns import (
    ColumnShapes,
    column_groups,
    literals_of,
    raw_columns,
    read_statistics,
    texts_to_replace,
)
from pgdyno.capturing.copied import fixed_keys
from pgdyno.capturing.counted import Counted, Key
from pgdyno.capturing.functions import functions_of
from pgdyno.capturing.names import Names
from pgdyno.capturing.parsed import Parsed, parse
from pgdyno.capturing.schema import Rows, read_schema
from pgdyno.capturing.sources import (
    LOOKS,
    LOOKS_RATIO,
    POLL_S_MAX,
    POLL_S_MIN,
    SourceSeen,
    sources_of,
)
from pgdyno.capturing.stand_ins import StandIns
from pgdyno.capturing.utilities import query_of
from pgdyno.clock import monotonic_ns, read_pair
from pgdyno.errors import InterruptedByUser, ServerError
from pgdyno.observe.session import REPORT_SQL
from pgdyno.observe.sql.statements import SCHEMA_SQL
from pgdyno.process import signals
from pgdyno.server.connect import Connection, connect
from pgdyno.server.target import Target

_VERSION = version_of("pgdyno")
# A parameter of ours, and not one of format().
_PARAMETER = re.compile(r"(?<!%I )%s")
# Statements of a capture begin with it, so that captures do not contain captures.
_MARK = "/* pgdyno */ "
_LOOKS_COMPARED = 60
_SNAPSHOTS = 60
_SNAPSHOT_S_MIN, _SNAPSHOT_S_MAX = 2.0, 60.0
_STATEMENT_TIMEOUT_MS, _LOCK_TIMEOUT_MS = 30_000, 100
_RETRY_S = 1.0
_PREPARED_AT_ONCE = 200
_FORCES_REPORTS = 15
_NO_TEXT = Parsed("", reason="text_missing")
_FRAMES: dict[StatementKind, str] = {"begin": "BEGIN", "commit": "COMMIT"}
_SECRET_SETTING = ("password", "secret", "token", "key")


@dataclass(slots=True)
class Progress:
    """What is known while a capture goes on."""

    seconds: float
    transactions_tps: float
    active_sessions: float
    statements: int


@dataclass(frozen=True, slots=True)
class Request:
    """What to capture. `moved` is called each second; `checkpoint` with a whole capture so far."""

    target: Target
    seconds: float
    keeps_values: bool
    moved: Callable[[Progress], None] = field(repr=False)
    checkpoint: Callable[[Capture], None] = field(repr=False)
    lost: Callable[[str], None] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Logging:
    """The prefix of a server's logs, and the share of transactions that they have."""

    prefix: str
    sample_ratio: float


class Reading:
    """One capture in progress: the connection, what was read once, and what is counted."""

    def __init__(self, request: Request) -> None:
        """Connect. Raises: ServerError, also for a pooler and a server before PostgreSQL 12."""
        self._request = request
        self._clock = read_pair()
        self._began_ns = 0
        self._own_transactions = 0
        self.counted = Counted()
        self._connection = self._opened()
        with ExitStack() as stack:
            stack.enter_context(self._connection)
            self.sources = tuple(
                sources_of(
                    self.fetch,
                    version=self.version,
                    user=self.user,
                    sees_everybody=self.sees_everybody,
                )
            )
            home = self.fetch(SCHEMA_SQL)
            stack.pop_all()
        statements = next(s for s in self.sources if s.name == "pg_stat_statements")
        is_readable = home and "library" not in statements.missing
        self._home = str(home[0][0]) if is_readable else ""
        self._texts: dict[Key, tuple[str | None, str]] = {}
        self._own: set[Key] = set()
        self._refused: set[str] = set()
        self._path: list[str] = []

    def _opened(self) -> Connection:
        connection = connect(
            self._request.target,
            verb="capture",
            read_only=True,
            statement_timeout_ms=_STATEMENT_TIMEOUT_MS,
            lock_timeout_ms=_LOCK_TIMEOUT_MS,
            interruptible=True,
        )
        with ExitStack() as stack:
            stack.enter_context(connection)
            row = connection.execute(catalog.SESSION_SQL).fetchone()
            assert row is not None, "a SELECT without FROM returns one row"
            if row[0] != connection.info.backend_pid:
                raise ServerError(
                    f"{self._request.target.place} is a pooler, not a server.",
                    hint="name the server itself with -h and -p",
                )
            self.version = int(row[1]) // 10_000
            if self.version < 12:
                raise ServerError(
                    f"{self._request.target.place} is PostgreSQL {self.version}, older than 12.",
                    hint="capture needs PostgreSQL 12 or later",
                )
            stack.pop_all()
        self._version_num, self._encoding = int(row[1]), str(row[2])
        self.database, self.user = str(row[3]), str(row[4])
        self.sees_everybody, self._collation = bool(row[5]), str(row[6])
        self._database_oid = int(row[7])
        return connection

    def fetch(self, sql: str) -> Rows:
        """Return the rows of a statement without parameters."""
        self._own_transactions += 1
        cursor = self._connection.execute(_MARK + sql)
        rows: Rows = cursor.fetchall()
        return rows

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, *ended: Any) -> None:
        """Close the connection. Raises: ServerError if it was lost."""
        self._connection.__exit__(*ended)

    def read_once(self) -> None:
        """Read the schema, the statistics of its columns, and the texts of the statements."""
        self._taken_at = datetime.fromtimestamp(self._clock.now_ns() / 1e9, tz=UTC)
        self._read_texts()
        texts = [text for text, _ in self._texts.values() if text]
        self._path = [name for (name,) in self.fetch(catalog.PATH_SQL)]
        self.schema = read_schema(self.fetch, texts)
        self.statistics = read_statistics(self.fetch(catalog.STATISTICS_SQL))
        self.groups = column_groups(self.fetch(catalog.GROUPS_SQL))
        self._roles = frozenset(name for (name,) in self.fetch(catalog.ROLES_SQL))
        self.settings = {name: value for name, value in self.fetch(catalog.SETTINGS_SQL)}
        self._shape_columns()

    def _shape_columns(self) -> None:
        schema, statistics = self.schema, self.statistics
        texts = sorted(texts_to_replace(schema, statistics))
        row = self._connection.execute(catalog.SORTED_SQL, [texts])
        ordered = [text for (text,) in row.fetchall()]
        known = {value for seen in statistics.values() for value in seen.values}
        shown = literals_of([item.sql for item in schema.objects if item.kind != "function"])
        stand_ins = StandIns(ordered, known, shown=shown)
        shapes = ColumnShapes(
            schema, statistics, stand_ins, keeps_values=self._request.keeps_values
        )
        self.columns = shapes.all()
        self.kept = shapes.kept
        self.raw = raw_columns(schema, statistics)
        # The values are not needed any more, and the key ends with this object.
        self.statistics = {}

    def _read_texts(self) -> None:
        if not self._home:
            return
        for query_id, role_oid, text, role in self.fetch(
            counted.texts_sql(self.version, self._home)
        ):
            if text is not None and text.startswith(_MARK):
                self._own.add((query_id, role_oid))
            self._texts[query_id, role_oid] = (text, role or "")

    def count(self) -> InterruptedByUser | None:
        """Count until the time is over, or until a signal arrives, which is returned.

        Raises: ServerError if the server was lost before the first counters, and did not come back.
        """
        self._began_ns = monotonic_ns()
        # An interrupt must not close the connection: the last counters are read after it.
        self._connection.is_interruptible = False
        try:
            self._begin()
            self._count()
        except InterruptedByUser as interruption:
            self._finish()
            return interruption
        self._finish()
        return None

    @property
    def _second(self) -> float:
        return (monotonic_ns() - self._began_ns) / 1e9

    def _begin(self) -> None:
        so_far = self.counted
        while True:
            try:
                if self._home:
                    so_far.first = self._read_snapshot()
                self._first_database = self._database_totals()
                self._first_updates = self._update_totals()
                return
            except psycopg.Error as error:
                if not self._is_back_after(error):
                    raise ServerError(
                        f"{self._request.target.place} was lost before the first counters, and did"
                        f" not come back within {self._request.seconds:g} s.",
                        hint="start the capture again when the server is up",
                    ) from error

    def _database_totals(self) -> tuple[int, int]:
        if self.version >= _FORCES_REPORTS:
            # Otherwise the server counts our last transactions up to a second later.
            self.fetch(REPORT_SQL)
        [(commits, rollbacks, sessions)] = self.fetch(counted.DATABASE_SQL) or [(0, 0, 0)]
        return int(commits) - int(sessions) - self._own_transactions, int(rollbacks)

    def _update_totals(self) -> tuple[int, int]:
        rows = self.fetch(counted.TABLES_SQL)
        return int(rows[0][0]), int(rows[0][1])

    def _count(self) -> None:
        request = self._request
        every_s = min(max(request.seconds / _SNAPSHOTS, _SNAPSHOT_S_MIN), _SNAPSHOT_S_MAX)
        next_snapshot, next_second, next_checkpoint = every_s, 1.0, 10 * every_s
        before = sum(self._first_database)
        active: list[int] = []
        looks_s: deque[float] = deque(maxlen=_LOOKS_COMPARED)
        while self._second < request.seconds:
            try:
                self.counted.sessions.add(self._look(looks_s))
                # Short transactions are now at their next statements: this tells the order.
                for _ in range(LOOKS - 1):
                    self.counted.sessions.follow(self._look(looks_s))
                active.append(self.counted.sessions.active_counts[-1])
                if self._second >= next_second:
                    now = sum(self._database_totals())
                    self._end_second(max(0, now - before), active)
                    before, active, next_second = now, [], next_second + 1
                if self._second >= next_snapshot:
                    self._take_snapshot()
                    next_snapshot += every_s
                    if self._second >= next_checkpoint:
                        next_checkpoint *= 2
                        request.checkpoint(self.capture())
            except psycopg.Error as error:
                if not self._is_back_after(error):
                    return
                before = sum(self._database_totals())
            # On a busy machine looks wait for a core, too: the shortest of the last ones tells
            # what a look costs.
            cost_s = LOOKS * min(looks_s, default=0.0)
            pause_s = min(max(cost_s / LOOKS_RATIO, POLL_S_MIN), POLL_S_MAX)
            signals.sleep(max(0.0, min(pause_s, request.seconds - self._second)))

    def _look(self, looks_s: deque[float]) -> Rows:
        """Return what the sessions do now; add how long the answer took."""
        began_s = self._second
        rows = self.fetch(counted.activity_sql(self.version, self._database_oid))
        looks_s.append(self._second - began_s)
        return rows

    def _end_second(self, transactions: int, active: list[int]) -> None:
        so_far = self.counted
        so_far.transactions.append(float(transactions))
        so_far.active_sessions.append(sum(active) / max(len(active), 1))
        statements = len(so_far.snapshots[-1].counters) if so_far.snapshots else 0
        self._request.moved(
            Progress(self._second, float(transactions), so_far.active_sessions[-1], statements)
        )

    def _read_snapshot(self) -> counted.Snapshot:
        ended = sum(self._database_totals())
        snapshot = counted.read_snapshot(self.fetch, self.version, self._home)
        return replace(snapshot, ended_count=ended)

    def _take_snapshot(self) -> None:
        if not self._home:
            return
        so_far = self.counted
        snapshot = self._read_snapshot()
        last = so_far.snapshots[-1] if so_far.snapshots else so_far.first
        so_far.resets += last is not None and last.reset_at != snapshot.reset_at
        so_far.snapshots.append(snapshot)

    def _is_back_after(self, error: psycopg.Error) -> bool:
        """Connect again; return False if the time is over before the server is back.

        Raises: the error if it did not end the connection.
        """
        if not self._connection.closed and not self._connection.broken:
            raise error
        self._connection.close()
        lost_at = self._second
        self._request.lost("the connection was lost; pgdyno connects again")
        while True:
            try:
                self._connection = self._opened()
                self._connection.is_interruptible = False
                break
            except (ServerError, psycopg.Error):
                if self._second >= self._request.seconds:
                    self.counted.losses.append("the server did not come back")
                    return False
                signals.sleep(_RETRY_S)
        gap_s = self._second - lost_at
        self.counted.losses.append(f"the server was away for {gap_s:.0f} s: nothing was counted")
        return True

    def _finish(self) -> None:
        """Read the last counters, and the texts of statements that are new."""
        so_far = self.counted
        with signals.shielded("the last counters"):
            so_far.seconds = self._second
            try:
                self._take_snapshot()
                self._read_texts()
                self.schema.use(text for text, _ in self._texts.values() if text)
                so_far.transactions_seen = (self._first_database, self._database_totals())
                so_far.updates = (self._first_updates, self._update_totals())
                self._types = self._read_types()
                self._role_settings = self._read_role_settings()
            except (psycopg.Error, AttributeError):
                so_far.losses.append("the last counters could not be read")

    _types: Mapping[str, tuple[str, ...]] = {}
    _role_settings: Mapping[str, dict[str, str]] = {}

    def _read_types(self) -> dict[str, tuple[str, ...]]:
        parsed = self._parsed().values()
        known = {p.text: p.types for p in parsed if p.types}
        asked = {p.text for p in parsed if p.parameters and not p.reason and not p.copies}
        return known | self.types_of(sorted(asked - known.keys()))

    def types_of(self, texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return the types of the parameters of statements, as the server itself finds them."""
        homes = list(self._path)
        homes += [n for (n,) in self.fetch(catalog.SCHEMAS_SQL) if n not in homes]
        self._connection.execute(catalog.SET_PATH_SQL, [", ".join(homes)])
        types: dict[str, tuple[str, ...]] = {}
        for begin in range(0, len(texts), _PREPARED_AT_ONCE):
            names: dict[str, str] = {}
            for number, text in enumerate(texts[begin : begin + _PREPARED_AT_ONCE]):
                try:
                    self._connection.execute(f"PREPARE pgdyno_{number} AS {query_of(text)}")
                except psycopg.errors.OperationalError:
                    raise
                except psycopg.errors.SyntaxError:
                    # A $n where only a constant may be: extract($1 FROM at), interval $1.
                    self._refused.add(text)
                    continue
                except psycopg.Error:
                    continue
                names[f"pgdyno_{number}"] = text
            rows = self.fetch(catalog.TYPES_SQL)
            types |= {names[name]: tuple(listed) for name, listed in rows if name in names}
            self._connection.execute("DEALLOCATE ALL")
        return types

    def logging(self) -> Logging:
        """Return what the server says of its logs."""
        settings = {name: value for name, value in self.fetch(catalog.LOGGING_SQL)}
        rate = float(settings["log_transaction_sample_rate"])
        logs_all = settings["log_statement"] == "all"
        logs_all |= settings["log_min_duration_statement"] == "0"
        return Logging(settings["log_line_prefix"], rate if rate > 0 and not logs_all else 1.0)

    def _read_role_settings(self) -> dict[str, dict[str, str]]:
        settings: dict[str, dict[str, str]] = defaultdict(dict)
        for role, text in self.fetch(catalog.ROLE_SETTINGS_SQL):
            name, _, value = text.partition("=")
            is_secret = "." in name or any(word in name for word in _SECRET_SETTING)
            if not is_secret:
                settings[role or ""][name] = value
        return dict(settings)

    @property
    def names(self) -> Names:
        """Return the tables and columns of the database."""
        columns: dict[str, list[str]] = defaultdict(list)
        for column in self.schema.columns:
            columns[column.table].append(column.bare_name)
        for name in self.schema.names:
            columns.setdefault(name, [])
        return Names(
            columns,
            self._path,
            functions_of(self.schema.every_function),
            fixed_keys=fixed_keys(self.columns, self.schema.objects),
            generated={(c.table, c.bare_name) for c in self.schema.columns if c.generated},
            roles=self._roles,
        )

    def rows_of_copies(self) -> dict[str, float]:
        """Return the mean number of rows of each COPY FROM STDIN since the server counts."""
        if not self._home:
            return {}
        counters = counted.read_snapshot(self.fetch, self.version, self._home).counters
        known: dict[str, list[Counters]] = defaultdict(list)
        for key, parsed in self._parsed().items():
            if parsed.copies and key in counters:
                known[parsed.text].append(counters[key])
        totals = {text: counted.total_of(parts) for text, parts in known.items()}
        return {text: total.rows / total.calls for text, total in totals.items() if total.calls}

    def _parsed(self) -> dict[Key, Parsed]:
        names = self.names
        parsed = {key: parse(text, names) for key, (text, _) in self._texts.items()}
        for statement in parsed.values():
            if statement.text in self._refused:
                statement.reason = "unreadable"
        return parsed

    def capture(self) -> Capture:
        """Return the capture of what was counted so far."""
        return Assembly(
            header=self._header(self.counted.seconds or self._second),
            counted=self.counted,
            sources=self.sources,
            schema=self.schema,
            columns=self.columns,
            groups=self.groups,
            kept=self.kept,
            settings=self.settings,
            role_settings=self._role_settings,
            types=self._types,
            roles={key: role for key, (_, role) in self._texts.items()},
            parsed=self._parsed(),
            own=self._own,
        ).capture()

    def _header(self, seconds: float) -> Header:
        return Header(
            made_by=f"pgdyno {_VERSION}",
            keeps_values=self._request.keeps_values,
            database=self.database,
            server_version_num=self._version_num,
            encoding=self._encoding,
            collation=self._collation,
            taken_at=f"{self._taken_at:%Y-%m-%dT%H:%M:%SZ}",
            seconds=round(seconds, 3),
            sources=("statistics",),
        )


def sources_text(sources: tuple[SourceSeen, ...]) -> Iterator[tuple[str, str]]:
    """Yield the name of each source, and what to know about it."""
    for source in sources:
        yield source.name, f"{source.right}; {source.cost}; {source.gain}"
        if source.missing:
            repair = f" ({source.repair})" if source.repair else ""
            yield "", f"missing: {source.missing}; {source.loss}{repair}"


def statements_sent() -> dict[str, str]:
    """Return every statement that a capture may send, by what it reads."""
    named: dict[str, Any] = {
        name.removesuffix("_SQL").lower(): _PARAMETER.sub("$1", value)
        for name, value in vars(catalog).items()
        if name.endswith("_SQL")
    }
    for version in (12, 13, 14):
        for name, sql in (
            ("counters", counted.counters_sql(version, "SCHEMA")),
            ("texts", counted.texts_sql(version, "SCHEMA")),
            ("activity", counted.activity_sql(version, "DATABASE")),
        ):
            named[f"{name}, PostgreSQL {version} or later"] = sql
    named["database"], named["updates"] = counted.DATABASE_SQL, counted.TABLES_SQL
    named["evictions"] = str(counted.info_sql(14, "SCHEMA"))
    named["own transactions"] = REPORT_SQL
    named["prepared"] = "PREPARE pgdyno_1 AS ...; DEALLOCATE ALL"
    return named
