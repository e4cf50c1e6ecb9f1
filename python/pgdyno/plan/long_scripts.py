"""Scripts that take long, such as batches and reports, are measured by their duration.

If one execution takes more than a tenth of a run, and a run has few of them, their rate says
little. One execution is then one run. A tuning, whose turns average over many executions, does so
from a fifth of a run on.
"""

from __future__ import annotations

from pgdyno.plan.history import History
from pgdyno.spec.experiment import Experiment
from pgdyno.spec.planned import PlannedRun

# A run with this number of executions, of all clients, has a rate.
_ENOUGH = 200


def as_measured(experiment: Experiment, history: History) -> tuple[Experiment, History]:
    """Return the experiment to carry out, and the runs that count for it.

    If the spec names no deciding metric and an execution takes longer than a tenth of a run, the
    duration of an execution decides, and one execution is one run. Earlier runs of fixed length
    then do not count.
    """
    if not is_long(experiment, history):
        return experiment, history
    kept = tuple(
        done for done in history if done.run.purpose == "pilot" or not is_by_clock(done.run)
    )
    return by_duration(experiment), kept


def is_long(experiment: Experiment, history: History) -> bool:
    """Return whether an execution took long in the pilots or in the runs of the first round.

    Many clients that queue are no long script: their run has enough executions for a rate.
    """
    if not executions_may_decide(experiment):
        return False
    limit_ms = long_ns(experiment) / 1e6
    return any(
        done.latency_ms.get("mean", 0.0) > limit_ms
        and done.tps * done.run.measure_ns / 1e9 < _ENOUGH
        for done in history
        # In turns, the variants before and after a gain would be mixed.
        if done.run.round <= 1 and is_by_clock(done.run) and done.run.purpose != "turns"
    )


def executions_may_decide(experiment: Experiment) -> bool:
    """Return whether a long script would change the metric: the spec names none."""
    design, workload = experiment.design, experiment.workload
    is_asked = design.chosen_metric is not None or workload.transactions_per_client is not None
    return design.decides and not is_asked and workload.rate_tps is None


def long_ns(experiment: Experiment) -> int:
    """Return the longest duration of an execution for which runs have a fixed length."""
    return int(experiment.design.long_ratio * experiment.workload.duration_ns)


def by_duration(experiment: Experiment) -> Experiment:
    """Return the same experiment, decided by the duration of an execution."""
    design = experiment.design.model_copy(update={"metric": "duration"})
    return experiment.model_copy(update={"design": design})


def is_by_clock(run: PlannedRun) -> bool:
    """Return whether a run lasts a fixed time and not a number of executions."""
    return run.transactions_per_client is None
