"""How the values of a column, or of a parameter, are distributed. The engine draws from it.

Every value is text in PostgreSQL's format: dates in ISO, bytes as `\\x...`, arrays as `{...}`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

ValueKind = Literal[
    "integer",
    "real",
    "numeric",
    "boolean",
    "text",
    "bytes",
    "uuid",
    "date",
    "timestamp",
    "timestamptz",
    "time",
    "interval",
    "json",
    "inet",
    "enum",
    "array",
    "range",
    "other",
    "rank",
]
# Larger than any table, and than what a value or a list of a load may take of memory.
ROWS_MAX, WIDTH_MAX_BYTES, LENGTH_MAX = 1e13, 64 << 20, 1e6
DISTINCT_MAX = 1e15  # "as many as there are texts", for values that are never the same
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class CapturePart(BaseModel):
    """A part of a capture. Fields that a later version adds are ignored."""

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        populate_by_name=True,
        serialize_by_alias=True,
        allow_inf_nan=False,
    )


class Spread(CapturePart):
    """A number that varies: lengths of arrays, turns of a loop."""

    least: Annotated[float, Field(ge=0, le=LENGTH_MAX)] = 1
    mean: Annotated[float, Field(ge=0, le=LENGTH_MAX)] = 1
    most: Annotated[float, Field(ge=0, le=LENGTH_MAX)] = 1


class Hot(CapturePart):
    """A common value, and its share of all rows, NULLs included."""

    value: str
    fraction: Share


class Distribution(CapturePart):
    """The distribution of values.

    `distinct`: how many different values. `width`: mean bytes of a text, of bytes or of JSON.
    `hot`: the most common values, the most common first. `bounds`: the other values in ascending
    order, with the same number of rows between neighbours. `step`: the smallest distance of two
    integers or times (seconds). `is_dense`: every value of the range from the first to the last
    bound occurs once. `labels`: all labels of an enum, in their order.
    """

    kind: ValueKind
    null_fraction: Share = 0
    distinct: Annotated[float, Field(ge=0, le=DISTINCT_MAX)] = 1
    width: Annotated[float, Field(ge=0, le=WIDTH_MAX_BYTES)] = 0
    hot: tuple[Hot, ...] = ()
    bounds: tuple[str, ...] = ()
    element: Distribution | None = None
    length: Spread | None = None
    step: float | None = None
    is_dense: bool = False
    labels: tuple[str, ...] = ()
