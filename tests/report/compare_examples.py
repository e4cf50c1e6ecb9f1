"""Findings of a comparison, made by hand."""

from __future__ import annotations

from dataclasses import replace

from pgdyno.analysis.compare import Comparison, Verdict
from pgdyno.analysis.compare_findings import (
    CompareFindings,
    ContrastFindings,
    Pair,
    PlanChange,
    VariantFindings,
)
from pgdyno.analysis.contrasts import Effect
from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.findings import ExperimentFindings, ServerAndLoad
from pgdyno.analysis.where import LatencyPart
from pgdyno.analysis.where_difference import Difference


def ratio(value: float, low: float, high: float, n: int = 12) -> Estimate:
    return Estimate(value, low, high, n, "1", "between_runs")


def comparison(verdict: Verdict, estimate: Estimate) -> Comparison:
    return Comparison(verdict, estimate, 0.95, 0.02, int(estimate.n), "sequential", 0.05)


def part(name: str, value: float, low: float, high: float) -> LatencyPart:
    return LatencyPart(name, Estimate(value, low, high, 12, "ms", "between_runs"), "server")


DIFFERENCE = Difference(
    Estimate(-1.0, -1.2, -0.8, 12, "ms", "between_runs"),
    (
        part("IO:WALSync", -0.9, -1.0, -0.8),
        part("CPU", -0.15, -0.3, 0.1),
        part("Lock:tuple", 0.1, 0.05, 0.15),
    ),
    -0.05,
)
CHANGE = PlanChange("tx4.sql", 2, "SELECT 1", "Index Scan i", "Seq Scan t", "A and B")


def variant(name: str, **changes: str) -> VariantFindings:
    return VariantFindings(
        name=name,
        changes=tuple(changes.items()),
        target="",
        cannot_start="",
        runs=12,
        runs_valid=12,
        metrics={"tps": Estimate(1240, 1200, 1280, 12, "tps", "between_runs")},
        where=None,
        weakened=("synchronous_commit",) if "synchronous_commit" in changes else (),
        holds_rate=None,
        by_round=((1, 1180.0), (2, 1260.0), (3, 1280.0)),
    )


def compared(*, plans: tuple[PlanChange, ...] = ()) -> ExperimentFindings:
    decides = comparison("faster", ratio(1.371, 1.35, 1.394))
    contrast = ContrastFindings(
        variant="4GB",
        reference="128MB",
        deciding=decides,
        comparisons={"tps": decides, "p99": comparison("lower", ratio(0.72, 0.67, 0.78))},
        pairs=(Pair(1, 1000, 1370), Pair(2, 1000, 900)),
        difference=DIFFERENCE,
        because="because IO:WALSync fell by 0.90 ms per transaction (1.00 ms less in total)",
        plan_changes=plans,
        sentence="4GB is faster than 128MB: tps +37.1 %.",
        is_settled=True,
        left_ns=0,
    )
    findings = CompareFindings(
        metric="tps",
        unit="tps",
        reference="128MB",
        variants=(
            variant("128MB", shared_buffers="128MB"),
            variant("4GB", shared_buffers="4GB", synchronous_commit="off"),
            VariantFindings("bad", (), "", "FATAL: no memory", 0, 0, {}, None, (), None),
        ),
        contrasts=(contrast,),
        rounds=12,
        stopped_by="decided after 12 rounds",
        settings=(("shared_buffers", ("128MB", "4GB", "")),),
        confounds=(
            "each variant has one layout of the data: the interval does not cover other layouts",
        ),
    )
    return ExperimentFindings(
        kind="compare",
        number=7,
        name="buffers",
        version="0.1.0",
        started_utc="2026-01-04 10:00 UTC",
        seconds=1860,
        sentence=contrast.sentence,
        facts=ServerAndLoad(
            target="scratch local:5432/pgdyno", durability="fsync on", is_durable=True
        ),
        run=None,
        compare=findings,
        runs_total=24,
        runs_valid=24,
    )


def with_long_names() -> ExperimentFindings:
    """Return a comparison whose variant and effects have names as long as people write them."""
    findings = compared()
    assert findings.compare is not None
    first, second, *others = findings.compare.variants
    name = "shared_buffers_4GB_with_huge_pages_and_synchronous_commit_off"
    [contrast] = findings.compare.contrasts
    effects = tuple(
        Effect(terms, ratio(value, value - 0.03, value + 0.03), 0.001, 0.01, ())
        for terms, value in (
            ((("synchronous_commit", "off"),), 1.1),
            ((("effective_io_concurrency", "200"), ("random_page_cost", "1.1")), 1.3),
        )
    )
    long = replace(
        findings.compare,
        variants=(first, replace(second, name=name), *others),
        contrasts=(replace(contrast, variant=name),),
        effects=effects,
    )
    return replace(findings, compare=long)
