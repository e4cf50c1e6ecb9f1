"""Filters that a call may leave out by NULL, as in `$1 IS NULL OR name = $1`.

Statistics do not show which ones were left out. The rows that the calls found do: with every filter
there would be few, without any all rows of the table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations

from pgdyno.features.capture.reading.described import Described
from pgdyno.features.capture.reading.found_rows import counts_found_rows
from pgdyno.features.capture.schema import ColumnShape

# So that no row, too, has a logarithm.
_HALF_ROW = 0.5
# There are 2^n choices among n filters.
_FILTERS_MAX = 10


def left_out(
    described: Described,
    columns: Mapping[tuple[str, str], ColumnShape],
    rows: Mapping[str, float],
) -> frozenset[int]:
    """Return the numbers of the parameters that are NULL, so that their filters let all rows pass.

    Of all choices it is the one that finds as many rows as the calls; of equal ones, the one with
    more filters left out. Columns count as independent of each other. If the rows of a query do not
    tell, as with GROUP BY, all filters are left out, so that it finds rows as the calls did.

    Args: rows, how many each table has. Limits: the rows tell only if one table is searched by
    equal columns.
    """
    parsed = described.parsed
    numbers = sorted(parsed.open_filters)
    if not counts_found_rows(parsed) or len(numbers) > _FILTERS_MAX:
        is_query = parsed.kind == "select" and parsed.reads_only and described.finds_rows
        return parsed.open_filters if is_query else frozenset()
    # A table that has grown since has at least the rows that a call found.
    of_rows = max(rows.get(parsed.tables[0], 0.0), described.rows_per_call)
    shares: dict[int, float] = {}
    for number, use in parsed.parameters.items():
        column = columns.get((use.table, use.column))
        if use.use == "equal" and column is not None:
            shares[number] = _share(column, of_rows)
    if not numbers or not of_rows or not shares.keys() >= set(numbers):
        return frozenset()
    always = math.prod(share for number, share in shares.items() if number not in numbers)

    def distance(kept: frozenset[int]) -> float:
        expected = of_rows * always * math.prod(shares[number] for number in kept)
        return abs(math.log((expected + _HALF_ROW) / (described.rows_per_call + _HALF_ROW)))

    counts = range(len(numbers) + 1)
    choices = (frozenset(kept) for count in counts for kept in combinations(numbers, count))
    ordered = sorted(choices, key=distance)
    return frozenset(numbers) - ordered[0]


def _share(column: ColumnShape, of_rows: float) -> float:
    """Return the share of the rows that have the value of a row chosen by chance."""
    shape = column.distribution
    if column.is_unique:
        return 1 / max(of_rows, 1.0)
    hot = [value.fraction for value in shape.hot]
    rest = max(0.0, 1.0 - sum(hot) - shape.null_fraction)
    others = max(shape.distinct - len(hot), 1.0)
    present = max(1.0 - shape.null_fraction, 1e-9)
    return (sum(fraction**2 for fraction in hot) + rest**2 / others) / present
