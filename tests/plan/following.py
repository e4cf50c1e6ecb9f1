"""Asks a design what follows, as the loop does: scripts that take long count by their duration."""

from typing import Any

from pgdyno.plan import design as plan_design
from pgdyno.plan.design import NONE, Design, plan_of
from pgdyno.plan.history import History
from pgdyno.spec.experiment import Experiment
from pgdyno.spec.planned import PlannedRun, Stop


def next_run(
    design: type[Design[Any]],
    experiment: Experiment,
    history: History,
    excluded: frozenset[str] = NONE,
) -> PlannedRun | Stop:
    """Return the next run, or Stop."""
    plan, counted = plan_of(design, experiment, history)
    return plan.next_run(counted, excluded)


def next_runs(
    design: type[Design[Any]],
    experiment: Experiment,
    history: History,
    excluded: frozenset[str] = NONE,
) -> tuple[PlannedRun, ...] | Stop:
    """Return the runs that take place at the same time, or Stop."""
    plan, counted = plan_of(design, experiment, history)
    return plan_design.next_runs(plan, counted, excluded)
