"""Keeps a budget: the time after which everything ends, and a warning while data are loaded."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from pgdyno.clock import monotonic_ns
from pgdyno.errors import TimeUsedUp
from pgdyno.loop.preview import least_ns
from pgdyno.measure.run_progress import Moment, RunProgress
from pgdyno.plan.design import Design
from pgdyno.quantities import duration_text
from pgdyno.spec.designs import ANSWER_NS, DesignSpec
from pgdyno.spec.experiment import Experiment

# How fast data are loaded is known after this time.
_KNOWN_NS = 2_000_000_000
# A plan ends within the budget. Only what was not foreseen, such as a slow start, takes longer, and
# then everything ends in time for an answer after this part of the budget.
_MOST_RATIO = 1.1


def deadline_s(design: DesignSpec, began_ns: int, *, is_resumed: bool) -> float | None:
    """Return how many seconds the runs may still take; None without a budget, or after a part."""
    if design.limit_ns is None or is_resumed:
        return None
    most_ns = max(_MOST_RATIO * design.limit_ns - ANSWER_NS, design.limit_ns / 2)
    return (most_ns - (monotonic_ns() - began_ns)) / 1e9


def used_up(experiment: Experiment) -> TimeUsedUp:
    """Return that the budget is used up."""
    budget = duration_text(experiment.design.limit_ns or 0)
    return TimeUsedUp(
        f"The budget of {budget} is used up.",
        hint="a longer --budget, or a smaller -s, which loads faster",
    )


class SlowOpening(RunProgress):
    """Passes the progress of opening on, and says once if loading leaves too little of the budget.

    Args: began_ns, from when the budget counts.
    """

    def __init__(
        self,
        progress: RunProgress,
        experiment: Experiment,
        design: type[Design[Any]],
        began_ns: int,
    ) -> None:
        self.said, self.ended = progress.said, progress.ended  # type: ignore[method-assign]
        self._progress = progress
        self._began_ns = began_ns
        self._budget_ns = design(experiment).budget_ns
        self._least_ns = ANSWER_NS
        if self._budget_ns is not None and design.rounds_needed:
            self._least_ns += least_ns(experiment, design)
        self._loads_since_ns: int | None = None

    def doing(self, words: str) -> AbstractContextManager[None]:
        """Pass on what is done now."""
        return self._progress.doing(words)

    def moved(self, moment: Moment) -> None:
        """Pass the state on, and compare the time that loading still takes with the budget."""
        self._progress.moved(moment)
        if self._budget_ns is None or not moment.eta_ns:
            return
        now_ns = monotonic_ns()
        self._loads_since_ns = self._loads_since_ns or now_ns
        needed_ns = now_ns - self._began_ns + moment.eta_ns + self._least_ns
        if needed_ns <= self._budget_ns or now_ns - self._loads_since_ns < _KNOWN_NS:
            return
        self.said(
            f"warning: loading takes about {duration_text(moment.eta_ns)} more, so the answer comes"
            f" after about {duration_text(needed_ns)}, and the budget is"
            f" {duration_text(self._budget_ns)}. A smaller scale loads faster; Ctrl-C ends this"
        )
        self._budget_ns = None
