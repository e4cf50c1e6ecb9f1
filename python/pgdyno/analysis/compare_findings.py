"""The findings of designs with variants, as dataclasses: variants, contrasts, changed plans.

They also have the round trip to each variant, and how evenly its clients were served.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgdyno.analysis.compare import Comparison
from pgdyno.analysis.contrasts import Effect
from pgdyno.analysis.devices import DeviceFindings
from pgdyno.analysis.estimate import Estimate, alike, mean_between_runs
from pgdyno.analysis.losses import Loss
from pgdyno.analysis.scaling_out import ScalingOut
from pgdyno.analysis.where import WhereTheTimeGoes
from pgdyno.analysis.where_difference import Difference
from pgdyno.quantities import percent

# From these shares on, clients wait for the pooler.
_WAITS_RATIO, _BUSY_RATIO = 0.2, 0.85
OF_NOISE = "the values scatter so much that the ratio may be ten times smaller or larger"


@dataclass(frozen=True, slots=True)
class ServedRun:
    """How one run served its clients; None: the engine did not measure the figure.

    `round_trip_ms`: median of empty round trips before the load. `completed_min_count` and
    `completed_max_count`: transactions of the slowest and the fastest client. `session_count`: the
    server's backends of the load. `session_bytes`: memory of one of them, without shared pages.
    `pooler_wait_ratio`: of the time in which the pooler had work, what it waited for a core;
    `pooler_busy_ratio`: of the run, what its busiest process was on a core. `pooler_cpu_ms`,
    `whole_cpu_ms`: CPU time of a transaction in the pooler, and in server and pooler together; None
    without a pooler, or on another host.
    """

    clients: int
    max_ms: float
    round_trip_ms: float | None
    completed_min_count: int | None
    completed_max_count: int | None
    gini_ratio: float | None
    failed_count: int = 0
    session_count: int | None = None
    pooler_cpu_ms: float | None = None
    whole_cpu_ms: float | None = None
    session_bytes: int | None = None
    pooler_wait_ratio: float | None = None
    pooler_busy_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class VariantMeans:
    """Means over the runs of a variant, with intervals between runs.

    `gini`: 0 if all clients completed the same number, near 1 if one client completed nearly all
    (Gini 1912).
    """

    clients: int
    maximum: Estimate
    round_trip: Estimate | None
    completed_min: Estimate | None
    completed_max: Estimate | None
    gini: Estimate | None
    failed: Estimate
    session_count_max: int | None
    pooler_cpu: Estimate | None
    whole_cpu: Estimate | None
    session_bytes: int | None
    pooler_wait: Estimate | None
    pooler_busy: Estimate | None

    @property
    def pooler_words(self) -> str:
        """Return why a pooler makes clients wait; "" if it does not, or nobody knows."""
        if self.pooler_wait is not None and self.pooler_wait.value >= _WAITS_RATIO:
            share = percent(self.pooler_wait.value)
            waits = f"the pooler waited for a core in {share} of its time at work"
            return f"{waits}: with free cores the result may be another"
        if self.pooler_busy is not None and self.pooler_busy.value >= _BUSY_RATIO:
            return f"one process of the pooler used {percent(self.pooler_busy.value)} of a core"
        return ""


def served(runs: Sequence[ServedRun]) -> VariantMeans | None:
    """Return the means over the runs; None without runs."""
    if not runs:
        return None

    def mean(values: Sequence[float | None], unit: str) -> Estimate | None:
        known = [value for value in values if value is not None]
        return mean_between_runs(known, unit) if len(known) == len(values) else None

    return VariantMeans(
        clients=runs[-1].clients,
        maximum=mean_between_runs([run.max_ms for run in runs], "ms"),
        round_trip=mean([run.round_trip_ms for run in runs], "ms"),
        completed_min=mean([run.completed_min_count for run in runs], "transactions"),
        completed_max=mean([run.completed_max_count for run in runs], "transactions"),
        gini=mean([run.gini_ratio for run in runs], "1"),
        failed=mean_between_runs([run.failed_count for run in runs], "transactions"),
        session_count_max=max((run.session_count or 0 for run in runs), default=0) or None,
        pooler_cpu=mean([run.pooler_cpu_ms for run in runs], "ms"),
        whole_cpu=mean([run.whole_cpu_ms for run in runs], "ms"),
        session_bytes=max((run.session_bytes or 0 for run in runs), default=0) or None,
        pooler_wait=mean([run.pooler_wait_ratio for run in runs], "1"),
        pooler_busy=mean([run.pooler_busy_ratio for run in runs], "1"),
    )


@dataclass(frozen=True, slots=True)
class Pair:
    """One round's two runs of a contrast; values in the unit of the deciding metric."""

    round: int
    reference_value: float
    variant_value: float

    @property
    def ratio(self) -> float:
        """Return variant over reference."""
        return self.variant_value / self.reference_value


@dataclass(frozen=True, slots=True)
class PlanChange:
    """A statement whose plan differs between two variants, or between rounds of one variant."""

    script: str
    line: int
    text: str
    was: str
    became: str
    between: str


@dataclass(frozen=True, slots=True)
class StatementChange:
    """A statement under a variant and its reference.

    `comparison`: of its mean time, seen by the client; the intervals of all statements hold
    together. `mean_ms`: under the reference. `plan_was`, `plan_became`: "" if the plan is the same.
    """

    script: str
    line: int
    text: str
    calls: int
    mean_ms: float
    comparison: Comparison
    plan_was: str = ""
    plan_became: str = ""

    @property
    def is_sure(self) -> bool:
        """Return whether it got slower or faster for certain."""
        return self.comparison.verdict in ("lower", "higher")


@dataclass(frozen=True, slots=True)
class VariantFindings:
    """One variant: its changes and its results.

    `metrics`: means over its runs with intervals between runs. `weakened`: settings with which a
    crash may lose acknowledged commits. `holds_rate`: whether it completes the offered rate, None
    without a rate. `by_round`: round and deciding metric of every run. `cost`: the cost of
    1,000 tps; None without a price, or if the variant does not hold the rate. `losses`: what
    crashes took with its settings, empty if this was not measured.
    """

    name: str
    changes: tuple[tuple[str, str], ...]
    target: str
    cannot_start: str
    runs: int
    runs_valid: int
    metrics: dict[str, Estimate]
    where: WhereTheTimeGoes | None
    weakened: tuple[str, ...]
    holds_rate: bool | None
    by_round: tuple[tuple[int, float], ...] = ()
    cost: Estimate | None = None

    served: VariantMeans | None = None
    losses: tuple[Loss, ...] = ()


@dataclass(frozen=True, slots=True)
class ContrastFindings:
    """One variant against its reference.

    `comparisons`: every measured metric, with intervals that hold at every look. `because`: the
    reason in words, "" if no measurement explains the difference. `left_ns`: the time until a
    verdict, None after the verdict or without an estimate. `statements`: of a load whose program
    counts them, each statement on both sides. `why_not_split`: why there is no `difference`
    although both variants were split, as the end of a sentence. `of_noise`: metrics that were
    measured, but have no comparison, because both values are noise (`Estimate.is_of_noise`).
    """

    variant: str
    reference: str
    deciding: Comparison
    comparisons: dict[str, Comparison]
    pairs: tuple[Pair, ...]
    difference: Difference | None
    because: str
    plan_changes: tuple[PlanChange, ...]
    sentence: str
    is_settled: bool
    left_ns: int | None
    statements: tuple[StatementChange, ...] = ()
    why_not_split: str = ""
    of_noise: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LevelGrid:
    """The cells of a factorial: one factor in columns, all combinations of the others in rows.

    `names`: row -> level of `varied` -> the variant of the cell; a half of a factorial lacks some.
    """

    others: str
    varied: str
    names: dict[str, dict[str, str]]


@dataclass(frozen=True, slots=True)
class CompareFindings:
    """The answer of a design with variants.

    `effects`, `grid`: of a factorial. `steps`: of passes, each pass against the previous pass.
    `confounds`: effects that the design cannot tell apart. `settings`: every setting that differs
    between the servers of the variants, with its value on each, "" if not known. `state`: how the
    data of each variant grew.
    """

    metric: str
    unit: str
    reference: str
    variants: tuple[VariantFindings, ...]
    contrasts: tuple[ContrastFindings, ...]
    rounds: int
    stopped_by: str
    effects: tuple[Effect, ...] = ()
    grid: LevelGrid | None = None
    steps: tuple[ContrastFindings, ...] = ()
    confounds: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    settings: tuple[tuple[str, tuple[str, ...]], ...] = ()
    devices: DeviceFindings | None = None
    scaling_out: ScalingOut | None = None

    def shown(self, variant: VariantFindings, name: str) -> Estimate:
        """Return a metric of a variant as people see it: either all variants have an interval."""
        same = [other.metrics[name] for other in self.variants if name in other.metrics]
        [estimate, *_] = alike([variant.metrics[name], *same])
        assert estimate is not None, "only a missing estimate has none"
        return estimate
