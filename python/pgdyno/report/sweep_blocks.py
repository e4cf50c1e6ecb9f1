"""Load curves as blocks: peak and knee of each line, its levels, the run at the knee."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from markupsafe import Markup

from pgdyno import quantities
from pgdyno.analysis.curve import CurveLevel
from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.findings import CurveFindings, ExperimentFindings
from pgdyno.answer.sentences import capacity_words, speed_up_words
from pgdyno.report import figures, in_short, numbers, small_drawings
from pgdyno.report.about_blocks import about_blocks, head_of
from pgdyno.report.block_charts import ChartList, PageText, SentenceBlock, drawn, number_text
from pgdyno.report.blocks import BlockAnswer, BlockSection, LabelledLine, TableBlock, TableColumn
from pgdyno.report.figures import in_ms, percentile_name
from pgdyno.report.forest import metric_name
from pgdyno.report.own import own_of_cells
from pgdyno.report.run_blocks import first_blocks, run_sections
from pgdyno.report.text_page import LABEL_WIDTH
from pgdyno.report.tiles import latency_at
from pgdyno.report.words import curve_words, degradation_text, knee_range_text, level_ratios_text


def sweep_blocks(findings: ExperimentFindings) -> BlockAnswer:
    """Return the answer; every form of it is drawn from these blocks."""
    words = in_short.of_curves(findings.curves) if findings.runs_valid else ""
    sentences = (in_short.sentence(words), SentenceBlock("answer", findings.sentence))
    blocks = (
        *(sentences if words else ()),
        *first_blocks(findings),
        *_curve_sections(findings),
        *run_sections(findings),
        *about_blocks(findings),
    )
    return BlockAnswer(head_of(findings), blocks)


def _curve_sections(findings: ExperimentFindings) -> Iterator[BlockSection]:
    """Yield the levels, and what the program adds; the last says which run follows."""
    sections = [_levels(findings)] if findings.curves else []
    if (cells := own_of_cells(findings)) is not None:
        sections.append(cells)
    if sections and (run := findings.run) is not None:
        words = f"{run.label}, {quantities.seconds(run.timeline.duration_s)}"
        blocks = (*sections[-1].blocks, LabelledLine("at the knee", words))
        sections[-1] = replace(sections[-1], blocks=blocks)
    yield from sections


def _levels(findings: ExperimentFindings) -> BlockSection:
    curves = findings.curves
    tolerance = quantities.percent(curves[0].curve.knee.tolerance_ratio)
    lead = (
        "Each level is the mean over its runs; intervals are between runs. The knee is the smallest"
        f" load within {tolerance} of the peak (N_BASE): more clients mostly wait longer. The thin"
        " line in the first chart is the Universal Scalability Law, fitted to the means."
    )
    indent = max([LABEL_WIDTH, *(len(curve.script) + 2 for curve in curves)])
    lines = (line for curve in curves for line in _lines(curve, indent))
    charts = figures.curve_charts(findings)
    drawn_charts = (ChartList(charts),) if charts else ()
    tables = (_level_table(curve, f"curves.{place}.levels") for place, curve in enumerate(curves))
    return BlockSection(
        "Load levels", "levels", "Load levels", lead, (*lines, *drawn_charts, *tables)
    )


def _level_table(findings: CurveFindings, at: str) -> TableBlock:
    """Return the levels of a curve. Args: at, their place in the JSON document."""
    curve = findings.curve
    names = tuple(dict.fromkeys(name for level in curve.levels for name in level.latency))
    highest = max(max(level.tps.value, level.tps.high or 0.0) for level in curve.levels)
    rows = []
    for place, level in enumerate(curve.levels):
        rate = findings.rates.get(level.clients)
        latencies = {name: in_ms(estimate) for name, estimate in level.latency.items()}
        rows.append(
            (
                _clients(findings, level),
                *((number_text(rate, f"{at}.{place}.{findings.rate_name}"),) if rate else ()),
                number_text(level.tps, f"{at}.{place}.tps"),
                drawn(small_drawings.whisker(level.tps, low=0.0, high=highest or 1.0)),
                *(
                    number_text(latencies[name], f"{at}.{place}.latency_ms.{name}")
                    if name in latencies
                    else ""
                    for name in names
                ),
                str(len(level.runs_tps)),
            )
        )
    rates = (TableColumn(metric_name(findings.rate_name)),) if findings.rates else ()
    return TableBlock(
        findings.script,
        (
            TableColumn(f"{findings.client_word}s"),
            *rates,
            TableColumn("tps"),
            TableColumn("", style="plotted opt rest"),
            *(TableColumn(percentile_name(name), "ms") for name in names),
            TableColumn("runs"),
        ),
        tuple(rows),
        below=curve_words(findings),
        style="levels",
        strong=tuple(level.clients == curve.knee.clients for level in curve.levels),
    )


def _clients(findings: CurveFindings, level: CurveLevel) -> str:
    """Return the load of a level, and whether it is the knee or the peak."""
    curve, clients = findings.curve, quantities.count(level.clients)
    ends = (("knee", curve.knee.clients), ("peak", curve.peak.clients))
    marks = [word for word, load in ends if load == level.clients]
    tags = Markup(" ").join(Markup('<span class="tag">{}</span>').format(word) for word in marks)
    page = Markup("{} {}").format(clients, tags)
    return PageText(f"{clients} ({', '.join(marks)})", page) if marks else clients


def _lines(findings: CurveFindings, indent: int) -> Iterator[LabelledLine]:
    """Yield lines such as "tpcb-like    peak     3,410 tps (3,350 to 3,470) at 64 clients"."""
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
        yield LabelledLine(f"{findings.script if position == 0 else '':{indent}}{label:9}", said)


def _tps_at(findings: CurveFindings, tps: Estimate, clients: int, *, range_text: str = "") -> str:
    said = f"{numbers.estimate_text(tps, with_unit=True)} at {findings.load_words(clients)}"
    if findings.rates:
        said = f"{numbers.estimate_text(findings.rates[clients], with_unit=True)}, {said}"
    if range_text:
        said += f" ({range_text})"
    latency = latency_at(findings, "p99", clients=clients)
    return f"{said}, p99 {numbers.estimate_text(latency, with_unit=True)}" if latency else said
