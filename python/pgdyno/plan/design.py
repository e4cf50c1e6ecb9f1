"""The interface of a design: which run is next, how many are expected, how far a decision is.

A design is pure. The same question and history give the same answer, so an interrupted experiment
continues at the same point.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

from pgdyno.plan.history import History
from pgdyno.plan.long_scripts import as_measured
from pgdyno.spec.designs import DesignSpec
from pgdyno.spec.experiment import Experiment
from pgdyno.spec.planned import PlannedRun, PlannedVariant, Purpose, Stop

NONE: frozenset[str] = frozenset()
Table = TypeVar("Table", bound=DesignSpec)


class Design(ABC, Generic[Table]):
    """The plan of one experiment. `asked` is its `[design]` table.

    A design may create variants while the experiment runs: it returns a run whose cell has a
    variant with a new id. If the variant was measured, the history of the next call has the run;
    if it cannot be measured, `excluded` has its id.
    Args of all methods: history, the finished runs in order; excluded, ids of variants that cannot
    be measured.
    """

    model: ClassVar[type[DesignSpec]]
    # The minimum of rounds that a verdict needs; 0 if the design gives no verdict.
    rounds_needed: ClassVar[int] = 0

    def __init__(self, experiment: Experiment) -> None:
        """Args: experiment, whose design is a `model`."""
        assert isinstance(experiment.design, self.model), f"{experiment.design.kind} is another"
        self.experiment = experiment
        self.asked: Table = experiment.design  # type: ignore[assignment]
        workload = experiment.workload
        self.seed = workload.seed
        # Without a seed of the order: a plan that is only shown, or a result of an older version.
        self.order_seed = workload.seed if workload.order_seed is None else workload.order_seed

    @abstractmethod
    def next_run(self, history: History, excluded: frozenset[str] = NONE) -> PlannedRun | Stop:
        """Return the next run, or Stop with the reason."""

    @abstractmethod
    def runs_expected(self, history: History, excluded: frozenset[str] = NONE) -> int:
        """Return an estimate of the number of runs of the whole experiment."""

    def variants(self, history: History = ()) -> tuple[PlannedVariant, ...]:
        """Return the variants known so far: those of the spec, then those that runs created."""
        known = dict.fromkeys(self.experiment.planned_variants())
        ran = (measured.run.cell.variant for measured in history)
        return tuple(known | dict.fromkeys(variant for variant in ran if variant is not None))

    def usable(self, excluded: frozenset[str]) -> tuple[PlannedVariant, ...]:
        """Return the variants of the spec that can be measured, in their order."""
        return tuple(variant for variant in self._planned if variant.id not in excluded)

    @cached_property
    def _planned(self) -> tuple[PlannedVariant, ...]:
        return self.experiment.planned_variants()

    def priced(
        self,
        history: History,  # noqa: ARG002
        excluded: frozenset[str] = NONE,
    ) -> Sequence[PlannedVariant]:
        """Return the variants whose loss in crashes is measured after the last run."""
        return self.usable(excluded)

    def outlook(self, history: History, excluded: frozenset[str] = NONE) -> str:  # noqa: ARG002
        """Return in words how far the experiment is from a decision; "" without news."""
        return ""

    def clocked_ns(self) -> Mapping[Purpose, tuple[str, int]]:
        """Return purpose -> name and length in ns of the runs that last a fixed time."""
        workload = self.experiment.workload
        if workload.transactions_per_client is not None or self.experiment.metric() == "duration":
            return {}
        return {"round": ("a run", workload.duration_ns)}

    @property
    def budget_ns(self) -> int | None:
        """Return the time after which the experiment ends undecided; None without a limit."""
        return None


def plan_of(
    design: type[Design[Any]], experiment: Experiment, history: History
) -> tuple[Design[Any], History]:
    """Return the plan of an experiment, and the runs that count for it.

    If the scripts take long, the duration of an execution decides (`long_scripts`).
    """
    experiment, history = as_measured(experiment, history)
    return design(experiment), history
