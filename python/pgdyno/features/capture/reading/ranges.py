"""Bounds and widths of ranges that find as many rows, or as many blocks, as the source's calls."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pgdyno.features.capture.model import Between, Constant, Drawn, OfColumn, Source
from pgdyno.features.capture.reading.described import Described
from pgdyno.features.capture.reading.parameter_uses import Parameter
from pgdyno.features.capture.schema import ColumnShape

# Keys on a page of an index of integers.
_KEYS_A_PAGE = 350
# A source that names its own step; the number is known when the steps are.
_OWN_STEP = -1


class Ranges:
    """Finds the bounds of ranges. `rows`: how many each table has."""

    def __init__(
        self, columns: Mapping[tuple[str, str], ColumnShape], rows: Mapping[str, float]
    ) -> None:
        self._columns, self._rows = columns, rows

    def distance(self, described: Described, column: ColumnShape) -> Source:
        """Return the width of a range whose rows explain the blocks of a call."""
        parsed, counters = described.parsed, described.statement.counters
        blocks = (counters.hit_blocks + counters.read_blocks) / max(counters.calls, 1)
        rows = self._rows.get(column.table, 0.0)
        for use in parsed.parameters.values():
            other = self._columns.get((use.table, use.column))
            if use.use == "equal" and use.table == column.table and other is not None:
                rows /= max(other.distribution.distinct, 1.0)
        bounds = [_as_number(value) for value in column.distribution.bounds]
        numbers = [value for value in bounds if value is not None]
        if len(numbers) < 2 or column.distribution.kind != "integer":
            return Constant(value="1")
        apart = (numbers[-1] - numbers[0] + 1) / max(rows, 1.0)
        # Rows with the same key were added together and share a page.
        together = max(1.0, rows / max(column.distribution.distinct, 1.0))
        a_row = 1 / together + sum(
            self._levels(table) + 1 for table in parsed.tables if table != column.table
        )
        rows_found = (blocks - self._levels(column.table)) / a_row
        return Constant(value=str(max(1, round(apart * rows_found))))

    def _levels(self, table: str) -> int:
        """Return how many pages of an index lead to a row of a table."""
        return math.ceil(math.log(max(self._rows.get(table, 0.0), 2), _KEYS_A_PAGE))

    def bound(
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
        uses = [
            p for p in parsed.parameters.values() if (p.table, p.column) == (use.table, use.column)
        ]
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


def _as_number(value: str) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None
