"""Reads the server's own count of its time for the measured transactions."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pgdyno.analysis.arrays import FloatArray, IntArray, distinct
from pgdyno.analysis.at_work import own_time
from pgdyno.analysis.estimate import proportion
from pgdyno.analysis.server_clocks import ShareSums, clocks_of
from pgdyno.analysis.where_facts import CountedEvents
from pgdyno.loop.counter_growth import deltas_of, grown
from pgdyno.loop.disturbed import inside_phase
from pgdyno.loop.load_numbers import LoadNumbers
from pgdyno.observe.collector import NoticeKind
from pgdyno.observe.rates import Deltas
from pgdyno.observe.sql.database import DatabaseCollector
from pgdyno.observe.sql.waits import PARALLEL_WORKER
from pgdyno.observe.sql.wal import WalCollector
from pgdyno.programs.registry import program_named
from pgdyno.store.parquet import Arrays
from pgdyno.store.stored_run import StoredRun

_OWN_UNSURE = 2
# If the time of our own sessions may be wrong by a larger share of the load's, no count is used.
_OWN_RATIO_MAX = 0.5
# Transactions of our own sessions before and after they observe, which nothing counts.
_OWN_UNCOUNTED = 60
# With fewer transactions of the load, ours hide how many of the server's belong to each.
_COMMITTED_MIN = 3 * _OWN_UNCOUNTED
# If backends reported a smaller share of the measured transactions within the window, the time of
# the whole load is used.
_REPORTED_RATIO_MIN = 0.9
# Reports arrive up to a second late, so a short window may contain reports of earlier work.
_POSSIBLE_RATIO = 2.0
# A busy session reports once a second. At both ends of the window a part of a second is missing or
# too much, uniform in 0..1 s, so the standard deviation of the difference for one session is known.
_ENDS_S = math.sqrt(2 / 12)
# The server adds a foreign statement when it ends. If the sum differs from the samples by more, it
# contains statements of another time.
_OTHERS_APART_RATIO = 0.25
_NORMAL_95 = 1.96
_SESSIONS_SEEN_MIN = 30
_LATE_RATIO_MAX = 0.5
_ENDED = ("xact_commit", "xact_rollback")
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

    `error_ms`: half-width of the 95 % interval of the count. `why_not`: the reason, as the end of a
    sentence; "" if there is a count, or if the server keeps no count. `unsure`: why transactions do
    not show how much of the time was reported late, as a sentence; "" if they show it.
    `reported_ratio`: the share of the time that was reported within the window, None if not known.
    """

    active_ms: float | None
    error_ms: float = 0.0
    why_not: str = ""
    unsure: str = ""
    reported_ratio: float | None = None


def server_time(stored: StoredRun, numbers: LoadNumbers, ended: int) -> ServerTime:
    """Return how long the server's sessions were active for the transactions of the window.

    Backends report active_time and xact_commit together and up to a second late. So their ratio is
    computed over the window, and then multiplied by the number of transactions that the engine
    counted. Without a warm-up, the window is nearly the whole load, whose counts have no late
    reports, so its time is used. Backends that touch no table report nothing before their session
    ends. If a load has such backends, the ratio is computed over the whole load, including the
    warm-up. Autovacuum and other sessions add transactions without time, so their ratio says
    nothing. Then the time outside the window is subtracted from the time of the whole load. The
    time of each of our own statements in the load's database was measured, and is subtracted. The
    server counts by its wall clock. If this clock was set during the run, the load sent pipelines,
    or the count exceeds the time of all sessions, the count is not used.
    """
    if any(warning["kind"] == NoticeKind.CLOCK_SET for warning in stored.warnings):
        return ServerTime(None, why_not="the wall clock was set during the run")
    if sends_pipelines(stored.job):
        return ServerTime(None, why_not="of a pipeline, the server counts only the last statement")
    rows = deltas_of(stored, "database", DatabaseCollector.columns, "ours")
    active_ns = grown(rows, "active_time_ns", *numbers.span_ns)
    seen = _transactions_seen(rows, numbers)
    totals = stored.server_json.get("totals") or {}
    is_exact = bool(totals.get("is_exact"))
    committed = numbers.summary.transactions_committed_all_phases
    whole_ns = totals.get("database.active_time_ns") if is_exact and committed else None
    reported = totals.get("database.xact_commit") if whole_ns else None
    per_transaction = None
    if reported is not None and not numbers.counts.failed:
        reported -= round(_own_total(stored, "own_transactions"))
        reported -= totals.get("database.parallel_transactions") or 0
        per_transaction = server_transactions_each(reported, committed, _clients(numbers))
    if whole_ns and (
        per_transaction is None
        or _outside_count(numbers) <= _clients(numbers)
        or seen < _REPORTED_RATIO_MIN * per_transaction * ended
    ):
        own = own_time(
            *(_own_total(stored, name) for name in ("own_active_ns", "own_active_least_ns"))
        )
        is_clear = per_transaction is not None
        return _of_whole_load(whole_ns, own, rows, numbers, is_clear=is_clear)
    if not active_ns or seen <= 0:
        return ServerTime(None)
    if per_transaction is None and round(seen / ended) < 1:
        return ServerTime(None, why_not="the load's sessions did not report all transactions")
    own_ns, error_ns = own_time(
        grown(rows, "own_active_ns", *numbers.span_ns) or 0.0,
        grown(rows, "own_active_least_ns", *numbers.span_ns) or 0.0,
    )
    if grown(rows, "own_transactions", *numbers.span_ns):
        # We and the server may count one or two of our transactions in different intervals.
        error_ns += active_ns * _OWN_UNSURE / seen
    load_ns = active_ns - own_ns
    if per_transaction is None:
        error_ns += _late_ns(load_ns, numbers)
        unsure = "The counters were not read after the sessions of the load had ended"
        return _possible(load_ns, error_ns, numbers, load_ns, unsure=unsure)
    scale = per_transaction * ended / seen
    return _possible(load_ns * scale, error_ns * scale, numbers, load_ns)


def _of_whole_load(
    whole_ns: float,
    own: tuple[float, float],
    rows: Deltas | None,
    numbers: LoadNumbers,
    *,
    is_clear: bool,
) -> ServerTime:
    """Return the time of the whole load without its time outside the window.

    If the transactions of the load are clear, those of the window have their share of the time.
    Else the server may have reported more before the window than the share of the transactions
    outside: those of a warm-up with cold caches take longer.
    Args: own, the time of our own sessions in `whole_ns`, and the half-width of its error.
    """
    own_ns, error_ns = own
    # The lab measures its statements from outside. While it waits for a core, the server does not.
    error_ns = max(error_ns, own_ns)
    load_ns = whole_ns - own_ns
    if error_ns > _OWN_RATIO_MAX * load_ns:
        return ServerTime(None, why_not="pgdyno's own sessions used much of the time it counted")
    committed = numbers.summary.transactions_committed_all_phases
    outside_count = _outside_count(numbers)
    outside_ns = load_ns * outside_count / committed
    reported_ns = (grown(rows, "active_time_ns", *numbers.span_ns) or 0.0) - (
        grown(rows, "own_active_ns", *numbers.span_ns) or 0.0
    )
    if is_clear:
        unsure = "Statements of pgdyno's own sessions are in the server's count"
        return _possible(load_ns - outside_ns, error_ns, numbers, reported_ns, unsure=unsure)
    if outside_count <= _clients(numbers):
        # No warm-up: outside are the last transactions of each client.
        error_ns += outside_ns
    else:
        late_ns = _late_ns(load_ns * numbers.counts.completed / committed, numbers)
        outside_ns = max(outside_ns, _before_ns(rows, numbers))
        error_ns += min(late_ns, outside_ns)
    unsure = (
        "Other sessions, such as autovacuum, added transactions to the load's database, or"
        " transactions of the load differ in number of statements"
    )
    return _possible(load_ns - outside_ns, error_ns, numbers, reported_ns, unsure=unsure)


def _outside_count(numbers: LoadNumbers) -> int:
    """Return how many transactions of the load were completed outside the window."""
    return max(numbers.summary.transactions_committed_all_phases - numbers.counts.completed, 0)


def _transactions_seen(rows: Deltas | None, numbers: LoadNumbers) -> float:
    """Return the server transactions reported within the window, without our own.

    Parallel workers begin with transactions, too; the server counts workers since PostgreSQL 18.
    """
    ended, others = (
        sum(grown(rows, name, *numbers.span_ns) or 0.0 for name in names)
        for names in (_ENDED, ("own_transactions", "parallel_transactions"))
    )
    return ended - others


def _before_ns(rows: Deltas | None, numbers: LoadNumbers) -> float:
    """Return the time of the load that the server reported before the window."""
    if rows is None or not rows.time_ns.size:
        return 0.0
    began_ns = int(rows.time_ns[0] - rows.interval_ns[0])
    if began_ns >= numbers.began_ns:
        return 0.0
    columns = ("active_time_ns", "own_active_ns")
    active, own = (
        rows.total(name, began_ns, numbers.began_ns) if name in rows.by_column else 0.0
        for name in columns
    )
    return max(float(np.nan_to_num(active - own)), 0.0)


def _late_ns(load_ns: float, numbers: LoadNumbers) -> float:
    """Return the half-width of the error from reports at both ends of the window."""
    sessions = max(min(_clients(numbers), load_ns / numbers.seconds / 1e9), 1.0)
    return _NORMAL_95 * _ENDS_S * load_ns / numbers.seconds / math.sqrt(sessions)


def _clients(numbers: LoadNumbers) -> int:
    return sum(thread.clients for thread in numbers.summary.engine.threads)


def sends_pipelines(job: Mapping[str, Any]) -> bool:
    """Return whether a script of the job sends a statement before the answer to the one before.

    While a session stays active, each statement restarts the server's clock of `active_time`.
    Source: pgstat_report_activity in backend_status.c; PostgreSQL 15 and 18 counted 0.1 s for a
    pipeline of five statements of 0.1 s each.
    """
    return any(map(is_pipelined, job.get("work", {}).get("scripts", ())))


def is_pipelined(script: Mapping[str, Any]) -> bool:
    """Return whether a script of a job sends a pipeline."""
    source = script["source"]
    if "text" in source:
        return _START_PIPELINE.search(source["text"]) is not None
    return program_named(source.get("builtin")).pipelines(script)


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
    # The server adds no time of parallel workers to active_time.
    kind = np.asarray(waits["backend_type"])
    others = is_active & (kind == "client backend") & (waits["ours"] != 1) & _is_here(waits)
    ours = is_active & is_leading(waits)
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
    return replace(whole, active_ms=whole.active_ms * share, error_ms=error_ms)


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


def counted_events(
    stored: StoredRun, numbers: LoadNumbers, active: ServerTime
) -> tuple[CountedEvents, ...]:
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
    reported = active.reported_ratio or 1.0
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
        is_active = np.asarray(waits["state"]) == "active"
        ours = in_event & is_leading(waits) & is_active
        # The clock also counts the load's parallel workers, for which no client waits.
        others = in_event & ~is_leading(waits)
        if is_databases:
            others &= _is_here(waits)
        share, error = _share(waits, ours, others, instants) if others.any() else (1.0, 0.0)
        seen = [name for name in names if name in set(events[ours].tolist())] or [names[-1]]
        counted.append(CountedEvents(tuple(seen), total_ns * share, total_ns * error))
    return tuple(counted)


def is_leading(waits: Arrays) -> npt.NDArray[np.bool_]:
    """Return which rows are of the load's sessions, without their parallel workers."""
    is_worker = np.asarray(waits["backend_type"]) == PARALLEL_WORKER
    return np.asarray((waits["ours"] == 1) & ~is_worker)


def _own_total(stored: StoredRun, counter: str) -> float:
    """Return a count of our own sessions since they were opened; 0 if it was not stored.

    They are opened after the first reading of the totals. So the totals have their opening
    statements, which the difference of two samples does not have.
    """
    rows = stored.telemetry("database")
    if rows is None or counter not in rows:
        return 0.0
    values = np.asarray(rows[counter], dtype=np.float64)[np.asarray(rows["scope"]) == "ours"]
    return float(np.nanmax(values, initial=0.0))


def _possible(
    load_ns: float,
    error_ns: float,
    numbers: LoadNumbers,
    reported_ns: float,
    *,
    unsure: str = "",
) -> ServerTime:
    """Return the time, or why it is impossible: it exceeds the time of all clients together.

    Args: reported_ns, the part that the server reported within the window.
    """
    clients = _clients(numbers)
    had_ns = clients * numbers.seconds * 1e9
    if clients and load_ns > _POSSIBLE_RATIO * had_ns:
        return ServerTime(
            None, why_not="the server counted more time than all clients had together"
        )
    ratio = None
    if load_ns > 0 and abs(reported_ns / load_ns - 1) <= _LATE_RATIO_MAX:
        ratio = reported_ns / load_ns
    return ServerTime(load_ns / 1e6, error_ns / 1e6, unsure=unsure, reported_ratio=ratio)


def server_transactions_each(reported: int, committed: int, start_count: int = 0) -> int | None:
    """Return the number of server transactions for one transaction of the scripts.

    Args: reported, server transactions of the whole load, reported after its sessions were closed;
    committed, its script transactions; start_count, sessions that the load started, each of which
    is a server transaction.
    Returns: None if other sessions, or statements whose number varies, hide the whole number.
    """
    if committed < _COMMITTED_MIN:
        return None
    per_transaction, others = divmod(reported, committed)
    return per_transaction if per_transaction and others <= _OWN_UNCOUNTED + start_count else None
