"""Rows that a load moves from one table into another one with their key, as an outbox does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pgdyno.features.capture.model import Equal, Returned, Template
from pgdyno.features.capture.reading.key_sources import Place, unique_keys
from pgdyno.features.capture.reading.parsed import Parsed
from pgdyno.features.capture.schema import ColumnShape, KeyReference, SchemaObject


def with_moves(
    columns: Sequence[ColumnShape],
    objects: Iterable[SchemaObject],
    templates: Iterable[Template],
    parsed: Mapping[str, Parsed],
) -> tuple[ColumnShape, ...]:
    """Return the columns; a key that moves with its row has the columns into which it moves.

    Args: parsed, the statements of the templates by id.
    """
    keys = unique_keys(columns, objects)
    moves: dict[Place, dict[Place, None]] = {}
    for template in templates:
        texts = [parsed.get(step.statement, Parsed("")) for step in template.steps]
        deleted = {table for text in texts for table in text.deletes}
        copied = [(new.copied, new.place) for text in texts for new in text.assigned if new.copied]
        for own, other in [*copied, *_sent(template, texts)]:
            are_keys = all(
                any(column in key for key in keys.get(table, ())) for table, column in (own, other)
            )
            if are_keys and own[0] in deleted and own[0] != other[0]:
                moves.setdefault(own, {})[other] = None
    return tuple(
        column.model_copy(
            update={
                "moves_to": tuple(
                    KeyReference(table=table, column=name)
                    for table, name in moves.get((column.table, column.column), ())
                )
            }
        )
        for column in columns
    )


def _sent(template: Template, texts: Sequence[Parsed]) -> Iterator[tuple[Place, Place]]:
    """Yield the column that gave the value of an INSERT, and the column that got it."""
    for text, step in zip(texts, template.steps, strict=True):
        for number, use in text.parameters.items():
            if use.use != "insert" or number > len(step.parameters):
                continue
            source = step.parameters[number - 1]
            while isinstance(source, Equal):
                given = texts[source.step].parameters.get(source.parameter + 1)
                if given is not None and given.use in ("equal", "list"):
                    yield (given.table, given.column), (use.table, use.column)
                source = template.steps[source.step].parameters[source.parameter]
            if isinstance(source, Returned):
                outputs = texts[source.step].outputs
                if source.column < len(outputs):
                    yield outputs[source.column], (use.table, use.column)
