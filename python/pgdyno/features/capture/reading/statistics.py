"""Makes a capture from a server's statistics. It only reads, with one connection."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version as version_of
from typing import Any

import psycopg

from pgdyno.clock import read_pair
from pgdyno.errors import InterruptedByUser
from pgdyno.features.capture.model import Capture, Header
from pgdyno.features.capture.observed import Counters
from pgdyno.features.capture.reading import catalog, counted
from pgdyno.features.capture.reading.accepted import prepared
from pgdyno.features.capture.reading.arbiters import arbiters_of
from pgdyno.features.capture.reading.assembly import Assembly
from pgdyno.features.capture.reading.casts import type_in_use
from pgdyno.features.capture.reading.column_statistics import (
    raw_columns,
    read_statistics,
)
from pgdyno.features.capture.reading.columns import (
    ColumnShapes,
    literals_of,
    texts_to_replace,
    with_parts,
)
from pgdyno.features.capture.reading.connection import SourceConnection
from pgdyno.features.capture.reading.copied import fixed_keys
from pgdyno.features.capture.reading.counted import Key
from pgdyno.features.capture.reading.counting import CaptureProgress, Counting
from pgdyno.features.capture.reading.functions import functions_of
from pgdyno.features.capture.reading.means import MeansOfStatements
from pgdyno.features.capture.reading.names import Names
from pgdyno.features.capture.reading.own_settings import settings_of
from pgdyno.features.capture.reading.parsed import Parsed, parse
from pgdyno.features.capture.reading.schema import read_schema
from pgdyno.features.capture.reading.sources import SourceSeen, sources_of
from pgdyno.features.capture.reading.stand_ins import StandIns
from pgdyno.features.capture.reading.utilities import query_of
from pgdyno.observe.session import REPORT_SQL
from pgdyno.observe.sql.statements import SCHEMA_SQL
from pgdyno.process import signals
from pgdyno.server.session_start import FIRST_TEXT, MARK
from pgdyno.server.target import Target

_VERSION = version_of("pgdyno")
# A parameter of ours, and not one of format().
_PARAMETER = re.compile(r"(?<!%I )%s")
_PREPARED_AT_ONCE = 200
_SECRET_SETTING = ("password", "secret", "token", "key")


@dataclass(frozen=True, slots=True)
class Request:
    """What to capture. `moved` is called each second; `checkpoint` with a whole capture so far.

    `has_logs`: the statements come from logs.
    """

    target: Target
    seconds: float
    keeps_values: bool
    moved: Callable[[CaptureProgress], None] = field(repr=False)
    checkpoint: Callable[[Capture], None] = field(repr=False)
    lost: Callable[[str], None] = field(repr=False)
    has_logs: bool = False


@dataclass(frozen=True, slots=True)
class Logging:
    """The prefix of a server's logs, and the share of transactions that they have.

    `logs_some`: only some statements, drawn by their duration or chosen by their kind.
    """

    prefix: str
    sample_ratio: float
    logs_some: bool


class Reading:
    """One capture in progress: the connection, what was read once, and what is counted."""

    def __init__(self, request: Request) -> None:
        """Connect. Raises: ServerError, also for a pooler and a server before PostgreSQL 12."""
        self._keeps_values = request.keeps_values
        self._clock = read_pair()
        self.source = SourceConnection(request.target)
        with ExitStack() as stack:
            stack.enter_context(self.source)
            self.sources = tuple(
                sources_of(
                    self.source.fetch,
                    version=self.source.version,
                    user=self.source.user,
                    sees_everybody=self.source.sees_everybody,
                    has_logs=request.has_logs,
                )
            )
            home = self.source.fetch(SCHEMA_SQL)
            stack.pop_all()
        statements = next(s for s in self.sources if s.name == "pg_stat_statements")
        is_readable = home and "library" not in statements.missing
        self._home = str(home[0][0]) if is_readable else ""
        self._counting = Counting(
            self.source,
            place=request.target.place,
            home=self._home,
            seconds=request.seconds,
            moved=request.moved,
            checkpoint=lambda: request.checkpoint(self.capture()),
            lost=request.lost,
        )
        self._texts: dict[Key, tuple[str | None, str]] = {}
        self._own: set[Key] = set()
        self._refused: set[str] = set()
        self._path: list[str] = []

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, *ended: Any) -> None:
        """Close the connection. Raises: ServerError if it was lost."""
        self.source.__exit__(*ended)

    def read_once(self) -> None:
        """Read the schema, the statistics of its columns, and the texts of the statements."""
        self._taken_at = datetime.fromtimestamp(self._clock.now_ns() / 1e9, tz=UTC)
        self._read_texts()
        texts = [text for text, _ in self._texts.values() if text]
        self._path = list(self.source.load_schemas)
        self.schema = read_schema(self.source.fetch, texts)
        self.statistics = read_statistics(self.source.fetch(catalog.STATISTICS_SQL))
        self._roles = frozenset(name for (name,) in self.source.fetch(catalog.ROLES_SQL))
        policies = [
            (str(table), str(text)) for table, text in self.source.fetch(catalog.POLICIES_SQL)
        ]
        others = (*self.schema.objects, *self.schema.every_function)
        self._conditions = [*policies, *(("", item.sql) for item in others)]
        self.settings = {name: value for name, value in self.source.fetch(catalog.SETTINGS_SQL)}
        self._shape_columns()

    def _shape_columns(self) -> None:
        schema, statistics = self.schema, self.statistics
        texts = sorted(texts_to_replace(schema, statistics))
        ordered = [text for (text,) in self.source.execute(catalog.SORTED_SQL, [texts])]
        known = {value for seen in statistics.values() for value in seen.values}
        shown = literals_of([item.sql for item in schema.objects if item.kind != "function"])
        self.stand_ins = stand_ins = StandIns(ordered, known, shown=shown)
        shapes = ColumnShapes(schema, statistics, stand_ins, keeps_values=self._keeps_values)
        self.columns = with_parts(shapes.all(), schema.tables)
        self.kept = shapes.kept
        self.raw = raw_columns(schema, statistics)
        # The values are not needed any more.
        self.statistics = {}

    def _read_texts(self) -> None:
        if not self._home:
            return
        for query_id, role_oid, text, role in self.source.fetch(
            counted.texts_sql(self.source.version, self._home)
        ):
            if text is not None and text.endswith(MARK):
                self._own.add((query_id, role_oid))
            self._texts[query_id, role_oid] = (text, role or "")

    def count(self) -> InterruptedByUser | None:
        """Count until the time is over, or until a signal arrives, which is returned.

        Raises: ServerError if the server was lost before the first counters, and did not come back.
        """
        interruption = None
        try:
            self._counting.run()
        except InterruptedByUser as error:
            interruption = error
        with signals.shielded("the last counters"):
            try:
                self._counting.finish()
                self._read_last()
            except psycopg.Error:
                self._counting.counted.losses.append("the last counters could not be read")
        return interruption

    def _read_last(self) -> None:
        """Read the texts of statements that are new, and what depends on the texts."""
        self._read_texts()
        self.schema.use(text for text, _ in self._texts.values() if text)
        self._types = self._read_types()
        self._role_settings = self._read_role_settings()

    _types: Mapping[str, tuple[str, ...]] = {}
    _role_settings: Mapping[str, dict[str, str]] = {}

    def _read_types(self) -> dict[str, tuple[str, ...]]:
        parsed = [p for key, p in self._parsed().items() if key not in self._own]
        known = {p.text: p.types for p in parsed if p.types}
        asked = {p.text for p in parsed if p.parameters and not p.reason and not p.copies}
        return known | self.types_of(sorted(asked - known.keys()))

    def types_of(self, texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return the types of the parameters of statements, as the server itself finds them."""
        homes = list(self._path)
        homes += [n for (n,) in self.source.fetch(catalog.SCHEMAS_SQL) if n not in homes]
        known = self.names
        untyped = {text: parse(text, known).untyped for text in texts}
        types: dict[str, tuple[str, ...]] = {}
        for begin in range(0, len(texts), _PREPARED_AT_ONCE):
            names: dict[str, str] = {}
            with self.source.searching(homes):
                for number, text in enumerate(texts[begin : begin + _PREPARED_AT_ONCE]):
                    is_prepared, refusal = prepared(
                        self.source.execute, f"pgdyno_{number}", query_of(text), untyped[text]
                    )
                    if refusal:
                        # A $n where only a constant may be: GROUP BY ROLLUP ($1).
                        self._refused.add(text)
                    if is_prepared:
                        names[f"pgdyno_{number}"] = text
            rows = self.source.fetch(catalog.TYPES_SQL)
            for name, listed in rows:
                if name in names:
                    text, kinds = names[name], enumerate(listed, 1)
                    types[text] = tuple(type_in_use(text, *of_one) for of_one in kinds)
            self.source.execute("DEALLOCATE ALL")
        return types

    def means(self) -> MeansOfStatements:
        """Return what a call of each statement did on average since the counters were reset."""
        counted = self._counting.counted
        snapshots = [*filter(None, [counted.first]), *counted.snapshots]
        counters = snapshots[-1].counters.items() if snapshots else ()
        texts = {key: text for key, (text, _) in self._texts.items() if text}
        return MeansOfStatements((texts[key], own) for key, own in counters if key in texts)

    def logging(self) -> Logging:
        """Return what the server says of its logs."""
        settings = {name: value for name, value in self.source.fetch(catalog.LOGGING_SQL)}
        rate = float(settings["log_transaction_sample_rate"])
        logs_all = settings["log_statement"] == "all"
        logs_all |= settings["log_min_duration_statement"] == "0"
        is_off = settings["log_min_duration_statement"] == "-1"
        samples = settings["log_min_duration_sample"] != "-1"
        logs_some = samples and float(settings["log_statement_sample_rate"]) < 1
        logs_some |= is_off and not samples and settings["log_statement"] in ("mod", "ddl")
        return Logging(
            settings["log_line_prefix"],
            rate if rate > 0 and not logs_all else 1.0,
            logs_some and not logs_all and rate == 0,
        )

    def _read_role_settings(self) -> dict[str, dict[str, str]]:
        settings: dict[str, dict[str, str]] = defaultdict(dict)
        for role, text in self.source.fetch(catalog.ROLE_SETTINGS_SQL):
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
            accepts=self._accepts,
            arbiters=arbiters_of(self.schema.objects),
            settings=settings_of(self._conditions, columns),
            types={(c.table, c.bare_name): c.type for c in self.schema.columns},
        )

    def _accepts(self, text: str) -> bool:
        """Return whether the server accepts a statement of a log with its parameters."""
        self.types_of([text])
        return text not in self._refused

    def rows_of_copies(self) -> dict[str, float]:
        """Return the mean number of rows of each COPY FROM STDIN since the server counts."""
        if not self._home:
            return {}
        counters = counted.read_snapshot(
            self.source.fetch, self.source.version, self._home
        ).counters
        known: dict[str, list[Counters]] = defaultdict(list)
        for key, parsed in self._parsed().items():
            if parsed.copies and key in counters:
                known[parsed.text].append(counters[key])
        totals = {text: Counters.total(parts) for text, parts in known.items()}
        return {text: total.rows / total.calls for text, total in totals.items() if total.calls}

    def _parsed(self) -> dict[Key, Parsed]:
        names = self.names
        texts = {key: text for key, (text, _) in self._texts.items() if key not in self._own}
        parsed = {key: parse(text, names) for key, text in texts.items()}
        for statement in parsed.values():
            if statement.text in self._refused:
                statement.reason = "refused"
        return parsed

    def capture(self) -> Capture:
        """Return the capture of what was counted so far."""
        return Assembly(
            header=self._header(self._counting.counted.seconds or self._counting.second),
            counted=self._counting.counted,
            sources=self.sources,
            schema=self.schema,
            columns=self.columns,
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
            keeps_values=self._keeps_values,
            database=self.source.database,
            server_version_num=self.source.version_num,
            encoding=self.source.encoding,
            collation=self.source.collation,
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
    named["extension"], named["right"] = SCHEMA_SQL, counted.right_sql("SCHEMA")
    named["database"], named["updates"] = counted.DATABASE_SQL, counted.TABLES_SQL
    named["evictions"] = str(counted.info_sql(14, "SCHEMA"))
    named["own transactions"] = REPORT_SQL
    named["first"] = _PARAMETER.sub("$1", FIRST_TEXT)
    named["prepared"] = "PREPARE pgdyno_1 AS ...; DEALLOCATE ALL"
    return named
