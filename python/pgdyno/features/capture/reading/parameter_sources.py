"""Where the value of each parameter comes from, if only statistics are known.

From statistics alone a parameter is, in this order: a value that an earlier step returned, the
parameter of an earlier step for the same column or for one that a foreign key joins, a new key, an
existing value of its column.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import ceil

from pgdyno.engine.distribution import Distribution, Hot, Spread
from pgdyno.features.capture.model import (
    Constant,
    Drawn,
    Equal,
    Fresh,
    ListOf,
    Now,
    Number,
    OfColumn,
    Record,
    Returned,
    Source,
    Template,
    Turn,
)
from pgdyno.features.capture.observed import Statement
from pgdyno.features.capture.reading.constants import first_constant
from pgdyno.features.capture.reading.copied import row_sources, with_new_keys
from pgdyno.features.capture.reading.described import Described
from pgdyno.features.capture.reading.functions import functions_of
from pgdyno.features.capture.reading.inner_values import element_of, is_inside
from pgdyno.features.capture.reading.key_families import KeyFamilies, may_return_nothing
from pgdyno.features.capture.reading.key_sources import (
    FRESH_KINDS,
    KeySources,
    children_of,
    fresh,
    givers_of,
    takes_from_a_queue,
    unique_keys,
)
from pgdyno.features.capture.reading.known_rows import KnownRows
from pgdyno.features.capture.reading.parameter_uses import Parameter
from pgdyno.features.capture.reading.parsed import Parsed
from pgdyno.features.capture.reading.whole_keys import with_whole_keys
from pgdyno.features.capture.schema import (
    KIND_OF_TYPE,
    ColumnShape,
    SchemaObject,
    domains_by_type,
)

_TIME_KINDS = ("date", "timestamp", "timestamptz")
_FAMILIES = {
    **dict.fromkeys(("integer", "real", "numeric"), "number"),
    **dict.fromkeys((*_TIME_KINDS, "interval"), "time"),
    **{kind: kind for kind in ("boolean", "uuid", "bytes", "json")},
}
# A change by a parameter, such as SET balance = balance + $1, is of this size; of a column with a
# CHECK constraint, which may forbid negative numbers, it is not negative.
_CHANGES, _CHANGES_CHECKED = ("-100", "100"), ("0", "100")
_LIST_LENGTH = Spread(least=1, mean=3, most=10)
_LIST_LENGTH_MAX = 5_000.0
# An index of usual size has two or three levels; the row is in one more block.
_BLOCKS_OF_LOOKUP = 3.0


class Sources(KeyFamilies):
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
        checks = [item for item in objects if item.kind == "check"]
        self._checked = {(c.table, name) for c in checks for name in re.findall(r"\w+", c.sql)}
        domains = domains_by_type(objects)
        self._checked |= {
            (own.table, own.column)
            for own in columns
            if own.type in domains and " CHECK (" in domains[own.type]
        }
        super().__init__(columns)
        self._rows = rows
        fields = {name for own in self._types.values() for name, _ in own}
        self.names = frozenset(fields | {column.column for column in columns})
        """Names of columns and of fields of composite types."""
        self.assumed: dict[str, str] = {}
        """Statements whose parameters have assumed values, with the use of each."""

    def key_sources(self, statements: Iterable[tuple[str, Parsed, float]]) -> KeySources:
        """Return what changes the keys of templates with these statements: id, text, rows."""
        known = list(statements)
        queues = {name for name, parsed, _ in known if takes_from_a_queue(parsed)}
        givers = givers_of(known, self._columns)
        return KeySources(self._columns, self._unique, givers, self._children, queues)

    def with_whole_keys(self, sources: Sequence[Source], parsed: Parsed, step: int) -> list[Source]:
        """Return the sources of a step; keys of several columns are those of rows."""
        return with_whole_keys(
            sources,
            parsed,
            step,
            self._columns,
            unique=self._unique,
            rows=self._rows,
            are_alike=lambda own, other: own in self._columns and other in self._family(own),
        )

    def with_known_rows(
        self,
        templates: Sequence[Template],
        parsed: Mapping[str, Parsed],
        rows: Mapping[str, float],
    ) -> list[Template]:
        """Return templates with what is known of rows. Args: rows, of a call of each statement."""
        return KnownRows(templates, parsed, self._unique).changed(rows)

    def fields_of_copy(
        self, described: Described, earlier: Sequence[tuple[Parsed, dict[int, Parameter]]]
    ) -> list[Source]:
        """Return the source of each field of a row of COPY FROM STDIN."""

        def source_of(number: int, use: Parameter) -> Source:
            return self._source(described, number, use, earlier)

        parsed = described.parsed
        row = row_sources(parsed, self._columns, source_of)
        inserts = {n for n, (before, _) in enumerate(earlier) if before.kind == "insert"}
        keys = self._unique.get(parsed.written, ())
        return with_new_keys(row, parsed, self._columns, keys, inserts)

    def _source(
        self,
        described: Described,
        number: int,
        use: Parameter,
        earlier: Sequence[tuple[Parsed, dict[int, Parameter]]],
    ) -> Source:
        place = (use.table, use.column)
        column = self._columns.get(place)
        type_ = _typed(described.statement, number)
        if described.parsed.copies and column is not None:
            type_ = column.type
        if (label := self._label(use, type_, described.parsed)) is not None:
            return label
        if column is not None and is_inside(column, type_):
            return element_of(column) or self._by_type(described, number, type_)
        if use.use in ("limit", "offset"):
            rows = round(described.rows_per_call)
            return Constant(value=str(max(1, rows)) if use.use == "limit" else "0")
        if use.argument is not None and use.argument.is_optional:
            return Constant(value=None)
        if use.argument is not None and (values := use.argument.values):
            if use.argument.is_word:
                return Constant(value=values[0])
            hot = tuple(Hot(value=value, fraction=1 / len(values)) for value in values)
            return Drawn(distribution=Distribution(kind="text", distinct=len(values), hot=hot))
        if use.use == "list" and column is not None:
            return self._listed(described, number, column, earlier)
        if record := self.record(type_, described.parsed):
            length = self._list_length(described)
            return ListOf(of=record, length=length) if type_.endswith("[]") else record
        if use.use in ("other", "change") and _is_constant(described.parsed, number, type_, column):
            self.assumed.setdefault(described.statement.id, f"${number}: a constant")
            return Constant(value="1")
        is_window = type_ == "interval" and column is not None and column.type != "interval"
        if column is None or use.use == "other" or is_window:
            return self._by_type(described, number, type_)
        if use.use in ("change", "range") and not _may_be(type_, column.type):
            return self._by_type(described, number, type_)
        if use.use == "distance":
            return Constant(value="1")
        if use.use == "change" and self._is_counter(described.parsed, use.column):
            return Constant(value="1")
        if use.use == "change":
            shared = self._shared_change(earlier)
            return shared or self._by_change(described, column, number)
        if use.use in ("equal", "insert", "set") and (source := self.dependency(earlier, place)):
            return source
        if use.use == "equal" and (source := self.of_the_same_row(described.parsed, earlier, use)):
            return source
        if use.use in ("equal", "insert", "set") and (key := self.key_of(column)):
            return OfColumn(table=key.table, column=key.column)
        if self._is_unknown(column) and use.use not in ("equal", "range"):
            # A row that tells the amount of a change, as a ledger has it.
            amount = self._shared_change(earlier) if use.use == "insert" else None
            is_number = column.distribution.kind in ("integer", "numeric", "real")
            return amount if amount and is_number else self._by_type(described, number, type_)
        if use.use == "insert" and column.is_unique and _finds_conflicts(described):
            return OfColumn(table=use.table, column=use.column)
        if use.use == "insert":
            return self._counted(described.parsed, column, earlier) or self._inserted(column)
        group = self._group(described, use)
        if use.use == "set" and column.distribution.kind in _TIME_KINDS:
            return Now()
        return OfColumn(table=use.table, column=use.column, group=group)

    def _label(self, use: Parameter, type_: str, parsed: Parsed) -> Source | None:
        """Return a label of an enum for a parameter that no column of this enum explains.

        A statement that finds rows by a state and writes the state moves them to another one.
        Without statistics a list of states has all, and the first one is that of new rows. A
        function may accept few labels: the probe finds them in its body.
        """
        kind, column = type_.removesuffix("[]"), self.column(use)
        owners = (own for own in self._columns.values() if own.type == kind)
        labels = next((own.distribution.labels for own in owners), ())
        is_own = column is not None and column.type == kind
        is_known = column is not None and bool(column.distribution.hot)
        others = parsed.parameters.values()
        is_moved = use.use == "set" and any(
            other.use == "equal" and _place_of(other) == _place_of(use) for other in others
        )
        is_choice = use.use == "list" and not use.writes_elements and not is_known
        if not labels or column is None or (is_own and not is_moved and not is_choice):
            return None
        known = labels[1:] if is_moved and not is_known else labels
        hot = tuple(Hot(value=label, fraction=1 / len(known)) for label in known)
        shape = Distribution(kind="enum", distinct=len(known), hot=hot, labels=labels)
        length = Spread(least=len(known), mean=len(known), most=len(known))
        made = Drawn(distribution=shape)
        return ListOf(of=made, length=length, is_distinct=True) if type_ != kind else made

    def _new_rows(
        self,
        described: Described,
        column: ColumnShape,
        earlier: Sequence[tuple[Parsed, dict[int, Parameter]]],
    ) -> Source | None:
        """Return one column of the rows that an INSERT adds together; None for any values.

        The keys of an earlier list are added in its order, each with its own row.
        """
        place = (column.table, column.column)
        if (listed := self.list_before(earlier, place)) is not None:
            return listed
        if not (column.is_unique or self.is_last_of_key(column)):
            return None
        values = [*column.distribution.bounds, *(hot.value for hot in column.distribution.hot)]
        is_numbered = column.distribution.kind == "integer" and not column.is_unique
        of = Turn(offset=min(map(int, values), default=1)) if is_numbered else fresh(column)
        rows = described.parsed.parameters.values()
        lists = [self.list_before(earlier, _place_of(p)) for p in rows if p.writes_elements]
        other = next((known for known in lists if known is not None), None)
        return ListOf(
            of=of,
            length=self._list_length(described),
            count=other and Number(step=other.step, parameter=other.parameter),
        )

    def _listed(
        self,
        described: Described,
        number: int,
        column: ColumnShape,
        earlier: Sequence[tuple[Parsed, dict[int, Parameter]]],
    ) -> Source:
        """Return an array: of all keys that an earlier step returned, or of existing values."""
        source = self.dependency(earlier, (column.table, column.column))
        is_new = described.parsed.parameters[number].writes_elements
        if isinstance(source, Returned) and not is_new:
            return source.model_copy(update={"pick": "all"})
        if is_new and (made := self._new_rows(described, column, earlier)):
            return made
        key = self.key_of(column) or column
        return ListOf(
            of=source
            or OfColumn(table=key.table, column=key.column, is_not_null=not key.is_not_null),
            length=Spread() if source else self._list_length(described, None if is_new else column),
            is_sorted=source is None and not is_new,
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

    @staticmethod
    def _is_unknown(column: ColumnShape) -> bool:
        """Return whether nothing is known of the values: there were no rows, or no statistics."""
        shape = column.distribution
        has_values = shape.hot or shape.bounds or shape.labels or shape.distinct > 1
        return not has_values and not column.is_unique and column.references is None

    def _inserted(self, column: ColumnShape) -> Source:
        table, name = column.table, column.column
        is_new = column.is_unique or self.is_last_of_key(column)
        if (key := column.references) is not None and not column.is_unique:
            return OfColumn(table=key.table, column=key.column)
        if is_new and column.distribution.kind in FRESH_KINDS:
            return Fresh(table=table, column=name)
        if column.distribution.kind in _TIME_KINDS and (column.correlation or 0) > 0.5:
            return Now()
        return OfColumn(table=table, column=name)

    @staticmethod
    def _is_counter(parsed: Parsed, name: str) -> bool:
        """Return whether an UPDATE adds to a column and returns it, as a counter does."""
        returned = [
            *parsed.outputs,
            *((table, column) for table, column, *_ in parsed.sums.values()),
        ]
        return name in parsed.adds and (parsed.written, name) in returned

    def _counted(
        self,
        insert: Parsed,
        column: ColumnShape,
        earlier: Sequence[tuple[Parsed, dict[int, Parameter]]],
    ) -> Source | None:
        """Return the key that an earlier step took from the counter of the same group of rows."""
        if column.distribution.kind != "integer" or not self.is_last_of_key(column):
            return None
        others = [
            (p.table, p.column)
            for p in insert.parameters.values()
            if p.use == "insert" and p.column != column.column
        ]
        for step in reversed(range(len(earlier))):
            parsed, parameters = earlier[step]
            asked = [(p.table, p.column) for p in parameters.values() if p.use == "equal"]
            is_same = all(
                any(self._family(own) & self._family(place) for own in others) for place in asked
            )
            places = {number: sum_[:2] for number, sum_ in parsed.sums.items()}
            for number, place in {**dict(enumerate(parsed.outputs)), **places}.items():
                is_counter = place[0] == parsed.written and self._is_counter(parsed, place[1])
                if asked and is_same and is_counter:
                    return Returned(step=step, column=number)
        return None

    @staticmethod
    def _group(described: Described, use: Parameter) -> int | None:
        """Return the number of the row from which several columns come.

        A row is inside of bounds that are its own values. So bounds of several columns, as in
        first <= $1 AND last >= $2, come from one row if the statement finds rows.
        """
        uses = described.parsed.parameters.values()
        bounds = [p for p in uses if p.use == "range" and p.operator in ("<=", ">=")]
        is_inside = 1 < len(bounds) == len({_place_of(p) for p in bounds})
        is_inside &= described.parsed.kind == "select" and described.finds_rows
        # In `id IN ($1, $2)` each value is of another row.
        equal = Counter(_place_of(p) for p in uses if p.use == "equal")
        same = [p for p in uses if p.use == "equal" and equal[_place_of(p)] == 1]
        same += bounds if is_inside else []
        tables = sorted({p.table for p in same})
        count = sum(p.table == use.table for p in same)
        is_in_row = use in same or (use.table in tables and use.use not in ("range", "equal"))
        return tables.index(use.table) if count > 1 and is_in_row else None

    def _shared_change(
        self, earlier: Sequence[tuple[Parsed, dict[int, Parameter]]]
    ) -> Source | None:
        """Return the change of an earlier step: one amount moves between several rows."""
        for step in reversed(range(len(earlier))):
            parsed, parameters = earlier[step]
            for number, other in parameters.items():
                column = self._columns.get(_place_of(other))
                if other.use == "change" and not _is_constant(parsed, number, "", column):
                    return Equal(step=step, parameter=number - 1)
        return None

    def _by_change(self, described: Described, column: ColumnShape, number: int) -> Source:
        kind = column.distribution.kind
        if kind == "integer" and self.is_key((column.table, column.column)):
            # A column that counts keys gives the next one.
            return Constant(value="1")
        if kind in ("integer", "numeric", "real"):
            self.assumed.setdefault(described.statement.id, f"${number}: the size of a change")
            is_checked = (column.table, column.column) in self._checked
            bounds = _CHANGES_CHECKED if is_checked else _CHANGES
            return Drawn(distribution=Distribution(kind=kind, bounds=bounds, distinct=101, step=1))
        return OfColumn(table=column.table, column=column.column)

    def _by_type(self, described: Described, number: int, type_: str) -> Source:
        """Return something of the type of a parameter that no column explains."""
        self.assumed.setdefault(described.statement.id, f"${number}: {type_ or 'not known'}")
        kind = KIND_OF_TYPE.get(type_.removesuffix("[]").partition("(")[0], "other")
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

    def _list_length(self, described: Described, column: ColumnShape | None = None) -> Spread:
        """Return how long a list is: rows a call, by the rows that a value of the column has."""
        rows = described.rows_per_call
        if described.parsed.aggregates and rows <= 1:
            # One row is returned, however many are read.
            rows = described.blocks_per_call / _BLOCKS_OF_LOOKUP
        if column is not None and column.distribution.distinct > 0:
            shape = column.distribution
            known = self._rows.get(column.table, 0.0) * (1 - shape.null_fraction)
            rows /= max(1.0, known / shape.distinct)
        mean = min(max(rows, 1.0), _LIST_LENGTH_MAX)
        return Spread(least=1, mean=mean, most=ceil(2 * mean - 1))


def _finds_conflicts(described: Described) -> bool:
    """Return whether an INSERT usually adds nothing, because its rows are there."""
    return not described.finds_rows and may_return_nothing(described.parsed.text)


def _may_be(type_: str, column: str) -> bool:
    """Return whether a parameter of a type may have values of a column of another type.

    In `at + make_interval(secs => $1)` or `jsonb_set(own, path, value, $1)` it may not.
    """
    kinds = [KIND_OF_TYPE.get(own.removesuffix("[]").partition("(")[0]) for own in (type_, column)]
    first, other = (_FAMILIES.get(kind or "", "") for kind in kinds)
    if not type_ or column.endswith("range"):
        return True
    return type_.endswith("[]") == column.endswith("[]") and (
        not (first and other) or first == other
    )


def _place_of(use: Parameter) -> tuple[str, str]:
    """Return table and column of a use."""
    return (use.table, use.column)


def _is_constant(parsed: Parsed, number: int, type_: str, column: ColumnShape | None) -> bool:
    """Return whether a parameter may be a constant of the program that is a whole number.

    If the program numbers in another order than that of the text, it may be a value, too. Then its
    amount is not known anyway.
    """
    kind = KIND_OF_TYPE.get(type_, column.distribution.kind if column and not type_ else "other")
    return kind == "integer" and number >= first_constant(parsed.text)


def _typed(statement: Statement, number: int) -> str:
    types = statement.parameter_types
    return types[number - 1] if number <= len(types) else ""
