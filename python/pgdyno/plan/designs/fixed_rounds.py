"""The designs of `factorial`, `matrix` and `passes`: a fixed number of rounds.

Each round measures every variant once, in a random order that follows from the seed. With a budget,
budget and pilots decide before the first round how many rounds there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from pgdyno.analysis.compare import shuffled
from pgdyno.plan.design import NONE
from pgdyno.plan.designs.budgeted import BudgetedDesign
from pgdyno.plan.history import History, pilots, rounds
from pgdyno.plan.visits import visit, visited, warm_up_ns
from pgdyno.quantities import counted, duration_text
from pgdyno.spec.designs import FactorialDesign, MatrixDesign, PassesDesign
from pgdyno.spec.planned import PlannedRun, PlannedVariant, Stop

Table = TypeVar("Table", bound=FactorialDesign | PassesDesign)


class FixedRounds(BudgetedDesign[Table]):
    """What the three designs share."""

    def next_run(self, history: History, excluded: frozenset[str] = NONE) -> PlannedRun | Stop:
        """Return the run of the next variant in the present round, or Stop with the reason."""
        experiment, variants = self.experiment, self.usable(excluded)
        if (before_rounds := self._before_rounds(history, variants)) is not None:
            return before_rounds
        done = 0
        for round_number in range(1, self._round_count(history, variants) + 1):
            order = shuffled(variants, self.order_seed, round_number)
            before = visited(history, round_number)
            todo = [variant for variant in order if variant not in before]
            if todo and not before and self._is_over(history, done):
                break
            if todo:
                run = visit(experiment, history, variant=todo[0], round_number=round_number)
                return replace(run, measure_ns=self._run_ns(history, variants))
            done = round_number
        why = f"every cell was measured {counted(done, 'time')}"
        if self.asked.budget_ns is not None and done < self.asked.rounds:
            why += f", as often as the budget of {duration_text(self.asked.budget_ns)} allows"
        return Stop(why)

    def _round_count(self, history: History, variants: Sequence[PlannedVariant]) -> int:
        return self.rounds_planned(history, variants) or self.asked.rounds

    def outlook(self, history: History, excluded: frozenset[str] = NONE) -> str:
        """Return the plan with the time that the pilots show, before the first round."""
        variants = self.usable(excluded)
        if not pilots(history) or rounds(history) or self._pilot_missing(history, variants):
            return ""
        planned, run_ns = self._round_count(history, variants), self._run_ns(history, variants)
        load = duration_text(warm_up_ns(self.experiment, history) + run_ns)
        whole = duration_text(planned * self._piloted_round_ns(history, variants, run_ns))
        said = f"{counted(planned, 'round')} of {len(variants)} x {load}"
        return f"plan    {said}; about {whole}, as long as the pilots show"

    def runs_expected(self, history: History, excluded: frozenset[str] = NONE) -> int:
        """Return the number of runs, pilots included."""
        variants = self.usable(excluded)
        piloted = bool(pilots(history)) or self._pilot_missing(history, variants) is not None
        expected = len(variants) * (self._round_count(history, variants) + int(piloted))
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
