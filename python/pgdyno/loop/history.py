"""What the planner is told, from the store: the same after an interruption as without one."""

from __future__ import annotations

import math

from pgdyno.analysis.warmup import warmup_cut
from pgdyno.errors import AnalysisError
from pgdyno.loop.journal import visits
from pgdyno.loop.load_numbers import LoadNumbers, load_numbers
from pgdyno.loop.metrics import metrics_of
from pgdyno.plan.history import History, Measured
from pgdyno.spec.planned import PlannedRun
from pgdyno.store.folder import ExperimentFolder
from pgdyno.store.stored_run import StoredRun


def measured(
    planned: PlannedRun, stored: StoredRun, *, took_ns: int, numbers: LoadNumbers | None = None
) -> Measured:
    """Return what the planner learns of one run; `numbers` where they are known already."""
    try:
        numbers = load_numbers(stored, with_intervals=False) if numbers is None else numbers
    except AnalysisError:
        if planned.purpose not in ("pilot", "round") or stored.summary.get("failures"):
            raise
        # Nothing ended in all of the run: an execution takes longer than that.
        return Measured(planned, 0.0, took_ns=took_ns, latency_ms={"mean": math.inf})
    settled_ns = None
    if planned.purpose == "pilot":
        try:
            settled_ns = warmup_cut(numbers.counts_100ms, numbers.interval_ns).cut_ns
        except AnalysisError:
            settled_ns = None
    metrics = metrics_of(stored, numbers)
    latency = {name: found.value for name, found in numbers.latency.percentiles.items()}
    is_offered = planned.cell.rate_tps is not None and numbers.counts.scheduled > 0
    return Measured(
        planned,
        numbers.tps.value,
        settled_ns,
        metrics,
        took_ns,
        latency_ms={**latency, "mean": numbers.latency.mean.value},
        achieved_ratio=numbers.counts.completed / numbers.counts.scheduled if is_offered else 1.0,
    )


def history_of(folder: ExperimentFolder) -> History:
    """Return the runs done so far, in order."""
    return tuple(
        measured(visit.planned, visit.stored, took_ns=visit.took_ns) for visit in visits(folder)
    )
