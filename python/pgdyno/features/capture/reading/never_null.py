"""Which parameters must not be NULL, and which ones may be if their value does not exist."""

from __future__ import annotations

from collections.abc import Mapping

from pgdyno.features.capture.reading.parameter_uses import Parameter
from pgdyno.features.capture.reading.parsed import Parsed
from pgdyno.features.capture.schema import ColumnShape

_WRITES = ("insert", "set", "change")

Columns = Mapping[tuple[str, str], ColumnShape]


def never_null(use: Parameter, columns: Columns) -> bool:
    """Return whether the server refuses a statement that has NULL for this parameter.

    Limits: a trigger may replace a NULL before the server looks.
    """
    if use.argument is not None:
        # The function decides.
        return False
    column = columns.get((use.table, use.column))
    is_written = use.use in _WRITES or use.operator == "unnest"
    return is_written and column is not None and column.is_not_null and not column.generated


def is_optional(parsed: Parsed, use: Parameter, columns: Columns) -> bool:
    """Return whether a statement may be sent with NULL in place of a value that does not exist.

    It then finds no row, or adds a row with NULL in a column that may be NULL. In a SET, NULL would
    change rows that exist; as an argument of a function that writes, it may be refused.
    """
    if use.use in ("limit", "offset"):
        return False
    if parsed.kind == "insert":
        column = columns.get((use.table, use.column))
        is_value = use.use == "insert" and use.argument is None
        return is_value and column is not None and not column.is_not_null
    if parsed.kind == "update":
        return use.use in ("equal", "list", "range")
    return parsed.kind == "delete" or (parsed.kind == "select" and parsed.reads_only)
