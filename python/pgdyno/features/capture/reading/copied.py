"""COPY FROM STDIN in a capture: where the fields of its rows come from, and how many rows it has.

Its statement has no parameters. The step has one all the same: a list of records, one for each row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from pgdyno.engine.distribution import Spread
from pgdyno.features.capture.model import (
    Constant,
    Equal,
    Fresh,
    ListOf,
    OfColumn,
    Record,
    Returned,
    Source,
    Step,
    Turn,
)
from pgdyno.features.capture.reading.key_sources import FRESH_KINDS, Place, fresh, unique_keys
from pgdyno.features.capture.reading.parameter_uses import Parameter
from pgdyno.features.capture.reading.parsed import Parsed
from pgdyno.features.capture.schema import ColumnShape, KeyReference, SchemaObject

# The source of a parameter of INSERT, from its number, its use and the sources before it.
SourceOf = Callable[[int, Parameter], Source]


def row_sources(
    parsed: Parsed, columns: Mapping[Place, ColumnShape], source_of: SourceOf
) -> list[Source]:
    """Return where each field of a row comes from: as the parameters of an INSERT.

    Columns of one foreign key come from one row of the table that they refer to.
    """
    made: list[Source] = []
    for number, use in sorted(parsed.parameters.items()):
        made.append(source_of(number, use))
    shapes = [columns.get((use.table, use.column)) for _, use in sorted(parsed.parameters.items())]
    keys: dict[str, list[int]] = {}
    references: dict[int, KeyReference] = {}
    for place, shape in enumerate(shapes):
        if shape is None:
            continue
        if shape.references is not None and not isinstance(made[place], Equal | Returned):
            references[place] = shape.references
            keys.setdefault(shape.references.constraint or shape.column, []).append(place)
        elif made[place] == Constant(value=None) and shape.is_not_null:
            made[place] = _of_a_kind(shape)
    for group, places in enumerate(keys.values()):
        for place in places:
            reference = references[place]
            if len(places) > 1 or isinstance(made[place], Fresh):
                made[place] = OfColumn(table=reference.table, column=reference.column, group=group)
    return made


def with_new_keys(
    made: Sequence[Source],
    parsed: Parsed,
    columns: Mapping[Place, ColumnShape],
    keys: Iterable[tuple[str, ...]],
    inserts: AbstractSet[int],
) -> list[Source]:
    """Return the sources; in each unique key one field differs from row to row.

    With the key of a row that the transaction has inserted, the others are numbered from 1.

    Args: keys of the table; inserts, the steps before that add rows.
    """
    changed = list(made)
    places = {use.column: number - 1 for number, use in parsed.parameters.items()}
    for key in keys:
        own = [places[name] for name in key if name in places]
        if len(own) < len(key) or any(isinstance(changed[at], Fresh | Turn) for at in own):
            continue
        parts = [changed[at] for at in own]
        is_new = any(isinstance(part, Returned) and part.step in inserts for part in parts)
        for at in reversed(own):
            use = parsed.parameters[at + 1]
            shape = columns.get((use.table, use.column))
            if shape is None or shape.references or shape.distribution.kind not in FRESH_KINDS:
                continue
            is_number = shape.distribution.kind == "integer"
            changed[at] = Turn(offset=1) if is_new and is_number else fresh(shape)
            break
    return changed


def _of_a_kind(shape: ColumnShape) -> Source:
    """Return a value for a column that is never NULL, and of whose values nothing is known."""
    kind = shape.distribution.kind
    if kind in FRESH_KINDS:
        return fresh(shape)
    return Constant(value="\\x61" if kind == "bytes" else None)


def with_rows(
    steps: Iterable[Step], parsed: Sequence[Parsed], rows: Sequence[float]
) -> Iterator[Step]:
    """Yield the steps; the parameters of a COPY become the fields of its rows.

    Args: rows, the mean number of rows of each step.
    """
    for step, statement, mean in zip(steps, parsed, rows, strict=True):
        if not statement.copies:
            yield step
            continue
        length = Spread(least=math.floor(mean), mean=mean, most=math.ceil(mean))
        listed = ListOf(of=Record(fields=step.parameters), length=length)
        yield step.model_copy(update={"parameters": (listed,)})


def fixed_keys(
    columns: Sequence[ColumnShape], objects: Iterable[SchemaObject]
) -> dict[str, list[frozenset[str]]]:
    """Return the unique keys, by table, of which no column can get values that no row has.

    Random rows would have the same key twice.
    """
    known = {(shape.table, shape.column): shape for shape in columns}
    fixed: dict[str, list[frozenset[str]]] = {}
    for table, keys in unique_keys(columns, objects).items():
        for key in keys:
            shapes = [known.get((table, name)) for name in key]
            is_new = [
                shape is None
                or (shape.references is None and shape.distribution.kind in FRESH_KINDS)
                for shape in shapes
            ]
            if not any(is_new):
                fixed.setdefault(table, []).append(frozenset(key))
    return fixed
