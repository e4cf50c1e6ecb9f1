"""Fits the values of parameters: on the copy a call finds as many rows and blocks as in the source.

What the capture cannot know (for which words people search, how wide their ranges are) is tried:
candidates from the copy's columns, in transactions that are rolled back. The mixture of candidates
that gives the rows and blocks of the source replaces the source of the parameter.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from pgdyno.clock import monotonic_ns
from pgdyno.engine.distribution import Distribution, Hot
from pgdyno.features.capture.mirror.accepting import Asked
from pgdyno.features.capture.mirror.candidates import (
    ColumnOfTable,
    FilteredPlace,
    candidates_of,
    places_of,
)
from pgdyno.features.capture.mirror.drawing import (
    PG_ERRORS,
    ColumnSamples,
    StepDrawing,
    plan_of,
    work_of,
)
from pgdyno.features.capture.mirror.findings import BLOCKS_LIMIT, RATIO_LIMIT
from pgdyno.features.capture.model import (
    Capture,
    Constant,
    Drawn,
    Linear,
    ListOf,
    OfColumn,
    Source,
    Statement,
    Step,
    Template,
)
from pgdyno.features.capture.reading.casts import forms_of
from pgdyno.server.connect import Connection

_DRAWS, _DRAWS_OF_EACH = 6, 2
_TIMEOUT = "2s"
_WEIGHTS = tuple(step / 20 for step in range(21))
# Candidates whose work is so near share a weight, so that not one value is asked for all the time.
_NEAR = 0.2
_SEED = 7
# What is fitted without knowing the work of the present values.
_ERROR_MAX = 0.5
# The number of the parameters that come from one row; captures count from 0.
_GROUP = 999
Measured = tuple[float, float]


@dataclass(frozen=True, slots=True)
class WantedWork:
    """Rows and blocks of a call of a statement in the source."""

    rows: float
    blocks: float

    def error(self, seen: Measured) -> float:
        """Return how far the work of a call is from that of the source; 0 if it is the same."""
        rows = abs(seen[0] - self.rows) / max(self.rows, 1.0)
        return rows + 0.5 * abs(seen[1] - self.blocks) / max(self.blocks, 4.0)

    def is_met(self, seen: Measured) -> bool:
        """Return whether rows and blocks are within the limits of likeness."""
        rows = abs(seen[0] - self.rows) <= max(RATIO_LIMIT * self.rows, 0.5)
        limit = max(RATIO_LIMIT * self.blocks, BLOCKS_LIMIT)
        return rows and abs(seen[1] - self.blocks) <= limit


@dataclass(slots=True)
class Fitting:
    """Fits statements of a capture on one connection until the time is over."""

    connection: Connection
    capture: Capture
    asked: Asked
    seconds: float
    samples: ColumnSamples = field(init=False)
    _until_ns: int = field(init=False)

    def __post_init__(self) -> None:
        self.samples = ColumnSamples(self.connection)
        self._until_ns = monotonic_ns() + round(self.seconds * 1e9)

    def sources(self, texts: Mapping[str, str]) -> dict[str, dict[int, Source]]:
        """Return new sources by statement and place. Args: texts, of the statements to fit."""
        fitted = {}
        ranked = sorted(self.capture.statements, key=lambda own: -own.counters.time_ms)
        for statement in (own for own in ranked if own.id in texts):
            wanted = wanted_of(statement)
            if wanted is None or self._is_over():
                continue
            try:
                text = statement.text if _lacks_constants(statement) else texts[statement.id]
                changed = self._fitted(statement, text, wanted)
            except PG_ERRORS:
                continue
            if changed:
                fitted[statement.id] = changed
        return fitted

    def _is_over(self) -> bool:
        return monotonic_ns() > self._until_ns

    def _fitted(self, statement: Statement, text: str, wanted: WantedWork) -> dict[int, Source]:
        used = [
            (kind, number)
            for kind in self.capture.templates
            for number, step in enumerate(kind.steps)
            if step.statement == statement.id
        ]
        if len(used) != 1:
            return {}  # One mixture for several transaction types would fit none of them.
        [(template, step)] = used
        types = self.asked.parameter_types(text, {})
        trial = _Trial(self, template, step, text, types)
        present = trial.mean({}, _DRAWS)
        if present is not None and wanted.is_met(present):
            return {}
        columns = self._columns(statement.tables)
        fits = [
            self._from(base, trial, columns, wanted)
            for base in (
                *self._bases(template.steps[step], types),
                *self._one_row(trial, columns),
            )
        ]
        best, chosen = min(fits, key=lambda fit: fit[0])
        limit = 0.8 * wanted.error(present) if present is not None else _ERROR_MAX
        return chosen if best < limit else {}

    def _bases(self, step: Step, types: Sequence[str]) -> Iterator[dict[int, Source]]:
        """Yield what has to be known first: the configuration of a text search."""
        unknown = [
            at
            for at, (kind, source) in enumerate(zip(types, step.parameters, strict=False))
            if kind == "regconfig" and isinstance(source, Constant) and source.value is None
        ]
        names: list[str | None] = ["english", "simple"] if unknown else [None]
        for name in names:
            given = Constant.model_validate({"from": "constant", "value": name})
            yield dict.fromkeys(unknown, given)

    def _one_row(
        self, trial: _Trial, columns: Sequence[ColumnOfTable]
    ) -> Iterator[dict[int, Source]]:
        """Yield that all columns that must be equal come from one row, such as id and version."""
        own = {column.name: column.table for column in reversed(columns)}
        sources = trial.template.steps[trial.step].parameters
        given: dict[int, Source] = {}
        for place in places_of(trial.text):
            at = place.number - 1
            is_equal = place.operator == "=" and place.column in own and at < len(sources)
            if is_equal and isinstance(sources[at], Constant | Drawn | OfColumn | Linear):
                given[at] = OfColumn.model_validate(
                    {"from": "column", "table": own[place.column], "column": place.column}
                    | {"group": _GROUP}
                )
        tables = {source.table for source in given.values() if isinstance(source, OfColumn)}
        if len(given) > 1 and len(tables) == 1:
            yield given

    def _from(
        self,
        base: dict[int, Source],
        trial: _Trial,
        columns: Sequence[ColumnOfTable],
        wanted: WantedWork,
    ) -> tuple[float, dict[int, Source]]:
        """Fit one parameter after the other; return how far the best is from the source."""
        present = trial.mean(base, _DRAWS)
        best, chosen = wanted.error(present) if present is not None else math.inf, dict(base)
        sources = trial.template.steps[trial.step].parameters
        for place in places_of(trial.text):
            at = place.number - 1
            if at >= len(sources) or self._is_over():
                break
            if at in base or not isinstance(sources[at], Constant | Drawn | OfColumn | ListOf):
                continue
            for given in self._mixtures(trial, place, chosen, columns, wanted):
                seen = trial.mean({**chosen, at: given}, 2 * _DRAWS)
                if seen is not None and wanted.error(seen) < 0.8 * best:
                    best, chosen = wanted.error(seen), {**chosen, at: given}
            if best < RATIO_LIMIT:
                break
        return best, chosen

    def _mixtures(
        self,
        trial: _Trial,
        place: FilteredPlace,
        chosen: Mapping[int, Source],
        columns: Sequence[ColumnOfTable],
        wanted: WantedWork,
    ) -> Iterator[Source]:
        """Yield the mixture of candidates that is nearest to the source, if there are any."""
        kind = trial.types[place.number - 1]
        values: list[str | None] = list(candidates_of(place, kind, columns, self.samples))
        if place.number in forms_of(trial.text).nullables:
            values.append(None)
        seen: dict[str | None, Measured] = {}
        for value in values:
            if self._is_over():
                break
            given = Constant.model_validate({"from": "constant", "value": value})
            if (
                work := trial.mean({**chosen, place.number - 1: given}, _DRAWS_OF_EACH)
            ) is not None:
                seen[value] = work
        if seen:
            yield _mixture(seen, wanted)

    def _columns(self, tables: Sequence[str]) -> list[ColumnOfTable]:
        rows = self.connection.execute(
            "SELECT t.name, a.attname, pg_catalog.format_type(a.atttypid, NULL)"
            " FROM pg_catalog.unnest(%s::text[]) AS t(name) JOIN pg_catalog.pg_attribute a"
            " ON a.attrelid = pg_catalog.to_regclass(t.name)"
            " WHERE a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
            [list(tables)],
        ).fetchall()
        return [ColumnOfTable(*map(str, row)) for row in rows]


@dataclass(slots=True)
class _Trial:
    """Executions of one statement, each rolled back."""

    fitting: Fitting
    template: Template
    step: int
    text: str
    types: Sequence[str]
    rng: random.Random = field(default_factory=lambda: random.Random(_SEED))

    def mean(self, changed: Mapping[int, Source], count: int) -> Measured | None:
        """Return the mean rows and blocks of some executions; None if one of them fails."""
        sums = [0.0, 0.0]
        for _ in range(count):
            drawing = StepDrawing(self.template, self.fitting.samples, self.rng)
            try:
                with self._rolled_back() as connection:
                    values = drawing.values(self.step, changed)[: len(self.types)]
                    rows, blocks = work_of(plan_of(connection, self.text, self.types, values))
            except PG_ERRORS:
                return None
            sums = [sums[0] + rows, sums[1] + blocks]
        return sums[0] / count, sums[1] / count

    @contextmanager
    def _rolled_back(self) -> Iterator[Connection]:
        asked = self.fitting.asked
        connection = asked.connection
        path = asked.search_path or connection.load_path
        try:
            with connection.transaction(force_rollback=True):
                connection.execute("SELECT pg_catalog.set_config('search_path', %s, true)", [path])
                connection.execute(f"SET LOCAL statement_timeout = '{_TIMEOUT}'")
                yield connection
        finally:
            connection.execute("DEALLOCATE ALL")


def _lacks_constants(statement: Statement) -> bool:
    """Return whether a constant of the program may be unknown; then all are parameters here."""
    return statement.constant_count > 0 and "regconfig" in statement.parameter_types


def wanted_of(statement: Statement) -> WantedWork | None:
    """Return the work of a call in the source; None if it was not counted, or is a COPY."""
    own = statement.counters
    is_counted = own.rows or own.hit_blocks or own.read_blocks
    if not own.calls or not is_counted or statement.kind not in ("select", "update", "delete"):
        return None
    return WantedWork(own.rows / own.calls, (own.hit_blocks + own.read_blocks) / own.calls)


def _mixture(seen: Mapping[str | None, Measured], wanted: WantedWork) -> Source:
    """Return the mixture of at most two kinds of candidates that is nearest to the source."""

    def error(pair: tuple[str | None, str | None], weight: float) -> float:
        first, other = seen[pair[0]], seen[pair[1]]
        mixed = [weight * a + (1 - weight) * b for a, b in zip(first, other, strict=True)]
        return wanted.error((mixed[0], mixed[1]))

    pairs = itertools.combinations_with_replacement(seen, 2)
    choices = ((error(pair, weight), pair, weight) for pair in pairs for weight in _WEIGHTS)
    _, pair, weight = min(choices, key=lambda choice: choice[0])
    shares: dict[str | None, float] = {}
    for chosen, part in zip(pair, (weight, 1 - weight), strict=True):
        alike = [value for value in seen if _is_near(seen[value], seen[chosen])] if part else []
        for value in alike:
            shares[value] = shares.get(value, 0.0) + part / len(alike)
    nulls = shares.pop(None, 0.0)
    if not shares:
        return Constant.model_validate({"from": "constant", "value": None})
    whole = sum(shares.values())
    hot = tuple(Hot(value=str(value), fraction=part / whole) for value, part in shares.items())
    width = sum(len(own.value) for own in hot) / len(hot)
    distribution = Distribution(
        kind="text", null_fraction=nulls, distinct=len(hot), width=width, hot=hot
    )
    return Drawn.model_validate({"from": "drawn", "distribution": distribution})


def _is_near(first: Measured, other: Measured) -> bool:
    return all(abs(a - b) <= _NEAR * max(b, 1.0) for a, b in zip(first, other, strict=True))
