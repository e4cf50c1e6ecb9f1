"""What all designs with variants share: the cell of a variant, its pilot, and its next run.

A visit is one run of a variant in one round.
"""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.plan.history import History, pilots, warm_ns
from pgdyno.spec.experiment import Experiment
from pgdyno.spec.planned import Cell, PlannedRun, PlannedVariant

WARMUP_LEAST_NS = 2_000_000_000
PILOT_NS = 10_000_000_000
# A pilot makes all its connections, and a server needs a minute for thousands. With more than this
# number there is no pilot, and each run warms up for WARMUP_MANY_NS.
PILOT_CONNECTIONS_MAX = 1_000
WARMUP_MANY_NS = 5_000_000_000
# The minimum length of a pilot. It finds a warm-up of at most half its length.
PILOT_SHORT_NS = 5_000_000_000


def pilot(seed: int, cell: Cell, *, number: int, run_ns: int) -> PlannedRun:
    """Return the run that finds the warm-up of `cell`. Its results are not reported.

    Args: seed, of the experiment; number, of this run; run_ns, the length of the runs that follow.
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
    """Return whether the connections of a pilot would take too much time."""
    return experiment.connections_max() > PILOT_CONNECTIONS_MAX


def warm_up_ns(experiment: Experiment, history: History) -> int:
    """Return the length of the warm-up: from the spec, from the pilots, or a fixed time."""
    least_ns = WARMUP_MANY_NS if connects_too_many(experiment) else WARMUP_LEAST_NS
    return warm_ns(history, asked_ns=experiment.workload.warmup_ns, least_ns=least_ns)


def cell_of(experiment: Experiment, variant: PlannedVariant) -> Cell:
    """Return the load of a variant's runs."""
    return Cell(
        script_indexes=experiment.scripts_of(variant),
        clients=variant.spec.clients or experiment.workload.clients,
        rate_tps=experiment.workload.rate_tps,
        variant=variant,
    )


def pilot_missing(
    experiment: Experiment, history: History, variants: Sequence[PlannedVariant]
) -> PlannedRun | None:
    """Return the pilot of the first variant without one; None if no pilot is needed."""
    workload = experiment.workload
    is_counted = workload.transactions_per_client is not None or experiment.metric() == "duration"
    if workload.warmup_ns is not None or is_counted:
        return None
    done = {measured.run.cell.variant for measured in pilots(history)}
    variant = next((variant for variant in variants if variant not in done), None)
    if variant is None or connects_too_many(experiment):
        return None
    cell, number = cell_of(experiment, variant), len(history) + 1
    return pilot(workload.seed, cell, number=number, run_ns=workload.duration_ns)


def visit(
    experiment: Experiment, history: History, *, variant: PlannedVariant, round_number: int
) -> PlannedRun:
    """Return the run of a variant in a round. Length and warm-up are the same for all variants."""
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
        seed=workload.seed + round_number,  # all runs of a round have the same arrivals and keys
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
