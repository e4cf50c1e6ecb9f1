"""The designs: which cells are visited, how often, and what is asked of them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from pgdyno.errors import SpecError
from pgdyno.spec.base import MINUTE_NS, SECOND_NS, DurationNs, Ratio, Spec
from pgdyno.spec.condition import Condition, slo_from
from pgdyno.spec.variant import Variant

Metric = Literal["tps", "p50", "p99", "mean", "cpu_per_tx", "wal_per_tx", "duration"]
METRICS: tuple[Metric, ...] = ("tps", "p50", "p99", "mean", "cpu_per_tx", "wal_per_tx", "duration")
MORE_IS_BETTER = frozenset({"tps"})
Rounds = Annotated[int, Field(ge=1, le=1000)]


def _slo(text: str) -> str:
    try:
        slo_from(text)
    except SpecError as error:
        raise ValueError(f"{error.message.rstrip('.')}; {error.hint}") from error
    return text


class BenchDesign(Spec):
    """One measured run."""

    kind: Literal["bench"] = "bench"


class SweepDesign(Spec):
    """The load curve: every level `rounds` times, then one longer run at the knee.

    `slo`, such as "p99=20ms": the load that can be held under it is searched in an open loop.
    """

    kind: Literal["sweep"] = "sweep"
    levels: tuple[Annotated[int, Field(ge=1, le=100_000)], ...] | Literal["auto"] = "auto"
    rounds: Annotated[int, Field(ge=1, le=100)] = 3
    run_ns: DurationNs = Field(default=5 * SECOND_NS, alias="run")
    knee_ns: DurationNs = Field(default=30 * SECOND_NS, alias="knee")
    clients_max: Annotated[int, Field(ge=1, le=100_000)] = 64
    """Where `auto` stops doubling."""
    slo: Annotated[str, AfterValidator(_slo)] | None = None

    @property
    def target(self) -> Condition | None:
        """Return what `slo` asks for, its limit in ms."""
        return None if self.slo is None else slo_from(self.slo)


class CompareDesign(Spec):
    """Every variant against the first, in adjacent pairs, until it is decided.

    `metric` decides (None: tps, or p99 under a rate); `precision` asks for an interval of at most
    this half-width instead of a verdict; `margin` is the difference that would not matter.
    """

    kind: Literal["compare"] = "compare"
    metric: Metric | None = None
    precision_ratio: Ratio | None = Field(default=None, alias="precision")
    budget_ns: Annotated[DurationNs, Field(gt=0)] = Field(default=30 * MINUTE_NS, alias="budget")
    margin_ratio: Ratio = Field(default=0.02, alias="margin")


class Factor(Spec):
    """One thing that is varied; its first level is the reference."""

    name: Annotated[str, Field(min_length=1, max_length=60)]
    levels: Annotated[tuple[Variant, ...], Field(min_length=2)]

    @model_validator(mode="after")
    def _names_differ(self) -> Factor:
        names = [level.name for level in self.levels]
        if len(set(names)) < len(names):
            raise ValueError(f"two levels of {self.name} have the same name: {', '.join(names)}")
        return self


class FactorialDesign(Spec):
    """All combinations of the factors' levels, or a balanced half of them, `rounds` times.

    `matrix` is the same with hosts or paths among the factors.
    """

    kind: Literal["factorial", "matrix"] = "factorial"
    factors: Annotated[tuple[Factor, ...], Field(min_length=1)]
    fraction: Literal["full", "half"] = "full"
    rounds: Rounds = 5
    metric: Metric | None = None

    @model_validator(mode="after")
    def _half_is_balanced(self) -> FactorialDesign:
        names = [factor.name for factor in self.factors]
        if len(set(names)) < len(names):
            raise ValueError(f"two factors have the same name: {', '.join(names)}")
        uneven = [factor.name for factor in self.factors if len(factor.levels) != 2]
        if self.fraction == "half" and (uneven or len(self.factors) < 3):
            raise ValueError(
                'fraction = "half" needs at least 3 factors of 2 levels each'
                + (f", but {uneven[0]} has another number" if uneven else "")
            )
        return self


class PassesDesign(Spec):
    """The variants in their order, each on top of those before it, `rounds` times."""

    kind: Literal["passes"] = "passes"
    rounds: Rounds = 5
    metric: Metric | None = None


Design = Annotated[
    BenchDesign | SweepDesign | CompareDesign | FactorialDesign | PassesDesign,
    Field(discriminator="kind"),
]
