"""What designs with rounds and a budget share: how many rounds fit, and how long a run is. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from pgdyno.analysis import verdicts
from pgdyno.analysis.intervals import PLANNED_PAIRS_MIN
from pgdyno.plan.design import Design
from pgdyno.plan.history import History, elapsed_ns, pilots, rounds
from pgdyno.plan.visits import pilot_missing, warm_up_ns
from pgdyno.spec.designs import CompareDesign, FactorialDesign, PassesDesign
from pgdyno.spec.planned import PlannedRun, PlannedVariant, Stop

ROUNDS_MAX = 1000
# A shorter run is not valid.
RUN_LEAST_NS = round(verdicts.NEEDED_S_TO_PROVE * 1e9)
# Time of a run in addition to its load, without a pilot that shows it. A value that is too short
# does no harm, because the end of the budget is a last look, too.
_AROUND_NS = 1_000_000_000
# This part of the budget more, if an answer then has an interval.
_MORE_RATIO = 0.05
Table = TypeVar("Table", bound=CompareDesign | FactorialDesign | PassesDesign)


class BudgetedDesign(Design[Table]):
    """Rounds of all variants, as many as fit into the budget, if there is one."""

    rounds_needed = PLANNED_PAIRS_MIN

    @property
    def budget_ns(self) -> int | None:
        """Return the time after which no further round begins; None without a budget."""
        return self.asked.runs_ns

    def _before_rounds(
        self, history: History, variants: Sequence[PlannedVariant]
    ) -> PlannedRun | Stop | None:
        """Return a pilot, or why there can be no rounds; None if it is time for a round."""
        if len(variants) < 2:
            return Stop("fewer than two variants can be measured")
        if missing := self._pilot_missing(history, variants):
            return missing
        metric = self.experiment.metric()
        if any(metric not in measured.metrics for measured in rounds(history)):
            return Stop(f"{metric} cannot be measured here")
        return None

    def _pilot_missing(
        self, history: History, variants: Sequence[PlannedVariant]
    ) -> PlannedRun | None:
        """Return the next pilot; None if all ran, or if they would take the time of three rounds.

        Without a pilot the warm-up has its least length.
        """
        missing = pilot_missing(self.experiment, history, variants)
        if missing is None or self.budget_ns is None or rounds(history):
            return missing if not rounds(history) else None
        rest = len(variants) - len(pilots(history))
        pilot_ns = missing.measure_ns + max(self._around_ns(history).values(), default=_AROUND_NS)
        least_ns = min(RUN_LEAST_NS, self.experiment.workload.duration_ns)
        needed_ns = PLANNED_PAIRS_MIN * self._piloted_round_ns(history, variants, least_ns)
        return missing if rest * pilot_ns + needed_ns <= self._left_ns(history) else None

    def _run_ns(self, history: History, variants: Sequence[PlannedVariant]) -> int:
        """Return the length of a run: as asked, or shorter, so that three rounds are possible.

        All rounds have the length of the first, also after a change of the budget: only pairs of
        runs of one length may share an interval.
        """
        if ran := rounds(history):
            return ran[0].run.measure_ns
        asked_ns = self.experiment.workload.duration_ns
        if self.budget_ns is None or self._is_counted or asked_ns <= RUN_LEAST_NS:
            return asked_ns
        around_ns = self._piloted_round_ns(history, variants, 0)
        room_ns = (self._left_ns(history) // PLANNED_PAIRS_MIN - around_ns) // len(variants)
        return max(RUN_LEAST_NS, min(asked_ns, room_ns))

    def _is_over(self, history: History, done: int) -> bool:
        """Return whether the budget has no time for another round after `done` rounds.

        Three rounds have an interval, so the last of them may take a little more.
        """
        if self.budget_ns is None or not done:
            return False
        more_ns = round(_MORE_RATIO * self.budget_ns) if done < PLANNED_PAIRS_MIN else 0
        return elapsed_ns(history) + round_ns(history) > self.budget_ns + more_ns

    @property
    def _is_counted(self) -> bool:
        """Return whether runs have no length, so that their time is not known beforehand."""
        is_counted = self.experiment.workload.transactions_per_client is not None
        return is_counted or self.experiment.metric() == "duration"

    def _left_ns(self, history: History) -> int:
        """Return what the pilots leave of the budget."""
        return (self.budget_ns or 0) - elapsed_ns(pilots(history))

    def rounds_planned(self, history: History, variants: Sequence[PlannedVariant]) -> int | None:
        """Return the number of rounds, which is fixed before the first of them.

        Budget and pilots decide it, no result of a round. At least three, because fewer have no
        interval, and no more than were asked for. None: no number was asked for, and the time of a
        run is not known beforehand, so only the time ends the experiment.
        """
        asked = self.asked.rounds
        if self.budget_ns is None or self._is_counted:
            return asked
        run_ns = self._run_ns(history, variants)
        fitting = self._left_ns(history) // self._piloted_round_ns(history, variants, run_ns)
        return min(max(fitting, PLANNED_PAIRS_MIN), asked or ROUNDS_MAX)

    def _around_ns(self, history: History) -> dict[PlannedVariant | None, int]:
        """Return what the run of a variant takes in addition to its load, by its pilot."""
        return {m.run.cell.variant: max(m.took_ns - m.run.measure_ns, 0) for m in pilots(history)}

    def _piloted_round_ns(
        self, history: History, variants: Sequence[PlannedVariant], run_ns: int
    ) -> int:
        """Return how long a round takes, by the pilots."""
        around_ns = self._around_ns(history)
        load_ns = warm_up_ns(self.experiment, history) + run_ns
        return sum(load_ns + around_ns.get(variant, _AROUND_NS) for variant in variants)


def round_ns(history: History) -> int:
    """Return the mean time of a round so far; 0 before the first."""
    ran = rounds(history)
    if not ran:
        return 0
    return sum(m.took_ns for m in ran) // len({m.run.round for m in ran})
