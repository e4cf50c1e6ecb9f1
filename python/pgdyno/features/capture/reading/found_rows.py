"""How many rows have the values that a statement asks for, from the rows that its calls found."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pgdyno.features.capture.model import Constant, FoundRows, OfColumn, Source
from pgdyno.features.capture.reading.described import Described
from pgdyno.features.capture.reading.parsed import Parsed
from pgdyno.features.capture.schema import ColumnShape

NULL = Constant(value=None)
# The rows of a result are not those that were found.
_OTHER_ROWS = re.compile(r"\b(?:GROUP\s+BY|DISTINCT|UNION|LIMIT|FETCH|HAVING|IN)\b", re.I)


def counts_found_rows(parsed: Parsed) -> bool:
    """Return whether the rows of a call are those that equal columns of one table found."""
    asked = (use for use in parsed.parameters.values() if use.use not in ("set", "change"))
    return (
        parsed.kind in ("select", "update", "delete")
        and len(parsed.tables) == 1
        and not parsed.aggregates
        and not _OTHER_ROWS.search(parsed.text)
        and all(use.use == "equal" and use.table == parsed.tables[0] for use in asked)
    )


def with_found_rows(
    described: Described,
    sources: Sequence[Source],
    columns: Mapping[tuple[str, str], ColumnShape],
    rows: Mapping[str, float],
) -> list[Source]:
    """Return the sources of a statement: existing values with as many rows as its calls found.

    A name that ten rows have is asked for ten times as often as one that a single row has, if all
    rows are equally likely. A program may ask for all names equally often.

    Args: rows, how many each table has. Limits: only of one table that is searched by equal
    columns, and is not searched by a key.
    """
    parsed = described.parsed
    asked = {
        number: use
        for number, use in parsed.parameters.items()
        if use.use not in ("set", "change") and sources[number - 1] != NULL
    }
    shapes = {number: columns.get((use.table, use.column)) for number, use in asked.items()}
    keys = {shape.column for shape in shapes.values() if shape and shape.key_position}
    whole = {c.column for c in columns.values() if c.table in parsed.tables and c.key_position}
    is_key = bool(whole) and whole <= keys
    is_known = all(shape is not None and not shape.is_unique for shape in shapes.values())
    of_rows = rows.get(parsed.tables[0], 0.0) if counts_found_rows(parsed) else 0.0
    if not of_rows or is_key or not is_known:
        return list(sources)
    own = [number for number in asked if _is_of_rows(sources[number - 1], parsed.tables[0])]
    rows_found = described.rows_per_call
    for number, shape in shapes.items():
        # The rows with the values that this step does not choose are a part of all.
        if number not in own and shape is not None:
            rows_found *= max(shape.distribution.distinct, 1.0)
    if rows_found > of_rows:
        return list(sources)
    known = FoundRows(rows=rows_found, of_rows=of_rows)
    return [
        source.model_copy(update={"found_rows": known}) if number in own else source
        for number, source in enumerate(sources, 1)
    ]


def _is_of_rows(source: Source, table: str) -> bool:
    return isinstance(source, OfColumn) and source.table == table
