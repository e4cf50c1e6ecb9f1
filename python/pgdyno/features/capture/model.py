"""The types of a capture: what a load was like, and the database that it ran on. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from pgdyno.engine.distribution import CapturePart, Distribution, Share, Spread
from pgdyno.features.capture.schema import (
    ColumnGroup,
    ColumnShape,
    IndexShape,
    SchemaObject,
    TableShape,
)

FORMAT = "pgdyno.capture/1"
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


class Header(CapturePart):
    """Where a capture comes from. `taken_at`: UTC, when it began.

    `transaction_sample_ratio`: the share of transactions in the logs. `is_partial`: the logs lack
    an unknown part of the statements, such as the fast ones.
    """

    format: str = FORMAT
    made_by: str
    keeps_values: bool = False
    database: str
    server_version_num: int
    encoding: str = "UTF8"
    collation: str = "C"
    taken_at: str
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    sources: tuple[Origin, ...]
    transaction_sample_ratio: Share = 1
    is_partial: bool = False


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


class Constant(CapturePart):
    """Always the same value; None is NULL."""

    origin: Literal["constant"] = Field("constant", alias="from")
    value: str | None


class Drawn(CapturePart):
    """Drawn from the distribution of this parameter."""

    origin: Literal["drawn"] = Field("drawn", alias="from")
    distribution: Distribution


class Given(CapturePart):
    """A column of a row, and the parameter whose value it has."""

    column: str
    step: int
    parameter: int


class OfColumn(CapturePart):
    """A value that exists in a column of the copy.

    `distribution`: of the accesses, where a log shows it; None: as often as in the column, and
    every key of a unique column is equally likely. `group` joins parameters that are columns of
    one row: equal groups of one step come from the same row. `is_not_null`: only rows in which the
    column has a value, of a parameter that was never NULL. `kept`: the share of the draws in which
    a client takes its own value, which is always the same; the distribution is then that of the
    clients' values. `by_frequency`: the distribution is of places from 0 to 1 among the rows, those
    with the most common values first; its NULLs are those of the parameter. `given`: only of rows
    that have these values, of the same or an earlier step.
    """

    origin: Literal["column"] = Field("column", alias="from")
    table: str
    column: str
    distribution: Distribution | None = None
    group: int | None = None
    is_not_null: bool = False
    kept: Share = 0
    by_frequency: bool = False
    given: tuple[Given, ...] = ()


class Equal(CapturePart):
    """The value of a parameter of an earlier step, in the same turn if both steps have several.

    `take`: of an array, the element that has the number of the turn; or the values of all turns,
    as an array.
    """

    origin: Literal["equal"] = Field("equal", alias="from")
    step: int
    parameter: int
    take: Literal["value", "element", "all"] = "value"


class Returned(CapturePart):
    """A value that an earlier step returned. `column` counts from 0.

    `pick`: of the first row, or of all rows as an array; outside of the loop of that step, of all
    its turns. Without a row there is no value.
    """

    origin: Literal["returned"] = Field("returned", alias="from")
    step: int
    column: int
    pick: Literal["first", "all"] = "first"


# Of a parameter among those of its step, from 0.
Position: TypeAlias = int


class Plus(CapturePart):
    """A parameter of an earlier step, times `slope`."""

    step: int
    parameter: int
    slope: float


class Linear(CapturePart):
    """`slope` times a parameter of an earlier step, plus `offset`, plus another parameter.

    `column` in place of `parameter`: a column of the first row that the step returned.
    """

    origin: Literal["linear"] = Field("linear", alias="from")
    step: int
    parameter: int | None = None
    column: int | None = None
    slope: float
    offset: float
    plus: Plus | None = None


class Number(CapturePart):
    """How many turns an earlier step had, or elements an array of it has; plus `offset`."""

    step: int
    parameter: int | None = None
    offset: int = 0


class Count(Number):
    """Such a number as a value."""

    origin: Literal["count"] = Field("count", alias="from")


class Turn(CapturePart):
    """The number of the turn, or of the element of a list, from 0; plus `offset`."""

    origin: Literal["turn"] = Field("turn", alias="from")
    offset: int = 0


class Between(CapturePart):
    """A parameter of an earlier step plus `least` to `most`; seconds are added to a time."""

    origin: Literal["between"] = Field("between", alias="from")
    step: int
    parameter: int
    least: float
    most: float


class Fresh(CapturePart):
    """A new key: above the largest of the copy, never the same for two clients."""

    origin: Literal["fresh"] = Field("fresh", alias="from")
    table: str
    column: str


class Now(CapturePart):
    """The present time minus something."""

    origin: Literal["now"] = Field("now", alias="from")
    minus_s: float = 0


class Taken(CapturePart):
    """A value that a statement returned in an earlier transaction; each is used once.

    `statement`: its id. `column` counts from 0. Without a value the step is not carried out.
    """

    origin: Literal["taken"] = Field("taken", alias="from")
    statement: str
    column: int


class Giver(CapturePart):
    """A parameter of a statement, or a column of the last row that it returns; from 0."""

    statement: str
    parameter: int | None = None
    column: int | None = None


class Recalled(CapturePart):
    """A value that the client sent or read in an earlier transaction: that of one of `givers`.

    `shares`: of the draws, the share of the last transaction with such a value, of the one before
    it, and so on. The others take `otherwise`.
    """

    origin: Literal["recalled"] = Field("recalled", alias="from")
    givers: tuple[Giver, ...]
    shares: tuple[Share, ...]
    otherwise: Source


class Record(CapturePart):
    """A value of a composite type; with `names`, a JSON object.

    `bare`: fields, from 0, that stand in the JSON as they are; the others are texts.
    """

    origin: Literal["record"] = Field("record", alias="from")
    fields: tuple[Source, ...]
    names: tuple[str, ...] = ()
    bare: tuple[Position, ...] = ()


class Case(CapturePart):
    """A value of another parameter, None for NULL, and the source that belongs to it."""

    value: str | None
    source: Source


class Cases(CapturePart):
    """What the value of an earlier parameter of the step decides, from 0.

    In a list, its element at the same place. `otherwise`: for all other values.
    """

    origin: Literal["cases"] = Field("cases", alias="from")
    parameter: int
    cases: tuple[Case, ...]
    otherwise: Source


class ListOf(CapturePart):
    """An array, or the list of IN.

    `as_long_as`: an earlier parameter of the step, from 0, whose array has as many elements.
    `count`: how many elements, if that follows from an earlier step. `is_one_value`: all elements
    are the same. `is_distinct`: no element but NULL occurs twice. `is_json`: it is a list in JSON.
    """

    origin: Literal["list"] = Field("list", alias="from")
    of: Source
    length: Spread
    as_long_as: int | None = None
    count: Number | None = None
    is_one_value: bool = False
    is_distinct: bool = False
    is_sorted: bool = False
    is_json: bool = False


Source: TypeAlias = Annotated[
    Constant
    | Drawn
    | OfColumn
    | Equal
    | Returned
    | Linear
    | Between
    | Fresh
    | Now
    | Count
    | Turn
    | Taken
    | Recalled
    | Record
    | Cases
    | ListOf,
    Field(discriminator="origin"),
]


def referred_by(step: Step) -> Iterator[tuple[int, int | None]]:
    """Yield the numbers of the steps from which values of this one follow, each with a parameter.

    Without a parameter it is what the step returned, or how often it was carried out.
    """
    for part in (own for own in _inside(step) if not isinstance(own, Giver)):
        number = getattr(part, "step", None)
        if number is not None and not isinstance(part, Distribution):
            yield number, getattr(part, "parameter", None)


def _inside(part: object) -> Iterator[CapturePart]:
    if isinstance(part, CapturePart):
        yield part
        part = tuple(getattr(part, name) for name in type(part).model_fields)
    if isinstance(part, tuple):
        for item in part:
            yield from _inside(item)


def parts_of(source: Source) -> Iterator[Source]:
    """Yield a source, and those that it has inside: of elements, fields or cases."""
    yield source
    inner: tuple[Source, ...] = ()
    if isinstance(source, ListOf):
        inner = (source.of,)
    elif isinstance(source, Record):
        inner = source.fields
    elif isinstance(source, Cases):
        inner = (*(case.source for case in source.cases), source.otherwise)
    elif isinstance(source, Recalled):
        inner = (source.otherwise,)
    for part in inner:
        yield from parts_of(part)


def givers_of(source: Source) -> Iterator[Giver]:
    """Yield the places from whose values a source takes one that a client remembers."""
    for part in parts_of(source):
        yield from part.givers if isinstance(part, Recalled) else ()


class Step(CapturePart):
    """One statement of a template. `parameters[n - 1]` is the source of `$n`.

    `step` of a source counts the steps of the template from 0, `parameter` those of that step
    from 0. `repeat`: how often the step is carried out, if it is, which has the `probability`.
    `pause_ms`: mean time of the client before this step. `loops_with_before`: it belongs to the
    loop of the step before it, and is carried out once in each turn; the first step of the loop has
    the turns. `turns`: how often, if that follows from an earlier step. `same_trip`: not used.
    """

    statement: str
    parameters: tuple[Source, ...] = ()
    repeat: Spread = Spread()
    probability: Share = 1
    pause_ms: float = 0
    same_trip: bool = False
    loops_with_before: bool = False
    turns: Number | None = None
    not_null: tuple[Position, ...] = ()
    """Parameters for columns that are never NULL, from 0: the step needs their values."""
    optional: tuple[Position, ...] = ()
    """Parameters, from 0, that may be NULL if their value does not exist."""


class Template(CapturePart):
    """A kind of transaction. Its BEGIN and COMMIT are steps, if it has them.

    `rate_tps`: how many a second the source had. `think_ms`: mean time of a client before the next
    transaction, where it is known.
    """

    name: str
    rate_tps: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    protocol: Protocol = "prepared"
    steps: tuple[Step, ...]
    think_ms: float | None = None
    origin: Origin = Field("statistics", alias="from")


class CountedKey(CapturePart):
    """A key column that gets its values from a counter. `group`: as in the counter, same order."""

    table: str
    column: str
    group: tuple[str, ...] = ()


class Counter(CountedKey):
    """A column from which the load takes the next key of other tables, a row for each group.

    `group`: the key of the counter's table, such as warehouse and district of the next order.
    """

    keys: tuple[CountedKey, ...]


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


class Capture(CapturePart):
    """Everything in one capture."""

    header: Header
    settings: dict[str, str] = Field(default_factory=dict)
    objects: tuple[SchemaObject, ...] = ()
    tables: tuple[TableShape, ...] = ()
    indexes: tuple[IndexShape, ...] = ()
    columns: tuple[ColumnShape, ...] = ()
    groups: tuple[ColumnGroup, ...] = ()
    statements: tuple[Statement, ...] = ()
    templates: tuple[Template, ...] = ()
    counters: tuple[Counter, ...] = ()
    arrivals: Arrivals = Arrivals()
    sessions: tuple[SessionKind, ...] = ()
    profile: Profile = Profile()
    left_out: tuple[LeftOut, ...] = ()
    recording: Recording | None = None
    notes: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    """Columns of small domains whose values are kept, as `table.column: why`."""

    def statement(self, name: str) -> Statement:
        """Return the statement with an id."""
        return next(own for own in self.statements if own.id == name)

    @property
    def sent_ids(self) -> frozenset[str]:
        """Return the ids of the statements that a load sends, those of its recording too."""
        recorded = () if self.recording is None else self.recording.statements
        steps = (step.statement for template in self.templates for step in template.steps)
        return frozenset((*steps, *recorded))
