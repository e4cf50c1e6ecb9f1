"""Keys of several columns: a parameter is a column of a row that has the values of the others.

In a database of many tenants, (tenant, id) is a key. Two columns that are drawn one by one are
then hardly ever a row, so a statement finds nothing, and a new row refers to nothing. A statement
may also ask for the tenant and for a key of one column, as in `WHERE tenant = $1 AND id = $2`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from pgdyno.features.capture.model import Constant, Given, OfColumn, Source
from pgdyno.features.capture.reading.parameter_uses import Parameter
from pgdyno.features.capture.reading.parsed import Parsed
from pgdyno.features.capture.schema import ColumnShape

# The engine keeps this many rows of a table; of a larger one it may lack the row of a key.
_KEPT_ROWS = 50_000
# If there are this many times more pairs than rows, two columns are rarely a row by chance.
_SPARSE = 2.0
_KEY_USES = ("equal", "insert")
NULL = Constant(value=None)

Place = tuple[str, str]


def with_whole_keys(
    sources: Sequence[Source],
    parsed: Parsed,
    step: int,
    columns: Mapping[Place, ColumnShape],
    *,
    unique: Mapping[str, Sequence[tuple[str, ...]]],
    rows: Mapping[str, float],
    are_alike: Callable[[Place, Place], bool],
) -> list[Source]:
    """Return the sources of a step; keys of several columns are those of rows.

    Args: step, its number. unique, the columns of the unique keys of each table. rows, how many
    each table has. are_alike, whether two columns hold the same keys.
    """
    made = list(sources)
    for use in parsed.parameters.values():
        if use.use not in _KEY_USES:
            continue
        table, name = _existing(use, parsed, columns)
        for key in unique.get(table, ()):
            shapes = [shape for column in key if (shape := columns.get((table, column)))]
            # A row that only joins others may be asked for before it is made.
            is_own = bool(shapes) and shapes[-1].references is None
            is_sparse = prod(s.distribution.distinct for s in shapes) > _SPARSE * rows.get(table, 0)
            beside = _beside(parsed, use, key, columns)
            if name != key[-1] or not is_own or not (beside or (len(key) > 1 and is_sparse)):
                continue
            wide = (*beside, *key)
            asked = [(column, _of(parsed, use, (table, column), are_alike)) for column in wide]
            places = {column: place for column, place in asked if place is not None}
            drawn = [c for c in places if _is_drawn(made[places[c]])]
            if beside and drawn[-1:] != [name] and rows.get(table, 0) > _KEPT_ROWS:
                continue
            known = [c for c in places if made[places[c]] != NULL and c not in drawn[-1:]]
            if drawn and known:
                made[places[drawn[-1]]] = OfColumn(
                    table=table,
                    column=drawn[-1],
                    given=tuple(Given(column=c, step=step, parameter=places[c]) for c in known),
                )
    return made


def _beside(
    parsed: Parsed,
    use: Parameter,
    key: Sequence[str],
    columns: Mapping[Place, ColumnShape],
) -> tuple[str, ...]:
    """Return the references that a statement wants of the row that a whole key identifies."""
    if use.use != "equal":
        return ()
    equal = {
        o.column for o in parsed.parameters.values() if (o.use, o.table) == ("equal", use.table)
    }
    others = sorted(equal - set(key)) if equal >= set(key) else ()
    return tuple(c for c in others if (own := columns.get((use.table, c))) and own.references)


def _existing(use: Parameter, parsed: Parsed, columns: Mapping[Place, ColumnShape]) -> Place:
    """Return the column of a row that exists: of a new row, the one to which it refers."""
    own = columns.get((use.table, use.column))
    if own is not None and use.use == "equal":
        return (use.table, use.column)
    is_new = own is not None and use.table == parsed.written and own.references is not None
    if own is None or own.references is None or not is_new:
        return ("", "")
    return (own.references.table, own.references.column)


def _is_drawn(source: Source) -> bool:
    return isinstance(source, OfColumn) and source.group is None and not source.given


def _of(
    parsed: Parsed, use: Parameter, wanted: Place, are_alike: Callable[[Place, Place], bool]
) -> int | None:
    """Return the parameter, from 0, that has the value of a column in the same row."""
    for number, other in parsed.parameters.items():
        place = (other.table, other.column)
        if (other.use, other.table) == (use.use, use.table) and are_alike(place, wanted):
            return number - 1
    return None
