"""What a capture may have of a schema: only objects that `init` makes without a doubt about safety.

`init` refuses a file with an object that reads files, executes texts or uses what the file does not
make, because somebody may have changed the file. So `capture` leaves such objects out, and says
which. A column keeps its type, and loses a default or an expression that uses them.
"""

from __future__ import annotations

from functools import lru_cache

from pgdyno.features.capture.model import Capture
from pgdyno.features.capture.object_names import ObjectNames
from pgdyno.features.capture.plan import column_texts
from pgdyno.features.capture.safety import why_refused
from pgdyno.features.capture.schema import ColumnShape, SchemaObject, in_quotes


def permitted(capture: Capture) -> Capture:
    """Return the capture without the objects that `init` would refuse; its notes name them."""
    objects, notes = _permitted(capture.objects, capture.columns)
    sequences = {
        name
        for item in objects
        if item.kind == "sequence"
        for name in (item.name, item.name.rpartition(".")[2])
    }
    columns = tuple(
        column if not column.sequence or column.sequence in sequences else _without(column)
        for column in capture.columns
    )
    more = tuple(note for note in notes if note not in capture.notes)
    changes = {"objects": objects, "columns": columns, "notes": (*capture.notes, *more)}
    return capture.model_copy(update=changes)


def _without(column: ColumnShape) -> ColumnShape:
    """Return a column whose default has no sequence."""
    return column.model_copy(update={"sequence": ""})


@lru_cache(maxsize=2)
def _permitted(
    objects: tuple[SchemaObject, ...], columns: tuple[ColumnShape, ...]
) -> tuple[tuple[SchemaObject, ...], tuple[str, ...]]:
    notes: list[str] = []
    while True:
        names = ObjectNames(objects, columns)
        kept: list[SchemaObject] = []
        for item in objects:
            why = why_refused(item, names)
            if why is None:
                kept.append(item)
                continue
            notes.append(f"not in the capture: {why}")
            if item.kind == "table":
                kept.append(_reduced(item, columns, names))
        if len(kept) == len(objects) and all(a is b for a, b in zip(kept, objects, strict=True)):
            return objects, tuple(dict.fromkeys(notes))
        objects = tuple(kept)


def _reduced(
    item: SchemaObject, columns: tuple[ColumnShape, ...], names: ObjectNames
) -> SchemaObject:
    """Return a table whose columns have only what is permitted."""
    start, texts, end = column_texts(item.sql)
    own = [column for column in columns if column.table == item.name]
    written = []
    for text, column in zip(texts, own, strict=True):
        name = in_quotes(column.column)
        forms = (text, f"{name} {column.type}", f"{name} text")
        single = (item.model_copy(update={"sql": f"CREATE TABLE {item.name} ({f})"}) for f in forms)
        fits = (why_refused(table, names) is None for table in single)
        written.append(next((form for form, fit in zip(forms, fits, strict=True) if fit), forms[2]))
    sql = f"{start}({', '.join(written)}){end}"
    if sql == item.sql:
        # What remains is not a column: a partition key.
        sql = f"CREATE TABLE {item.name} ({', '.join(written)})"
    return item.model_copy(update={"sql": sql})
