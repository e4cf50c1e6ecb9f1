"""One measured run, after a pilot where the warm-up is to be found."""

from __future__ import annotations

from pgdyno.plan.history import History, pilots, warm_ns
from pgdyno.spec.experiment import Experiment
from pgdyno.spec.planned import Cell, PlannedRun, Stop

WARMUP_LEAST_NS = 2_000_000_000
PILOT_NS = 10_000_000_000
# Of short runs a pilot is no longer than this: the cut is at most half of it, as is fit for them.
PILOT_SHORT_NS = 5_000_000_000


def next_run(experiment: Experiment, seed: int, history: History) -> PlannedRun | Stop:
    """Return the pilot, then the run, then Stop."""
    workload = experiment.workload
    cell = Cell(
        script_indexes=tuple(i for i, script in enumerate(workload.scripts) if script.weight > 0),
        clients=workload.clients,
        rate_tps=workload.rate_tps,
    )
    if any(measured.run.purpose == "detail" for measured in history):
        return Stop("the run was measured")
    if workload.warmup_ns is None and not pilots(history) and needs_pilot(experiment):
        return pilot(seed, cell, number=1, run_ns=workload.duration_ns)
    return PlannedRun(
        number=len(history) + 1,
        purpose="detail",
        round=1,
        cell=cell,
        warm_ns=warm_ns(history, asked_ns=workload.warmup_ns, least_ns=WARMUP_LEAST_NS),
        measure_ns=workload.duration_ns,
        transactions_per_client=workload.transactions_per_client,
        seed=seed,
        reason="requested run",
    )


def needs_pilot(experiment: Experiment) -> bool:
    """True unless the measured run is too short for a pilot to be worth its time."""
    workload = experiment.workload
    return workload.transactions_per_client is None and workload.duration_ns >= PILOT_NS


def pilot(seed: int, cell: Cell, *, number: int, run_ns: int) -> PlannedRun:
    """Return the run that finds how long `cell` takes to settle; nothing of it is reported.

    Args: run_ns, how long the runs are that it is a pilot of.
    """
    return PlannedRun(
        number=number,
        purpose="pilot",
        round=0,
        cell=cell,
        warm_ns=0,
        measure_ns=min(PILOT_NS, max(PILOT_SHORT_NS, run_ns)),
        seed=seed + number,
        reason="finds the warm-up; not reported",
    )
