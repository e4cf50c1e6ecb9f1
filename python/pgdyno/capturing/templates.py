"""Templates of transactions, and where the value of each parameter comes from.

From statistics alone a parameter is, in this order: a value that an earlier step returned, the
parameter of an earlier step for the same column or for one that a foreign key joins, a new key, an
existing value of its column.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pgdyno.capture.distribution import Distribution, Hot, Spread, ValueKind
from pgdyno.capture.model import (
    Between,
    Constant,
    Drawn,
    Equal,
    Fresh,
    LeftOut,
    ListOf,
    Now,
    OfColumn,
    Record,
    Returned,
    Source,
    Statement,
    Step,
    Template,
)
from pgdyno.capture.schema import ColumnShape, SchemaObject
from pgdyno.capturing.functions import functions_of
from pgdyno.capturing.grouping import Group
from pgdyno.capturing.key_sources import (
    KeySources,
    children_of,
    fresh,
    givers_of,
    unique_keys,
)
from pgdyno.capturing.parsed import Parameter, Parsed

_TIME_KINDS = ("date", "timestamp", "timestamptz")
_KIND_OF_TYPE: dict[str, ValueKind] = {
    **dict.fromkeys(("smallint", "integer", "bigint"), "integer"),
    **dict.fromkeys(("real", "double precision"), "real"),
    **dict.fromkeys(("text", "character varying", "character", "name", "unknown"), "text"),
    **dict.fromkeys(("json", "jsonb"), "json"),
    "numeric": "numeric",
    "boolean": "boolean",
    "date": "date",
    "timestamp without time zone": "timestamp",
    "timestamp with time zone": "timestamptz",
    "uuid": "uuid",
    "bytea": "bytes",
    "interval": "interval",
}
# A change by a parameter, such as SET balance = balance + $1, is of this size; of a column with a
# CHECK constraint, which may forbid negative numbers, it is not negative.
_CHANGES, _CHANGES_CHECKED = ("-100", "100"), ("0", "100")
_LIST_LENGTH = Spread(least=1, mean=3, most=10)
_LIST_LENGTH_MAX = 100.0
# A source that names its own step; the number is known when the steps are.
_OWN_STEP = -1


@dataclass(frozen=True, slots=True)
class Described:
    """A statement of the capture with what its text says, and how many rows a call has."""

    statement: Statement
    parsed: Parsed

    @property
    def rows_per_call(self) -> float:
        """Return the mean number of rows."""
        counters = self.statement.counters
        return counters.rows / max(counters.calls, 1)


class Sources:
    """Finds the source of each parameter."""

    def __init__(
        self,
        columns: Sequence[ColumnShape],
        rows: Mapping[str, float],
        objects: Sequence[SchemaObject] = (),
    ) -> None:
        self._types = functions_of(item for item in objects if item.kind == "type").types
        self._unique = unique_keys(columns, objects)
        self._children = children_of(columns, objects, rows)
        checks = [(item.table, item.sql) for item in objects if item.kind == "check"]
        self._checked = {(table, name) for table, sql in checks for name in re.findall(r"\w+", sql)}
        self._columns = {(column.table, column.column): column for column in columns}
        self._rows = rows
        self._families: dict[tuple[str, str], set[tuple[str, str]]] = {}
        self.assumed: dict[str, str] = {}
        """Statements whose parameters have assumed values, with the use of each."""

    def key_sources(self, statements: Iterable[tuple[str, Parsed, float]]) -> KeySources:
        """Return what changes the keys of templates with these statements: id, text, calls."""
        givers = givers_of(statements, self._columns)
        return KeySources(self._columns, self._unique, givers, self._children)

    def keys_of(self, parsed: Parsed) -> set[tuple[str, str]]:
        """Return the keys that a statement uses: one column for each family of joined columns."""
        places = {(p.table, p.column) for p in parsed.parameters.values() if p.column}
        places |= {place for place in parsed.outputs if place[1]}
        keyed = [place for place in places if place in self._columns and self._is_key(place)]
        return {min(self._family(place)) for place in keyed}

    def level(self, table: str, seen: frozenset[str] = frozenset()) -> int:
        """Return how many foreign keys lead from a table to one without; circles end."""
        if not table or table in seen:
            return 0
        parents = {
            column.references.table
            for column in self._columns.values()
            if column.table == table and column.references is not None
        }
        return max((1 + self.level(parent, seen | {table}) for parent in parents), default=0)

    def steps(self, group: Group, statements: Mapping[str, Described]) -> Iterator[Step]:
        """Yield the steps of a kind of transaction."""
        earlier: list[tuple[Parsed, dict[int, Parameter]]] = []
        for name, turns in group.turns.items():
            described = statements[name]
            parameters = described.parsed.parameters
            sources: list[Source] = []
            for number in range(1, max(parameters, default=0) + 1):
                use = parameters.get(number, Parameter("other"))
                sources.append(self._source(described, number, use, earlier, sources))
            repeat = Spread(least=1, mean=turns, most=max(1.0, 2 * turns - 1))
            yield Step(statement=name, parameters=tuple(sources), repeat=repeat)
            earlier.append((described.parsed, parameters))

    def _source(
        self,
        described: Described,
        number: int,
        use: Parameter,
        earlier: Sequence[tuple[Parsed, dict[int, Parameter]]],
        own: Sequence[Source],
    ) -> Source:
        place = (use.table, use.column)
        column = self._columns.get(place)
        type_ = _typed(described.statement, number)
        if use.use in ("limit", "offset"):
            rows = round(described.rows_per_call)
            return Constant(value=str(max(1, rows)) if use.use == "limit" else "0")
        if use.argument is not None and use.argument.is_optional:
            return Constant(value=None)
        if use.argument is not None and (values := use.argument.values):
            hot = tuple(Hot(value=value, fraction=1 / len(values)) for value in values)
            return Drawn(distribution=Distribution(kind="text", distinct=len(values), hot=hot))
        if use.use == "list" and column is not None:
            return self._listed(described, number, column, earlier)
        if record := self.record(type_, described.parsed):
            length = self._list_length(described)
            return ListOf(of=record, length=length) if type_.endswith("[]") else record
        if column is None or use.use == "other":
            return self._by_type(described, number, type_)
        if use.use == "change":
            shared = self._shared_change(earlier)
            return shared or self._by_change(described, column, number)
        if use.use in ("equal", "insert", "set") and (source := self.dependency(earlier, place)):
            return source
        if use.use in ("equal", "insert", "set") and (key := self.key_of(column)):
            return OfColumn(table=key.table, column=key.column)
        if self._is_unknown(column):
            # A row that tells the amount of a change, as a ledger has it.
            amount = self._shared_change(earlier) if use.use == "insert" else None
            is_number = column.distribution.kind in ("integer", "numeric", "real")
            return amount if amount and is_number else self._by_type(described, number, type_)
        if use.use == "insert":
            return self._inserted(column)
        if use.use == "range":
            return self._range(described, use, column, own)
        if use.use == "set" and column.distribution.kind in _TIME_KINDS:
            return Now()
        return OfColumn(table=use.table, column=use.column, group=self._group(described, use))

    def _listed(
        self,
        described: Described,
        number: int,
        column: ColumnShape,
        earlier: Sequence[tuple[Parsed, dict[int, Parameter]]],
    ) -> Source:
        """Return an array: of all keys that an earlier step returned, or of existing values."""
        source = self.dependency(earlier, (column.table, column.column))
        if isinstance(source, Returned):
            return source.model_copy(update={"pick": "all"})
        key = self.key_of(column) or column
        other = described.parsed.as_long_as.get(number)
        return ListOf(
            of=source or OfColumn(table=key.table, column=key.column),
            length=Spread() if source else self._list_length(described),
            as_long_as=None if other is None else other - 1,
        )

    def record(self, type_: str, parsed: Parsed) -> Record | None:
        """Return a value of a composite type; a field is a column that has its name."""
        fields = self._types.get(type_.removesuffix("[]").rpartition(".")[2].strip('"'))
        if fields is None:
            return None
        return Record(fields=tuple(self._field(name, parsed.tables) for name, _ in fields))

    def _field(self, name: str, tables: Sequence[str]) -> Source:
        columns = [self._columns[table, name] for table in tables if (table, name) in self._columns]
        if not columns:
            return Constant(value=None)
        column = columns[0]
        if any(key[-1] == name for key in self._unique.get(column.table, ())):
            return fresh(column)
        key = self.key_of(column) or column
        return OfColumn(table=key.table, column=key.column)

    def dependency(
        self, earlier: Sequence[tuple[Parsed, dict[int, Parameter]]], place: tuple[str, str]
    ) -> Source | None:
        """Return the value that an earlier step returned or used for the same key."""
        if place not in self._columns or not self._is_key(place):
            return None
        alike = self._family(place)
        # A step that returns the column itself is nearer than one that refers to it.
        for step in reversed(range(len(earlier))):
            parsed, parameters = earlier[step]
            if place in parsed.outputs and not self._is_asked(parameters, place):
                return Returned(step=step, column=parsed.outputs.index(place))
        for step in reversed(range(len(earlier))):
            parsed, parameters = earlier[step]
            is_new = parsed.kind == "insert"
            for position, output in enumerate(parsed.outputs):
                if output in alike and (is_new or not self._is_asked(parameters, output)):
                    return Returned(step=step, column=position)
            for number, other in parameters.items():
                if (other.table, other.column) in alike and other.use in ("equal", "insert"):
                    return Equal(step=step, parameter=number - 1)
        return None

    @staticmethod
    def _is_asked(parameters: Mapping[int, Parameter], place: tuple[str, str]) -> bool:
        """Return whether a step returns only what it was asked with."""
        uses = ("equal", "list")
        return any((p.table, p.column) == place and p.use in uses for p in parameters.values())

    def key_of(self, column: ColumnShape) -> ColumnShape | None:
        """Return the unique column whose keys a column holds, if it is another one."""
        if column.is_unique or column.key_position:
            return None
        family = [self._columns[place] for place in self._family((column.table, column.column))]
        return next((other for other in family if other.is_unique), None)

    def _is_key(self, place: tuple[str, str]) -> bool:
        """Return whether a column holds keys, or has the name of a column that does."""
        return any(
            column.is_unique or column.key_position or column.references
            for other in self._family(place)
            for column in (self._columns[other],)
        )

    def _family(self, place: tuple[str, str]) -> set[tuple[str, str]]:
        """Return the columns that hold the same keys: joined by foreign keys."""
        if place in self._families:
            return self._families[place]
        family, grows = {place}, True
        while grows:
            grows = False
            for other, column in self._columns.items():
                reference = column.references
                target = (reference.table, reference.column) if reference else None
                if target in self._columns and ((other in family) != (target in family)):
                    family |= {other, *(t for t in (target,) if t)}
                    grows = True
        if len(family) == 1:
            own = self._columns[place]
            family |= {
                other for other, column in self._columns.items() if _are_named_alike(own, column)
            }
        self._families[place] = family
        return family

    @staticmethod
    def _is_unknown(column: ColumnShape) -> bool:
        """Return whether nothing is known of the values: there were no rows, or no statistics."""
        shape = column.distribution
        has_values = shape.hot or shape.bounds or shape.labels or shape.distinct > 1
        return not has_values and not column.is_unique and column.references is None

    def _inserted(self, column: ColumnShape) -> Source:
        table, name = column.table, column.column
        if column.is_unique or self._is_last_of_key(column):
            return Fresh(table=table, column=name)
        if column.distribution.kind in _TIME_KINDS and (column.correlation or 0) > 0.5:
            return Now()
        return OfColumn(table=table, column=name)

    def _is_last_of_key(self, column: ColumnShape) -> bool:
        """Return whether a column makes the key of several columns unique: the last one."""
        places = [c.key_position for c in self._columns.values() if c.table == column.table]
        return column.key_position > 0 and column.key_position == max(places)

    def _range(
        self,
        described: Described,
        use: Parameter,
        column: ColumnShape,
        own: Sequence[Source],
    ) -> Source:
        """Return a bound; the second bound of one column is near the first."""
        for position, source in enumerate(own):
            other = described.parsed.parameters.get(position + 1)
            same = other and (other.table, other.column) == (use.table, use.column)
            if same and isinstance(source, OfColumn) and (width := self._width(described, column)):
                return Between(step=_OWN_STEP, parameter=position, least=0, most=2 * width)
        end = self._end_of(described, use, column)
        return end or OfColumn(table=use.table, column=use.column)

    def _end_of(self, described: Described, use: Parameter, column: ColumnShape) -> Source | None:
        """Return a bound that leaves as many rows at one end of a column as a call returns.

        Limits: a LIMIT or an aggregate hides how many rows there are; then there is no such bound.
        """
        parsed, shape = described.parsed, column.distribution
        bounds, rows = shape.bounds, self._rows.get(column.table, 0)
        hides_rows = any(p.use == "limit" for p in parsed.parameters.values())
        hides_rows |= not parsed.outputs or ("", "") in parsed.outputs
        uses = [p for p in parsed.parameters.values() if (p.table, p.column) == _place_of(use)]
        if hides_rows or len(bounds) < 2 or not rows or len(uses) != 1:
            return None
        if parsed.kind != "select" or use.operator not in ("<", "<=", ">", ">="):
            return None
        share = min(described.rows_per_call / rows, 1.0)
        place = share if use.operator.startswith("<") else 1 - share
        first = min(int(place * (len(bounds) - 1)), len(bounds) - 2)
        near = bounds[first : first + 2]
        if shape.is_dense:
            key = round(1 + place * (shape.distinct - 1))
            near = (str(key), str(key + 1))
        changes = {"hot": (), "bounds": near, "null_fraction": 0.0, "is_dense": False}
        return Drawn(distribution=shape.model_copy(update=changes))

    def _width(self, described: Described, column: ColumnShape) -> float | None:
        """Return the width of a range that has as many rows as a call has."""
        bounds = [_as_number(value) for value in column.distribution.bounds]
        numbers = [value for value in bounds if value is not None]
        rows = self._rows.get(column.table, 0)
        if len(numbers) < 2 or not rows:
            return None
        asked = described.rows_per_call if described.parsed.kind == "select" else 1.0
        return (numbers[-1] - numbers[0]) * min(max(asked, 1.0), rows) / rows

    @staticmethod
    def _group(described: Described, use: Parameter) -> int | None:
        """Return the number of the row from which several columns come."""
        same = [p for p in described.parsed.parameters.values() if p.use == "equal"]
        tables = sorted({p.table for p in same})
        count = sum(p.table == use.table for p in same)
        return tables.index(use.table) if count > 1 and use.table in tables else None

    @staticmethod
    def _shared_change(
        earlier: Sequence[tuple[Parsed, dict[int, Parameter]]],
    ) -> Source | None:
        """Return the change of an earlier step: one amount moves between several rows."""
        for step in reversed(range(len(earlier))):
            for number, other in earlier[step][1].items():
                if other.use == "change":
                    return Equal(step=step, parameter=number - 1)
        return None

    def _by_change(self, described: Described, column: ColumnShape, number: int) -> Source:
        kind = column.distribution.kind
        if kind in ("integer", "numeric", "real"):
            self.assumed.setdefault(described.statement.id, f"${number}: the size of a change")
            is_checked = (column.table, column.column) in self._checked
            bounds = _CHANGES_CHECKED if is_checked else _CHANGES
            return Drawn(distribution=Distribution(kind=kind, bounds=bounds, distinct=101, step=1))
        return OfColumn(table=column.table, column=column.column)

    def _by_type(self, described: Described, number: int, type_: str) -> Source:
        """Return something of the type of a parameter that no column explains."""
        self.assumed.setdefault(described.statement.id, f"${number}: {type_ or 'not known'}")
        kind = _KIND_OF_TYPE.get(type_.removesuffix("[]").partition("(")[0], "other")
        if kind in _TIME_KINDS:
            return Now()
        made: Source = Constant(value=None)
        if kind == "boolean":
            made = Constant(value="t")
        elif kind in ("integer", "numeric", "real"):
            made = Drawn(
                distribution=Distribution(kind=kind, bounds=("1", "100"), distinct=100, step=1)
            )
        elif kind == "text":
            made = Drawn(distribution=Distribution(kind="text", distinct=100, width=8))
        elif kind == "interval":
            made = Constant(value="PT3600S")
        elif kind == "json":
            made = Constant(value="{}")
        return ListOf(of=made, length=_LIST_LENGTH) if type_.endswith("[]") else made

    @staticmethod
    def _list_length(described: Described) -> Spread:
        rows = described.rows_per_call
        mean = min(max(rows, 1.0), _LIST_LENGTH_MAX)
        return Spread(least=1, mean=mean, most=max(2 * mean - 1, 1))


def _are_named_alike(own: ColumnShape, other: ColumnShape) -> bool:
    """Return whether columns without a foreign key hold the same keys, by their names and types.

    One name ends with the other: o_c_id has keys of c_id.
    """
    short, long = sorted((own.column, other.column), key=len)
    is_end = long == short or (long.endswith(f"_{short}") and "_" in short)
    return is_end and own.type == other.type and short != "id"


def _place_of(use: Parameter) -> tuple[str, str]:
    """Return table and column of a use."""
    return (use.table, use.column)


def templates_of(
    groups: Sequence[Group],
    statements: Mapping[str, Described],
    sources: Sources,
    *,
    seconds: float,
    think_ms: float | None,
) -> list[Template]:
    """Return a template for each kind of transaction."""
    templates: list[Template] = []
    names: dict[str, int] = {}
    keys = sources.key_sources(
        (name, d.parsed, d.statement.counters.calls) for name, d in statements.items()
    )
    for group in groups:
        name = _name(group, statements)
        names[name] = names.get(name, 0) + 1
        numbered = name if names[name] == 1 else f"{name} ({names[name]})"
        parsed = [statements[step].parsed for step in group.turns]
        resolved = list(_resolved(sources.steps(group, statements)))
        steps = tuple(keys.changed(resolved, parsed, calls=group.calls))
        templates.append(
            Template(
                name=numbered,
                rate_tps=group.calls / seconds if seconds else 0,
                steps=steps,
                think_ms=think_ms,
            )
        )
    return templates


def _resolved(steps: Iterator[Step]) -> Iterator[Step]:
    """Yield the steps; a source that names its own step gets that number."""
    for number, step in enumerate(steps):
        parameters = tuple(
            source.model_copy(update={"step": number})
            if isinstance(source, Between) and source.step < 0
            else source
            for source in step.parameters
        )
        yield step.model_copy(update={"parameters": parameters})


def _name(group: Group, statements: Mapping[str, Described]) -> str:
    """Return a name: what the transaction writes first, else what it reads."""
    parsed = [statements[name].parsed for name in group.turns]
    work = [item for item in parsed if item.kind not in ("begin", "commit", "rollback")]
    writing = [item for item in work if item.written]
    chosen = (writing or work)[:1]
    if not chosen:
        return "empty transaction"
    table = chosen[0].written or (chosen[0].tables[0] if chosen[0].tables else "")
    return f"{chosen[0].kind} {table.removeprefix('public.')}".strip()


def _typed(statement: Statement, number: int) -> str:
    types = statement.parameter_types
    return types[number - 1] if number <= len(types) else ""


def _as_number(value: str) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None


def left_out_of(described: Sequence[Described]) -> list[LeftOut]:
    """Return the statements that cannot be reproduced, the longest first."""
    left = [
        LeftOut(
            reason=item.parsed.reason,
            text=item.statement.text,
            calls=item.statement.counters.calls,
            time_ms=item.statement.counters.time_ms,
        )
        for item in described
        if item.parsed.reason
    ]
    return sorted(left, key=lambda item: -item.time_ms)
