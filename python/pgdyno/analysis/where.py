"""Where the time of a transaction goes, in ms: parts and a residual that sum to its latency."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pgdyno.analysis.arrays import FloatArray, IntArray
from pgdyno.analysis.estimate import Estimate, mean_between_runs, without_interval
from pgdyno.analysis.resample import REPLICATES, block_weights, plan_blocks, within_run_estimate
from pgdyno.analysis.wait_events import canonical_event
from pgdyno.errors import AnalysisError

CPU = "CPU"
WAITING_FOR_A_CORE = "waiting for a core"
NOT_INSTRUMENTED = "CPU or not instrumented"
SERVER = "server"
NETWORK = "network"
CLIENT = "client"
SCHEDULE_LAG = "schedule lag"
CONNECTION_WAIT = "wait for a connection"

Side = Literal["server", "network", "client", "schedule"]
_NS_PER_MS = 1e6


@dataclass(frozen=True, slots=True, eq=False)
class WaitSamples:
    """What our own active sessions waited for, at many instants of the measured phase.

    Rows (time_ns, event, session_count) as grouped from pg_stat_activity; `event` is "Type:Event",
    or "" without a wait event. Only sessions in state `active`: a session idle in a transaction
    waits for its client (Client:ClientRead), which is no server time. `sampled_at_ns` lists every
    instant, those with no active session too.
    """

    sampled_at_ns: IntArray
    time_ns: IntArray
    event: Sequence[str]
    session_count: IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionFacts:
    """What was measured of the transactions of one run; None where something was not measured.

    Totals over the measured phase: server_active_ms (delta of pg_stat_database.active_time, 14+),
    server_transaction_count (delta of xact_commit + xact_rollback of the same database),
    backend_cpu_ns and backend_runqueue_ns (schedstat of our backends, same host only).
    Per transaction: latency (mean, unit "ns"), round_trip_count, client_cpu_ns,
    schedule_lag_ns and connection_wait_ns (part of the latency in an open loop).
    round_trip_ns: one exchange without work for the server (a bare Sync) on an idle connection;
    round_trip_client_cpu_ns: what of it is CPU of the client.
    """

    latency: Estimate
    window_seconds: float
    server_transaction_count: int
    server_active_ms: float | None = None
    samples: WaitSamples | None = None
    round_trip_count: float | None = None
    round_trip_ns: float | None = None
    round_trip_client_cpu_ns: float | None = None
    client_cpu_ns: float | None = None
    schedule_lag_ns: float | None = None
    connection_wait_ns: float | None = None
    backend_cpu_ns: float | None = None
    backend_runqueue_ns: float | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the latency, unit "ms"."""

    name: str
    ms: Estimate
    side: Side


@dataclass(frozen=True, slots=True)
class WhereTheTimeGoes:
    """Parts plus residual are the latency, exactly; a negative residual says parts overlap.

    `server_ms`: time in state active per transaction. `sampled_server_ms`: the same from the
    samples alone, a check on them. `residual_ratio`: residual / latency.
    """

    latency_ms: Estimate
    parts: tuple[Part, ...]
    residual_ms: float
    residual_ratio: float
    server_ms: float | None
    sampled_server_ms: float | None


def where_the_time_goes(
    facts: TransactionFacts, *, seed: int, replicates: int = REPLICATES
) -> WhereTheTimeGoes:
    """Split the mean latency of a run's transactions into parts.

    Server time is active_time per transaction, which is exact; samples only split it. Without
    active_time (before PostgreSQL 14) it is sampled too. On the same host, schedstat splits the
    samples without wait event. Nothing is counted twice: CPU of the client inside the round trip
    is taken off the network, and so is CPU of backends outside statements.
    Raises: AnalysisError if the server ended no transaction in the window.
    Source: active sessions = throughput x time (Little 1961); intervals by circular block
    bootstrap over the instants of sampling.
    Limits: time runnable before a statement begins or after a wait ends is known only in sum; it
    is shown as waiting for a core as far as the latency has room for it. Sessions of others in
    the same database are counted in active_time.
    """
    if facts.server_transaction_count <= 0:
        raise AnalysisError("the server ended no transaction, so there is no time to split")
    if facts.latency.unit != "ns":
        raise AnalysisError(f"latency must be in ns, got {facts.latency.unit}")
    rng = np.random.default_rng(seed)
    events, point, redrawn, block_count = _sampled(facts, rng, replicates)
    per_transaction = facts.window_seconds * 1e9 / facts.server_transaction_count
    exact_ns = (
        None
        if facts.server_active_ms is None
        else facts.server_active_ms * _NS_PER_MS / facts.server_transaction_count
    )
    names, amounts = _amounts(facts, events, point[None, :] * per_transaction, exact_ns)
    _, drawn = _amounts(facts, events, redrawn * per_transaction, exact_ns)
    parts = [
        Part(name, _estimate(float(amounts[0, i]), drawn[:, i], block_count, side), side)
        for i, (name, side) in enumerate(names)
    ]
    sampled_ns = float(point.sum()) * per_transaction if events else None
    server_ns = exact_ns if exact_ns is not None else sampled_ns
    return _whole(
        facts.latency.scaled(1 / _NS_PER_MS, "ms"),
        parts,
        None if server_ns is None else server_ns / _NS_PER_MS,
        None if sampled_ns is None else sampled_ns / _NS_PER_MS,
    )


def mean_over_runs(runs: Sequence[WhereTheTimeGoes]) -> WhereTheTimeGoes:
    """Return the mean split over the runs of a cell, with intervals between runs.

    A part that a run does not have counts as 0 there, so that the parts keep summing up.
    """
    if not runs:
        raise AnalysisError("a mean over no runs")
    keyed = [{canonical_event(part.name): part for part in run.parts} for run in runs]
    newest = {key: part for run in keyed for key, part in run.items()}
    parts = [
        Part(
            part.name,
            _above_zero(
                mean_between_runs([run[key].ms.value if key in run else 0.0 for run in keyed], "ms")
            ),
            part.side,
        )
        for key, part in newest.items()
    ]
    latency = mean_between_runs([run.latency_ms.value for run in runs], "ms")
    server = [run.server_ms for run in runs if run.server_ms is not None]
    sampled = [run.sampled_server_ms for run in runs if run.sampled_server_ms is not None]
    return _whole(
        latency,
        parts,
        float(np.mean(server)) if server else None,
        float(np.mean(sampled)) if sampled else None,
    )


@dataclass(frozen=True, slots=True)
class Difference:
    """B minus A, in ms: parts plus residual are the difference of the latencies, exactly."""

    latency_ms: Estimate
    parts: tuple[Part, ...]
    residual_ms: float


def difference(a: WhereTheTimeGoes, b: WhereTheTimeGoes) -> Difference:
    """Return where B spends more or less time than A, the largest change first.

    Wait events are joined over PostgreSQL versions and shown under B's name. CPU and waiting for
    a core are joined into one part when only one side could split them.
    Source: interval of a difference of independent estimates, Zou and Donner 2008.
    """
    mine, other = _keyed(a), _keyed(b)
    if (CPU.casefold() in mine) != (CPU.casefold() in other):
        mine, other = _unsplit(mine), _unsplit(other)
    parts = []
    for key in dict.fromkeys((*other, *mine)):
        part_a, part_b = mine.get(key), other.get(key)
        shown = part_b or part_a
        assert shown is not None
        from_a = part_a.ms if part_a else None
        from_b = part_b.ms if part_b else None
        parts.append(Part(shown.name, _minus(from_b, from_a), shown.side))
    parts.sort(key=lambda part: -abs(part.ms.value))
    latency = _minus(b.latency_ms, a.latency_ms)
    residual = latency.value - math.fsum(part.ms.value for part in parts)
    return Difference(latency, tuple(parts), residual)


def _sampled(
    facts: TransactionFacts, rng: np.random.Generator, replicates: int
) -> tuple[list[str], FloatArray, FloatArray, int]:
    """Return events, mean sessions in each, bootstrap replicates of these, and the block count."""
    samples = facts.samples
    if samples is None or samples.session_count.sum() == 0 or samples.sampled_at_ns.size == 0:
        return [], np.zeros(0), np.zeros((1, 0)), 1
    events, column = np.unique(np.asarray(samples.event, dtype=str), return_inverse=True)
    instants = np.unique(samples.sampled_at_ns)
    row = np.searchsorted(instants, samples.time_ns)
    if (row == instants.size).any() or (instants[row] != samples.time_ns).any():
        raise AnalysisError("a wait sample has a time at which nothing was sampled")
    by_instant = np.zeros((instants.size, events.size))
    np.add.at(by_instant, (row, column), samples.session_count)
    # The event that varies most sets how long blocks must be.
    restless = by_instant[:, int(np.argmax(by_instant.var(axis=0)))]
    plan = plan_blocks(restless, instants.size / facts.window_seconds)
    group = plan.group_of(np.arange(instants.size, dtype=np.float64))
    starts = np.searchsorted(group, np.arange(plan.group_count))
    counts = np.add.reduceat(by_instant, starts, axis=0)
    taken = np.bincount(group, minlength=plan.group_count).astype(np.float64)
    weights = block_weights(plan, rng, replicates)
    redrawn = (weights @ counts) / (weights @ taken)[:, None]
    names = [str(event) for event in events]
    return names, by_instant.mean(axis=0), redrawn, plan.block_count


def _amounts(
    facts: TransactionFacts, events: list[str], sampled_ns: FloatArray, exact_ns: float | None
) -> tuple[list[tuple[str, Side]], FloatArray]:
    """Return names, and for every row of `sampled_ns` the parts in ns, shape (rows, parts)."""
    rows = sampled_ns.shape[0]
    by_event = sampled_ns
    if exact_ns is not None and events:
        total = sampled_ns.sum(axis=1, keepdims=True)
        by_event = sampled_ns * (exact_ns / np.where(total > 0, total, 1.0))
    amounts: dict[tuple[str, Side], FloatArray] = {}
    bare = np.zeros(rows)
    for i, event in enumerate(events):
        if event == "":
            bare = by_event[:, i]
        else:
            amounts[event, "server"] = by_event[:, i]
    network, client = _outside(facts)
    if network is not None:
        amounts[NETWORK, "network"] = np.full(rows, network)
    if client is not None:
        amounts[CLIENT, "client"] = np.full(rows, client)
    if facts.schedule_lag_ns:
        amounts[SCHEDULE_LAG, "schedule"] = np.full(rows, facts.schedule_lag_ns)
    if facts.connection_wait_ns:
        amounts[CONNECTION_WAIT, "schedule"] = np.full(rows, facts.connection_wait_ns)
    if not events:
        if exact_ns is not None:
            amounts[SERVER, "server"] = np.full(rows, exact_ns)
    elif facts.backend_cpu_ns is None or facts.backend_runqueue_ns is None:
        amounts[NOT_INSTRUMENTED, "server"] = bare
    else:
        _split_bare(facts, bare, amounts)
    return list(amounts), np.stack(list(amounts.values()), axis=1)


def _outside(facts: TransactionFacts) -> tuple[float | None, float | None]:
    """Return network and client per transaction in ns; CPU inside the round trip counted once."""
    network = None
    if facts.round_trip_count is not None and facts.round_trip_ns is not None:
        network = facts.round_trip_count * facts.round_trip_ns
        inside = facts.round_trip_client_cpu_ns
        if facts.client_cpu_ns is not None:
            # Not measured apart: then the client's CPU is taken to be inside, as system calls.
            share = network if inside is None else facts.round_trip_count * inside
            network -= min(facts.client_cpu_ns, share, network)
    return network, facts.client_cpu_ns


def _split_bare(
    facts: TransactionFacts, bare: FloatArray, amounts: dict[tuple[str, Side], FloatArray]
) -> None:
    """Split time without wait event into CPU, waiting for a core and a rest, into `amounts`."""
    assert facts.backend_cpu_ns is not None
    assert facts.backend_runqueue_ns is not None
    cpu = facts.backend_cpu_ns / facts.server_transaction_count
    queue = facts.backend_runqueue_ns / facts.server_transaction_count
    surplus = np.maximum(cpu + queue - bare, 0.0)
    network = amounts.get((NETWORK, "network"))
    if network is not None and cpu + queue > 0:
        # CPU outside statements is the server's end of the exchanges: reading, answering.
        amounts[NETWORK, "network"] = network - np.minimum(surplus * cpu / (cpu + queue), network)
    inside = np.minimum(queue, np.maximum(bare - cpu, 0.0))
    known = sum(amounts.values(), start=np.zeros_like(bare)) + cpu + inside
    room = np.maximum(facts.latency.value - known, 0.0)
    amounts[CPU, "server"] = np.full_like(bare, cpu)
    amounts[WAITING_FOR_A_CORE, "server"] = inside + np.minimum(queue - inside, room)
    amounts[NOT_INSTRUMENTED, "server"] = np.maximum(bare - cpu - queue, 0.0)


def _estimate(value_ns: float, drawn_ns: FloatArray, block_count: int, side: Side) -> Estimate:
    value, drawn = value_ns / _NS_PER_MS, drawn_ns / _NS_PER_MS
    if side != "server" or block_count < 2 or np.ptp(drawn) == 0:
        return without_interval(value, "ms")
    estimate = within_run_estimate(value, drawn, block_count, "ms", is_positive=False)
    return _above_zero(estimate)


def _above_zero(estimate: Estimate) -> Estimate:
    """Return the estimate with its lower end at 0 or above: a part of a duration is not less."""
    if estimate.low is None or estimate.low >= 0:
        return estimate
    return Estimate(estimate.value, 0.0, estimate.high, estimate.n, estimate.unit, estimate.scope)


def _whole(
    latency: Estimate, parts: list[Part], server_ms: float | None, sampled_ms: float | None
) -> WhereTheTimeGoes:
    order: dict[Side, int] = {"server": 0, "network": 1, "client": 2, "schedule": 3}
    parts = [part for part in parts if part.ms.value > 0]
    parts.sort(key=lambda part: (order[part.side], -part.ms.value))
    residual = latency.value - math.fsum(part.ms.value for part in parts)
    ratio = residual / latency.value if latency.value else 0.0
    return WhereTheTimeGoes(latency, tuple(parts), residual, ratio, server_ms, sampled_ms)


def _keyed(whole: WhereTheTimeGoes) -> dict[str, Part]:
    return {canonical_event(part.name): part for part in whole.parts}


def _unsplit(parts: dict[str, Part]) -> dict[str, Part]:
    """Join CPU, waiting for a core and the rest into the part that both sides have."""
    joined = [
        parts[name.casefold()]
        for name in (CPU, WAITING_FOR_A_CORE, NOT_INSTRUMENTED)
        if name.casefold() in parts
    ]
    rest = {key: part for key, part in parts.items() if part not in joined}
    if joined:
        ms = joined[0].ms
        if len(joined) > 1:
            ms = without_interval(math.fsum(part.ms.value for part in joined), "ms")
        rest[NOT_INSTRUMENTED.casefold()] = Part(NOT_INSTRUMENTED, ms, "server")
    return rest


def _minus(b: Estimate | None, a: Estimate | None) -> Estimate:
    """Return b - a; an absent part is 0, exactly."""
    value = (b.value if b else 0.0) - (a.value if a else 0.0)
    present = [estimate for estimate in (b, a) if estimate is not None]
    if any(estimate.low is None or estimate.high is None for estimate in present):
        return without_interval(value, "ms")
    low = math.hypot(_below(b), _above(a))
    high = math.hypot(_above(b), _below(a))
    count = min(estimate.n for estimate in present)
    return Estimate(value, value - low, value + high, count, "ms", present[0].scope)


def _below(estimate: Estimate | None) -> float:
    return 0.0 if estimate is None or estimate.low is None else estimate.value - estimate.low


def _above(estimate: Estimate | None) -> float:
    return 0.0 if estimate is None or estimate.high is None else estimate.high - estimate.value
