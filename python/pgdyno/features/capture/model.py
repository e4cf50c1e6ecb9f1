"""The types of a capture: what a load was like, and the database that it ran on. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, TypeAlias, cast

from pydantic import Field

from pgdyno.engine.distribution import CapturePart, Distribution, Share, Spread
from pgdyno.features.capture.observed import (
    Arrivals,
    LeftOut,
    Origin,
    Profile,
    Protocol,
    Recording,
    SessionKind,
    Statement,
)
from pgdyno.features.capture.schema import (
    ColumnGroup,
    ColumnShape,
    IndexShape,
    SchemaObject,
    TableShape,
)

FORMAT = "pgdyno.capture/1"


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
    """A value that a statement sent or returned in an earlier transaction; each is used once.

    `statement`: its id. Without a value the step is not carried out.
    """

    origin: Literal["taken"] = Field("taken", alias="from")
    statement: str
    column: int | None = None
    parameter: int | None = None


class Giver(CapturePart):
    """A parameter of a statement, or a column that it returns; from 0."""

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


class Sighting(CapturePart):
    """A statement that sends or returns a column of rows. `key`: the columns that name the row.

    `value`: None is the value that was known. `added_count` is added to it.
    """

    key: tuple[Giver, ...]
    value: Giver | None = None
    added_count: int = Field(0, alias="plus")


class KnownValue(CapturePart):
    """The column of the row with the `given` values: the last one that the load sent or read.

    Before that, it is what the row had when the load began. `otherwise`: of a row that nobody
    knows.
    """

    origin: Literal["known"] = Field("known", alias="from")
    table: str
    column: str
    given: tuple[Given, ...]
    sightings: tuple[Sighting, ...]
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
    | KnownValue
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
        if (number := getattr(part, "step", None)) is not None:
            yield number, getattr(part, "parameter", None)


def _inside(part: object) -> Iterator[CapturePart]:
    """Yield a part and all that it has inside, but nothing of a distribution."""
    if isinstance(part, CapturePart) and not isinstance(part, Distribution):
        yield part
        part = tuple(getattr(part, name) for name in type(part).model_fields)
    if isinstance(part, tuple):
        for item in part:
            yield from _inside(item)


def parts_of(source: Source) -> Iterator[Source]:
    """Yield a source, and those that it has inside: of elements, fields or cases."""
    return (cast("Source", part) for part in _inside(source) if hasattr(part, "origin"))


def givers_of(source: Source) -> Iterator[Giver]:
    """Yield the places of other transactions from whose values a source takes one."""
    for part in _inside(source):
        if isinstance(part, Giver):
            yield part
        elif isinstance(part, Taken):
            yield Giver(statement=part.statement, parameter=part.parameter, column=part.column)


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
