"""Durations, sizes and rates as users write them, converted to integers with a unit."""

from __future__ import annotations

import math
import os
import re

from pgdyno.errors import SpecError
from pgdyno.settings.rule import BYTES_OF_UNIT

SECOND_NS = 1_000_000_000
MINUTE_NS = 60 * SECOND_NS

_DURATION_NS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "min": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
}
# No quantity has more digits, and Python counts some thousand of them as infinite.
_NUMBER = r"([0-9]{1,20}(?:\.[0-9]{1,20})?)"
_QUANTITY = re.compile(rf"\s*{_NUMBER}\s*([A-Za-z]*)\s*")


def duration_ns(text: str | float, *, what: str = "duration") -> int:
    """Return a duration in nanoseconds: `60`, `"60s"`, `"500ms"`, `"3min"`, `"1h"`.

    A number without a unit is seconds, as in pgbench's -T.
    Raises: SpecError for anything else, and for negative numbers.
    """
    number, unit = _split(text, what, _DURATION_NS, "s")
    return round(number * _DURATION_NS[unit])


def duration_exactly(nanoseconds: int) -> str:
    """Return a duration in the largest unit in which it is a whole number, such as "90s"."""
    for unit in ("min", "s", "ms", "us"):
        if nanoseconds and nanoseconds % _DURATION_NS[unit] == 0:
            return f"{nanoseconds // _DURATION_NS[unit]}{unit}"
    return f"{nanoseconds}ns" if nanoseconds else "0s"


def size_bytes(text: str | float, *, what: str = "size") -> int:
    """Return a size in bytes: `"200GB"`; units are powers of 1024, as PostgreSQL's are.

    Raises: SpecError for another text, and for less than a byte.
    """
    number, unit = _split(text, what, BYTES_OF_UNIT, "B")
    found_bytes = round(number * BYTES_OF_UNIT[unit])
    if found_bytes < 1:
        raise SpecError(f"{what} must be greater than 0, got {text!r}.", hint="such as 28GB")
    return found_bytes


def _split(text: str | float, what: str, units: dict[str, int], default: str) -> tuple[float, str]:
    match = _QUANTITY.fullmatch(str(text))
    unit = (match.group(2) or default) if match else ""
    if match is None or unit not in units:
        raise SpecError(
            f"{what} must be a number with one of the units {', '.join(units)}, got {text!r}.",
            hint=f"a number without a unit is in {default}",
        )
    return float(match.group(1)), unit


# Tables and their keys at fill factor 100: 748 MiB at scale 50, 299 MiB at scale 20 (measured on
# PostgreSQL 15).
_BYTES_EACH_SCALE = 15_690_000
_OF_RAM = re.compile(rf"\s*{_NUMBER}\s*x\s*RAM\s*", re.IGNORECASE)


def scale_for(size: str, *, ram_bytes: int | None = None) -> int:
    """Return the scale at which tables and keys take about `size`, at least 1.

    Args: ram_bytes, memory of the server's host (None: of this host, where a scratch server runs).
    Raises: SpecError if `size` is not a size.
    """
    match = _OF_RAM.fullmatch(size)
    if match is not None:
        wanted = float(match[1]) * (ram_bytes or ram_here_bytes())
    else:
        try:
            wanted = size_bytes(size)
        except SpecError:
            wanted = 0
    if not wanted > 0:
        raise SpecError(f"{size!r} is not a size.", hint='such as "200GB" or "2xRAM"')
    return max(1, math.ceil(wanted / _BYTES_EACH_SCALE))


def ram_here_bytes() -> int:
    """Return the memory of this host."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
