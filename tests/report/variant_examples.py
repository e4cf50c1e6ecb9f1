"""Findings of compare, matrix, passes and tune, made by the analysis from simulated rounds."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from tests.report import examples

from pgdyno.analysis.compare import Comparison, compare, log_ratios
from pgdyno.analysis.compare_findings import (
    CompareFindings,
    ContrastFindings,
    LevelGrid,
    Pair,
    ServedRun,
    VariantFindings,
    served,
)
from pgdyno.analysis.contrasts import factorial, passes
from pgdyno.analysis.estimate import Estimate, mean_between_runs
from pgdyno.analysis.findings import ExperimentFindings, ServerAndLoad
from pgdyno.analysis.where import WhereTheTimeGoes, mean_over_runs
from pgdyno.analysis.where_difference import difference
from pgdyno.answer.compare_words import because_words, comparison_sentence, verdict_sentence
from pgdyno.features.tune.findings import (
    Changed,
    SettingEffect,
    SloHeld,
    Tried,
    TuneFindings,
    Verdict,
)

Table = list[list[float]]
ROUNDS = 7


def rounds_of(truth: Sequence[float], *, seed: int) -> Table:
    """Return tps by round and variant: 3 % noise, and a machine that drifts."""
    rng = random.Random(seed)
    return [
        [tps * (1 + 0.01 * number) * math.exp(0.03 * rng.gauss(0, 1)) for tps in truth]
        for number in range(ROUNDS)
    ]


def variant_of(name: str, column: Sequence[float], **changes: str) -> VariantFindings:
    """Return a variant whose latency is 16 clients by its tps."""
    runs = [ServedRun(16, 9e4 / tps, 0.0312, round(tps), round(2 * tps), 0.12) for tps in column]
    return VariantFindings(
        name=name,
        changes=tuple(changes.items()),
        target="",
        cannot_start="",
        runs=len(column),
        runs_valid=len(column) - 1,
        metrics={
            "tps": mean_between_runs(column, "tps"),
            "p50": mean_between_runs([14e3 / tps for tps in column], "ms"),
            "p99": mean_between_runs([5e4 / tps for tps in column], "ms"),
        },
        where=split_of(column),
        weakened=(),
        holds_rate=None,
        by_round=tuple(enumerate(column, 1)),
        served=served(runs),
        cost=mean_between_runs([3e5 / tps for tps in column], "EUR per 1,000 tps"),
    )


def split_of(column: Sequence[float]) -> WhereTheTimeGoes:
    """Return where the time of a transaction goes, as the mean over the runs."""
    return mean_over_runs([examples.where(1892 / tps) for tps in column])


def contrast_of(
    table: Table, at: tuple[int, int], names: Sequence[str], deciding: Comparison | None = None
) -> ContrastFindings:
    """Return one column against another, with the sentence that the answer has."""
    reference, variant = ([row[place] for row in table] for place in at)
    ratios = log_ratios(reference, variant)
    decides = deciding or compare(ratios, looks="sequential")
    slower = compare(-ratios, looks="sequential", better="less")
    apart = difference(split_of(reference), split_of(variant))
    because = because_words(apart, ())
    sentence = verdict_sentence(
        names[at[1]],
        names[at[0]],
        "tps",
        decides,
        others={"p99": slower},
        because=because,
        effort="7 rounds, 14 runs, 3 min",
        rounds="",
        left_ns=None,
        enough=None,
        can_hold=True,
    )
    return ContrastFindings(
        variant=names[at[1]],
        reference=names[at[0]],
        deciding=decides,
        comparisons={"tps": decides, "p99": slower, "p50": slower},
        pairs=tuple(
            Pair(number, a, b)
            for number, (a, b) in enumerate(zip(reference, variant, strict=True), 1)
        ),
        difference=apart,
        because=because,
        plan_changes=(),
        sentence=sentence,
        is_settled=True,
        left_ns=None,
    )


def experiment_of(kind: str, findings: CompareFindings) -> ExperimentFindings:
    """Return the findings of an experiment, with the sentence that the answer has."""
    runs = sum(variant.runs for variant in findings.variants)
    return ExperimentFindings(
        kind=kind,
        number=7,
        name=kind,
        version="0.1.0",
        started_utc="2026-01-04 10:00 UTC",
        seconds=1860,
        sentence=comparison_sentence(findings),
        facts=ServerAndLoad(
            target="scratch local:5432/pgdyno", durability="fsync on", is_durable=True
        ),
        run=None,
        compare=findings,
        runs_total=runs,
        runs_valid=sum(variant.runs_valid for variant in findings.variants),
    )


def findings_of(table: Table, names: Sequence[str], *, change: str) -> CompareFindings:
    """Return the variants of a table, not compared yet; `change`: what each changes."""
    columns = [[row[place] for row in table] for place in range(len(names))]
    return CompareFindings(
        metric="tps",
        unit="tps",
        reference=names[0],
        variants=tuple(
            variant_of(name, column, **{change: name})
            for name, column in zip(names, columns, strict=True)
        ),
        contrasts=(),
        rounds=len(table),
        stopped_by="all rounds done",
    )


def compared(rounds: int = ROUNDS) -> ExperimentFindings:
    """Three variants against the first; one of them differs by less than the noise."""
    names = ("128MB", "1GB", "4GB")
    table = rounds_of((1000, 1004, 1370), seed=1)[:rounds]
    contrasts = tuple(contrast_of(table, (0, place), names) for place in (1, 2))
    findings = findings_of(table, names, change="clients")
    return experiment_of("compare", replace(findings, contrasts=contrasts))


def passed() -> ExperimentFindings:
    """A base and two cumulative passes: each against the base and against the pass before."""
    names = ("base", "pass 1: settings", "pass 2: storage")
    table = rounds_of((1000, 1250, 1240), seed=2)
    effects = passes(names, table)
    contrasts = tuple(
        contrast_of(table, (0, place), names, effect.to_base)
        for place, effect in enumerate(effects, 1)
    )
    steps = tuple(
        contrast_of(table, (place - 1, place), names, effect.to_previous)
        for place, effect in enumerate(effects, 1)
    )
    findings = findings_of(table, names, change="path")
    return experiment_of("passes", replace(findings, contrasts=contrasts, steps=steps))


def crossed() -> ExperimentFindings:
    """A matrix of two factors with an interaction."""
    factors = {"memory": ("little", "much"), "path": ("socket", "network")}
    cells = [{"memory": m, "path": p} for m in factors["memory"] for p in factors["path"]]
    names = [", ".join(cell.values()) for cell in cells]
    table = rounds_of((1000, 700, 1400, 720), seed=3)
    findings = findings_of(table, names, change="dsn")
    effects = factorial(factors, cells, table)
    rows = {m: {p: f"{m}, {p}" for p in factors["path"]} for m in factors["memory"]}
    grid = LevelGrid("memory", "path", rows)
    return experiment_of("matrix", replace(findings, effects=effects, grid=grid))


def tuned(*, is_alone: bool = False, verdict: Verdict = "better") -> ExperimentFindings:
    """A tuning: of two settings, or of one setting alone."""
    names = ("yours", "max_wal_size=8GB")
    table = rounds_of((1000, 1180), seed=4)
    findings = findings_of(table, names, change="settings")
    contrasts = (contrast_of(table, (0, 1), names),)
    gain = contrasts[0].deciding.ratio
    ratio = Estimate(1.263, 1.201, 1.329, 6, "1", "between_runs")
    open_ratio = Estimate(0.981, 0.912, 1.055, 3, "1", "between_runs")
    wal = SettingEffect(
        "max_wal_size", "1GB", "8GB", "safe", "reload", None if is_alone else ratio, "disk"
    )
    jit = SettingEffect("jit", "on", "off", "safe", "session", None)
    is_better = verdict == "better"
    own = TuneFindings(
        metric="tps",
        is_more_better=True,
        verdict=verdict,
        reason="" if is_better else "the time is over",
        settings=() if not is_better else (wal,) if is_alone else (wal, jit),
        gain=gain if is_better else None,
        tried=(
            Tried("max_wal_size=8GB", {"max_wal_size": "8GB"}, "yours", 6, ratio, "better"),
            Tried("jit=off", {"jit": "off"}, "yours", 3, open_ratio, "not known"),
            Tried("work_mem=1GB", {"work_mem": "1GB"}, "yours", 0, None, "not tried"),
            Tried(
                "work_mem=9GB",
                {"work_mem": "9GB"},
                "yours",
                0,
                None,
                "failed",
                "5.5 % of memory is not enough",
            ),
        ),
        missing_ns=180_000_000_000,
        changed=(
            Changed(
                "WAL per transaction",
                Estimate(2210.0, 2100.0, 2330.0, 7, "bytes", "between_runs"),
                Estimate(640.4, 610.2, 670.9, 7, "bytes", "between_runs"),
            ),
        ),
        slo=SloHeld("p99=20ms", 0, 8, 8, 8) if is_better else None,
    )
    said = replace(contrasts[0], sentence=own.sentence())
    experiment = experiment_of("tune", replace(findings, contrasts=(said,)))
    return replace(experiment, own=own, sentence=own.sentence())


EXAMPLES: dict[str, Callable[[], ExperimentFindings]] = {
    "compare": compared,
    "compare, two rounds": lambda: compared(2),
    "passes": passed,
    "matrix": crossed,
}
