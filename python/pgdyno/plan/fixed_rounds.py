"""Factorials and passes: every cell once a round, in seeded random order, `rounds` times."""

from __future__ import annotations

import random

from pgdyno.plan.history import History, rounds
from pgdyno.plan.visits import pilot_missing, usable, visit, visited
from pgdyno.spec.designs import FactorialDesign, PassesDesign
from pgdyno.spec.experiment import Experiment
from pgdyno.spec.planned import PlannedRun, Stop


def next_run(
    experiment: Experiment, seed: int, history: History, excluded: frozenset[int] = frozenset()
) -> PlannedRun | Stop:
    """Return the next run: what the present round has not visited yet."""
    design = experiment.design
    assert isinstance(design, FactorialDesign | PassesDesign)
    variants = usable(experiment, excluded)
    if len(variants) < 2:
        return Stop("fewer than two variants can be measured")
    if missing := pilot_missing(experiment, seed, history, variants):
        return missing
    if any(experiment.metric() not in measured.metrics for measured in rounds(history)):
        return Stop(f"{experiment.metric()} cannot be measured here")
    for round_number in range(1, design.rounds + 1):
        order = list(variants)
        random.Random(f"{seed}/{round_number}").shuffle(order)
        todo = [one for one in order if one not in visited(history, round_number)]
        if todo:
            return visit(experiment, seed, history, variant=todo[0], round_number=round_number)
    return Stop(f"every cell was measured {design.rounds} times")


def runs_expected(
    experiment: Experiment, history: History, excluded: frozenset[int] = frozenset()
) -> int:
    """Return how many runs it will take."""
    design = experiment.design
    assert isinstance(design, FactorialDesign | PassesDesign)
    piloted = experiment.workload.warmup_ns is None and experiment.metric() != "duration"
    expected = len(usable(experiment, excluded)) * (design.rounds + int(piloted))
    return max(expected, len(history))
