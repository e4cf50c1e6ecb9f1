"""Loops of a transaction, from how often a call has each step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgdyno.engine.distribution import Spread
from pgdyno.features.capture.model import Equal, Returned, Source, Turn
from pgdyno.features.capture.reading.parameter_uses import Parameter
from pgdyno.features.capture.schema import ColumnShape

# A step with more turns than this is a loop.
LOOP_MIN = 1.5
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
        is_equal = turns > LOOP_MIN and abs(turns / self.turns - 1) <= _TURNS_RATIO
        uses = any(
            isinstance(source, Equal | Returned)
            and source.step >= self.steps_before
            and (isinstance(source, Returned) or source.take == "value")
            for source in sources
        )
        joins = is_equal and uses
        return (self, True) if joins else (Loop(number, turns), False)


def repeat_of(
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
