"""Gates: conditions that the unfavourable end of an interval must meet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.findings import ExperimentFindings
from pgdyno.spec.condition import Condition


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """The verdict of a gate on one estimate. `of` names the variant, "" if there is none."""

    gate: Condition
    of: str
    estimate: Estimate | None
    is_kept: bool


def judge(gate: Condition, findings: ExperimentFindings) -> list[GateVerdict]:
    """Return the gate's verdict on each estimate it applies to; without an estimate it fails."""
    judged = [
        GateVerdict(gate, of, estimate, is_kept(gate, estimate))
        for of, estimate in (
            _of_a_type(gate, findings) if gate.of else _estimates(gate.name, findings)
        )
    ]
    return judged or [GateVerdict(gate, "", None, is_kept=False)]


def is_kept(gate: Condition, estimate: Estimate) -> bool:
    """Return whether even the unfavourable end of the interval meets the condition.

    A number without this end does not meet it, because its error is not known.
    """
    end = estimate.high if gate.is_upper_limit else estimate.low
    if end is None or (estimate.censored and gate.is_upper_limit):
        return False
    return gate.is_met(end)


def _of_a_type(gate: Condition, findings: ExperimentFindings) -> Iterator[tuple[str, Estimate]]:
    """Yield the figure of one transaction type or script of the run shown in detail."""
    for script in findings.run.scripts if findings.run is not None else ():
        if script.name != gate.of:
            continue
        known = {"tps": script.tps, "mean": script.latency.mean, **script.latency.percentiles}
        if gate.name in known:
            yield "", known[gate.name]


def _estimates(name: str, findings: ExperimentFindings) -> Iterator[tuple[str, Estimate]]:
    compare = findings.compare
    if name.endswith("_ratio"):
        for contrast in compare.contrasts if compare is not None else ():
            comparison = contrast.comparisons.get(name.removesuffix("_ratio"))
            if comparison is not None:
                yield contrast.variant, comparison.ratio
        return
    for variant in compare.variants if compare is not None else ():
        if name in variant.metrics:
            yield variant.name, variant.metrics[name]
    run = findings.run
    if run is not None and name == "tps":
        yield "", run.tps
    elif run is not None and name in run.program.metrics:
        yield "", run.program.metrics[name]
    elif run is not None and name == "mean":
        yield "", run.latency.mean
    elif run is not None and name in run.latency.percentiles:
        yield "", run.latency.percentiles[name]
