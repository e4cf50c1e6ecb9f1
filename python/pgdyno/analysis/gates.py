"""Gates: `p99<20ms`, `tps_ratio>0.97`, judged on the unfavourable end of the interval."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.findings import ExperimentFindings
from pgdyno.errors import SpecError

_FORM = re.compile(
    r"\s*(?P<name>[a-z0-9_]+)\s*(?P<sign>[<>])=?\s*"
    r"(?P<limit>\d+(?:\.\d+)?)\s*(?P<unit>[a-zA-Z]*)\s*"
)
_LATENCIES = ("mean", "p50", "p90", "p95", "p99", "p999")
_METRICS = ("tps", "cpu_per_tx", "wal_per_tx", "duration", *_LATENCIES)
NAMES = (*_METRICS, *(f"{name}_ratio" for name in _METRICS))
# What a unit is in the metric's own: latencies and CPU are ms, durations s, WAL bytes.
_IN_MS = {"us": 1e-3, "ms": 1.0, "s": 1e3, "min": 6e4}
_UNITS = {
    "duration": {unit: size / 1e3 for unit, size in _IN_MS.items()} | {"": 1.0},
    "wal_per_tx": {"": 1.0, "B": 1.0, "kB": 1024.0, "MB": 1048576.0},
    "tps": {"": 1.0, "tps": 1.0},
}


@dataclass(frozen=True, slots=True)
class Gate:
    """One condition; `limit_ratio` is in the metric's own unit, a ratio for ratios."""

    text: str
    name: str
    sign: Literal["<", ">"]
    limit_ratio: float

    def holds(self, estimate: Estimate) -> bool:
        """Return whether even the unfavourable end of the interval keeps the limit."""
        end = estimate.high if self.sign == "<" else estimate.low
        if end is None or (estimate.censored and self.sign == "<"):
            return False
        return end < self.limit_ratio if self.sign == "<" else end > self.limit_ratio


@dataclass(frozen=True, slots=True)
class Judged:
    """What a gate said of one estimate; `of` names the variant, or is empty."""

    gate: Gate
    of: str
    estimate: Estimate | None
    is_kept: bool


def gate_from(text: str) -> Gate:
    """Return the gate that a text means. Raises: SpecError with the names and units there are."""
    found = _FORM.fullmatch(text)
    name = found["name"] if found else ""
    if found is None or name not in NAMES:
        raise SpecError(
            f"{text!r} is no condition: NAME<NUMBER or NAME>NUMBER is needed.",
            hint=f"such as 'p99<20ms' or 'tps_ratio>0.97'; NAME is one of {', '.join(NAMES)}",
        )
    units = {"": 1.0} if name.endswith("_ratio") else _UNITS.get(name, {"": 1.0, **_IN_MS})
    if found["unit"] not in units:
        known = ", ".join(unit for unit in units if unit) or "none"
        raise SpecError(f"{text!r}: {found['unit']} is no unit of {name}.", hint=f"units: {known}")
    sign: Literal["<", ">"] = "<" if found["sign"] == "<" else ">"
    return Gate(text.strip(), name, sign, float(found["limit"]) * units[found["unit"]])


def judge(gate: Gate, findings: ExperimentFindings) -> list[Judged]:
    """Return the gate's word on everything it applies to; on nothing it is not kept."""
    found = [
        Judged(gate, of, estimate, gate.holds(estimate))
        for of, estimate in _estimates(gate.name, findings)
    ]
    return found or [Judged(gate, "", None, is_kept=False)]


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
    elif run is not None and name == "mean":
        yield "", run.latency.mean
    elif run is not None and name in run.latency.percentiles:
        yield "", run.latency.percentiles[name]
