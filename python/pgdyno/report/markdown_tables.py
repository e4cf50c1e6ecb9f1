"""Tables of a report as a head and rows of texts, for Markdown and PDF."""

from __future__ import annotations

from pgdyno import quantities
from pgdyno.analysis.findings import CurveFindings, RunFindings
from pgdyno.analysis.where import WhereTheTimeGoes
from pgdyno.quantities import fixed
from pgdyno.report import numbers, time_words
from pgdyno.report.figures import in_ms, percentile_name
from pgdyno.report.forest import metric_name
from pgdyno.report.parts import fold, parts_of, shown_decimals
from pgdyno.report.tiles import latency_at

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]


def parts_table(where: WhereTheTimeGoes, *, at_most: int = 12) -> Table:
    """Return the table of the parts of one run's time."""
    decimals = shown_decimals(where)
    rows: list[tuple[str, ...]] = [
        (
            part.words,
            part.event,
            fixed(part.ms.value, decimals),
            quantities.percent(part.share_ratio),
        )
        for part in fold(parts_of(where), at_most=at_most)
    ]
    return ("part", "wait event", "ms", "share"), rows


def latency_table(run: RunFindings) -> Table:
    """Return mean, percentiles and maximum of one run."""
    named = [("mean", in_ms(run.latency.mean))]
    named += [(percentile_name(k), in_ms(e)) for k, e in run.latency.percentiles.items()]
    most = run.latency.max_ms
    rows: list[tuple[str, ...]] = [
        (name, numbers.value_text(estimate, most=most), numbers.interval_text(estimate))
        for name, estimate in named
    ]
    rows.append(("max", quantities.plain(most), ""))
    return ("latency", "ms", "95 % interval"), rows


def level_table(findings: CurveFindings) -> Table:
    """Return the levels of a load curve."""
    rows: list[tuple[str, ...]] = []
    for level in findings.curve.levels:
        latencies = [latency_at(findings, name, clients=level.clients) for name in ("p50", "p99")]
        said = [numbers.estimate_text(e) if e is not None else "" for e in latencies]
        marks = [
            word
            for word, at in (
                ("peak", findings.curve.peak.clients),
                ("knee", findings.curve.knee.clients),
            )
            if at == level.clients
        ]
        load = f"{level.clients} ({', '.join(marks)})" if marks else str(level.clients)
        rate = (numbers.estimate_text(findings.rates[level.clients]),) if findings.rates else ()
        rows.append((load, *rate, numbers.estimate_text(level.tps), *said))
    rate_heads = (metric_name(findings.rate_name),) if findings.rates else ()
    heads = (f"{findings.client_word}s", *rate_heads)
    return (*heads, "tps", "p50 ms", "p99 ms"), rows


def nodes_table(where: WhereTheTimeGoes) -> Table:
    """Return the work of the workers of a distributed server, the busiest first."""
    rows = [(*numbers, waits) for numbers, waits in time_words.node_rows(where)]
    return (*time_words.NODE_COLUMNS, "waits"), rows
