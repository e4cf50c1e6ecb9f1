"""Reads the server's own count of its time for the measured transactions."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pgdyno.analysis.arrays import FloatArray, IntArray, distinct
from pgdyno.analysis.at_work import own_time
from pgdyno.analysis.estimate import proportion
from pgdyno.analysis.server_clocks import ShareSums, clocks_of
from pgdyno.analysis.where_facts import CountedEvents
from pgdyno.loop.counter_growth import deltas_of, grown
from pgdyno.loop.load_numbers import LoadNumbers
from pgdyno.measure.clock_watch import CLOCK_SET
from pgdyno.observe.rates import Deltas
from pgdyno.observe.sql.database import DatabaseCollector
from pgdyno.observe.sql.wal import WalCollector
from pgdyno.store.parquet import Arrays
from pgdyno.store.stored_run import StoredRun

# Each transaction of a script is a whole number of server transactions, unless the number of
# autocommitted statements varies. This is the permitted error of the whole number.
_WHOLE_NUMBER_RATIO = 0.03
_OWN_UNSURE = 2
# Transactions a second of our own sessions before and after they observe, which nothing counts.
_OWN_TRANSACTIONS_S = 20
# If backends reported a smaller share of the measured transactions within the window, the time of
# the whole load is used.
_REPORTED_RATIO_MIN = 0.9
# Reports arrive up to a second late, so a short window may contain reports of earlier work.
_POSSIBLE_RATIO = 2.0
# The server adds a foreign statement when it ends. If the sum differs from the samples by more, it
# contains statements of another time.
_OTHERS_APART_RATIO = 0.25
_NORMAL_95 = 1.96
_SESSIONS_SEEN_MIN = 30
_LATE_RATIO_MAX = 0.5
# Sessions that work for a client. The server's own maintenance also serves the load.
FOR_SOMEBODY = ("client backend", "parallel worker")
# With a smaller share of the sampled time, a count of the execution alone is not used.
_EXECUTION_RATIO_MIN = 0.9
_COUNTS_EXECUTION = (
    "with the extended protocol, the server counts a statement's execution without its parsing and"
    " planning"
)
_START_PIPELINE = re.compile(r"^\s*\\startpipeline\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ServerTime:
    """The server's time for the measured transactions, ms; None if its count cannot be used.

    `error_ms`: half-width of the error from subtracting our own sessions. `why_not`: the reason, as
    the end of a sentence; "" if there is a count, or if the server keeps no count.
    """

    active_ms: float | None
    error_ms: float = 0.0
    why_not: str = ""


def server_time(stored: StoredRun, numbers: LoadNumbers, ended: int) -> ServerTime:
    """Return how long the server's sessions were active for the transactions of the window.

    Backends report active_time and xact_commit together and up to a second late. So their ratio is
    computed over the window, and then multiplied by the number of transactions that the engine
    counted. Backends that touch no table report nothing before their session ends. If a load has
    such backends, the ratio is computed over the whole load, including the warm-up. The time of
    each of our own statements in the load's database was measured, and is subtracted. The server
    counts by its wall clock. If this clock was set during the run, the load sent pipelines, or the
    count exceeds the time of all sessions, the count is not used.
    """
    if any(warning["kind"] == CLOCK_SET for warning in stored.warnings):
        return ServerTime(None, why_not="the wall clock was set during the run")
    if sends_pipelines(stored.job):
        return ServerTime(None, why_not="of a pipeline, the server counts only the last statement")
    rows = deltas_of(stored, "database", DatabaseCollector.columns, "ours")
    active_ns = grown(rows, "active_time_ns", *numbers.span_ns)
    commits = grown(rows, "xact_commit", *numbers.span_ns)
    rollbacks = grown(rows, "xact_rollback", *numbers.span_ns)
    own = grown(rows, "own_transactions", *numbers.span_ns) or 0.0
    seen = (commits or 0.0) + (rollbacks or 0.0) - own
    totals = (stored.document("server.json") or {}).get("totals") or {}
    is_exact = totals.get("is_exact") and not numbers.counts.failed
    reported = totals.get("database.xact_commit") if is_exact else None
    if reported is not None:
        reported -= round(_whole_growth(rows, "own_transactions"))
    committed = numbers.summary.transactions_committed_all_phases
    per_transaction = server_transactions_each(
        seen=seen,
        ended=ended,
        reported=reported,
        committed=committed,
        own_max=round(_OWN_TRANSACTIONS_S * (numbers.seconds + 2)),
        start_count=sum(thread.clients for thread in numbers.summary.threads),
    )
    whole_ns = totals.get("database.active_time_ns") if is_exact else None
    if whole_ns and committed and seen < _REPORTED_RATIO_MIN * per_transaction * ended:
        own_ns, error_ns = own_time(
            _whole_growth(rows, "own_active_ns"), _whole_growth(rows, "own_active_least_ns")
        )
        scale = ended / committed / 1e6
        return _possible((whole_ns - own_ns) * scale, error_ns * scale, numbers)
    if not active_ns or seen <= 0:
        return ServerTime(None)
    if per_transaction < 1 - _WHOLE_NUMBER_RATIO:
        return ServerTime(None, why_not="the load's sessions did not report all transactions")
    own_ns, error_ns = own_time(
        grown(rows, "own_active_ns", *numbers.span_ns) or 0.0,
        grown(rows, "own_active_least_ns", *numbers.span_ns) or 0.0,
    )
    if own:
        # We and the server may count one or two of our transactions in different intervals.
        error_ns += active_ns * _OWN_UNSURE / seen
    scale = per_transaction * ended / seen / 1e6
    return _possible((active_ns - own_ns) * scale, error_ns * scale, numbers)


def sends_pipelines(job: Mapping[str, Any]) -> bool:
    """Return whether a script of the job sends a statement before the answer to the one before.

    While a session stays active, each statement restarts the server's clock of `active_time`.
    Source: pgstat_report_activity in backend_status.c; PostgreSQL 15 and 18 counted 0.1 s for a
    pipeline of five statements of 0.1 s each.
    """
    return any(
        script.get("options", {}).get("mode") == "pipeline"
        or _START_PIPELINE.search(script["source"].get("text", "")) is not None
        for script in job.get("work", {}).get("scripts", ())
    )


def loads_server_time(stored: StoredRun, numbers: LoadNumbers) -> ServerTime:
    """Return the server's count of the load's time, without other sessions in its database.

    The server adds up all sessions of a database, so samples give the share of the load. The server
    adds a statement when it ends, and a session that touches no table reports when it closes. If
    other sessions were at work and the sum does not describe the sampled sessions, the samples are
    used. They are used, too, if the load parses or plans for a large part of its time.
    """
    ended = numbers.counts.completed + numbers.counts.failed
    whole = server_time(stored, numbers, ended)
    waits = stored.waits()
    is_active = inside_phase(waits, numbers) & (np.asarray(waits["state"]) == "active")
    is_somebodys = np.isin(np.asarray(waits["backend_type"]), FOR_SOMEBODY)
    others = is_active & is_somebodys & (waits["ours"] != 1) & _is_here(waits)
    ours = is_active & (waits["ours"] == 1)
    if whole.active_ms is None:
        return whole
    instants = distinct(np.asarray(waits["time_ns"], dtype=np.int64)[inside_phase(waits, numbers)])
    if not others.any():
        counted = whole.active_ms / numbers.seconds / 1e3
        if executes_apart(stored.job) and lacks_time(counted, _sightings(waits, ours, instants)):
            return ServerTime(None, why_not=_COUNTS_EXECUTION)
        return whole
    share, error = _share(waits, ours, others, instants)
    seen = _sightings(waits, ours | others, instants)
    if not describes(whole.active_ms / numbers.seconds / 1e3, seen):
        why = "other sessions worked in the load's database, and the server counts them late"
        return ServerTime(None, why_not=why)
    error_ms = math.hypot(whole.active_ms * error, whole.error_ms * share)
    return ServerTime(whole.active_ms * share, error_ms)


def executes_apart(job: Mapping[str, Any]) -> bool:
    """Return whether the load sends Parse or Bind before it executes a statement.

    The session is active from the first of these messages on, and each of them restarts the clock
    of `active_time`. So the server counts the execution, and neither parsing nor planning.
    Source: exec_parse_message, exec_bind_message and exec_execute_message in postgres.c.
    """
    return job.get("work", {}).get("protocol") in ("extended", "prepared")


def lacks_time(counted: float, seen: FloatArray) -> bool:
    """Return whether the count is surely below the sampled sessions, by at least a tenth.

    Args: counted, mean sessions by the server's count; seen, sessions in each sample.
    """
    if not seen.size:
        return False
    # Each sample that saw a session saw at least one, and few samples are enough for this share.
    low = proportion(int((seen > 0).sum()), seen.size).low or 0.0
    if seen.sum() >= _SESSIONS_SEEN_MIN:
        half = _NORMAL_95 * float(seen.std()) / math.sqrt(seen.size)
        low = max(low, float(seen.mean()) - half)
    return counted < _EXECUTION_RATIO_MIN * low


def describes(counted: float, seen: FloatArray) -> bool:
    """Return whether the server's count of sessions at work can be that of the sampled sessions.

    Samples miss sessions rather than seeing too many, so a count below their interval lacks the
    time of sessions that have not reported it.
    Args: counted, mean sessions by the server's count; seen, sessions in each sample.
    """
    if seen.sum() < _SESSIONS_SEEN_MIN:
        return True
    sampled = float(seen.mean())
    half = _NORMAL_95 * float(seen.std()) / math.sqrt(seen.size)
    return sampled - half <= counted <= sampled * (1 + _OTHERS_APART_RATIO)


def _is_here(waits: Arrays) -> npt.NDArray[np.bool_]:
    """Return which rows are of sessions in the load's database; all rows of older results."""
    if "here" not in waits:
        return np.ones(len(waits["time_ns"]), dtype=bool)
    return np.asarray(waits["here"] == 1)


def _share(
    waits: Arrays,
    ours: npt.NDArray[np.bool_],
    others: npt.NDArray[np.bool_],
    instants: IntArray,
) -> tuple[float, float]:
    """Return the load's share of the sampled sessions, and the half-width of its 95 % interval."""
    mine = _sightings(waits, ours, instants)
    both = mine + _sightings(waits, others, instants)
    sums = ShareSums()
    for ours_count, all_count in zip(mine.tolist(), both.tolist(), strict=True):
        sums.add(ours_count, all_count)
    return sums.share()


def _sightings(waits: Arrays, kept: npt.NDArray[np.bool_], instants: IntArray) -> FloatArray:
    """Return how many sessions of these rows each sample saw."""
    place = np.searchsorted(instants, np.asarray(waits["time_ns"], dtype=np.int64)[kept])
    count = np.asarray(waits["count"], dtype=np.float64)[kept]
    place = np.minimum(place, instants.size - 1)
    return np.asarray(np.bincount(place, count, instants.size), dtype=np.float64)


def counted_events(stored: StoredRun, numbers: LoadNumbers) -> tuple[CountedEvents, ...]:
    """Return the load's time in wait events that the server's clocks counted in the measured phase.

    A clock counts for all sessions of the database or of the server, so samples of the same event
    give the share of the load. A clock at 0 is switched off.
    """
    waits = stored.waits()
    inside = inside_phase(waits, numbers)
    instants = distinct(np.asarray(waits["time_ns"], dtype=np.int64)[inside])
    if not instants.size:
        return ()
    events = np.asarray(waits["wait_event"])
    reported = _reported_ratio(stored, numbers)
    counted = []
    for clock in clocks_of(has_io_view=stored.telemetry("io") is not None):
        is_databases = clock.collector == "database"
        columns = DatabaseCollector.columns if is_databases else WalCollector.columns
        rows = deltas_of(stored, clock.collector, columns, "ours" if is_databases else "")
        total_ns = grown(rows, clock.column, *numbers.span_ns)
        if not total_ns:
            continue
        total_ns /= reported
        names = clock.events
        in_event = inside & np.isin(events, names)
        ours = in_event & (waits["ours"] == 1) & (np.asarray(waits["state"]) == "active")
        others = in_event & (waits["ours"] != 1)
        if is_databases:
            others &= _is_here(waits)
        share, error = _share(waits, ours, others, instants) if others.any() else (1.0, 0.0)
        seen = [name for name in names if name in set(events[ours].tolist())] or [names[-1]]
        counted.append(CountedEvents(tuple(seen), total_ns * share, total_ns * error))
    return tuple(counted)


def _reported_ratio(stored: StoredRun, numbers: LoadNumbers) -> float:
    """Return the share of the window's transactions that backends reported within it, about 1."""
    rows = deltas_of(stored, "database", DatabaseCollector.columns, "ours")
    commits = grown(rows, "xact_commit", *numbers.span_ns) or 0.0
    seen = commits - (grown(rows, "own_transactions", *numbers.span_ns) or 0.0)
    ended = numbers.counts.completed + numbers.counts.failed
    per_transaction = max(1, round(seen / ended)) if ended else 1
    ratio = seen / (per_transaction * ended) if ended else 1.0
    return ratio if abs(ratio - 1) <= _LATE_RATIO_MAX else 1.0


def inside_phase(waits: Arrays, numbers: LoadNumbers) -> npt.NDArray[np.bool_]:
    """Return which samples are in the measured phase."""
    time_ns = np.asarray(waits["time_ns"], dtype=np.int64)
    return (time_ns >= numbers.began_ns) & (time_ns < numbers.ended_ns)


def _whole_growth(rows: Deltas | None, counter: str) -> float:
    """Return the growth of a counter over the whole run; 0 if it was not stored."""
    if rows is None or counter not in rows.by_column:
        return 0.0
    return float(np.nansum(rows.by_column[counter]))


def _possible(active_ms: float, error_ms: float, numbers: LoadNumbers) -> ServerTime:
    """Return the time, or why it is impossible: it exceeds the time of all clients together."""
    clients = sum(thread.clients for thread in numbers.summary.threads)
    had_ms = clients * numbers.seconds * 1e3
    if clients and active_ms > _POSSIBLE_RATIO * had_ms:
        return ServerTime(
            None, why_not="the server counted more time than all clients had together"
        )
    return ServerTime(active_ms, error_ms)


def server_transactions_each(
    *,
    seen: float,
    ended: int,
    reported: int | None,
    committed: int,
    own_max: int,
    start_count: int = 0,
) -> float:
    """Return the number of server transactions for one transaction of the scripts.

    Much of a short window is reported after its end, so the whole load gives the better number. If
    other sessions worked in the database, this number is not whole, and the window is used.
    Args: seen, server transactions reported within the window; ended, script transactions of the
    window; reported, server transactions reported after the sessions were closed (None: not
    known); committed, script transactions of the whole load; own_max, the largest possible number
    of our own transactions; start_count, sessions that the load started before the window, each of
    which is a server transaction.
    """
    if reported and committed:
        per_transaction = reported / committed
        excess = reported - int(per_transaction) * committed
        if _is_whole(per_transaction):
            return round(per_transaction)
        if int(per_transaction) and excess <= own_max:
            return per_transaction
        if int(per_transaction) and excess <= own_max + start_count:
            return int(per_transaction)
    per_transaction = seen / ended
    return round(per_transaction) if _is_whole(per_transaction) else per_transaction


def _is_whole(per_transaction: float) -> bool:
    return (
        round(per_transaction) > 0
        and abs(per_transaction - round(per_transaction)) <= _WHOLE_NUMBER_RATIO * per_transaction
    )
