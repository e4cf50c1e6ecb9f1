"""Collects the facts of a stored run and splits the time of its transactions into parts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pgdyno.analysis.arrays import coded, distinct
from pgdyno.analysis.at_work import events_while_busy
from pgdyno.analysis.resample import REPLICATES
from pgdyno.analysis.split_verdicts import why_withheld
from pgdyno.analysis.where import ParallelWorkers, WhereTheTimeGoes, where_the_time_goes
from pgdyno.analysis.where_facts import (
    ANSWERING,
    NOT_INSTRUMENTED,
    BackendTimes,
    EngineTimes,
    ServerCounts,
    TransactionFacts,
    WaitSamples,
)
from pgdyno.analysis.where_statements import named_statements
from pgdyno.analysis.where_types import time_by_type
from pgdyno.answer.nodes import nodes_answer
from pgdyno.answer.planning import with_planning
from pgdyno.answer.server_time import (
    ServerTime,
    counted_events,
    executes_apart,
    is_leading,
    loads_server_time,
)
from pgdyno.answer.waited_for import WaitedFor, exchange_of, mean_ns, reply_wait_ns, waited_for
from pgdyno.loop.counter_growth import deltas_of, grown, is_seen_by_ticks, load_backends
from pgdyno.loop.disturbed import inside_phase, others_ratio_of
from pgdyno.loop.load_numbers import LoadNumbers
from pgdyno.observe.collector import NoticeKind
from pgdyno.observe.pooler.pools import PoolerTrafficCollector
from pgdyno.observe.session import BUSY_SESSION_MS
from pgdyno.observe.sql.waits import ANSWERED, PARALLEL_WORKER
from pgdyno.quantities import percent
from pgdyno.store.parquet import Arrays
from pgdyno.store.stored_run import StoredRun

_SEED = 20_260_102
_OVERLAP_RATIO_MAX = 0.15
# If waiting for a client is a larger share of the latency, its reason is given.
_WAITING_RATIO_MIN = 0.1
_GAP_NS_MAX = 3_000_000_000
# A server with many clients answers late, so gaps between samples are longer: up to half of the
# phase.
_LATE_RATIO_MAX = 0.5
# If late reports make the server's count unsure by more than this, the result says so.
_UNSURE_RATIO_MIN = 0.02
_WORKER_EVENTS_SHOWN = 3
# Samples needed if nothing else says how long the server worked.
_SAMPLES_MIN = 10


@dataclass(frozen=True, slots=True)
class Split:
    """Where the time goes, or the reason why it is not known, as the end of a sentence."""

    where: WhereTheTimeGoes | None
    why_not: str = ""


def time_split(
    stored: StoredRun, numbers: LoadNumbers, *, with_intervals: bool = True
) -> WhereTheTimeGoes | None:
    """Return where a transaction's time goes, None if it is not known."""
    return split_or_why_not(stored, numbers, with_intervals=with_intervals).where


def split_or_why_not(
    stored: StoredRun, numbers: LoadNumbers, *, with_intervals: bool = True
) -> Split:
    """Return where a transaction's time goes.

    The residual contains the parts that were not measured, such as the CPU of another host. There
    is no split if it cannot be right: the server was not observed or not reachable for a while;
    nothing counts its time and there are too few samples; or the parts exceed the whole.
    Args: with_intervals, False leaves out intervals and single statements, which saves time for
    runs of which only the mean counts.
    """
    if numbers.counts.completed == 0 or numbers.seconds <= 0:
        return Split(None, "no transaction was completed")
    used = sum(host.completed_count > 0 for host in numbers.summary.connections.hosts)
    if used > 1:
        words = f"{used} hosts served the load, and the server's time is that of one host"
        return Split(None, words)
    samples = _samples(stored, numbers)
    why_not = _why_not_sampled(samples)
    if samples is not None and (gap_ns := _longest_gap_ns(samples, numbers)) > _gap_ns_max(numbers):
        why_not = f"the server could not be observed for {gap_ns / 1e9:.0f} s of the run"
        if not _answered_late(stored):
            return Split(None, why_not)
        # Too few samples to split the server's time; the count of the server's time is still used.
        samples = None
    counted = loads_server_time(stored, numbers)
    waited = waited_for(stored, numbers, samples, counted)
    facts = _facts(stored, numbers, waited, counted)
    if facts.server.active_ms is None and why_not:
        return Split(None, why_not)
    where = _whole(stored, numbers, facts, counted, with_intervals=with_intervals)
    if why_not := why_withheld(
        "latency",
        where.latency_ms.value,
        where.residual_ms,
        overlap_ratio=_OVERLAP_RATIO_MAX,
        no_part_ratio=math.inf,  # A single run has a doubt instead.
    ):
        return Split(None, why_not)
    if samples is not None and where.waiting_ratio >= _WAITING_RATIO_MIN:
        where = replace(where, while_busy=events_while_busy(samples))
    if where.server_ms is None or samples is None or not with_intervals:
        return Split(where)
    places = [place for place in waited.places if place.script not in waited.background]
    statements = named_statements(facts, where.server_ms, places, seed=_SEED)
    types = (
        ()
        if not waited.types
        else time_by_type(
            facts,
            samples,
            [(part.side, part.name, part.ms) for part in where.parts],
            waited.types,
            waited.fractions,
            server_ms=where.server_ms,
            seed=_SEED,
        )
    )
    nodes = nodes_answer(stored)
    return Split(
        replace(
            with_planning(where, stored, numbers, places),
            statements=statements,
            types=types,
            several_shards_ratio=nodes.several_shards_ratio(stored, numbers),
            nodes=nodes.nodes_of(stored, numbers),
        )
    )


def _whole(
    stored: StoredRun,
    numbers: LoadNumbers,
    facts: TransactionFacts,
    counted: ServerTime,
    *,
    with_intervals: bool,
) -> WhereTheTimeGoes:
    """Return the parts of the latency, and what is known about them without their statements."""
    where = where_the_time_goes(facts, seed=_SEED, replicates=REPLICATES if with_intervals else 1)
    return replace(
        where,
        why_sampled=counted.why_not,
        why_unsure=_why_unsure(counted),
        workers=parallel_workers(stored, numbers),
        uncounted_ms=_uncounted_ms(stored, facts),
        scheduled=where.scheduled if is_seen_by_ticks(facts.backends.cpu_ns or 0.0) else None,
    )


def _why_unsure(counted: ServerTime) -> str:
    """Return why the server's count has a large error, and this error; "" if it is small."""
    if not counted.active_ms or not counted.unsure:
        return ""
    ratio = counted.error_ms / counted.active_ms
    if ratio <= _UNSURE_RATIO_MIN:
        return ""
    return f"{counted.unsure}: the server time is known to {percent(ratio)} only."


def _uncounted_ms(stored: StoredRun, facts: TransactionFacts) -> float:
    """Return how much of a transaction's server time its count lacks at most; 0 if it is whole.

    The server does not count Parse and Bind (`executes_apart`). They are within the time from start
    to end of a transaction that neither the count nor exchanges without work explain.
    """
    active_ms, engine = facts.each(facts.server.active_ms), facts.engine
    if active_ms is None or not executes_apart(stored.job):
        return 0.0
    outside_ns = (facts.exchange.ns or 0.0) * (engine.round_trip_count or 0.0)
    for ns in (
        *(engine.reply_wait_ns, engine.sleep_ns, engine.shell_ns),
        *(engine.schedule_lag_ns, engine.connection_wait_ns, facts.each(facts.pooler_wait_ns)),
    ):
        outside_ns += ns or 0.0
    return max((facts.latency.value - outside_ns) / 1e6 - active_ms, 0.0)


def _scaled(total: float | None, ratio: float) -> float | None:
    return None if total is None else total * ratio


def _why_not_sampled(samples: WaitSamples | None) -> str:
    """Return why samples cannot replace the count of the server's time; "" if they can."""
    if samples is None:
        return "the server was not observed, so its part is not known"
    if (few := len(samples.sampled_at_ns)) < _SAMPLES_MIN:
        return f"there are only {few} samples of the server's time; {_SAMPLES_MIN} are needed"
    return ""


def _facts(
    stored: StoredRun,
    numbers: LoadNumbers,
    waited: WaitedFor,
    counted: ServerTime,
) -> TransactionFacts:
    """Return the facts about the transactions that clients wait for."""
    server_ratio, trips_ratio = waited.server_ratio, waited.trips_ratio
    ended = numbers.counts.completed + numbers.counts.failed
    summary = numbers.summary
    nodes = nodes_answer(stored).active_ms_of_nodes(stored, numbers)
    lag = summary.distribution("lag")
    wait = summary.distribution("connection_wait")
    backends = load_backends(stored)
    reply_ns = reply_wait_ns(summary)
    round_trips = summary.traffic.round_trips * trips_ratio
    run_ns = grown(backends, "run_ns", *numbers.span_ns)
    queue_ns = grown(backends, "wait_ns", *numbers.span_ns)
    active_ns = None if counted.active_ms is None else counted.active_ms * 1e6
    core_ratio = waited.core_ratio((run_ns or 0.0) + (queue_ns or 0.0), active_ns)
    server = ServerCounts(
        active_ms=_scaled(counted.active_ms, server_ratio),
        active_error_ms=counted.error_ms * server_ratio,
        events=tuple(
            replace(clock, total_ns=clock.total_ns * ratio, error_ns=clock.error_ns * ratio)
            for clock in counted_events(stored, numbers, counted)
            for ratio in (waited.event_ratio(clock.events),)
        ),
        others_ratio=others_ratio_of(stored, numbers),
        other_nodes_ms=_scaled(math.fsum(nodes.values()) if nodes else None, server_ratio),
    )
    backend_times = BackendTimes(
        cpu_ns=_scaled(run_ns, core_ratio),
        runqueue_ns=_scaled(queue_ns, core_ratio),
        slice_count=_scaled(grown(backends, "slices", *numbers.span_ns), trips_ratio),
        core_count=_core_count(stored),
    )
    between_ns = summary.clients.between_transactions_ns
    engine = EngineTimes(
        round_trip_count=round_trips / ended,
        cpu_ns=(summary.engine.cpu_user_ns + summary.engine.cpu_system_ns) * trips_ratio / ended,
        reply_wait_ns=reply_ns and reply_ns * round_trips / ended,
        schedule_lag_ns=None if lag is None else mean_ns(lag),
        connection_wait_ns=None if wait is None else mean_ns(wait),
        sleep_ns=summary.clients.sleep_ns / ended or None,
        shell_ns=summary.clients.shell_ns / ended or None,
        between_ns=None if between_ns is None else between_ns / ended,
    )
    return TransactionFacts(
        latency=numbers.latency.mean.scaled(1e6, "ns"),
        window_seconds=numbers.seconds,
        transaction_count=ended,
        samples=waited.samples,
        server=server,
        backends=backend_times,
        engine=engine,
        exchange=exchange_of(summary),
        pooler_wait_ns=_pooler_wait_ns(stored, numbers),
    )


def _pooler_wait_ns(stored: StoredRun, numbers: LoadNumbers) -> float | None:
    """Return how long clients of the load's database waited at the pooler, None without one."""
    database = stored.job.get("target", {}).get("database", "")
    traffic = deltas_of(stored, "pooler_traffic", PoolerTrafficCollector.columns, database)
    return grown(traffic, "wait_time_ns", *numbers.span_ns)


def _core_count(stored: StoredRun) -> int | None:
    """Return how many cores the server's host has, None if the host was not examined."""
    rows = stored.telemetry("cpu")
    if rows is None:
        return None
    cores = set(rows["core"])
    return len(cores - {"all"}) or None


def _longest_gap_ns(samples: WaitSamples, numbers: LoadNumbers) -> int:
    """Return the longest time within the measured phase without a sample of waits."""
    at_ns = np.concatenate(([numbers.began_ns], samples.sampled_at_ns, [numbers.ended_ns]))
    return int(np.diff(at_ns).max())


def _gap_ns_max(numbers: LoadNumbers) -> float:
    """Return the longest permitted gap between samples; it is longer if answers may take longer."""
    clients = sum(thread.clients for thread in numbers.summary.engine.threads)
    late_ns = clients * BUSY_SESSION_MS * 1_000_000
    phase_ns = numbers.ended_ns - numbers.began_ns
    return max(_GAP_NS_MAX, min(_GAP_NS_MAX + late_ns, _LATE_RATIO_MAX * phase_ns))


def _answered_late(stored: StoredRun) -> bool:
    """Return whether the server was slow to answer, but no connection to it was lost."""
    kinds = {str(warning["kind"]) for warning in stored.warnings}
    return (
        NoticeKind.OBSERVER_ANSWERED_LATE in kinds and NoticeKind.OBSERVER_LOST_SERVER not in kinds
    )


def parallel_workers(stored: StoredRun, numbers: LoadNumbers) -> ParallelWorkers | None:
    """Return what the load's parallel workers did in the measured phase; None if none was seen."""
    waits = stored.waits()
    inside = inside_phase(waits, numbers)
    is_worker = np.asarray(waits["backend_type"]) == PARALLEL_WORKER
    kept = inside & is_worker & (waits["ours"] == 1)
    names, event = coded(np.asarray(events_seen(waits)[kept]).tolist())
    sums = np.bincount(event, np.asarray(waits["count"], dtype=np.float64)[kept])
    if not sums.sum():
        return None
    instants = distinct(np.asarray(waits["time_ns"], dtype=np.int64)[inside]).size
    largest = np.argsort(-sums, kind="stable")[:_WORKER_EVENTS_SHOWN].tolist()
    shares = tuple((names[i] or NOT_INSTRUMENTED, float(sums[i] / sums.sum())) for i in largest)
    return ParallelWorkers(float(sums.sum()) / instants, shares)


def _samples(stored: StoredRun, numbers: LoadNumbers) -> WaitSamples | None:
    """Return the samples of the load's sessions within the measured phase."""
    waits = stored.waits()
    inside = inside_phase(waits, numbers)
    if not inside.any():
        return None
    time_ns = np.asarray(waits["time_ns"], dtype=np.int64)
    events, state = events_seen(waits), np.asarray(waits["state"])
    is_active = state == "active"
    is_answering = ~is_active & (events == "") & (state != "")
    counted = inside & is_leading(waits) & (is_active | is_answering)
    return WaitSamples(
        sampled_at_ns=distinct(time_ns[inside]),
        time_ns=time_ns[counted],
        event=np.where(is_active, events, ANSWERING)[counted].tolist(),
        session_count=np.asarray(waits["count"], dtype=np.int64)[counted],
        query_id=np.asarray(waits["query_id"], dtype=np.int64)[counted],
        with_priority=bool(stored.server_json.get("samples_with_priority")),
    )


def events_seen(waits: Arrays) -> npt.NDArray[np.str_]:
    """Return the wait events of the rows; "" also for sessions that answered during the sample."""
    events = np.asarray(waits["wait_event"])
    has_answered = (np.asarray(waits["state"]) == "active") & (events == ANSWERED)
    return np.where(has_answered, "", events)
