"""Reduces one stored run to the numbers by which designs decide: one number for each metric."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from pgdyno.analysis.within_run import warmup_cut
from pgdyno.errors import AnalysisError
from pgdyno.feature import Metric
from pgdyno.loop.counter_growth import grown, is_seen_by_ticks, load_backends
from pgdyno.loop.disturbed import disturbed_by
from pgdyno.loop.journal import Visit, visits
from pgdyno.loop.load_numbers import LoadNumbers, load_numbers, type_latencies_ms
from pgdyno.measure.turns import TURNS
from pgdyno.observe.sql.waits import PARALLEL_WORKER
from pgdyno.plan.history import History, Measured, TurnValues
from pgdyno.programs.registry import own_metrics, program_named
from pgdyno.spec.planned import PlannedRun
from pgdyno.store.folder import ExperimentFolder
from pgdyno.store.stored_run import StoredRun

UNITS = {
    "tps": "tps",
    **{name: metric.words for name, metric in own_metrics().items()},
    "p50": "ms",
    "p99": "ms",
    "mean": "ms",
    "cpu_per_tx": "ms",
    "wal_per_tx": "B",
    "duration": "s",
}


def metrics_of(stored: StoredRun, numbers: LoadNumbers) -> dict[str, float]:
    """Return every metric that this run measured, in its unit of `UNITS`, above 0 and finite."""
    makers: dict[str, Callable[[], float | None]] = {
        "tps": lambda: numbers.tps.value,
        **{name: partial(own_metric_of, metric, numbers) for name, metric in own_metrics().items()},
        "p50": lambda: numbers.latency.percentiles["p50"].value,
        "p99": lambda: numbers.latency.percentiles["p99"].value,
        "mean": lambda: numbers.latency.mean.value,
        "cpu_per_tx": lambda: _cpu_per_tx(stored, numbers),
        "wal_per_tx": lambda: _wal_per_tx(stored, numbers),
        "duration": lambda: numbers.latency.mean.value / 1000,
    }
    assert makers.keys() == UNITS.keys()
    values = {name: maker() for name, maker in makers.items()}
    return {
        name: value
        for name, value in values.items()
        if value is not None and math.isfinite(value) and value > 0
    }


def own_metric_of(metric: Metric, numbers: LoadNumbers) -> float | None:
    """Return a metric of a program; None if the load does not run this program."""
    completed_by_type = {
        shape.name: script.counts.completed
        for shape, script in zip(numbers.scripts, numbers.summary.scripts, strict=True)
        if metric in program_named(shape.program).metrics
    }
    return metric.measure(completed_by_type, numbers.seconds)


def _cpu_per_tx(stored: StoredRun, numbers: LoadNumbers) -> float | None:
    """Return CPU time of the load's backends per transaction in ms; None on another host."""
    spent_ns = grown(load_backends(stored), "run_ns", *numbers.span_ns)
    if spent_ns is None or numbers.counts.completed == 0 or not is_seen_by_ticks(spent_ns):
        return None
    waits = stored.waits()
    is_worker = np.asarray(waits["backend_type"]) == PARALLEL_WORKER
    if (is_worker & (waits["ours"] == 1)).any():
        return None  # Parallel workers live too short to be read once a second.
    return spent_ns / numbers.counts.completed / 1e6


def _wal_per_tx(stored: StoredRun, numbers: LoadNumbers) -> float | None:
    return each_transaction(stored, numbers, "wal.bytes") or None


def each_transaction(stored: StoredRun, numbers: LoadNumbers, counter: str) -> float | None:
    """Return the growth of a counter of the server for each transaction; None if not known.

    Sessions report up to a second late, so a short measured phase misses much of its own counts.
    The totals were read before the load and after its sessions had ended. So they are divided by
    the transactions of the whole load, with those of its warm-up.
    Args: counter, collector and column, such as "wal.bytes".
    """
    totals = stored.server_json.get("totals") or {}
    grown_count = totals.get(counter) if totals.get("is_exact") else None
    transactions = numbers.summary.transactions_committed_all_phases
    return grown_count / transactions if grown_count is not None and transactions else None


def measured(visit: Visit, numbers: LoadNumbers | None = None) -> Measured:
    """Return what the planner learns from one run; `numbers`, if they are already known."""
    planned, stored = visit.planned, visit.stored
    try:
        numbers = load_numbers(stored, with_intervals=False) if numbers is None else numbers
    except AnalysisError:
        if planned.purpose == "detail" or stored.summary.get("failures"):
            raise
        # Nothing ended during the whole run: one execution takes longer than the run.
        held_ratio = 1.0 if planned.cell.rate_tps is None else 0.0
        latency_ms = {"mean": math.inf}
        return Measured(
            planned,
            0.0,
            took_ns=visit.took_ns,
            failed_ns=visit.failed_ns,
            latency_ms=latency_ms,
            achieved_ratio=held_ratio,
            turns=turns_of(planned, stored),
        )
    settled_ns = None
    if planned.purpose == "pilot":
        try:
            settled_ns = warmup_cut(numbers.counts_100ms, numbers.interval_ns).cut_ns
        except AnalysisError:
            settled_ns = None
    metrics = metrics_of(stored, numbers)
    latency = {name: estimate.value for name, estimate in numbers.latency.percentiles.items()}
    latency |= type_latencies_ms(numbers)
    is_offered = planned.cell.rate_tps is not None and numbers.counts.scheduled > 0
    return Measured(
        planned,
        numbers.tps.value,
        settled_ns,
        metrics,
        visit.took_ns,
        latency_ms={**latency, "mean": numbers.latency.mean.value},
        achieved_ratio=numbers.counts.completed / numbers.counts.scheduled if is_offered else 1.0,
        failed_ns=visit.failed_ns,
        disturbed_by=_disturbed_by(visit, numbers),
        turns=turns_of(planned, stored),
    )


def _disturbed_by(visit: Visit, numbers: LoadNumbers) -> str:
    if visit.planned.purpose not in ("capacity", "round"):
        return ""
    return next((doubt.message for doubt in disturbed_by(visit.stored, numbers)), "")


def history_of(folder: ExperimentFolder) -> History:
    """Return the completed runs, in order."""
    return tuple(measured(visit) for visit in visits(folder))


# A turn without any transaction is slow, not unknown.
_LEAST_COUNT = 0.5


def turns_of(planned: PlannedRun, stored: StoredRun) -> tuple[TurnValues, ...]:
    """Return the planned turns of a run with what was measured, in order; none without turns."""
    if not planned.turns:
        return ()
    noted = (stored.document(TURNS) or {}).get("turns", [])
    intervals = stored.intervals()
    scripts = stored.hello.get("scripts", ())
    waited_for = [n for n, shape in enumerate(scripts) if not shape.get("is_background")]
    counts = intervals["completed_by_script"]
    completed = (counts[:, waited_for] if scripts else counts).sum(axis=1)
    ended_ns = np.asarray(intervals["time_ns"])
    made = [TurnValues(_metrics(turn, ended_ns, completed), turn["refused"]) for turn in noted]
    # A turn that did not begin has no value.
    return (*made, *(TurnValues({}, "") for _ in planned.turns[len(made) :]))


def _metrics(turn: dict[str, Any], ended_ns: Any, completed: Any) -> dict[str, float]:
    return {} if turn["refused"] or not turn["from_ns"] else dict(_known(turn, ended_ns, completed))


def _known(turn: dict[str, Any], ended_ns: Any, completed: Any) -> Iterator[tuple[str, float]]:
    within = (ended_ns > turn["from_ns"]) & (ended_ns <= turn["to_ns"])
    count, seconds = float(completed[within].sum()), (turn["to_ns"] - turn["from_ns"]) / 1e9
    if seconds <= 0:
        return
    yield "tps", max(count, _LEAST_COUNT) / seconds
    if turn.get("wal_bytes") and count:
        yield "wal_per_tx", turn["wal_bytes"] / count
