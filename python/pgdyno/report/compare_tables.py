"""The tables of a comparison: devices, scaling out, and statements that got slower or faster."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno import quantities
from pgdyno.analysis.compare_findings import CompareFindings, ContrastFindings, StatementChange
from pgdyno.analysis.devices import PLACES
from pgdyno.analysis.estimate import alike
from pgdyno.analysis.rounding import change_text
from pgdyno.programs.registry import own_metrics
from pgdyno.quantities import count, counted, plain
from pgdyno.report.blocks import LabelledLine, TableBlock, TableColumn
from pgdyno.report.cell_table import mean_cell
from pgdyno.report.forest import metric_name
from pgdyno.report.text_page import cut
from pgdyno.report.words import law_words


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


HEAD = ("statement", "ms before", "change of its time", "calls", "plan")
_TEXT = 60
_ROWS_MAX = 15
_WORDS = {"higher": "slower", "lower": "faster"}


def statement_rows(contrast: ContrastFindings) -> list[tuple[str, ...]]:
    """Return those that got slower or faster for certain, and those whose plan changed."""
    shown = [change for change in contrast.statements if change.is_sure or change.plan_was]
    return [
        (
            short(change),
            plain(change.mean_ms),
            f"{_WORDS.get(change.comparison.verdict, change.comparison.verdict)}:"
            f" {change_text(change.comparison.ratio)}",
            count(change.calls),
            f"{change.plan_was} -> {change.plan_became}" if change.plan_was else "the same",
        )
        for change in shown[:_ROWS_MAX]
    ]


def statement_table(contrast: ContrastFindings) -> TableBlock:
    """Return the statements that changed, with both plans where they differ."""
    rows = tuple(statement_rows(contrast))
    none = "No statement is certainly slower or faster, and all plans are the same."
    return TableBlock(
        f"Statements of {contrast.variant} against {contrast.reference}",
        (
            TableColumn(HEAD[0], is_wide=True),
            *map(TableColumn, HEAD[1:-1]),
            TableColumn(HEAD[-1], is_name=True, is_wide=True),
        ),
        rows,
        note=statement_note(contrast),
        below="" if rows else none,
    )


def statement_lines(contrast: ContrastFindings) -> Iterator[LabelledLine]:
    """Yield the same for the text."""
    if contrast.statements:
        yield LabelledLine("  statements", f"  {statement_note(contrast)}")
    for text, before_ms, change, calls, plan in statement_rows(contrast):
        of_plan = "" if plan == "the same" else f"; plan {plan}"
        yield LabelledLine("", f"{text}: {change}; {before_ms} ms before, {calls} calls{of_plan}")


def short(change: StatementChange) -> str:
    """Return the place of a statement and the begin of its text."""
    return f"{change.script}:{change.line} {cut(change.text, _TEXT)}"


def statement_note(contrast: ContrastFindings) -> str:
    """Return how many statements were compared, and how many changed for certain."""
    sure = [change.comparison.verdict for change in contrast.statements if change.is_sure]
    return (
        f"{counted(len(contrast.statements), 'statement')} compared: {sure.count('higher')} slower,"
        f" {sure.count('lower')} faster; all intervals hold together"
    )
