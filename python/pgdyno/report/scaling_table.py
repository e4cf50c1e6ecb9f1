"""The table of variants whose servers have different numbers of workers."""

from __future__ import annotations

from pgdyno.analysis.compare_findings import CompareFindings
from pgdyno.report.blocks import TableBlock, TableColumn
from pgdyno.report.cell_table import mean_cell
from pgdyno.report.words import law_words

_MEANING = (
    "Speed-up: against the variant with the fewest workers. Efficiency: the speed-up divided by"
    " the growth of the number of workers; 100 % if twice the workers complete twice as much."
    " Workers on one host share its processors and disks."
)


def scaling_table(compared: CompareFindings) -> TableBlock | None:
    """Return the table, None if the servers do not differ in their number of workers."""
    scaling = compared.scaling_out
    if scaling is None:
        return None
    by_name = {variant.name: variant for variant in compared.variants}
    rows = tuple(
        (
            of.variant,
            str(of.worker_count),
            mean_cell(compared.shown(by_name[of.variant], compared.metric)),
            mean_cell(of.speed_up),
            mean_cell(of.efficiency and of.efficiency.scaled(100, "%"), "%"),
        )
        for of in scaling.variants
    )
    law = "" if scaling.law is None else f" {law_words(scaling.law, 'worker')}"
    return TableBlock(
        "Throughput by number of workers",
        tuple(map(TableColumn, ("", "workers", compared.unit, "speed-up", "efficiency"))),
        rows,
        below=_MEANING + law,
        short_row_count=len(rows),
        heading="scaling out",
    )
