"""Conditions as users write them: `p99<20ms`, `tps_ratio>0.97`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from pgdyno.errors import SpecError

_FORM = re.compile(
    r"\s*(?:(?P<of>[^\s<>][^<>]*)\.)?(?P<name>[a-z0-9_]+)\s*(?P<sign>[<>])=?\s*"
    r"(?P<limit>\d+(?:\.\d+)?)\s*(?P<unit>[a-zA-Z]*)\s*"
)
LATENCIES = ("mean", "p50", "p90", "p95", "p99", "p999")
METRICS = ("tps", "nopm", "cpu_per_tx", "wal_per_tx", "duration", *LATENCIES)
CHECKED = (*METRICS, *(f"{name}_ratio" for name in METRICS))
WATCHED = ("tps", *LATENCIES)
OF_A_TYPE = ("tps", *LATENCIES)
"""A figure that each transaction type and each script has."""
"""A figure that is known every second while a run lasts."""
_MEMORY = re.compile(r"\s*memory\s*<=?\s*(?P<limit>\d+(?:\.\d+)?)\s*%\s*")
# Factor from each unit to the metric's unit: ms for latency and CPU, s for durations, bytes for
# WAL.
_IN_MS = {"us": 1e-3, "ms": 1.0, "s": 1e3, "min": 6e4}
_UNITS = {
    "duration": {unit: size / 1e3 for unit, size in _IN_MS.items()} | {"": 1.0},
    "wal_per_tx": {"": 1.0, "B": 1.0, "kB": 1024.0, "MB": 1048576.0},
    "tps": {"": 1.0, "tps": 1.0},
    "nopm": {"": 1.0},
}


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition; `limit_ratio` has the unit of the metric.

    `of` is a transaction type or script, such as new-order; "" is the whole load.
    """

    text: str
    name: str
    sign: Literal["<", ">"]
    limit_ratio: float
    of: str = ""

    @property
    def figure(self) -> str:
        """Return the figure's name, such as "p99" or "new-order.p90"."""
        return f"{self.of}.{self.name}" if self.of else self.name

    def is_met(self, value: float) -> bool:
        """Return whether a value, in the unit of the metric, meets the condition."""
        return value < self.limit_ratio if self.sign == "<" else value > self.limit_ratio


def condition_from(
    text: str, names: tuple[str, ...] = CHECKED, *, takes_types: bool = False
) -> Condition:
    """Parse a condition.

    Args: takes_types, whether a latency or tps of one transaction type may be named.
    Raises: SpecError that lists the known names and units.
    """
    match = _FORM.fullmatch(text)
    name = match["name"] if match else ""
    of = (match["of"] or "") if match else ""
    is_known = name in names and (not of or (takes_types and name in OF_A_TYPE))
    if match is None or not is_known:
        raise SpecError(
            f"{text!r} is not a condition; the form is NAME<NUMBER or NAME>NUMBER.",
            hint=f"such as 'p99<20ms'; NAME is one of {', '.join(names)}",
        )
    units = {"": 1.0} if name.endswith("_ratio") else _UNITS.get(name, {"": 1.0, **_IN_MS})
    if match["unit"] not in units:
        known = ", ".join(unit for unit in units if unit) or "none"
        raise SpecError(
            f"{text!r}: {match['unit']} is not a unit of {name}.", hint=f"units: {known}"
        )
    sign: Literal["<", ">"] = "<" if match["sign"] == "<" else ">"
    limit = float(match["limit"]) * units[match["unit"]]
    return Condition(text.strip(), name, sign, limit, of)


def memory_limit_from(text: str) -> float | None:
    """Return the share of RAM that "memory<70%" allows, 0..1; None for any other condition."""
    match = _MEMORY.fullmatch(text)
    return None if match is None else float(match["limit"]) / 100


def slo_from(text: str, *, takes_types: bool = False) -> Condition:
    """Parse a latency target such as `p99=20ms` or `p99<20ms`.

    Args: takes_types, whether it may be that of a transaction type: `new-order.p90=5s`.
    Raises: SpecError that lists the known names and units.
    """
    name, equals, limit = text.partition("=")
    asked = f"{name.rstrip('<')}<{limit}" if equals else text
    try:
        condition = condition_from(asked, LATENCIES, takes_types=takes_types)
    except SpecError:
        condition = None
    if condition is None or condition.sign != "<" or not condition.limit_ratio > 0:
        raise SpecError(
            f"{text!r} is not a latency target; the form is NAME=LIMIT.",
            hint=f"such as p99=20ms; NAME is one of {', '.join(LATENCIES)}",
        )
    return condition
