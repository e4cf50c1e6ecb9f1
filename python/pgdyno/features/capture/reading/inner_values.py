"""Parameters that are inside of a column's value: elements of arrays, points of ranges."""

from __future__ import annotations

from pgdyno.features.capture.model import Drawn, Source
from pgdyno.features.capture.schema import ColumnShape


def is_inside(column: ColumnShape | None, type_: str) -> bool:
    """Return whether a column has arrays or ranges of values of a type, as in `during @> $1`."""
    if column is None or not type_ or type_ == column.type:
        return False
    is_whole = type_.endswith(("[]", "range")) or type_.startswith("any")
    return (column.type.endswith("[]") or column.distribution.kind == "range") and not is_whole


def element_of(column: ColumnShape) -> Source | None:
    """Return a value that elements of a column have; None if they are not known."""
    element = column.distribution.element
    has_values = element is not None and (element.hot or element.bounds)
    return Drawn(distribution=element) if element is not None and has_values else None
