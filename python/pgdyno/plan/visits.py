"""What every design with variants shares: the cell of a variant, its pilot, one visit of it."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.plan.history import History, pilots, warm_ns
from pgdyno.spec.experiment import Experiment
from pgdyno.spec.planned import Cell, PlannedRun, PlannedVariant

WARMUP_LEAST_NS = 2_000_000_000
PILOT_NS = 10_000_000_000
# A pilot makes all its connections; a server needs a minute for thousands. From here on there is
# none, and the run itself warms up for so long.
PILOT_CONNECTIONS_MAX = 1_000
WARMUP_MANY_NS = 5_000_000_000
# Of short runs a pilot is no longer than this: the cut is at most half of it, as is fit for them.
PILOT_SHORT_NS = 5_000_000_000


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


def connects_too_many(experiment: Experiment) -> bool:
    """Return whether a pilot's connections would cost more than the pilot tells."""
    return experiment.connections_max() > PILOT_CONNECTIONS_MAX


def warm_up_ns(experiment: Experiment, history: History) -> int:
    """Return how long a run warms up: what was asked, what the pilots found, or a fixed time."""
    least_ns = WARMUP_MANY_NS if connects_too_many(experiment) else WARMUP_LEAST_NS
    return warm_ns(history, asked_ns=experiment.workload.warmup_ns, least_ns=least_ns)


def cell_of(experiment: Experiment, variant: PlannedVariant) -> Cell:
    """Return what a visit of the variant loads the server with."""
    return Cell(
        script_indexes=experiment.scripts_of(variant),
        clients=variant.spec.clients or experiment.workload.clients,
        rate_tps=experiment.workload.rate_tps,
        variant=variant,
    )


def pilot_missing(
    experiment: Experiment, history: History, variants: Sequence[PlannedVariant]
) -> PlannedRun | None:
    """Return the pilot of the first variant that had none; None where no warm-up is to be found."""
    workload = experiment.workload
    is_counted = workload.transactions_per_client is not None or experiment.metric() == "duration"
    if workload.warmup_ns is not None or is_counted or connects_too_many(experiment):
        return None
    done = {measured.run.cell.variant for measured in pilots(history)}
    for variant in variants:
        if variant not in done:
            cell, number = cell_of(experiment, variant), len(history) + 1
            seed = workload.seed
            return pilot(seed, cell, number=number, run_ns=workload.duration_ns)
    return None


def visit(
    experiment: Experiment, history: History, *, variant: PlannedVariant, round_number: int
) -> PlannedRun:
    """Return one visit of a variant; the same length and warm-up for all."""
    workload = experiment.workload
    executions = workload.transactions_per_client
    warm = warm_up_ns(experiment, history)
    if experiment.metric() == "duration":
        # One execution of a long script is one run.
        executions, warm = executions or 1, workload.warmup_ns or 0
    return PlannedRun(
        number=len(history) + 1,
        purpose="round",
        round=round_number,
        cell=cell_of(experiment, variant),
        warm_ns=warm,
        measure_ns=workload.duration_ns,
        transactions_per_client=executions,
        seed=workload.seed + round_number,  # the same arrivals and random keys for all of a round
        reason=f"round {round_number}",
    )


def visited(history: History, round_number: int) -> set[PlannedVariant]:
    """Return the variants that a round has visited."""
    return {
        measured.run.cell.variant
        for measured in history
        if measured.run.purpose == "round"
        and measured.run.round == round_number
        and measured.run.cell.variant is not None
    }
