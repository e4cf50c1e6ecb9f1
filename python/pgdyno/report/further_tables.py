"""The tables that an answer with variants has only if its runs have what they show."""

from __future__ import annotations

from dataclasses import dataclass

from pgdyno.analysis.compare_findings import CompareFindings
from pgdyno.report.cell_table import CellTable
from pgdyno.report.device_table import device_table
from pgdyno.report.scaling_table import scaling_table

# Anchor and short name for the page's contents, title, caption, and the table.
_KNOWN = (
    ("scaling", "Scaling out", "Scaling out", "Throughput by number of workers", scaling_table),
    (
        "devices",
        "Devices",
        "What the devices did",
        "Disks, sensors and checkpoints",
        device_table,
    ),
)


@dataclass(frozen=True, slots=True)
class FurtherTable:
    """A table with its heading; `short` is its name in the contents of the page."""

    anchor: str
    short: str
    title: str
    caption: str
    table: CellTable


def further_tables(compared: CompareFindings) -> tuple[FurtherTable, ...]:
    """Return the tables that have rows, in the order of reading."""
    return tuple(
        FurtherTable(anchor, short, title, caption, table)
        for anchor, short, title, caption, make in _KNOWN
        if (table := make(compared)) is not None
    )
