"""The one door to the designs: the next run of any experiment."""

from __future__ import annotations

from pgdyno.plan import bench, compare, fixed_rounds, sweep
from pgdyno.plan.history import History
from pgdyno.plan.long_scripts import as_measured
from pgdyno.spec.experiment import BenchDesign, CompareDesign, Experiment, SweepDesign
from pgdyno.spec.planned import PlannedRun, Stop


def next_run(
    experiment: Experiment, seed: int, history: History, excluded: frozenset[int] = frozenset()
) -> PlannedRun | Stop:
    """Return what to do next: a run, or Stop with the reason.

    The same arguments give the same answer, so an interrupted experiment goes on where it was.
    Args: excluded, the variants that turned out not to start.
    """
    experiment, history = as_measured(experiment, history)
    design = experiment.design
    if isinstance(design, BenchDesign):
        return bench.next_run(experiment, seed, history)
    if isinstance(design, SweepDesign):
        return sweep.next_run(experiment, seed, history, excluded)
    if isinstance(design, CompareDesign):
        return compare.next_run(experiment, seed, history, excluded)
    return fixed_rounds.next_run(experiment, seed, history, excluded)


def runs_expected(
    experiment: Experiment, history: History, excluded: frozenset[int] = frozenset()
) -> int:
    """Return how many runs the experiment will take, as far as can be said now."""
    experiment, history = as_measured(experiment, history)
    design = experiment.design
    if isinstance(design, BenchDesign):
        return 1 + int(experiment.workload.warmup_ns is None and bench.needs_pilot(experiment))
    if isinstance(design, SweepDesign):
        return max(sweep.runs_expected(experiment, history, excluded), len(history))
    if isinstance(design, CompareDesign):
        return compare.runs_expected(experiment, history, excluded)
    return fixed_rounds.runs_expected(experiment, history, excluded)
