"""From one stored run to where its time goes: telemetry and engine brought to one transaction."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pgdyno.analysis.where import (
    TransactionFacts,
    WaitSamples,
    WhereTheTimeGoes,
    where_the_time_goes,
)
from pgdyno.engine.records import Distribution
from pgdyno.loop.load_numbers import LoadNumbers, of_distribution
from pgdyno.observe.processes.backends import LOAD
from pgdyno.store.stored_run import StoredRun

Arrays = dict[str, npt.NDArray[np.generic]]
_SEED = 20_260_102
# Server transactions a script transaction: a whole number unless autocommitted statements vary.
_WHOLE_NUMBER_RATIO = 0.03


def time_split(stored: StoredRun, numbers: LoadNumbers) -> WhereTheTimeGoes | None:
    """Return where a transaction's time goes, or None where nothing was completed.

    Parts that were not measured (no telemetry, another host) are in the residual.
    """
    ended = numbers.counts.completed + numbers.counts.failed
    if numbers.counts.completed == 0 or numbers.seconds <= 0:
        return None
    summary = numbers.summary
    round_trip = summary.distribution("round_trip")
    lag = summary.distribution("lag")
    backends = _window(stored.telemetry("backends"), numbers, "backend_type", LOAD)
    facts = TransactionFacts(
        latency=numbers.latency.mean.scaled(1e6, "ns"),
        window_seconds=numbers.seconds,
        server_transaction_count=ended,
        server_active_ms=_server_active_ms(stored, numbers, ended),
        samples=_samples(stored, numbers),
        round_trip_count=summary.round_trips / ended,
        round_trip_ns=None if round_trip is None else of_distribution(round_trip).percentile_ns(50),
        client_cpu_ns=(summary.cpu_user_ns + summary.cpu_system_ns) / ended,
        schedule_lag_ns=None if lag is None else _mean_ns(lag),
        backend_cpu_ns=_delta(backends, "run_ns", numbers),
        backend_runqueue_ns=_delta(backends, "wait_ns", numbers),
    )
    return where_the_time_goes(facts, seed=_SEED)


def _server_active_ms(stored: StoredRun, numbers: LoadNumbers, ended: int) -> float | None:
    """Return the time the server's sessions were active for the transactions of the window.

    Backends report active_time and xact_commit together and up to a second late, so their ratio
    is taken over the window, and only then multiplied by the transactions the engine counted.
    """
    rows = _window(stored.telemetry("database"), numbers, "scope", "ours")
    active_ns = _delta(rows, "active_time_ns", numbers)
    commits = _delta(rows, "xact_commit", numbers)
    rollbacks = _delta(rows, "xact_rollback", numbers)
    if not active_ns or commits is None or rollbacks is None or commits + rollbacks <= 0:
        return None
    server_transactions = commits + rollbacks
    each = server_transactions / ended
    if abs(each - round(each)) <= _WHOLE_NUMBER_RATIO * each and round(each) > 0:
        each = round(each)
    return active_ns / server_transactions * each * ended / 1e6


def _samples(stored: StoredRun, numbers: LoadNumbers) -> WaitSamples | None:
    waits = stored.waits()
    time_ns = np.asarray(waits["time_ns"], dtype=np.int64)
    inside = (time_ns >= numbers.began_ns) & (time_ns < numbers.ended_ns)
    if not inside.any():
        return None
    counted = inside & (waits["ours"] == 1) & (np.asarray(waits["state"]) == "active")
    return WaitSamples(
        sampled_at_ns=np.unique(time_ns[inside]),
        time_ns=time_ns[counted],
        event=[str(event) for event in np.asarray(waits["wait_event"])[counted]],
        session_count=np.asarray(waits["count"], dtype=np.int64)[counted],
    )


def _window(rows: Arrays | None, numbers: LoadNumbers, key: str, value: str) -> Arrays | None:
    """Return one group's rows from the sample before the window to the one after it."""
    if rows is None:
        return None
    chosen = np.asarray(rows[key]) == value
    time_ns = rows["time_ns"][chosen]
    if time_ns.size < 2:
        return None
    first = max(0, int(np.searchsorted(time_ns, numbers.began_ns, side="right")) - 1)
    last = min(time_ns.size, int(np.searchsorted(time_ns, numbers.ended_ns)) + 1)
    return {name: column[chosen][first:last] for name, column in rows.items()}


def _delta(rows: Arrays | None, counter: str, numbers: LoadNumbers) -> float | None:
    """Return by how much a counter grew in the window, between samples by interpolation."""
    if rows is None or rows["time_ns"].size < 2:
        return None
    time_ns = rows["time_ns"].astype(np.float64)
    values = rows[counter].astype(np.float64)
    if not np.isfinite(values).all() or (np.diff(values) < 0).any():
        return None
    began, ended = np.interp([numbers.began_ns, numbers.ended_ns], time_ns, values)
    # The samples may not reach the ends of the window: then the rate between them stands for it.
    seen_ns = min(numbers.ended_ns, time_ns[-1]) - max(numbers.began_ns, time_ns[0])
    window_ns = numbers.ended_ns - numbers.began_ns
    return None if seen_ns < window_ns / 2 else float((ended - began) * window_ns / seen_ns)


def _mean_ns(found: Distribution) -> float:
    return found.sum_ns / found.count if found.count else 0.0
