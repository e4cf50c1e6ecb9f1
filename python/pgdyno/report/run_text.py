"""The answer as text: short, aligned, every number with its interval; last, the next command."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pgdyno import quantities
from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.findings import (
    CurveFindings,
    ExperimentFindings,
    PhaseFindings,
    RunFindings,
)
from pgdyno.analysis.rounding import decimals_of
from pgdyno.analysis.where import WhereTheTimeGoes
from pgdyno.answer.sentences import capacity_words, speed_up_words
from pgdyno.quantities import fixed
from pgdyno.report import numbers
from pgdyno.report.about_blocks import about_blocks
from pgdyno.report.block_text import block_lines
from pgdyno.report.blocks import TableBlock, blocks_of
from pgdyno.report.figures import in_ms, percentile_name
from pgdyno.report.own import lines_by_features, own_of_cells, own_shown
from pgdyno.report.parts import OTHER, TimePart, fold, in_bar_order, parts_of, shown_decimals
from pgdyno.report.text_page import LABEL_WIDTH, WIDTH, TextPage, joined, right_aligned
from pgdyno.report.tiles import latency_at
from pgdyno.report.time_words import statement_lines, type_lines
from pgdyno.report.words import (
    connection_rows,
    degradation_text,
    failures_text,
    knee_range_text,
    level_ratios_text,
)

_BAR_WIDTH = 64
_PARTS_SHOWN = 8
# One character for each part of the bar, in the order of the bar; they differ without colour.
_SIGNS = "#=+:o~%-"


def run_text(findings: ExperimentFindings, width: int = WIDTH) -> str:
    """Return the text of one run, in lines of at most `width` characters (72 or more)."""
    page = TextPage(width)
    return joined([*_bench(page, findings), *_tail(page, findings)])


def curve_text(findings: ExperimentFindings, width: int = WIDTH) -> str:
    """Return the text of load curves, in lines of at most `width` characters (72 or more)."""
    page = TextPage(width)
    return joined([*_sweep(page, findings), *_tail(page, findings)])


def _bench(page: TextPage, findings: ExperimentFindings) -> Iterator[str]:
    """Yield one run: throughput, latency, where the time goes."""
    yield from _head(page, findings)
    if findings.run is not None:
        yield from _run(page, findings.run)
        yield from _scripts(page, findings.run)


def _sweep(page: TextPage, findings: ExperimentFindings) -> Iterator[str]:
    """Yield a sweep: each script's peak and knee, then the run at the knee."""
    yield from _head(page, findings)
    indent = max([LABEL_WIDTH, *(len(curve.script) + 2 for curve in findings.curves)])
    for curve in findings.curves:
        yield from _curve(page, curve, indent)
    if (cells := own_of_cells(findings)) is not None:
        yield from block_lines(page, cells.blocks)
    run = findings.run
    if run is not None:
        yield from page.row(
            "at the knee", f"{run.label}, {quantities.seconds(run.timeline.duration_s)}"
        )
        yield from _run(page, run)


def _head(page: TextPage, findings: ExperimentFindings) -> Iterator[str]:
    yield from page.row("target", findings.facts.target)
    yield from page.row("answer", findings.sentence)
    if not findings.facts.is_durable:
        yield from page.row("durability", f"WEAKENED: {findings.facts.durability}")


def _run(page: TextPage, run: RunFindings) -> Iterator[str]:
    if (own := own_shown(run)) is not None:
        yield from block_lines(page, own.blocks)
    if run.open_loop is not None:
        backlog = run.open_loop.backlog_at_end_count or 0
        waiting = quantities.counted(backlog, "transaction")
        held = f"; {waiting} due at the end, but not started" if backlog else ""
        of_phases = " on average" if run.open_loop.phases else ""
        yield from page.row(
            "offered",
            f"{quantities.plain(run.open_loop.offered_tps)} tps{of_phases}{held}",
        )
    counts = run.counts
    yield from page.row(
        "tps",
        f"{numbers.estimate_text(run.tps)}, "
        f"{quantities.counted(counts.transactions, 'transaction')}, "
        f"{failures_text(counts.failures)}"
        + (f", {quantities.count(counts.retried)} retried" if counts.retried else ""),
    )
    yield from lines_by_features(page, run)
    yield from _latency(run)
    for label, text in connection_rows(run.connections) if run.connections is not None else ():
        yield from page.row(label, text)
    if run.late is not None:
        percent = run.late.share.scaled(100, "%")
        share = f"{numbers.value_text(percent)} %, {numbers.interval_text(percent)}"
        counted = (
            f"{quantities.count(run.late.late_count)} of {quantities.count(run.late.total_count)}"
        )
        limit = quantities.plain(run.late.limit_ms)
        yield from page.row("late", f"{counted} above the limit of {limit} ms: {share}")
    if run.open_loop is not None and run.open_loop.phases:
        yield from _phases(run.open_loop.phases)
    if run.where is not None:
        yield from _where(page, run.where)
        yield from statement_lines(run.where, page.column_count)
        yield from type_lines(run.where)
    elif run.where_not:
        yield from page.row("time", f"not split into parts: {run.where_not}.")


def _phases(phases: tuple[PhaseFindings, ...]) -> Iterator[str]:
    """Yield the phases of the rate as a table; values of one run have no intervals."""
    rows: list[tuple[str, ...]] = [
        ("phase", "target tps", "offered", "done", "p50 ms", "p99 ms", "backlog at its end")
    ]
    for phase in phases:
        ends = (phase.from_tps, phase.to_tps)
        asked = "-".join(quantities.plain(end) for end in dict.fromkeys(ends))
        times = (phase.p50_ms, phase.p99_ms)
        rows.append(
            (
                f"{phase.begin_s:g}-{phase.begin_s + phase.duration_s:g} s",
                asked,
                quantities.plain(phase.offered_tps),
                quantities.plain(phase.tps),
                *("-" if time is None else quantities.plain(time) for time in times),
                quantities.count(phase.backlog_at_end_count),
            )
        )
    yield from right_aligned(rows)


def _latency(run: RunFindings) -> Iterator[str]:
    """Yield latency as a small table: names, values, and both ends of the intervals."""
    named = [("mean", in_ms(run.latency.mean))]
    named += [(percentile_name(k), in_ms(e)) for k, e in run.latency.percentiles.items()]
    most = run.latency.max_ms
    columns = [
        (name, numbers.value_text(estimate, most=most), *_ends(estimate))
        for name, estimate in named
    ]
    columns.append(("max", quantities.plain(run.latency.max_ms), "", ""))
    widths = [max(map(len, column)) for column in columns]
    has_interval = any(estimate.has_interval for _, estimate in named)
    labels = ("latency ms", "", "95 % from", "to") if has_interval else ("latency ms", "")
    for row, label in enumerate(labels):
        cells = "   ".join(f"{c[row]:>{w}}" for c, w in zip(columns, widths, strict=True))
        yield (
            f"{label:>{LABEL_WIDTH - 2}}  {cells}".rstrip()
            if row
            else (f"{label:{LABEL_WIDTH}}{cells}".rstrip())
        )
    if not has_interval:
        yield f"{'':{LABEL_WIDTH}}{numbers.NO_INTERVAL}"


def _ends(estimate: Estimate) -> tuple[str, str]:
    decimals = decimals_of(estimate)
    missing = "?" if estimate.has_interval else "-"
    low = missing if estimate.low is None else numbers.low_text(estimate.low, decimals)
    return low, missing if estimate.high is None else fixed(estimate.high, decimals)


def _where(page: TextPage, where: WhereTheTimeGoes) -> Iterator[str]:
    shown = fold(parts_of(where), at_most=_PARTS_SHOWN)
    signs = {part.name: sign for part, sign in zip(in_bar_order(shown), _SIGNS, strict=False)}
    yield f"where the {numbers.value_text(where.latency_ms)} ms go"
    yield f"  [{_bar(shown, signs)}]"
    decimals = shown_decimals(where)
    amounts = _aligned([fixed(part.ms.value, decimals) for part in shown], ">")
    ranges = _aligned([_range_text(part.ms, decimals) for part in shown], "<")
    shares = _aligned([quantities.percent(part.share_ratio) for part in shown], ">")
    words = _aligned([part.words for part in shown], "<")
    for row, part in enumerate(shown):
        line = f"  {signs[part.name]} {amounts[row]}  {ranges[row]}  {shares[row]}  {words[row]}"
        # A name that does not fit is not shown; the report has it.
        is_event = part.event and not part.words.startswith(f"{OTHER}: ")
        name = f"  {part.event}" if is_event else ""
        yield line + (name if len(line + name) <= page.column_count else "")


def _range_text(estimate: Estimate, decimals: int) -> str:
    if estimate.low is None or estimate.high is None:
        return ""
    return f"({fixed(estimate.low, decimals)} to {fixed(estimate.high, decimals)})"


def _aligned(cells: list[str], side: str) -> list[str]:
    width = max(map(len, cells))
    return [f"{cell:{side}{width}}" for cell in cells]


def _bar(parts: Iterable[TimePart], signs: dict[str, str]) -> str:
    """Return the bar: every part has at least one character, lengths by largest remainder."""
    drawn = [part for part in in_bar_order(parts) if part.ms.value > 0]
    total = sum(part.ms.value for part in drawn)
    if total <= 0:
        return " " * _BAR_WIDTH
    exact = [max(part.ms.value / total * _BAR_WIDTH, 1.0) for part in drawn]
    lengths = [int(length) for length in exact]
    by_remainder = sorted(range(len(drawn)), key=lambda i: lengths[i] - exact[i])
    for i in by_remainder:
        if sum(lengths) < _BAR_WIDTH:
            lengths[i] += 1
    while sum(lengths) > _BAR_WIDTH:
        lengths[lengths.index(max(lengths))] -= 1
    return "".join(signs[part.name] * length for part, length in zip(drawn, lengths, strict=True))


def _scripts(page: TextPage, run: RunFindings) -> Iterator[str]:
    own = own_shown(run)
    tables = () if own is None else blocks_of(own.blocks, TableBlock)
    if len(run.scripts) < 2 or any(table.is_of_types for table in tables):
        return
    yield "scripts"
    width = max(len(script.name) for script in run.scripts)
    for script in run.scripts:
        latency = script.latency.percentiles.get("p99")
        tail = f", p99 {numbers.estimate_text(in_ms(latency), with_unit=True)}" if latency else ""
        tps = numbers.estimate_text(script.tps, with_unit=True)
        said = f"weight {script.weight}, {tps}{tail}, {failures_text(script.failures)}"
        yield from page.row(f"  {script.name}", said, indent=width + 4)


def _curve(page: TextPage, findings: CurveFindings, indent: int) -> Iterator[str]:
    """Yield a script's block as in "tpcb-like    peak     3,410 tps (3,350 to 3,470) at ..."."""
    curve = findings.curve
    peak, knee = curve.peak, curve.knee
    edge = ": the highest load tried; the true peak may be higher" if peak.is_at_edge else ""
    rows = [
        ("peak", f"{_tps_at(findings, peak.tps, peak.clients)}{edge}"),
        (
            "knee",
            f"{_tps_at(findings, knee.tps, knee.clients, range_text=knee_range_text(findings))}: "
            f"smallest load within {quantities.percent(knee.tolerance_ratio)} of the peak (N_BASE)",
        ),
    ]
    if curve.degradation is not None:
        rows.append(("beyond", degradation_text(findings)))
    if findings.limit:
        rows.append(("limit", findings.limit))
    if findings.capacity is not None:
        rows.append(("capacity", capacity_words(findings.capacity)))
    if findings.cost is not None:
        rows.append(("cost", numbers.estimate_text(findings.cost, with_unit=True)))
    if findings.speed_up is not None:
        rows.append(("speed-up", speed_up_words(findings.speed_up)))
        rows.append(("", level_ratios_text(findings.speed_up)))
    for position, (label, said) in enumerate(rows):
        start = f"{findings.script if position == 0 else '':{indent}}{label:9}"
        yield from page.row(start, said, indent=len(start))


def _tps_at(findings: CurveFindings, tps: Estimate, clients: int, *, range_text: str = "") -> str:
    said = f"{numbers.estimate_text(tps, with_unit=True)} at {findings.load_words(clients)}"
    if findings.rates:
        said = f"{numbers.estimate_text(findings.rates[clients], with_unit=True)}, {said}"
    if range_text:
        said += f" ({range_text})"
    latency = latency_at(findings, "p99", clients=clients)
    return f"{said}, p99 {numbers.estimate_text(latency, with_unit=True)}" if latency else said


def _tail(page: TextPage, findings: ExperimentFindings) -> Iterator[str]:
    """Yield the last lines: whether it is valid, the doubts, the next command."""
    yield from block_lines(page, tuple(about_blocks(findings)))
    state = "" if findings.is_complete else ", incomplete: only what was measured before the end"
    yield from page.row("saved", f"#{findings.number}{state}   pgdyno report {findings.number}")
