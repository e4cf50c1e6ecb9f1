"""Kinds of transactions of a log become templates: steps, and the sources of their parameters."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from pgdyno.engine.distribution import Spread
from pgdyno.features.capture.arrays import items_in
from pgdyno.features.capture.model import Number, Returned, Source, Step, Template
from pgdyno.features.capture.observed import Statement
from pgdyno.features.capture.reading.cases import with_cases
from pgdyno.features.capture.reading.column_statistics import RawColumn
from pgdyno.features.capture.reading.described import Described
from pgdyno.features.capture.reading.document_values import with_documents
from pgdyno.features.capture.reading.inner_values import element_of, is_inside
from pgdyno.features.capture.reading.log_calls import Value
from pgdyno.features.capture.reading.log_dependencies import Earlier, number
from pgdyno.features.capture.reading.log_grouping import (
    INSTANCES_MAX,
    Kind,
    StatementKey,
    TransactionGroup,
    mean_pause,
)
from pgdyno.features.capture.reading.log_returned import Execution, ReturnedColumn, Rows
from pgdyno.features.capture.reading.log_statements import LoggedStatement
from pgdyno.features.capture.reading.log_values import source_of
from pgdyno.features.capture.reading.never_null import is_optional, never_null
from pgdyno.features.capture.reading.observed import Observed, number_of
from pgdyno.features.capture.reading.parameter_sources import Sources
from pgdyno.features.capture.reading.parameter_uses import Parameter
from pgdyno.features.capture.reading.parsed import Parsed
from pgdyno.features.capture.reading.recalled import Memories, with_recalled
from pgdyno.features.capture.reading.stand_ins import StandIns
from pgdyno.features.capture.reading.templates import TemplateDraft, finished
from pgdyno.features.capture.schema import ColumnShape

# Fewer transactions than this do not show what parameters follow from.
_TEXTS = ("", "text", "character varying")
_ENOUGH = 10
# Keys of rows just made: at least this number, with this correlation with time.
_GROWING_MIN, _GROWING = 10, 0.9
# Texts that a load writes again and again: at most this number, in this number of transactions.
_FEW, _LOOK = 50, 1_000

# The sources of a step, and what decides its turns, by the steps up to it.
Known = dict[Kind, tuple[tuple[Source, ...], Number | None]]


@dataclass(frozen=True)
class Context:
    """What is known of the database. `ids`: of the statements. `types`: of parameters, by text.

    `raw`: values of columns; they are used and not kept. `sources`: what the schema says of keys.
    `rows_of_copies`: their mean number of rows, by text. `rows`: of a call, by text.
    """

    ids: Mapping[StatementKey, str]
    columns: Mapping[tuple[str, str], ColumnShape]
    types: Mapping[str, Sequence[str]]
    raw: Mapping[tuple[str, str], RawColumn]
    sources: Sources
    rows_of_copies: Mapping[str, float] = field(default_factory=dict)
    rows: Mapping[str, float] = field(default_factory=dict)
    stand_ins: StandIns = field(default_factory=lambda: StandIns((), ()))
    written: Mapping[tuple[str, str], set[str]] = field(default_factory=dict)
    """The values of each column that statements write, if they are few."""

    def is_written(self, place: tuple[str, str], values: Sequence[Value]) -> bool:
        """Return whether the load itself writes these values, which statistics do not know.

        A statement may write one parameter into several columns, such as the name of a worker.
        """
        seen = {item for value in values if value is not None for item in _elements(value)}
        known = self.raw.get(place, RawColumn()).known
        written = self.written.get(place) or set().union(*self.written.values())
        return place[0] != "" and seen <= written and not seen <= known

    def rows_a_call(self, parsed: Parsed) -> float:
        """Return how many rows a call of a statement has; 1 if nobody counted them."""
        return self.rows.get(parsed.text, 1.0)

    def fields_of(
        self, name: str, parsed: Parsed, before: Sequence[tuple[Parsed, dict[int, Parameter]]]
    ) -> list[Source]:
        """Return where the fields of the rows of a COPY come from: a log does not show them."""
        statement = Statement(id=name, text=parsed.text, kind=parsed.kind, reads_only=False)
        return self.sources.fields_of_copy(Described(statement, parsed), before)

    def column_of(self, use: Parameter) -> ColumnShape | None:
        """Return the column of a parameter; for a key of another table, that table's column."""
        column = self.columns.get((use.table, use.column))
        if column is None or use.use not in ("equal", "insert", "set", "list"):
            return column
        return self.sources.key_of(column) or column

    def known_key(
        self, use: Parameter, before: Sequence[tuple[Parsed, dict[int, Parameter]]]
    ) -> Source | None:
        """Return where the schema says that a key comes from."""
        if use.use not in ("equal", "insert", "set", "list"):
            return None
        source = self.sources.dependency(before, (use.table, use.column))
        is_written = use.use in ("insert", "set") or use.writes_elements
        if isinstance(source, Returned) and is_written:
            # A row that is only read may be missing, and then nothing would be written. If no row
            # was changed, the key does not exist.
            return source if before[source.step][0].kind in ("insert", "update") else None
        return source

    def referred(self, use: Parameter) -> tuple[str, str] | None:
        """Return the key to which a column refers, or which it is."""
        column = self.columns.get((use.table, use.column))
        key = column and (column if column.is_unique else self.sources.key_of(column))
        place = (key.table, key.column) if key else ("", "")
        return place if place in self._targets else None

    def use_by_values(self, tables: Sequence[str], values: Sequence[Value]) -> Parameter | None:
        """Return a column of these tables that has all values of a text; keys come first.

        So a name finds its row, even if the text of the statement does not compare the two.
        """
        seen = {value for value in values if isinstance(value, str)}
        places = [
            (not column.is_unique, place)
            for place, column in self.columns.items()
            if place[0] in tables and seen <= self.raw.get(place, RawColumn()).known
        ]
        if not seen or len(seen) == len(values) or not places:
            return None
        _, (table, name) = min(places)
        return Parameter("equal", table, name)

    @cached_property
    def enums(self) -> Sequence[frozenset[str]]:
        """Return the labels of each enum."""
        known = {frozenset(column.distribution.labels) for column in self.columns.values()}
        return sorted(known - {frozenset()}, key=sorted)

    @cached_property
    def _targets(self) -> set[tuple[str, str]]:
        references = [column.references for column in self.columns.values() if column.references]
        return {(reference.table, reference.column) for reference in references}

    def is_last_of_key(self, column: ColumnShape | None, table: str) -> bool:
        """Return whether a column alone, or as the last of several, makes its row unique.

        A key of another table exists already.
        """
        if column is None or column.table != table:
            return False
        return column.is_unique or self.sources.is_last_of_key(column)


def templates_of(
    groups: Sequence[TransactionGroup],
    statements: Mapping[StatementKey, LoggedStatement],
    context: Context,
    *,
    seconds: float,
    sample_ratio: float,
) -> list[Template]:
    """Return a template for each group."""
    used = {key: statements[key].parsed for group in groups for key in group.steps}
    calls = calls_of(groups)
    keys = context.sources.key_sources(
        (context.ids[key], p, calls[key][0] * context.rows_a_call(p)) for key, p in used.items()
    )
    rows = _rows(groups, statements)
    known: Known = {}
    drafts: list[TemplateDraft] = []
    for place, group in enumerate(groups):
        knows_think = group.think_us and sample_ratio == 1
        [(protocol, _)] = group.protocols.most_common(1)
        template = Template(
            name="",
            rate_tps=group.count / max(seconds, 1e-3) / sample_ratio,
            protocol=protocol,
            steps=tuple(_steps(group, statements, context, rows.of_kind(place), known)),
            think_ms=mean_pause([us / 1000 for us in group.think_us]) if knows_think else None,
            origin="log",
        )
        copied = [context.rows_of_copies.get(used[key].text, 0.0) for key in group.steps]
        once, new = partial(_is_used_once, group), partial(_are_new, group)
        drafts.append(TemplateDraft(template, float(group.count), copied, once, new))
    parsed = {context.ids[key]: statement for key, statement in used.items()}
    memories = Memories(groups, statements, context.sources)
    made = with_recalled(finished(drafts, parsed, keys), memories, context.ids)
    rows_a_call = {name: context.rows_a_call(statement) for name, statement in parsed.items()}
    return context.sources.with_known_rows(made, parsed, rows_a_call)


def written_values(
    groups: Iterable[TransactionGroup],
    statements: Mapping[StatementKey, LoggedStatement],
    columns: Mapping[tuple[str, str], ColumnShape],
) -> dict[tuple[str, str], set[str]]:
    """Return the texts that statements write into columns again and again, such as states."""
    seen: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for group in groups:
        for step, key in enumerate(group.steps):
            uses = statements[key].parsed.parameters.items()
            places = {
                n - 1: (own.table, own.column) for n, own in uses if _writes_text(own, columns)
            }
            for kept in group.kept[:_LOOK] if places else ():
                for call, at in itertools.product(kept.calls_of(step), places):
                    value = call.values[at] if at < len(call.values) else None
                    seen[places[at]].update(_elements(value))
    few = {place: own for place, own in seen.items() if len(own) <= _FEW}
    return {place: set(own) for place, own in few.items() if own.total() >= 2 * len(own)}


def _writes_text(use: Parameter, columns: Mapping[tuple[str, str], ColumnShape]) -> bool:
    column = columns.get((use.table, use.column))
    is_written = use.use in ("insert", "set") or use.writes_elements
    is_free = column is not None and not column.is_unique and column.references is None
    return is_written and is_free and column is not None and column.distribution.kind == "text"


def _rows(
    groups: Sequence[TransactionGroup], statements: Mapping[StatementKey, LoggedStatement]
) -> Rows:
    """Return what statements returned, as far as the transactions show it."""
    rows = Rows()
    executions = []
    for place, group in enumerate(groups):
        parsed = [statements[key].parsed for key in group.steps]
        has_committed = all(p.kind != "rollback" for p in parsed)
        steps = _followed(parsed)
        executions += [
            (kept.number, Execution(place, instance, kept, steps, has_committed))
            for instance, kept in enumerate(group.kept)
        ]
    executions.sort(key=lambda pair: pair[0])
    rows.follow([execution for _, execution in executions])
    return rows


def _followed(parsed: Sequence[Parsed]) -> list[int]:
    """Return the steps that change rows, and those that read one before a step has parameters."""
    last = max((step for step, p in enumerate(parsed) if p.parameters), default=0)
    return [
        step
        for step, p in enumerate(parsed)
        if p.kind == "update" or (p.kind == "select" and step < last)
    ]


def _steps(
    group: TransactionGroup,
    statements: Mapping[StatementKey, LoggedStatement],
    context: Context,
    returned: Mapping[int, list[ReturnedColumn]],
    known: Known,
) -> Iterator[Step]:
    """Yield the steps of a kind of transaction.

    Args: known, the sources of larger kinds, by the steps so far; those of this kind are added. A
    small kind that begins with the same steps, such as orders that are rolled back, takes them.
    """
    earlier = Earlier()
    before: list[tuple[Parsed, dict[int, Parameter]]] = []
    for step, key in enumerate(group.steps):
        statement = statements[key]
        parsed = statement.parsed
        needed: list[int] = []
        optional: list[int] = []
        sources = context.fields_of(context.ids[key], parsed, before) if parsed.copies else []
        turns = [kept.count_of(step) for kept in group.kept]
        as_many_as = None if group.loops_with_before(step) else _as_many_as(step, turns, earlier)
        known_values = [] if parsed.copies else _observed(group, step, statement, context)
        for observed in known_values:
            column = context.column_of(observed.use)
            place = (column.table, column.column) if column else ("", "")
            earlier.key = context.referred(observed.use)
            sources.append(
                source_of(
                    observed,
                    earlier,
                    column,
                    raw=context.raw.get(place, RawColumn()),
                    is_key=context.is_last_of_key(column, observed.use.table),
                    known_key=context.known_key(observed.use, before),
                    record=context.sources.record(observed.type, parsed),
                    as_long_as=_as_long_as(parsed, observed.position),
                    read_sum=_read_sum(before),
                )
            )
            earlier.known.append((earlier.key, observed))
            if is_optional(parsed, observed.use, context.columns):
                optional.append(observed.position)
            if never_null(observed.use, context.columns) and None not in observed.values:
                needed.append(observed.position)
        if known_values:
            sources = with_cases(with_documents(sources, known_values, parsed), known_values)
        made = (tuple(context.sources.with_whole_keys(sources, parsed, step)), as_many_as)
        if len(group.kept) < _ENOUGH:
            made = known.get(group.steps[: step + 1], made)
        known.setdefault(group.steps[: step + 1], made)
        before.append((parsed, {} if parsed.copies else parsed.parameters))
        if max(turns, default=1) > 1:
            earlier.turns[step] = turns
        earlier.returned += returned.get(step, ())
        earlier.key = None
        some = [count for count in turns if count] or [1]
        if key[1].startswith(("DECLARE", "CLOSE")) and not group.is_in_loop(step):
            some, made = [1], (made[0], None)
        yield Step(
            statement=context.ids[key],
            parameters=made[0],
            repeat=Spread(least=min(some), mean=sum(some) / len(some), most=max(some)),
            pause_ms=group.timing().pause_ms[step],
            loops_with_before=group.loops_with_before(step),
            turns=made[1],
            not_null=tuple(needed),
            optional=tuple(optional),
        )


def _as_many_as(step: int, turns: Sequence[int], earlier: Earlier) -> Number | None:
    """Return what decides how many turns a step has."""
    instances = [instance for instance, count in enumerate(turns) if count]
    counts = [turns[instance] for instance in instances]
    if max(counts, default=1) < 2:
        return None
    observed = Observed(step, 0, Parameter("other"), "", instances, [str(n) for n in counts], ())
    return number(observed, np.array(counts, float), earlier)


def _read_sum(before: Sequence[tuple[Parsed, dict[int, Parameter]]]) -> Source | None:
    """Return the result of the step before that reads one sum or another aggregate."""
    for step in reversed(range(len(before))):
        parsed = before[step][0]
        if parsed.kind == "select" and parsed.aggregates == {0} and len(parsed.outputs) == 1:
            return Returned(step=step, column=0)
    return None


def _as_long_as(parsed: Parsed, position: int) -> int | None:
    other = parsed.as_long_as.get(position + 1)
    return None if other is None else other - 1


def _is_used_once(group: TransactionGroup, step: int, position: int, most: float) -> bool:
    """Return whether a mean value of a parameter was seen at most so often."""
    seen: Counter[str] = Counter()
    for kept in group.kept:
        for call in kept.calls_of(step):
            value = call.values[position] if position < len(call.values) else None
            seen.update(_elements(value) or [str(value)])
    return 0 < sum(seen.values()) <= most * len(seen)


def _elements(value: Value) -> list[str]:
    """Return a value, or the elements of an array, as texts; nothing for NULL."""
    if not isinstance(value, str):
        return list(map(str, value)) if isinstance(value, list) else []
    is_array = value[:1] == "{" and value[-1:] == "}"
    return [item for item in (items_in(value) if is_array else [value]) if item is not None]


def _are_new(group: TransactionGroup, step: int, position: int) -> bool:
    """Return whether the values, numbers, grow with time: they are keys of rows just made."""
    numbers: list[float] = []
    for kept in group.kept:
        for call in kept.calls_of(step):
            value = call.values[position] if position < len(call.values) else None
            number = number_of(next(iter(_elements(value)), None))
            numbers += [] if number is None else [number]
    if len(numbers) < _GROWING_MIN:
        return False
    order = np.argsort(np.argsort(numbers))
    return bool(np.corrcoef(order, np.arange(len(order)))[0, 1] > _GROWING)


def _observed(
    group: TransactionGroup, number: int, statement: LoggedStatement, context: Context
) -> list[Observed]:
    """Return the values of each parameter of a step."""
    parsed = statement.parsed
    types = context.types.get(parsed.text, ())
    instances: list[int] = []
    times_s: list[float] = []
    sessions: list[str] = []
    rows: list[tuple[Value, ...]] = []
    for instance, kept in enumerate(group.kept):
        for call in kept.calls_of(number) if len(rows) < INSTANCES_MAX else ():
            instances.append(instance)
            times_s.append(call.began_us / 1e6)
            sessions.append(call.session.id)
            rows.append(call.values)
    made = []
    for position in range(max(parsed.parameters, default=0)):
        type_ = types[position] if position < len(types) else ""
        if f"current_setting(${position + 1}" in parsed.text:
            type_ = "name"
        type_ = statement.casts.get(position + 1, type_)
        use = parsed.parameters.get(position + 1, Parameter("other"))
        column = context.columns.get((use.table, use.column))
        if column is not None and is_inside(column, type_) and element_of(column) is None:
            use = Parameter("other")
        values = [row[position] if position < len(row) else False for row in rows]
        is_literal = 0 < statement.parameter_count <= position
        if use == Parameter("other") and type_ in _TEXTS and not is_literal:
            use = context.use_by_values(parsed.tables, values) or use
        made.append(
            Observed(
                step=number,
                position=position,
                use=use,
                type=type_,
                instances=instances,
                values=values,
                times_s=times_s,
                sessions=sessions,
                is_literal=is_literal,
                enums=context.enums,
                names=context.sources.names,
                stand_ins=context.stand_ins,
                is_own=context.is_written((use.table, use.column), values),
                is_mask=column is not None and column.type.startswith("bit"),
            )
        )
    return made


def calls_of(groups: Iterable[TransactionGroup]) -> dict[StatementKey, tuple[int, float]]:
    """Return calls and time (ms) of each statement; time is that of the kept transactions."""
    sums: dict[StatementKey, tuple[int, float]] = defaultdict(lambda: (0, 0.0))
    for group in groups:
        share, timing = group.count / max(len(group.kept), 1), group.timing()
        for key, count, took_us in zip(group.steps, timing.calls, timing.took_us, strict=True):
            before = sums[key]
            sums[key] = (before[0] + round(share * count), before[1] + share * took_us / 1000)
    return dict(sums)
