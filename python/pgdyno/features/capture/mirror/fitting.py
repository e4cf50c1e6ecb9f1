"""Fits the values of parameters: on the copy a call finds as many rows and blocks as in the source.

What the capture cannot know (for which words people search, how wide their ranges are) is tried:
candidates from the copy's columns, in transactions that are rolled back. The mixture of candidates
that gives the rows and blocks of the source replaces the source of the parameter.
"""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import psycopg

from pgdyno.clock import monotonic_ns
from pgdyno.engine.distribution import Distribution, Spread
from pgdyno.features.capture.mirror.accepting import Asked
from pgdyno.features.capture.mirror.candidates import (
    ColumnOfTable,
    FilteredPlace,
    candidates_of,
    columns_of,
    first_bound_of,
    places_of,
    widths_of,
)
from pgdyno.features.capture.mirror.drawing import (
    PG_ERRORS,
    ColumnSamples,
    Row,
    StepDrawing,
    UnknownValueError,
    plan_of,
    rows_of,
    work_of,
)
from pgdyno.features.capture.mirror.findings import RATIO_LIMIT
from pgdyno.features.capture.mirror.mixtures import (
    Measured,
    WantedWork,
    evenly,
    mixture,
    wanted_of,
)
from pgdyno.features.capture.model import (
    Between,
    Capture,
    Constant,
    Drawn,
    Linear,
    ListOf,
    Now,
    OfColumn,
    Source,
    Step,
    Template,
)
from pgdyno.features.capture.observed import Statement
from pgdyno.features.capture.reading.casts import forms_of
from pgdyno.server.connect import Connection

# Draws vary: with few, values that are far from the source seem near, and near ones far.
_DRAWS, _DRAWS_OF_EACH = 24, 2
# Long statements are drawn less often: after this time two draws are enough.
_DRAWS_NS_MAX = 500_000_000
_TIMEOUT = "2s"
_SEED = 7
# What is fitted without knowing the work of the present values.
_ERROR_MAX = 0.5
# Of n filters that may be left out there are 2^n choices; this many go on.
_FILTERS_MAX, _BASES_MAX = 4, 2
_LENGTHS = (1, 2, 5, 10, 20, 50, 100, 200, 500)
# The number of the parameters that come from one row; captures count from 0.
_GROUP = 999
# What a trial says about values with which a statement succeeds and finds nothing (SQLSTATE 02000).
NO_ROWS = ("02000", "it finds no rows")
_QUEUE = re.compile(r"\bSKIP\s+LOCKED\b", re.I)
# Smaller whole numbers of a log stay as they are.
_SHOWN = 100
_FITTED = Constant | Drawn | OfColumn | ListOf | Between | Now
_Key = TypeVar("_Key", bound=str | float | None)


@dataclass(slots=True)
class Fitting:
    """Fits statements of a capture on one connection until the time is over."""

    connection: Connection
    capture: Capture
    asked: Asked
    seconds: float
    samples: ColumnSamples = field(init=False)
    texts: Mapping[str, str] = field(default_factory=dict)
    tried: list[str] = field(default_factory=list)
    _types: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _until_ns: int = field(init=False)

    def __post_init__(self) -> None:
        self.samples = ColumnSamples(self.connection)
        self._until_ns = monotonic_ns() + round(self.seconds * 1e9)

    def sources(
        self, texts: Mapping[str, str], others: Mapping[str, str] | None = None
    ) -> dict[str, dict[int, Source]]:
        """Return new sources by statement and place.

        Args: texts, of the statements to fit; others, of those that the transactions have.
        """
        fitted = {}
        self.texts = others or texts
        ranked = sorted(self.capture.statements, key=lambda own: -own.counters.time_ms)
        for statement in (own for own in ranked if own.id in texts):
            if self.is_over():
                break
            wanted = wanted_of(statement)
            if wanted is not None:
                for text in self._texts_of(statement):
                    try:
                        changed = self._fitted(statement, text, wanted)
                    except PG_ERRORS:
                        continue
                    if changed:
                        fitted[statement.id] = changed
                        break
            self.tried.append(statement.id)
        return fitted

    def _texts_of(self, statement: Statement) -> tuple[str, ...]:
        """Return the text as it is sent; before, with parameters for guessed constants."""
        sent = self.texts[statement.id]
        return (statement.text, sent) if statement.constant_count else (sent,)

    def is_over(self) -> bool:
        """Return whether the time for all statements is over."""
        return monotonic_ns() > self._until_ns

    def types_of(self, text: str) -> tuple[str, ...]:
        """Return the types of a statement's parameters. Raises: psycopg.Error."""
        if text not in self._types:
            self._types[text] = self.asked.parameter_types(text, {})
        return self._types[text]

    def _fitted(self, statement: Statement, text: str, wanted: WantedWork) -> dict[int, Source]:
        used = self._uses(statement)
        if not used or (is_of_queue(text) and all(kind.origin == "log" for kind, _ in used)):
            return {}
        types = self.types_of(text)
        # All uses get the same values, so only what is drawn anew in all of them is changed.
        others = [(kind, kind.steps[number].parameters) for kind, number in used]
        kept = {
            place
            for place in range(len(types))
            if not all(
                place < len(own) and _may_be_fitted(own[place], kind) for kind, own in others
            )
        }
        trial = self._trial(statement, text, types, used, kept)
        present = trial.mean({}, _DRAWS)
        if present is not None and wanted.is_met(present):
            return {}
        columns = columns_of(self.connection, statement.tables)
        rows = list(self._one_row(trial, columns))
        seen = trial.each(dict(enumerate(rows)))
        nearest = sorted(seen, key=lambda number: wanted.error(seen[number]))[:_BASES_MAX]
        bases = [
            *self._bases(trial.template.steps[trial.step], types),
            *(rows[number] for number in nearest),
        ]
        fits = [self._from(base, trial, columns, wanted) for base in bases]
        best, chosen = min(fits, key=lambda fit: fit[0])
        limit = 0.8 * wanted.error(present) if present is not None else _ERROR_MAX
        return chosen if best < limit else {}

    def _uses(self, statement: Statement) -> list[tuple[Template, int]]:
        return [
            (kind, number)
            for kind in self.capture.templates
            for number, step in enumerate(kind.steps)
            if step.statement == statement.id
        ]

    def trial_of(self, statement: Statement, text: str) -> StatementTrial | None:
        """Return trials of a statement in its most frequent use; None without a use or types."""
        try:
            types = self.types_of(text)
        except PG_ERRORS:
            return None
        used = self._uses(statement)
        return self._trial(statement, text, types, used, set()) if used else None

    def _trial(
        self,
        statement: Statement,
        text: str,
        types: Sequence[str],
        used: Sequence[tuple[Template, int]],
        kept: AbstractSet[int],
    ) -> StatementTrial:
        template, step = max(used, key=lambda use: use[0].rate_tps)
        wanted = wanted_of(statement)
        finds_rows = wanted is not None and wanted.rows >= 1
        return StatementTrial(self, template, step, text, types, kept, len(used) == 1, finds_rows)

    def _bases(self, step: Step, types: Sequence[str]) -> Iterator[dict[int, Source]]:
        """Yield what has to be known first: the configuration of a text search."""
        unknown = [
            at
            for at, (kind, source) in enumerate(zip(types, step.parameters, strict=False))
            if kind == "regconfig" and isinstance(source, Constant) and source.value is None
        ]
        names: list[str | None] = ["english", "simple"] if unknown else [None]
        for name in names:
            given = Constant(value=name)
            yield dict.fromkeys(unknown, given)

    def _one_row(
        self, trial: StatementTrial, columns: Sequence[ColumnOfTable]
    ) -> Iterator[dict[int, Source]]:
        """Yield that all columns that must be equal come from one row, such as id and version.

        Of filters that NULL leaves out, each choice is tried.
        """
        own = {column.name: column.table for column in reversed(columns)}
        given: dict[int, Source] = {}
        for place in places_of(trial.text):
            at = place.number - 1
            is_equal = place.operator == "=" and place.column in own
            if is_equal and trial.may_change(at):
                given[at] = OfColumn(table=own[place.column], column=place.column, group=_GROUP)
        if len({source.table for source in given.values() if isinstance(source, OfColumn)}) > 1:
            given = {}
        known = sorted(forms_of(trial.text).nullables)
        open_ = [number - 1 for number in known if trial.may_change(number - 1)][:_FILTERS_MAX]
        for count in range(len(open_) + 1):
            for left_out in itertools.combinations(open_, count):
                nulls = dict.fromkeys(left_out, Constant(value=None))
                if len(given) > 1 or nulls:
                    yield {**given, **nulls}

    def _from(
        self,
        base: dict[int, Source],
        trial: StatementTrial,
        columns: Sequence[ColumnOfTable],
        wanted: WantedWork,
    ) -> tuple[float, dict[int, Source]]:
        """Fit one parameter after the other; return how far the best is from the source."""
        present = trial.mean(base, _DRAWS)
        best, chosen = wanted.error(present) if present is not None else math.inf, dict(base)
        places = places_of(trial.text)
        for at, offers in (*self._lists(trial), *self._filters(trial, places, columns)):
            if self.is_over() or best < RATIO_LIMIT:
                break
            if at in base or not trial.may_change(at):
                continue
            for given in offers(chosen, wanted):
                seen = trial.mean({**chosen, **given}, _DRAWS)
                if seen is not None and wanted.error(seen) < 0.8 * best:
                    best, chosen = wanted.error(seen), {**chosen, **given}
        return best, chosen

    def _filters(
        self,
        trial: StatementTrial,
        places: Sequence[FilteredPlace],
        columns: Sequence[ColumnOfTable],
    ) -> Iterator[tuple[int, _Offers]]:
        for number, place in enumerate(places if trial.is_alone else ()):
            if (first := first_bound_of(place, places[:number])) is not None:
                yield place.number - 1, partial(self._widths, trial, place, first, columns)
        for place in places:
            yield place.number - 1, partial(self._mixtures, trial, place, columns)

    def _lists(self, trial: StatementTrial) -> Iterator[tuple[int, _Offers]]:
        for at, source in enumerate(trial.template.steps[trial.step].parameters):
            if isinstance(source, ListOf) and source.as_long_as is None and source.count is None:
                yield at, partial(self._lengths, trial, at, source)

    def _lengths(
        self,
        trial: StatementTrial,
        at: int,
        source: ListOf,
        chosen: Mapping[int, Source],
        wanted: WantedWork,
    ) -> Iterator[dict[int, Source]]:
        """Yield the list with the number of elements that is nearest to the source."""

        def given(mean: float) -> ListOf:
            length = Spread(least=1, mean=mean, most=max(2 * mean - 1, 1))
            return source.model_copy(update={"length": length})

        seen = trial.each({mean: {**chosen, at: given(mean)} for mean in map(float, _LENGTHS)})
        if not seen:
            return
        best = min(seen, key=lambda mean: wanted.error(seen[mean]))
        yield {at: given(best)}
        if seen[best][0]:
            # Between two lengths the rows grow as the length does.
            mean = min(max(1.0, best * wanted.rows / seen[best][0]), 2 * _LENGTHS[-1])
            yield {at: given(mean)}

    def _widths(
        self,
        trial: StatementTrial,
        place: FilteredPlace,
        first: FilteredPlace,
        columns: Sequence[ColumnOfTable],
        chosen: Mapping[int, Source],
        wanted: WantedWork,
    ) -> Iterator[dict[int, Source]]:
        """Yield the bounds of a column at the distance from each other that fits best."""
        at, earlier = place.number - 1, first.number - 1
        own = trial.template.steps[trial.step].parameters
        begin = chosen.get(earlier, own[earlier])
        if trial.may_change(earlier) and not isinstance(begin, OfColumn):
            values = candidates_of(first, trial.types[earlier], columns, self.samples)
            begin = evenly(values) if values else begin
        if isinstance(begin, Between):
            return  # It follows from the other one.

        def given(width: float) -> dict[int, Source]:
            apart = Between(step=trial.step, parameter=earlier, least=0.8 * width, most=1.2 * width)
            return {earlier: begin, at: apart}

        widths = widths_of(trial.types[at])
        seen = trial.each({width: {**chosen, **given(width)} for width in widths})
        if seen:
            best = min(seen, key=lambda width: wanted.error(seen[width]))
            yield given(best)
            if seen[best][0]:
                yield given(best * min(max(wanted.rows / seen[best][0], 0.1), 10))

    def _mixtures(
        self,
        trial: StatementTrial,
        place: FilteredPlace,
        columns: Sequence[ColumnOfTable],
        chosen: Mapping[int, Source],
        wanted: WantedWork,
    ) -> Iterator[dict[int, Source]]:
        """Yield the mixture of candidates that is nearest to the source."""
        at = place.number - 1
        values: list[str | None] = list(
            candidates_of(place, trial.types[at], columns, self.samples)
        )
        if place.number in forms_of(trial.text).nullables:
            values.append(None)
        seen = trial.each({value: {**chosen, at: Constant(value=value)} for value in values})
        if seen:
            yield {at: mixture(seen, wanted)}


_Offers = Callable[[Mapping[int, Source], WantedWork], Iterator[dict[int, Source]]]


@dataclass(slots=True)
class StatementTrial:
    """Executions of one statement, each rolled back.

    `_kept`: places, from 0, whose values another step decides. `is_alone`: no other step has the
    statement. `finds_rows`: a call of the source has at least one row, on average.
    """

    fitting: Fitting
    template: Template
    step: int
    text: str
    types: Sequence[str]
    _kept: AbstractSet[int]
    is_alone: bool
    finds_rows: bool
    rng: random.Random = field(default_factory=lambda: random.Random(_SEED))

    def may_change(self, at: int) -> bool:
        """Return whether a parameter, from 0, may have other values."""
        return at < len(self.types) and at not in self._kept

    def each(self, choices: Mapping[_Key, Mapping[int, Source]]) -> dict[_Key, Measured]:
        """Return what was measured of each choice that did not fail, until the time is over."""
        measured: dict[_Key, Measured] = {}
        for name, changed in choices.items():
            if self.fitting.is_over():
                break
            if (work := self.mean(changed, _DRAWS_OF_EACH)) is not None:
                measured[name] = work
        return measured

    def mean(self, changed: Mapping[int, Source], count: int) -> Measured | None:
        """Return the mean rows and blocks of at most `count` executions; None if one fails."""
        sums, began_ns, drawn = [0.0, 0.0], monotonic_ns(), 0
        while drawn < count:
            is_long = drawn >= _DRAWS_OF_EACH and monotonic_ns() - began_ns > _DRAWS_NS_MAX
            if drawn and (is_long or self.fitting.is_over()):
                break
            try:
                rows, blocks = self.work(changed)
            except PG_ERRORS:
                return None
            sums, drawn = [sums[0] + rows, sums[1] + blocks], drawn + 1
        return sums[0] / drawn, sums[1] / drawn

    def work(self, changed: Mapping[int, Source], *, keeps: bool = False) -> Measured:
        """Return the rows and blocks of one execution. Raises: one of PG_ERRORS."""
        with self._tried(keeps=keeps) as connection:
            values = self._drawing(connection).values(self.step, changed)[: len(self.types)]
            return work_of(plan_of(connection, self.text, self.types, values))

    def refusal(
        self, changed: Mapping[int, Source], draws: int = _DRAWS_OF_EACH
    ) -> tuple[str, str] | None:
        """Return code and message with which the server refuses a draw; None if it takes all.

        Not what depends on the values of other transactions: there the code is empty. A statement
        that found rows in the source, and finds none in all trials, is refused with `NO_ROWS`.
        """
        rows = 0.0
        for _ in range(draws):
            try:
                rows += self.work(changed)[0]
            except UnknownValueError:
                return "", ""
            except psycopg.Error as error:
                return str(error.sqlstate), str(error.diag.message_primary)
        return NO_ROWS if not rows and self.finds_rows else None

    def _drawing(self, connection: Connection) -> StepDrawing:
        carry_out, others = partial(self._rows_of, connection), partial(self._others, connection)
        return StepDrawing(self.template, self.fitting.samples, self.rng, carry_out, others)

    def _others(self, connection: Connection, name: str) -> Sequence[Row]:
        """Return what a statement of another transaction returns."""
        statement = self.fitting.capture.statement(name)
        trial = self.fitting.trial_of(statement, self.fitting.texts.get(name, statement.text))
        if trial is None or name == self.template.steps[self.step].statement:
            raise UnknownValueError
        values = trial._drawing(connection).values(trial.step)
        return trial._rows_of(connection, trial.step, values)

    def _rows_of(self, connection: Connection, step: int, values: Row) -> Sequence[Row]:
        """Return what an earlier step returns."""
        text = self.fitting.texts.get(self.template.steps[step].statement)
        if text is None:
            raise UnknownValueError
        types = self.fitting.types_of(text)
        return rows_of(connection, text, types, values[: len(types)])

    @contextmanager
    def _tried(self, *, keeps: bool = False) -> Iterator[Connection]:
        asked = self.fitting.asked
        connection = asked.connection
        path = asked.search_path or connection.load_path
        try:
            with connection.transaction(force_rollback=not keeps):
                connection.execute("SELECT pg_catalog.set_config('search_path', %s, true)", [path])
                connection.execute(f"SET LOCAL statement_timeout = '{_TIMEOUT}'")
                yield connection
        finally:
            connection.execute("DEALLOCATE ALL")


def _may_be_fitted(source: Source, kind: Template) -> bool:
    """Return whether a parameter may have other values: not those that a log shows."""
    if kind.origin == "log":
        of = source.of if isinstance(source, ListOf) else source
        if isinstance(of, Constant) and of.value is not None:
            return False
        if isinstance(of, Drawn) and _is_shown(of.distribution):
            return False
    return isinstance(source, _FITTED | Linear)


def _is_shown(shape: Distribution) -> bool:
    """Return whether a capture has the values themselves, and no stand-ins."""
    if shape.kind in ("boolean", "enum"):
        return True
    values = [*(hot.value for hot in shape.hot), *shape.bounds]
    return shape.kind == "integer" and all(abs(int(value)) < _SHOWN for value in values)


def is_of_queue(text: str) -> bool:
    """Return whether a statement takes rows of a queue: the load decides how many there are."""
    return _QUEUE.search(text) is not None
