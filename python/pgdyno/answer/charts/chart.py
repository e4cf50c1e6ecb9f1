"""A chart of telemetry: columns of one collector, drawn over time in one unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pgdyno.observe.catalogue import columns_of
from pgdyno.observe.collector import Column

Section = Literal["", "Server", "Nodes", "Processes", "Pooler", "Host", "Load host", "Elsewhere"]


@dataclass(frozen=True, slots=True)
class ChartLine:
    """One line: the sum of columns, minus the columns of `minus`, divided by the column `over`.

    A difference is never drawn below 0. A quotient has a gap while `over` does not grow. Older
    results may not have the columns of `minus`.
    """

    name: str
    columns: tuple[str, ...]
    minus: tuple[str, ...] = ()
    over: str = ""


@dataclass(frozen=True, slots=True)
class TelemetryChart:
    """One chart. Counters are drawn as rates, gauges as they are, all in `unit`.

    A line is the sum over all rows of an instant. `keys` chooses rows by any of their keys. If `by`
    names key columns, each value of these keys has a line, instead of the named lines.
    """

    key: str
    title: str
    unit: str
    collector: str
    lines: tuple[ChartLine, ...]
    by: tuple[str, ...] = ()
    keys: tuple[str, ...] | None = None
    is_stacked: bool = False
    note: str = ""
    section: Section = ""

    @property
    def is_rate(self) -> bool:
        """Return whether counters are drawn, as rates."""
        return self._first_column().nature == "counter"

    @property
    def is_by_statement(self) -> bool:
        """Return whether each statement has a line."""
        return self.by == ("query_id",)

    @property
    def factor(self) -> float:
        """Return the factor from the unit of the columns to `unit`."""
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
        name = self.lines[0].columns[0]
        return next(column for column in columns_of(self.collector) if column.name == name)


def chart(
    key: str,
    title: str,
    unit: str,
    collector: str,
    /,
    *lines: ChartLine,
    by: tuple[str, ...] = (),
    keys: tuple[str, ...] | None = None,
    is_stacked: bool = False,
    note: str = "",
) -> TelemetryChart:
    """Return a chart. The lines are positional, so that a catalogue of charts reads as a list."""
    return TelemetryChart(key, title, unit, collector, lines, by, keys, is_stacked, note)


def line(name: str, /, *columns: str, minus: tuple[str, ...] = (), over: str = "") -> ChartLine:
    """Return a line with a name."""
    return ChartLine(name, columns, minus, over)


def only(*columns: str, minus: tuple[str, ...] = (), over: str = "") -> ChartLine:
    """Return the only line of a chart, which needs no name."""
    return ChartLine("", columns, minus, over)


def within(section: Section, *charts: TelemetryChart) -> Sequence[TelemetryChart]:
    """Return charts of one section."""
    return tuple(replace(chart, section=section) for chart in charts)
