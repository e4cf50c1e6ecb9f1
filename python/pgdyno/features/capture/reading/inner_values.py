"""Parameters that are inside of a column's value: elements of arrays, points of ranges."""

from __future__ import annotations

from pgdyno.features.capture.model import Drawn, Source
from pgdyno.features.capture.schema import ColumnShape

_TEXTS = ("text", "character varying", "character", "name", "citext", "unknown")


def is_inside(column: ColumnShape | None, type_: str) -> bool:
    """Return whether a column has arrays or ranges of values of a type, as in `during @> $1`."""
    if column is None or not type_ or type_ == column.type:
        return False
    if type_.endswith(("[]", "range")) or type_.startswith("any"):
        return False
    if not column.type.endswith("[]"):
        return column.distribution.kind == "range"
    # The length of an array of texts is a number.
    own = column.type.removesuffix("[]").partition("(")[0]
    return type_ == own or (own in _TEXTS and type_ in _TEXTS)


def element_of(column: ColumnShape) -> Source | None:
    """Return a value that elements of a column have; None if they are not known."""
    element = column.distribution.element
    has_values = element is not None and (element.hot or element.bounds)
    return Drawn(distribution=element) if element is not None and has_values else None
