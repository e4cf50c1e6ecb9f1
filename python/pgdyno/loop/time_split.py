"""From one stored run to where its time goes: telemetry and engine brought to one transaction."""

from __future__ import annotations

import numpy as np

from pgdyno.analysis.resample import REPLICATES
from pgdyno.analysis.where import (
    TransactionFacts,
    WaitSamples,
    WhereTheTimeGoes,
    where_the_time_goes,
)
from pgdyno.engine.records import Distribution
from pgdyno.loop.load_numbers import LoadNumbers, of_distribution
from pgdyno.loop.spans import deltas_of, grown
from pgdyno.observe.processes.backends import LOAD, BackendsCollector
from pgdyno.observe.sql.database import DatabaseCollector
from pgdyno.store.stored_run import StoredRun

_SEED = 20_260_102
# Server transactions a script transaction: a whole number unless autocommitted statements vary.
_WHOLE_NUMBER_RATIO = 0.03
# Statements a second of our own sessions, where they watch the load's own database.
_OWN_TRANSACTIONS_S = 20


def time_split(
    stored: StoredRun, numbers: LoadNumbers, *, with_intervals: bool = True
) -> WhereTheTimeGoes | None:
    """Return where a transaction's time goes, or None where nothing was completed.

    Parts that were not measured (no telemetry, another host) are in the residual.
    Args: with_intervals False spares their bootstrap: a run that is one of several counts as one.
    """
    ended = numbers.counts.completed + numbers.counts.failed
    if numbers.counts.completed == 0 or numbers.seconds <= 0:
        return None
    summary = numbers.summary
    round_trip = summary.distribution("round_trip")
    lag = summary.distribution("lag")
    backends = deltas_of(stored, "backends", BackendsCollector.columns, LOAD)
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
        backend_cpu_ns=grown(backends, "run_ns", *numbers.span_ns),
        backend_runqueue_ns=grown(backends, "wait_ns", *numbers.span_ns),
    )
    return where_the_time_goes(facts, seed=_SEED, replicates=REPLICATES if with_intervals else 1)


def _server_active_ms(stored: StoredRun, numbers: LoadNumbers, ended: int) -> float | None:
    """Return the time the server's sessions were active for the transactions of the window.

    Backends report active_time and xact_commit together and up to a second late, so their ratio
    is taken over the window, and only then multiplied by the transactions the engine counted.
    """
    rows = deltas_of(stored, "database", DatabaseCollector.columns, "ours")
    active_ns = grown(rows, "active_time_ns", *numbers.span_ns)
    commits = grown(rows, "xact_commit", *numbers.span_ns)
    rollbacks = grown(rows, "xact_rollback", *numbers.span_ns)
    if not active_ns or commits is None or rollbacks is None or commits + rollbacks <= 0:
        return None
    totals = (stored.document("server.json") or {}).get("totals") or {}
    is_exact = totals.get("is_exact") and not numbers.counts.failed
    reported = totals.get("database.xact_commit") if is_exact else None
    each = server_transactions_each(
        seen=commits + rollbacks,
        ended=ended,
        reported=reported,
        committed=numbers.summary.transactions_committed_all_phases,
        own_max=round(_OWN_TRANSACTIONS_S * (numbers.seconds + 2)),
    )
    return active_ns / (commits + rollbacks) * each * ended / 1e6


def server_transactions_each(
    *, seen: float, ended: int, reported: int | None, committed: int, own_max: int
) -> float:
    """Return how many of the server's transactions one transaction of the scripts is.

    Args: seen, what the server reported within the window, and ended, the scripts' transactions
    of it; reported, what it had reported after its sessions were closed (None: not known), and
    committed, the scripts' transactions of the whole load; own_max, how many of them our own
    sessions can be. Of a short window a good part is reported after it, so the whole load tells
    better: unless others worked there, which shows in a number that is not whole.
    """
    if reported and committed:
        each = reported / committed
        excess = reported - int(each) * committed
        if _is_whole(each):
            return round(each)
        if int(each) and excess <= own_max:
            return each
    each = seen / ended
    return round(each) if _is_whole(each) else each


def _is_whole(each: float) -> bool:
    return round(each) > 0 and abs(each - round(each)) <= _WHOLE_NUMBER_RATIO * each


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


def _mean_ns(found: Distribution) -> float:
    return found.sum_ns / found.count if found.count else 0.0
