"""The answer of one run as blocks, and its sections in an answer that has it in detail."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pgdyno import quantities
from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.findings import ExperimentFindings, PhaseFindings, RunFindings, ScriptFindings
from pgdyno.analysis.rounding import decimals_of, end_text
from pgdyno.report import figures, numbers, small_drawings
from pgdyno.report.about_blocks import about_blocks, first_lines, head_of
from pgdyno.report.block_charts import ChartList, RowList, drawn, figure_text
from pgdyno.report.blocks import (
    Block,
    BlockAnswer,
    BlockSection,
    LabelledLine,
    TableBlock,
    TableColumn,
    blocks_of,
)
from pgdyno.report.figures import in_ms, percentile_name
from pgdyno.report.own import own_of_cells, own_shown, sections_by_features
from pgdyno.report.telemetry_blocks import doctor_section, telemetry_section, time_section
from pgdyno.report.tiles import tiles_of
from pgdyno.report.time_blocks import time_sections
from pgdyno.report.words import (
    connection_rows,
    failures_text,
    loop_words,
    mark_words,
    run_words,
    script_words,
)

_LATENCY_COLUMNS = (
    TableColumn("latency ms"),
    TableColumn("value"),
    TableColumn("95 % from"),
    TableColumn("to"),
    TableColumn("on a logarithmic scale", style="plotted rest l"),
)
_PHASE_COLUMNS = tuple(
    map(
        TableColumn,
        ("phase", "target tps", "offered", "done", "p50 ms", "p99 ms", "backlog at its end"),
    )
)
_STATEMENT_COLUMNS = (
    TableColumn("line"),
    TableColumn("statement", is_name=True, style="sql"),
    *map(TableColumn, ("calls", "mean ms", "p50", "p99")),
    TableColumn("", style="plotted opt"),
    TableColumn("share"),
)


def run_blocks(findings: ExperimentFindings) -> BlockAnswer:
    """Return the answer; every form of it is drawn from these blocks."""
    blocks = (*first_blocks(findings), *run_sections(findings), *about_blocks(findings))
    return BlockAnswer(head_of(findings), blocks)


def first_blocks(findings: ExperimentFindings) -> Iterator[Block]:
    """Yield the first screen: tiles, charts, lines about the measurement."""
    yield from tiles_of(findings)
    if charts := figures.main_charts(findings):
        yield ChartList(charts)
    yield from first_lines(findings)


def run_sections(findings: ExperimentFindings) -> Iterator[BlockSection]:
    """Yield the run that is shown in detail: its load, its time, its telemetry."""
    run = findings.run
    if run is None:
        return
    at = "at_the_knee." if findings.curves else ""
    own = own_shown(run)
    if own is not None:
        # The menu names what several loads add, not this one of them again.
        yield replace(own, short="") if own_of_cells(findings) is not None else own
    load = (*_load_lines(run), _latency(run, at), *_more_about_load(run))
    yield BlockSection("Latency", "latency", "Latency", loop_words(run), load)
    yield from sections_by_features(run)
    yield from time_sections(findings, at)
    timeline = run.timeline
    if charts := figures.time_charts(timeline):
        words = run_words(findings)
        lead = f"{words[:1].upper()}{words[1:]}. One axis for all charts"
        lead += f"; marks: {mark_words(run)}." if timeline.marks else "."
        yield time_section(charts, timeline.marks, lead)
    if run.scripts:
        tables = () if own is None else blocks_of(own.blocks, TableBlock)
        has_types = any(table.is_of_types for table in tables)
        yield _scripts(run.scripts, is_in_text=len(run.scripts) > 1 and not has_types)
    yield from telemetry_section(timeline.telemetry)
    yield from doctor_section(timeline.telemetry.examined)


def _load_lines(run: RunFindings) -> Iterator[LabelledLine]:
    """Yield what was offered, and what was completed."""
    if run.open_loop is not None:
        backlog = run.open_loop.backlog_at_end_count or 0
        waiting = quantities.counted(backlog, "transaction")
        held = f"; {waiting} due at the end, but not started" if backlog else ""
        of_phases = " on average" if run.open_loop.phases else ""
        offered = f"{quantities.plain(run.open_loop.offered_tps)} tps{of_phases}{held}"
        yield LabelledLine("offered", offered)
    counts = run.counts
    done = quantities.counted(counts.transactions, "transaction")
    retried = f", {quantities.count(counts.retried)} retried" if counts.retried else ""
    words = f"{numbers.estimate_text(run.tps)}, {done}, {failures_text(counts.failures)}{retried}"
    yield LabelledLine("tps", words)


def _more_about_load(run: RunFindings) -> Iterator[Block]:
    """Yield connections, transactions above the limit, and the phases of a rate."""
    if run.connections is not None:
        yield from (LabelledLine(*row) for row in connection_rows(run.connections))
    if run.late is not None:
        percent = run.late.share.scaled(100, "%")
        share = f"{numbers.value_text(percent)} %, {numbers.interval_text(percent)}"
        counts = (run.late.late_count, run.late.total_count)
        counted = " of ".join(map(quantities.count, counts))
        limit = quantities.plain(run.late.limit_ms)
        yield LabelledLine("late", f"{counted} above the limit of {limit} ms: {share}")
    if run.open_loop is not None and run.open_loop.phases:
        rows = tuple(map(_phase, run.open_loop.phases))
        yield TableBlock(
            "Phases of the rate",
            _PHASE_COLUMNS,
            rows,
            short_row_count=len(rows),
            heading="phases of the rate",
        )


def _phase(phase: PhaseFindings) -> tuple[str, ...]:
    """Return the row of a phase; values of one run have no intervals."""
    ends = (phase.from_tps, phase.to_tps)
    times = (phase.p50_ms, phase.p99_ms)
    return (
        f"{phase.begin_s:g}-{phase.begin_s + phase.duration_s:g} s",
        "-".join(quantities.plain(end) for end in dict.fromkeys(ends)),
        quantities.plain(phase.offered_tps),
        quantities.plain(phase.tps),
        *("-" if time is None else quantities.plain(time) for time in times),
        quantities.count(phase.backlog_at_end_count),
    )


def _latency(run: RunFindings, at: str) -> TableBlock:
    """Return mean, percentiles and maximum; in the text each is a column."""
    named = [("mean", in_ms(run.latency.mean))]
    named += [(percentile_name(k), in_ms(e)) for k, e in run.latency.percentiles.items()]
    most = run.latency.max_ms
    has_interval = any(estimate.has_interval for _, estimate in named)
    bounds = [v for _, e in named for v in (e.value, e.low, e.high) if v and v > 0] or [0.1, 1.0]
    low, high = min(bounds), max(bounds)
    high = high if high > low else low * 2
    rows: list[tuple[str, ...]] = [
        (
            name,
            figure_text(numbers.value_text(estimate, most=most), f"{at}latency_ms.{name}"),
            *_ends(estimate),
            drawn(small_drawings.whisker(estimate, low=low, high=high, is_log=True)),
        )
        for name, estimate in named
    ]
    rows.append(("max", figure_text(quantities.plain(most), f"{at}latency_ms.max"), "", "", ""))
    columns: tuple[TableColumn, ...] = _LATENCY_COLUMNS
    if not has_interval:
        columns = (*columns[:2], columns[-1])
        rows = [(*row[:2], row[-1]) for row in rows]
    return TableBlock(
        "Latency",
        columns,
        tuple(rows),
        below="" if has_interval else numbers.NO_INTERVAL,
        short_row_count=len(rows),
        is_turned=True,
        style="plain",
    )


def _ends(estimate: Estimate) -> tuple[str, str]:
    decimals = decimals_of(estimate)
    missing = "?" if estimate.has_interval else "-"
    low = missing if estimate.low is None else end_text(estimate.low, decimals)
    return low, missing if estimate.high is None else end_text(estimate.high, decimals)


def _scripts(scripts: tuple[ScriptFindings, ...], *, is_in_text: bool) -> BlockSection:
    """Return a table of statements for each script; the text has a line for each."""
    lead = "The share is the part of a script's mean latency that the client spent in the"
    blocks: list[Block] = []
    if is_in_text:
        blocks.append(
            RowList("scripts", tuple((script.name, _script_words(script)) for script in scripts))
        )
    for script in scripts:
        rows = tuple(
            (
                str(statement.line),
                statement.text,
                quantities.count(statement.calls),
                *map(quantities.plain, (statement.mean_ms, statement.p50_ms, statement.p99_ms)),
                drawn(small_drawings.share_bar(statement.share_ratio, "s1")),
                quantities.percent(statement.share_ratio),
            )
            for statement in script.statements
        )
        note = script_words(script)
        blocks.append(TableBlock(script.name, _STATEMENT_COLUMNS, rows, note=note, style="plain"))
    title = "Scripts and statements"
    return BlockSection(title, "scripts", "Statements", f"{lead} statement.", tuple(blocks))


def _script_words(script: ScriptFindings) -> str:
    latency = script.latency.percentiles.get("p99")
    tail = f", p99 {numbers.estimate_text(in_ms(latency), with_unit=True)}" if latency else ""
    tps = numbers.estimate_text(script.tps, with_unit=True)
    return f"weight {script.weight}, {tps}{tail}, {failures_text(script.failures)}"
