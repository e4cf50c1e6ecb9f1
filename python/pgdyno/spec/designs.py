"""The `[design]` table of a spec file: one model for each kind of design.

A model describes the question (which cells, how often, which metric decides) and checks that the
variants fit. The class that plans the runs is in `plan/designs/`; the table `pgdyno/designs.py`
joins both with the answer.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Union

from pydantic import (
    AfterValidator,
    Field,
    PlainValidator,
    SerializeAsAny,
    TypeAdapter,
    model_validator,
)

from pgdyno.feature import FeatureTable
from pgdyno.programs.program import Program
from pgdyno.programs.registry import metric_names, own_metrics
from pgdyno.spec.base import MINUTE_NS, SECOND_NS, DurationNs, Ratio, Spec
from pgdyno.spec.condition import Condition, slo_from
from pgdyno.spec.targets import objection_to_metric, objection_to_type, slo_with_types
from pgdyno.spec.variant import COMMANDS, Variant, merged

_OWN = own_metrics()
METRICS = metric_names()
if TYPE_CHECKING:
    Metric = str
else:
    Metric = Literal[METRICS]
MORE_IS_BETTER = frozenset({"tps", *_OWN})
METRIC_WORDS: dict[str, str] = {
    "tps": "tps",
    **{name: metric.words for name, metric in _OWN.items()},
    "p50": "p50",
    "p99": "p99",
    "mean": "mean latency",
    "cpu_per_tx": "server CPU per transaction",
    "wal_per_tx": "WAL per transaction",
    "duration": "duration",
}
Rounds = Annotated[int, Field(ge=1, le=1000)]
# What the answer takes after the last run: stopping the server, reading the runs, the words.
ANSWER_NS, _ANSWER_RATIO = 4 * SECOND_NS, 0.01


def throughput_of(program: Program) -> Metric:
    """Return the metric that decides about throughput: the program's first one, else tps."""
    return program.metrics[0].name if program.metrics else "tps"


class DesignSpec(Spec):
    """The base of all designs; each design overrides only the parts that differ.

    `decides`: whether one metric decides; if so, a script that takes long may be measured by its
    duration, unless the user chose the metric (`chosen_metric`). `varies_clients`:
    whether the design itself sets the number of clients. `creates_variants`: whether it creates
    variants while the experiment runs, so that the spec needs none. `needs_valid_runs`: whether
    runs that are too short to be valid are refused before the first of them. `long_ratio`: a script
    takes long if one execution takes more than this part of a run. With a tenth, a client executes
    it fewer than ten times: too few for a rate.
    """

    kind: str
    decides: ClassVar[bool] = False
    varies_clients: ClassVar[bool] = False
    creates_variants: ClassVar[bool] = False
    needs_valid_runs: ClassVar[bool] = False
    long_ratio: ClassVar[float] = 0.1

    @property
    def chosen_metric(self) -> Metric | None:
        """Return the metric that the user chose to decide."""
        return None

    @property
    def limit_ns(self) -> int | None:
        """Return the budget: the time from the command to the answer; None without one."""
        return None

    def metric_under(self, program: Program, *, has_rate: bool) -> Metric:
        """Return the deciding metric: the chosen one, else p99 with a rate.

        Without a rate it is the first metric of the program's own, else tps.
        """
        return self.chosen_metric or ("p99" if has_rate else throughput_of(program))

    def variants_of(self, given: tuple[Variant, ...]) -> tuple[Variant, ...]:
        """Return the variants in the order in which a round runs them; given: those of the spec."""
        return given

    def settings_searched(self) -> tuple[str, ...]:
        """Return the names of the settings whose values the design chooses."""
        return ()

    def objection_to(self, given: tuple[Variant, ...]) -> str:  # noqa: ARG002
        """Return why these variants do not fit the design, or "" if they fit."""
        return ""

    def objection_to_scripts(self, program: Program) -> str:  # noqa: ARG002
        """Return why the scripts do not fit the design, or ""; program: of all scripts."""
        return ""

    def clients_of(self, variant: Variant, usual: int) -> int:
        """Return the largest number of clients that a run of the variant will have."""
        return variant.clients or usual

    def with_time_around(self, opening_ns: int) -> DesignSpec:  # noqa: ARG002
        """Return the design with the part of its budget that is not for runs, if it has one.

        Args: opening_ns, from the command until the servers had their data.
        """
        return self


class DecidingDesign(DesignSpec):
    """A design in which one metric decides between variants; None: see `Experiment.metric`."""

    decides: ClassVar[bool] = True
    metric: Metric | None = None

    @property
    def chosen_metric(self) -> Metric | None:
        """Return the metric that the user chose to decide."""
        return self.metric

    def objection_to_scripts(self, program: Program) -> str:
        """Object to a metric of a program that is not in the load."""
        return objection_to_metric(self.metric, program)


class RoundsDesign(DesignSpec):
    """A design with a number of rounds; with a budget, as many of them as fit into it.

    `around_ns`: the part of the budget that is not for runs: creating the server and loading the
    data before the first run, and the answer after the last. pgdyno writes it before the first run.
    """

    budget_ns: Annotated[DurationNs, Field(gt=0)] | None = Field(default=None, alias="budget")
    around_ns: DurationNs | None = Field(default=None, alias="around")

    @property
    def limit_ns(self) -> int | None:
        """Return the budget, if there is one."""
        return self.budget_ns

    @property
    def runs_ns(self) -> int | None:
        """Return the part of the budget that runs take together; None without a budget."""
        return None if self.budget_ns is None else max(self.budget_ns - (self.around_ns or 0), 1)

    def with_time_around(self, opening_ns: int) -> DesignSpec:
        """Return the design with the part of its budget that is not for runs."""
        return (
            self if self.budget_ns is None else _with_time_around(self, self.budget_ns, opening_ns)
        )


class BudgetDesign(RoundsDesign, DecidingDesign):
    """A deciding design that the user gives a time: from the command to the printed answer."""

    budget_ns: Annotated[DurationNs, Field(gt=0)] = Field(default=30 * MINUTE_NS, alias="budget")

    @property
    def runs_ns(self) -> int:
        """Return the part of the budget that runs take together."""
        return max(self.budget_ns - (self.around_ns or 0), 1)


def _with_time_around(design: DesignSpec, budget_ns: int, opening_ns: int) -> DesignSpec:
    # A machine that opens slowly answers slowly, too.
    answer_ns = min(max(opening_ns // 4, ANSWER_NS), 3 * ANSWER_NS)
    around_ns = opening_ns + answer_ns + round(_ANSWER_RATIO * budget_ns)
    # In ms, as a spec file has it: a resumed experiment has the same plan.
    return design.model_copy(update={"around_ns": around_ns - around_ns % 1_000_000})


class BenchDesign(DesignSpec):
    """One measured run."""

    kind: Literal["bench"] = "bench"

    def objection_to(self, given: tuple[Variant, ...]) -> str:
        """Object to any variant."""
        return f"a bench has no variants, got {len(given)}" if given else ""


class SweepDesign(RoundsDesign):
    """The load curve: every level `rounds` times, then one longer run at the knee.

    With `slo`, such as "p99=20ms", a search in an open loop finds the highest load that meets this
    target. If the target is of one transaction type, such as "new-order.p90=5s", the search finds
    the highest number of clients; the largest level is its upper limit.
    """

    kind: Literal["sweep"] = "sweep"
    varies_clients: ClassVar[bool] = True
    levels: tuple[Annotated[int, Field(ge=1, le=100_000)], ...] | Literal["auto"] = "auto"
    rounds: Annotated[int, Field(ge=1, le=100)] = 3
    run_ns: DurationNs = Field(default=5 * SECOND_NS, alias="run")
    knee_ns: DurationNs = Field(default=30 * SECOND_NS, alias="knee")
    clients_max: Annotated[int, Field(ge=1, le=100_000)] = 64
    """The level at which `auto` stops doubling."""
    slo: Annotated[str, AfterValidator(slo_with_types)] | None = None

    @property
    def target(self) -> Condition | None:
        """Return the target of `slo`, its limit in ms."""
        return None if self.slo is None else slo_from(self.slo)

    def objection_to(self, given: tuple[Variant, ...]) -> str:
        """Object to a variant that sets clients."""
        fixed = [variant.name for variant in given if variant.clients is not None]
        return f"variant {fixed[0]!r} sets clients, but a sweep varies the clients" if fixed else ""

    def objection_to_scripts(self, program: Program) -> str:
        """Object to the target of a transaction type that is not in the load."""
        return objection_to_type(self.slo, program)

    def clients_of(self, variant: Variant, usual: int) -> int:  # noqa: ARG002
        """Return the largest level."""
        return self.clients_max if self.levels == "auto" else max(self.levels)


class CompareDesign(BudgetDesign):
    """Compares every variant with the first, in adjacent pairs, until there is a verdict.

    `precision` asks for an interval of at most this half-width instead of a verdict. Differences
    smaller than `margin` do not matter. `rounds` is a fixed number, without a budget and without an
    early end. `is_extended`: the budget was changed after the start. `looked_count`: after
    which numbers of rounds it could not tell; the next look is after twice the last of them.
    """

    kind: Literal["compare"] = "compare"
    precision_ratio: Ratio | None = Field(default=None, alias="precision")
    margin_ratio: Ratio = Field(default=0.02, alias="margin")
    rounds: Annotated[int, Field(ge=3, le=1000)] | None = None
    is_extended: bool = Field(default=False, alias="extended")
    looked_count: tuple[Annotated[int, Field(ge=3)], ...] = Field(default=(), alias="looked")

    @property
    def limit_ns(self) -> int | None:
        """Return the budget; None with a number of rounds."""
        return self.budget_ns if self.rounds is None and not self.looked_count else None

    @property
    def runs_ns(self) -> int | None:  # type: ignore[override]
        """Return the time of all runs; None with a number of rounds."""
        return None if self.limit_ns is None else super().runs_ns

    def objection_to(self, given: tuple[Variant, ...]) -> str:
        """Object to fewer than two variants."""
        return _too_few(self.kind, given)


class Factor(Spec):
    """One thing that the experiment varies; its first level is the reference."""

    name: Annotated[str, Field(min_length=1, max_length=60)]
    levels: Annotated[tuple[Variant, ...], Field(min_length=2)]

    @model_validator(mode="after")
    def _names_differ(self) -> Factor:
        names = [level.name for level in self.levels]
        if len(set(names)) < len(names):
            raise ValueError(f"two levels of {self.name} have the same name: {', '.join(names)}")
        return self


class FactorialDesign(RoundsDesign, DecidingDesign):
    """All combinations of the factors' levels, or a balanced half of them, `rounds` times."""

    kind: Literal["factorial"] = "factorial"
    factors: Annotated[tuple[Factor, ...], Field(min_length=1)]
    fraction: Literal["full", "half"] = "full"
    rounds: Rounds = 5

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

    def objection_to(self, given: tuple[Variant, ...]) -> str:
        """Object to any variant."""
        if not given:
            return ""
        return "the variants of a factorial are the levels of its factors: remove the variants"

    def variants_of(self, given: tuple[Variant, ...]) -> tuple[Variant, ...]:  # noqa: ARG002
        """Return a variant for each combination of levels."""
        names = [factor.name for factor in self.factors]
        return tuple(_cell(names, levels) for levels in self._combinations())

    def levels_by_variant(self) -> list[dict[str, str]]:
        """Return factor -> level of each variant, in the order of `variants_of`."""
        return [
            {f.name: level.name for f, level in zip(self.factors, levels, strict=True)}
            for levels in self._combinations()
        ]

    def _combinations(self) -> list[tuple[Variant, ...]]:
        """Return the levels of each cell, in the order of the factors.

        Half of the cells: those whose numbers of levels (from 0) have an even sum.
        """
        places = itertools.product(*(range(len(factor.levels)) for factor in self.factors))
        return [
            tuple(f.levels[i] for f, i in zip(self.factors, picked, strict=True))
            for picked in places
            if self.fraction == "full" or sum(picked) % 2 == 0
        ]


class MatrixDesign(FactorialDesign):
    """A factorial with hosts or paths among the factors."""

    kind: Literal["matrix"] = "matrix"  # type: ignore[assignment]


class PassesDesign(RoundsDesign, DecidingDesign):
    """Adds the variants one after another: each one keeps the changes of those before it."""

    kind: Literal["passes"] = "passes"
    rounds: Rounds = 5

    def objection_to(self, given: tuple[Variant, ...]) -> str:
        """Object to fewer than two variants."""
        return _too_few(self.kind, given)

    def variants_of(self, given: tuple[Variant, ...]) -> tuple[Variant, ...]:
        """Return each variant with the changes of all before it."""
        return tuple(merged(last.name, given[: place + 1]) for place, last in enumerate(given))


MODELS: FeatureTable[type[DesignSpec]] = FeatureTable(
    "design_models",
    {
        "bench": BenchDesign,
        "sweep": SweepDesign,
        "compare": CompareDesign,
        "factorial": FactorialDesign,
        "matrix": MatrixDesign,
        "passes": PassesDesign,
    },
)


def _design(given: object) -> DesignSpec:
    """Return the design of a `[design]` table, by its kind."""
    if isinstance(given, DesignSpec):
        return given
    # An error then names the kind within its place, as pydantic does: ("design", "compare", ...).
    asked = given.get("kind") if isinstance(given, Mapping) else None
    known = {"bench", asked} if asked in MODELS else MODELS
    models: Any = Union[tuple(MODELS[kind] for kind in MODELS if kind in known)]  # noqa: UP007
    kinds = Annotated[models, Field(discriminator="kind")]
    design: DesignSpec = TypeAdapter(kinds).validate_python(given)
    return design


Design = Annotated[SerializeAsAny[DesignSpec], PlainValidator(_design)]


def _too_few(kind: str, given: tuple[Variant, ...]) -> str:
    return f"{kind} needs at least 2 variants, got {len(given)}" if len(given) < 2 else ""


def _cell(factors: list[str], levels: tuple[Variant, ...]) -> Variant:
    """Return the variant of one combination; in texts, `{FACTOR}` becomes the name of its level."""
    combined = merged(", ".join(level.name for level in levels), levels)
    names = {factor: level.name for factor, level in zip(factors, levels, strict=True)}

    def filled(text: str | None) -> str | None:
        for factor, name in names.items():
            text = text.replace("{" + factor + "}", name) if text else text
        return text

    return combined.model_copy(
        update={field: filled(getattr(combined, field)) for field in ("dsn", "admin", *COMMANDS)}
    )
