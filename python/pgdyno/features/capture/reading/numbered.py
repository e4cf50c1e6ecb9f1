"""How many rows a transaction adds together, from the numbers that its rows have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile

from pgdyno.engine.distribution import Spread
from pgdyno.features.capture.model import ListOf, Step, Turn
from pgdyno.features.capture.reading.parsed import Parsed
from pgdyno.features.capture.schema import ColumnShape

# Shares of values in a sample of 30,000 rows differ by less by chance.
_AS_OFTEN = 0.95
# The rows of the load are like those of the table if their mean number differs by less.
_MEAN_RATIO = 0.1


def length_of(column: ColumnShape) -> Spread | None:
    """Return how many rows have the numbers 1, 2, 3 and so on together; None if it is not known.

    Number 3 is in as many rows as there are lists of 3 rows or more.
    """
    shape = column.distribution
    if shape.kind != "integer" or shape.bounds or len(shape.hot) < 2:
        return None
    shares = dict(sorted((int(hot.value), hot.fraction) for hot in shape.hot))
    first, most = min(shares), len(shares)
    common = max(shares.values())
    if max(shares) - first + 1 != most or shares[first] < _AS_OFTEN * common:
        return None
    always = list(takewhile(lambda share: share >= _AS_OFTEN * common, shares.values()))
    lists = sum(always) / len(always)
    return Spread(least=len(always), mean=sum(shares.values()) / lists, most=most)


def with_lengths(
    steps: Sequence[Step],
    parsed: Sequence[Parsed],
    columns: Mapping[tuple[str, str], ColumnShape],
) -> list[Step]:
    """Return the steps of a template; a list of numbered rows has the lengths of the table."""
    made = [list(step.parameters) for step in steps]
    for number, statement in enumerate(parsed):
        for position, use in statement.parameters.items():
            source = made[number][position - 1] if position <= len(made[number]) else None
            if not isinstance(source, ListOf) or not isinstance(source.of, Turn):
                continue
            step, place = number, position - 1
            if source.count is not None and source.count.parameter is not None:
                step, place = source.count.step, source.count.parameter
            column, listed = columns.get((use.table, use.column)), made[step][place]
            length = length_of(column) if column is not None else None
            if length is None or not isinstance(listed, ListOf):
                continue
            if abs(length.mean / listed.length.mean - 1) <= _MEAN_RATIO:
                made[step][place] = listed.model_copy(update={"length": length})
    return [
        step.model_copy(update={"parameters": tuple(sources)})
        for step, sources in zip(steps, made, strict=True)
    ]
