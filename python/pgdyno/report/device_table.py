"""The table of disks, sensors and checkpoints: one row a quantity, one column a variant."""

from __future__ import annotations

from pgdyno import quantities
from pgdyno.analysis.compare_findings import CompareFindings
from pgdyno.analysis.devices import PLACES
from pgdyno.analysis.estimate import alike
from pgdyno.programs.registry import own_metrics
from pgdyno.report.blocks import TableBlock, TableColumn
from pgdyno.report.cell_table import mean_cell
from pgdyno.report.forest import metric_name


def device_table(compared: CompareFindings) -> TableBlock | None:
    """Return the table, with the deciding metric in its first row; None without telemetry.

    A disk that all variants share is left out. The note says what was not measured and why.
    """
    devices = compared.devices
    if devices is None:
        return None
    by_name = {variant.name: variant for variant in compared.variants}
    rows: list[tuple[str, ...]] = []
    for metric in dict.fromkeys((compared.metric, *own_metrics())):
        values = [by_name[variant.name].metrics.get(metric) for variant in devices.variants]
        if any(values):
            unit = next(value.unit for value in values if value is not None)
            rows.append((_words(metric_name(metric), unit), *map(mean_cell, alike(values))))
    for place, words in PLACES.items():
        names = tuple(variant.places.get(place, "-") for variant in devices.variants)
        if len(names) == 1 or len(set(names)) > 1:
            rows.append((words, *names))
    rows += [
        (_words(quantity.words, quantity.unit), *map(mean_cell, devices.shown(quantity.key)))
        for quantity in devices.quantities
    ]
    heads = (
        f"{variant.name}, {quantities.counted(variant.run_count, 'run')}"
        for variant in devices.variants
    )
    return TableBlock(
        "Disks, sensors and checkpoints",
        tuple(map(TableColumn, ("", *heads))),
        tuple(rows),
        below=" ".join(_notes(compared, rows)),
        short_row_count=len(rows),
        heading="what the devices did",
    )


def _notes(compared: CompareFindings, rows: list[tuple[str, ...]]) -> list[str]:
    assert compared.devices is not None, "only a table has notes"
    said = ["Means over the runs. The kernel counts the requests of all programs to a disk."]
    if any(cell[:1].isdigit() and "(" not in cell for _, *cells in rows for cell in cells):
        said.append("A mean without an interval comes from too few runs.")
    if disk := _only_disk(compared):
        said.append(f"All variants have their data on {disk}: this compares folders of one disk.")
    if compared.devices.not_measured:
        said += ["Not measured:", *compared.devices.not_measured]
    return said


def _only_disk(compared: CompareFindings) -> str:
    """Return the disk of all variants if they have different folders, else ""."""
    assert compared.devices is not None, "only devices are on a disk"
    folders = {value for v in compared.variants for name, value in v.changes if name == "data_dir"}
    disks = {variant.places.get("data", "") for variant in compared.devices.variants}
    return disks.pop() if len(folders) > 1 and len(disks) == 1 else ""


def _words(words: str, unit: str) -> str:
    return words if words == unit or unit == "checkpoints" else f"{words}, {unit}"
