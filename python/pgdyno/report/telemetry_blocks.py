"""What was observed during a load as blocks: charts over time, counters, tables, the doctor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from pgdyno.analysis.findings import FactTable, Mark, TelemetryFindings
from pgdyno.quantities import counted
from pgdyno.report.block_charts import ListBlock, ListItem, PageText, TimeCharts
from pgdyno.report.blocks import BlockSection, TableBlock, TableColumn
from pgdyno.report.chart import Chart

_FACT_COLUMNS = (TableColumn(""), TableColumn("", is_name=True, is_wide=True))


def time_section(charts: tuple[Chart, ...], marks: tuple[Mark, ...], lead: str) -> BlockSection:
    """Return charts on one axis, with their marks."""
    return BlockSection("Over time", "time", "Over time", lead, (TimeCharts(charts, marks),))


def telemetry_section(telemetry: TelemetryFindings) -> Iterator[BlockSection]:
    """Yield counters, tables, and what was not measured; nothing if nothing was observed."""
    tables = [*map(fact_table, telemetry.tables)]
    if telemetry.facts:
        title = "Before, during and after the run"
        tables.insert(0, TableBlock(title, _FACT_COLUMNS, telemetry.facts))
    if missing := telemetry.not_measured:
        summary = f"{counted(len(missing), 'source')} not measured, with the reason"
        rows = tuple((reason,) for reason in missing)
        columns = (TableColumn("", is_wide=True),)
        tables.append(TableBlock("Not measured", columns, rows, summary=summary))
    if tables:
        lead = (
            "Counters of the server and its host during the measured phase. Slow collectors count"
            " from their last sample before the phase to their first sample after it."
        )
        yield BlockSection("Telemetry", "telemetry", "Telemetry", lead, tuple(tables))


def fact_table(table: FactTable) -> TableBlock:
    """Return a table of facts, which the page folds."""
    whole = dict(enumerate(table.whole))
    rows = tuple(
        (_titled(first, whole.get(place, "")), *rest)
        for place, (first, *rest) in enumerate(table.rows)
    )
    return TableBlock(
        table.title,
        (TableColumn(table.columns[0], is_wide=True), *map(TableColumn, table.columns[1:])),
        rows,
        below=table.note,
        summary=f"{table.title}: {counted(len(rows), 'row')}",
    )


def _titled(text: str, whole: str) -> str:
    """Return a shortened text; the page shows the whole one under the pointer."""
    page = Markup('<span title="{}">{}</span>').format(whole, text)
    return PageText(text, page) if whole else text


def doctor_section(examined: Sequence[Mapping[str, Any]]) -> Iterator[BlockSection]:
    """Yield what the doctor found before the measurement; nothing if it did not look."""
    if not examined:
        return
    verdicts = [finding["verdict"] for finding in examined]
    good, unknown = verdicts.count("good"), verdicts.count("unknown")
    items = tuple(
        ListItem(
            said(finding),
            finding["verdict"],
            (f"{finding['why'][:1].upper()}{finding['why'][1:]}.",),
            finding["mend"],
        )
        for finding in examined
        if finding["verdict"] in ("bad", "warn")
    )
    lead = f"{counted(good, 'check')} good, {unknown} could not be evaluated."
    listed = (ListBlock(items, "worse"),) if items else ()
    yield BlockSection("Doctor", "doctor", "Doctor", lead, listed)


def said(finding: Mapping[str, Any]) -> str:
    """Return the doctor's observation after the check's name, unless it begins with the name."""
    name = str(finding["id"]).replace("_", " ")
    seen = str(finding["seen"])
    return seen if seen.startswith((name, str(finding["id"]))) else f"{name}: {seen}"
