"""The tiles of the first screen: a few numbers, each with its interval."""

from __future__ import annotations

from dataclasses import replace

from pgdyno import quantities
from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.findings import CurveFindings, ExperimentFindings, RunFindings
from pgdyno.analysis.verdicts import Doubt
from pgdyno.report import numbers
from pgdyno.report.blocks import Tile, blocks_of, number_tile
from pgdyno.report.figures import in_ms
from pgdyno.report.own import own_shown
from pgdyno.report.words import knee_range_text


def tiles_of(findings: ExperimentFindings) -> tuple[Tile, ...]:
    """Return the tiles of an experiment; the last tile is validity."""
    if len(findings.curves) == 1:
        shown = _of_curve(findings.curves[0])
    elif findings.curves:
        shown = [_of_script(curve) for curve in findings.curves[:4]]
    else:
        shown = _of_run(findings.run) if findings.run else []
    return (*shown, _validity(findings))


def doubts_of(findings: ExperimentFindings) -> tuple[Doubt, ...]:
    """Return every doubt once; doubts that make a run not valid come first."""
    of_rounds = {doubt.kind for doubt in findings.doubts}
    of_run = findings.run.doubts if findings.run else ()
    others = (doubt for doubt in of_run if doubt.kind not in of_rounds)
    unique = dict.fromkeys([*findings.doubts, *others])
    return tuple(sorted(unique, key=lambda doubt: doubt.verdict != "not_valid"))


def is_valid(findings: ExperimentFindings) -> bool:
    """Return whether every run is valid."""
    run_is_valid = findings.run is None or findings.run.is_valid
    return run_is_valid and findings.runs_valid == findings.runs_total


def latency_at(findings: CurveFindings, percentile: str, *, clients: int) -> Estimate | None:
    """Return a latency percentile at one level in ms, None if it was not measured."""
    for level in findings.curve.levels:
        if level.clients == clients and percentile in level.latency:
            return in_ms(level.latency[percentile])
    return None


def _of_run(run: RunFindings) -> list[Tile]:
    own = own_shown(run)
    if own is not None and (of_program := [*blocks_of(own.blocks, Tile)]):
        return of_program
    offered = f"{quantities.plain(run.open_loop.offered_tps)} offered" if run.open_loop else ""
    shown = [
        number_tile("throughput", run.tps, offered or quantities.clients_text(run.clients), "tps")
    ]
    for name in ("p50", "p99"):
        if name in run.latency.percentiles:
            percentile = in_ms(run.latency.percentiles[name])
            tile = number_tile(f"{name} latency", percentile, quantity=f"latency_ms.{name}")
            value = numbers.value_text(percentile, most=run.latency.max_ms)
            shown.append(replace(tile, value=value))
    failed = sum(run.counts.failures.values())
    shown.append(
        Tile(
            "transactions",
            quantities.count(run.counts.transactions),
            aside=quantities.seconds(run.timeline.duration_s),
            range_text=f"{failed:,} failed, {run.counts.retried:,} retried",
            tone="failed" if failed else "plain",
            quantity="transactions",
        )
    )
    return shown


def _of_curve(findings: CurveFindings) -> list[Tile]:
    peak, knee = findings.curve.peak, findings.curve.knee
    where = f"at {findings.load_words(peak.clients)}"
    if peak.is_at_edge:
        where = f"at the highest load, {peak.clients}"
    rate = findings.rate_name if findings.rates else "tps"
    shown = [
        number_tile(
            "peak",
            findings.rates.get(peak.clients, peak.tps),
            where,
            f"curves.0.peak.{rate}",
        ),
        Tile(
            "knee",
            quantities.count(knee.clients),
            f"{findings.client_word}s",
            "N_BASE",
            knee_range_text(findings),
            quantity="curves.0.knee.clients",
        ),
        number_tile(
            "at the knee",
            findings.rates.get(knee.clients, knee.tps),
            quantities.percent(knee.tps.value / peak.tps.value) + " of peak",
            f"curves.0.knee.{rate}",
        ),
    ]
    latency = latency_at(findings, "p99", clients=findings.curve.knee.clients)
    if latency is not None:
        shown.append(number_tile("p99 at the knee", latency))
    return shown


def _of_script(findings: CurveFindings) -> Tile:
    peak = findings.curve.peak
    latency = latency_at(findings, "p99", clients=findings.curve.knee.clients)
    tail = f", p99 {numbers.value_text(latency)} ms" if latency else ""
    return Tile(
        findings.script,
        numbers.value_text(peak.tps),
        "tps",
        f"knee {findings.curve.knee.clients}{tail}",
        f"{numbers.interval_text(peak.tps)}, peak at {peak.clients}",
        peak.tps,
    )


def _validity(findings: ExperimentFindings) -> Tile:
    doubts = doubts_of(findings)
    said = quantities.counted(len(doubts), "doubt") if doubts else "no doubts"
    valid, total = findings.runs_valid, findings.runs_total
    label = f"{valid} of {total} runs" if total > 1 else "the run"
    if is_valid(findings):
        return Tile(label, "valid", range_text=said, tone="good")
    value = "not all valid" if valid else "not valid"
    return Tile(label, value, range_text=said, tone="bad")
