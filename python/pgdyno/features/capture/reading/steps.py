"""Steps of a kind of transaction, if only statistics are known, and its loops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pgdyno.engine.distribution import Spread
from pgdyno.features.capture.model import (
    Equal,
    ListOf,
    Number,
    Returned,
    Source,
    Step,
    Turn,
)
from pgdyno.features.capture.reading.described import Described
from pgdyno.features.capture.reading.grouping import StatementGroup
from pgdyno.features.capture.reading.never_null import is_optional, never_null
from pgdyno.features.capture.reading.parameter_sources import Sources
from pgdyno.features.capture.reading.parameter_uses import Parameter
from pgdyno.features.capture.reading.parsed import Parsed
from pgdyno.features.capture.reading.whole_keys import NULL
from pgdyno.features.capture.schema import ColumnShape

# A step with more turns than this is a loop.
_LOOP_MIN = 1.5
# Steps of one loop have the same number of turns; this much may be in flight.
_TURNS_RATIO = 0.02


@dataclass(frozen=True, slots=True)
class Loop:
    """The loop in which the steps so far end. `turns`: 1 for no loop."""

    steps_before: int = 0
    turns: float = 1.0

    def after(self, number: int, turns: float, sources: Sequence[Source]) -> tuple[Loop, bool]:
        """Return the loop after a step, and whether the step belongs to the loop before it.

        It does if it has as many turns, and uses a value of the loop in each.
        """
        is_equal = turns > _LOOP_MIN and abs(turns / self.turns - 1) <= _TURNS_RATIO
        uses = any(
            isinstance(source, Equal | Returned)
            and source.step >= self.steps_before
            and (isinstance(source, Returned) or source.take == "value")
            for source in sources
        )
        joins = is_equal and uses
        return (self, True) if joins else (Loop(number, turns), False)


def _repeat_of(
    turns: float,
    parameters: Mapping[int, Parameter],
    sources: Sequence[Source],
    columns: Mapping[tuple[str, str], ColumnShape],
) -> Spread:
    """Return how often a step is carried out; a loop through a column ends with its values."""
    most = max(1.0, 2 * turns - 1)
    for number, source in enumerate(sources, 1):
        if isinstance(source, Turn):
            use = parameters[number]
            most = min(most, columns[use.table, use.column].distribution.distinct)
    mean = min(turns, most)
    return Spread(least=max(1.0, 2 * mean - most), mean=mean, most=most)


class Steps(Sources):
    """Makes the steps of kinds of transactions."""

    def of(self, group: StatementGroup, statements: Mapping[str, Described]) -> Iterator[Step]:
        """Yield the steps of a kind of transaction."""
        earlier: list[tuple[Parsed, dict[int, Parameter]]] = []
        loop = Loop()
        for name, turns in group.turns.items():
            described = statements[name]
            parameters = described.parsed.parameters
            if described.parsed.copies:
                loop = Loop()
                row = tuple(self.fields_of_copy(described, earlier))
                yield Step(statement=name, parameters=row)
                # The rows of a COPY have no value that a later step could use.
                earlier.append((described.parsed, {}))
                continue
            sources: list[Source] = []
            needed: list[int] = []
            optional: list[int] = []
            count: Number | None = None
            # A query that finds rows leaves such filters out, until a copy shows which it has.
            is_open = described.parsed.kind == "select" and described.parsed.reads_only
            is_open &= described.finds_rows
            unused = described.parsed.open_filters if is_open else frozenset()
            for number in range(1, max(parameters, default=0) + 1):
                if number in unused:
                    sources.append(NULL)
                    continue
                use = parameters.get(number, Parameter("other"))
                looped = self._looped(use, turns, earlier) if turns > _LOOP_MIN else None
                if isinstance(looped, Equal):
                    count = Number(step=looped.step, parameter=looped.parameter)
                source = looped or self._source(described, number, use, earlier)
                if is_optional(described.parsed, use, self._columns):
                    optional.append(number - 1)
                if never_null(use, self._columns):
                    needed.append(number - 1)
                sources.append(_beside_others(source, described.parsed.as_long_as.get(number)))
            if described.finds_rows:
                sources[:] = self.with_whole_keys(sources, described.parsed, len(earlier))
            loop, loops_with_before = loop.after(len(earlier), turns, sources)
            yield Step(
                statement=name,
                parameters=tuple(sources),
                loops_with_before=loops_with_before,
                repeat=_repeat_of(turns, parameters, sources, self._columns),
                turns=count,
                not_null=tuple(needed),
                optional=tuple(optional),
            )
            earlier.append((described.parsed, parameters))

    def _looped(
        self,
        use: Parameter,
        turns: float,
        earlier: Sequence[tuple[Parsed, dict[int, Parameter]]],
    ) -> Source | None:
        """Return what a loop goes through: the keys of an earlier list, or all numbers of a column.

        So loops that write take their locks in one order.
        """
        column = self._columns.get((use.table, use.column))
        if column is None or use.use != "equal":
            return None
        if (listed := self.list_before(earlier, (use.table, use.column))) is not None:
            return listed.model_copy(update={"take": "element"})
        shape = column.distribution
        values = [*shape.bounds, *(hot.value for hot in shape.hot)]
        is_whole = shape.kind == "integer" and len(values) > 1 and abs(shape.distinct - turns) < 0.5
        if not is_whole or self.dependency(earlier, (use.table, use.column)) is not None:
            return None
        least, most = min(map(int, values)), max(map(int, values))
        return Turn(offset=least) if most - least + 1 == round(shape.distinct) else None


def _beside_others(source: Source, first: int | None) -> Source:
    """Return a list as long as those that the statement puts side by side: NULL fills shorter ones.

    Args: first, the number of the first of these lists; None if it stands alone.
    """
    if first is None or not isinstance(source, ListOf):
        return source
    return source.model_copy(update={"as_long_as": first - 1})
