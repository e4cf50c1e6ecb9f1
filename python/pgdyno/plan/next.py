"""The one door to the designs: the next run of any experiment."""

from __future__ import annotations

from pgdyno.plan import bench, sweep
from pgdyno.plan.history import History
from pgdyno.spec.experiment import BenchDesign, Experiment
from pgdyno.spec.planned import PlannedRun, Stop


def next_run(experiment: Experiment, seed: int, history: History) -> PlannedRun | Stop:
    """Return what to do next: a run, or Stop with the reason.

    The same arguments give the same answer, so an interrupted experiment goes on where it was.
    """
    if isinstance(experiment.design, BenchDesign):
        return bench.next_run(experiment, seed, history)
    return sweep.next_run(experiment, seed, history)


def runs_expected(experiment: Experiment, history: History) -> int:
    """Return how many runs the experiment will take, as far as can be said now."""
    if isinstance(experiment.design, BenchDesign):
        return 1 + int(experiment.workload.warmup_ns is None and bench.needs_pilot(experiment))
    return max(sweep.runs_expected(experiment, history), len(history))
