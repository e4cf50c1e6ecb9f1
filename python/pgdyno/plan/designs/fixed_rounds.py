"""The designs of `factorial`, `matrix` and `passes`: a fixed number of rounds.

Each round measures every variant once, in a random order that follows from the seed.
"""

from __future__ import annotations

from typing import TypeVar

from pgdyno.analysis.compare import shuffled
from pgdyno.plan.design import NONE, Design
from pgdyno.plan.history import History, rounds
from pgdyno.plan.visits import pilot_missing, visit, visited
from pgdyno.quantities import counted
from pgdyno.spec.designs import FactorialDesign, MatrixDesign, PassesDesign
from pgdyno.spec.planned import PlannedRun, Stop

Table = TypeVar("Table", bound=FactorialDesign | PassesDesign)


class FixedRounds(Design[Table]):
    """What the three designs share."""

    def next_run(self, history: History, excluded: frozenset[str] = NONE) -> PlannedRun | Stop:
        """Return the run of the next variant in the present round, or Stop with the reason."""
        experiment, variants = self.experiment, self.usable(excluded)
        if len(variants) < 2:
            return Stop("fewer than two variants can be measured")
        if missing := pilot_missing(experiment, history, variants):
            return missing
        if any(experiment.metric() not in measured.metrics for measured in rounds(history)):
            return Stop(f"{experiment.metric()} cannot be measured here")
        for round_number in range(1, self.asked.rounds + 1):
            order = shuffled(variants, self.order_seed, round_number)
            before = visited(history, round_number)
            todo = [variant for variant in order if variant not in before]
            if todo:
                return visit(experiment, history, variant=todo[0], round_number=round_number)
        return Stop(f"every cell was measured {counted(self.asked.rounds, 'time')}")

    def runs_expected(self, history: History, excluded: frozenset[str] = NONE) -> int:
        """Return the number of runs, pilots included."""
        experiment = self.experiment
        piloted = experiment.workload.warmup_ns is None and experiment.metric() != "duration"
        expected = len(self.usable(excluded)) * (self.asked.rounds + int(piloted))
        return max(expected, len(history))


class Factorial(FixedRounds[FactorialDesign]):
    """All combinations of the factors' levels."""

    model = FactorialDesign


class Matrix(FixedRounds[MatrixDesign]):
    """All combinations, where hosts or paths may be factors."""

    model = MatrixDesign


class Passes(FixedRounds[PassesDesign]):
    """Cumulative changes: each variant has the changes of all variants before it."""

    model = PassesDesign
