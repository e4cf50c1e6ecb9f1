"""What one column of telemetry or of the store is: name, type, unit, meaning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Dtype = Literal["int64", "float64", "text", "int32[]", "int64[]"]
Nature = Literal["key", "counter", "gauge"]


@dataclass(frozen=True, slots=True)
class Column:
    """One column, as stored.

    A *key* tells rows of one instant apart (a device, a core). A *counter* grows until it is reset
    or wraps, and is stored raw: `rates` makes rates of it. A *gauge* is the state at one instant.
    A counter that the kernel keeps in 32 bits begins again at `wraps_at`, in the column's unit.
    One that `dips` may be taken back a little by the kernel: a decrease is read as no growth.
    `is_nullable`: absent on some versions or machines; an int64 is then read as float64 with NaN.
    """

    name: str
    dtype: Dtype
    unit: str
    meaning: str
    nature: Nature = "gauge"
    is_nullable: bool = False
    wraps_at: int = 0
    dips: bool = False


TIME_NS = Column("time_ns", "int64", "ns", "Unix time of the sample, on the experiment's clock")
INTERVAL_NS = Column(
    "interval_ns", "int64", "ns", "time since the sample before; 0 = none before, or a gap"
)


def key(name: str, meaning: str) -> Column:
    """Return a text column that tells the rows of one instant apart."""
    return Column(name, "text", "name", meaning, nature="key")


def counter(
    name: str, unit: str, meaning: str, *, is_nullable: bool = False, wraps_at: int = 0
) -> Column:
    """Return a counter of whole numbers."""
    return Column(name, "int64", unit, meaning, "counter", is_nullable, wraps_at)


def gauge(name: str, unit: str, meaning: str, *, is_nullable: bool = False) -> Column:
    """Return the state of something at one instant, a whole number."""
    return Column(name, "int64", unit, meaning, "gauge", is_nullable)
