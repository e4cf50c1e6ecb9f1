"""What one strip is: columns of one collector, drawn over time in one unit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from pgdyno.observe.catalogue import COLUMNS
from pgdyno.observe.collector import Column

Section = Literal["", "Server", "Processes", "Pooler", "Host", "Load host", "Elsewhere"]


@dataclass(frozen=True, slots=True)
class Strip:
    """One panel. Counters are drawn as rates, gauges as they are, all in `unit`.

    `lines`: by name the columns of a line, such as "user_ns + nice_ns", "all - own", whose
    difference is never drawn below 0, or "time_ns / times", which is not drawn where the divisor
    did not grow; a text alone is one line without a name. A line is the sum over all rows of an
    instant; `keys` chooses rows by any of their keys; `by`, names of keys: instead of the lines
    named, one for each value of these.
    """

    key: str
    title: str
    unit: str
    collector: str
    lines: Mapping[str, str] | str
    by: str = ""
    keys: tuple[str, ...] | None = None
    is_stacked: bool = False
    note: str = ""
    section: Section = ""

    def columns(self) -> dict[str, tuple[str, ...]]:
        """Return the columns of every line by its name."""
        lines = {"": self.lines} if isinstance(self.lines, str) else self.lines
        return {
            name: tuple(re.split(" [-/] ", text)[0].split(" + ")) for name, text in lines.items()
        }

    def subtracted(self, name: str) -> tuple[str, ...]:
        """Return the columns that a line is without; older results may lack them."""
        return tuple(self._text(name).split(" - ")[1:])

    def divisor(self, name: str) -> str:
        """Return the column that a line is divided by; "" = none."""
        return "".join(self._text(name).split(" / ")[1:])

    def _text(self, name: str) -> str:
        return self.lines if isinstance(self.lines, str) else self.lines[name]

    @property
    def by_keys(self) -> tuple[str, ...]:
        """Return the keys of which each value has a line of its own."""
        return tuple(self.by.split())

    @property
    def is_rate(self) -> bool:
        """True where counters are drawn."""
        return self._first_column().nature == "counter"

    @property
    def factor(self) -> float:
        """Return what the columns' values are multiplied by to be in `unit`."""
        match self._first_column().unit, self.unit:
            case "bytes", unit if unit.startswith("MB"):
                return 1e-6
            case "ns", "% of the time":
                return 1e-7
            case "ns", "ms":
                return 1e-6
            case ("bytes", "GB") | ("ns", _) | ("Hz", "GHz"):
                return 1e-9
            case "uJ", "W":
                return 1e-6
        return 1.0

    def _first_column(self) -> Column:
        name = next(iter(self.columns().values()))[0]
        return next(one for one in COLUMNS[self.collector] if one.name == name)


def within(section: Section, *strips: Strip) -> tuple[Strip, ...]:
    """Return strips of one section."""
    return tuple(replace(strip, section=section) for strip in strips)
