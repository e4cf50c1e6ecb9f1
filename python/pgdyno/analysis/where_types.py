"""Splits the time of each transaction type; gives the share of background types in the server."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pgdyno.analysis.arrays import FloatArray, coded
from pgdyno.analysis.estimate import Estimate, without_interval
from pgdyno.analysis.resample import REPLICATES, within_run_estimate
from pgdyno.analysis.where_facts import (
    ANSWERING,
    NETWORK,
    WITHOUT_EVENT,
    TransactionFacts,
    WaitSamples,
)
from pgdyno.analysis.where_sampled import Sampled, sampled
from pgdyno.analysis.where_statements import StatementPlace, is_of_wal, shares_of

_EVENTS_SHOWN = 3
_CORE, _WAIT = "core", "wait"
# If none of n samples shows an event, its share is below 3/n with 95 % confidence.
_RULE_OF_THREE = 3.0


@dataclass(frozen=True, slots=True)
class TypeTimes:
    """Transactions of one type that ended in the measured phase.

    `held_ns`: the sum of their times from start to end, without the wait for a connection. No
    client waits for a type in the background.
    """

    name: str
    is_background: bool
    ended_count: int
    held_ns: float
    round_trip_count: int


@dataclass(frozen=True, slots=True)
class TypeTime:
    """The mean transaction of one type, every Estimate in "ms"; the parts sum to `held`.

    `core`: on a core or waiting for a core. `waits`: in wait events; `events` has the largest with
    their shares, 0..1. `residual`: the time that no part explains.
    """

    name: str
    is_background: bool
    count: int
    held: Estimate
    core: Estimate
    waits: Estimate
    network: Estimate
    engine: Estimate
    residual: Estimate
    events: tuple[tuple[str, float], ...]


def server_shares(types: Sequence[TypeTimes], exchange_ns: float) -> FloatArray:
    """Return the share of each type in the server's time, shape (types,); they sum to 1.

    The server's time for a type is the time from start to end of its transactions, minus their
    exchanges.
    Args: exchange_ns, one exchange without work for the server, with the wait for its reply.
    """
    held = np.array([kind.held_ns for kind in types], dtype=np.float64)
    trips = np.array([kind.round_trip_count for kind in types], dtype=np.float64)
    worked = np.maximum(held - trips * exchange_ns, 0.0)
    whole = next(
        (weights for weights in (worked, held, trips) if weights.sum() > 0), np.ones(len(types))
    )
    return np.asarray(whole / whole.sum())


def type_fractions(
    samples: WaitSamples,
    places: Sequence[StatementPlace],
    types: Sequence[TypeTimes],
    otherwise: FloatArray,
) -> FloatArray:
    """Return how much of each sample belongs to each type, shape (samples, types).

    A statement of several types, such as COMMIT, is divided by the engine's time in each type, or
    by its calls if this time is not known. Waits for the WAL are divided among the types that
    write. Samples without an identifier are divided in the same way among the statements without an
    identifier.
    Args: otherwise, shape (types,), the division of samples about which nothing is known.
    """
    column = {kind.name: i for i, kind in enumerate(types)}
    events, event = coded(samples.event)
    of_wal = np.array([is_of_wal(name) for name in events], dtype=bool)[event]
    ids = np.zeros(len(event), dtype=np.int64) if samples.query_id is None else samples.query_id
    fractions = np.tile(otherwise, (len(event), 1))
    for identifier in np.unique(ids).tolist():
        those = [place for place in places if identifier in (place.query_ids or (0,))]
        # Without times, nothing is known about parsing and statements without an identifier.
        if not identifier and any(place.server_ns is None for place in those):
            continue
        for in_wal in (False, True):
            row = np.zeros(len(types))
            for place, share in zip(those, shares_of(those, in_wal=in_wal), strict=True):
                row[column[place.script]] += share
            if row.sum() > 0:
                fractions[(ids == identifier) & (of_wal == in_wal)] = row
    return fractions


def time_by_type(
    facts: TransactionFacts,
    samples: WaitSamples,
    parts: Sequence[tuple[str, str, Estimate]],
    types: Sequence[TypeTimes],
    fractions: FloatArray,
    *,
    server_ms: float,
    seed: int,
    replicates: int = REPLICATES,
) -> tuple[TypeTime, ...]:
    """Return the time of each type of which at least one transaction ended.

    The times of types that clients wait for sum to the parts of the whole run. Samples divide
    wait events and time on a core. Round trips divide exchanges and time on a core outside
    statements.
    Args: facts, of the run; samples, all of our sessions; parts, (side, name, ms) of the run;
    fractions, shape (samples, types), as from `type_fractions`; server_ms, of a mean transaction.
    Limits: a type with few samples has a wide interval.
    """
    event = np.asarray(samples.event)
    is_active, is_core = event != ANSWERING, event == ""
    foreground = [not kind.is_background for kind in types]
    mine = samples.session_count * fractions[:, foreground].sum(axis=1)
    seen = (float(mine[is_core].sum()), float(mine[is_active & ~is_core].sum()))
    trips = sum(kind.round_trip_count for kind in types if not kind.is_background)
    if not trips or not sum(seen):
        return ()
    total = facts.transaction_count
    core_ms = total * _sum(ms for _, name, ms in parts if name in WITHOUT_EVENT)
    waits_ms = total * _sum(
        ms for side, name, ms in parts if side == "server" and name not in WITHOUT_EVENT
    )
    inside_ms = min(core_ms, max(server_ms * total - waits_ms, 0.0)) if seen[0] else 0.0
    network = next((ms for _, name, ms in parts if name == NETWORK), without_interval(0.0, "ms"))
    whole = _Whole(
        core_ms_each_sample=inside_ms / seen[0] if seen[0] else 0.0,
        wait_ms_each_sample=waits_ms / seen[1] if seen[1] else 0.0,
        outside_ms_each_trip=(core_ms - inside_ms) / trips,
        engine_ms_each_trip=total * _sum(ms for side, _, ms in parts if side == "client") / trips,
        network_each_trip=network.scaled(total / trips, "ms"),
    )
    times = []
    for kind, fraction in zip(types, fractions.T, strict=True):
        counts = (samples.session_count * fraction)[is_active]
        if kind.ended_count:
            rng = np.random.default_rng(seed)
            labels = np.where(is_core, _CORE, _WAIT)[is_active].tolist()
            own = replace(samples, time_ns=samples.time_ns[is_active], event=labels, query_id=None)
            own = replace(own, session_count=counts)
            split = sampled(replace(facts, samples=own), rng, replicates)
            largest = _largest(event[is_active & ~is_core], counts[~is_core[is_active]])
            times.append(replace(_type_time(facts, kind, own, split, whole), events=largest))
    return tuple(times)


@dataclass(frozen=True, slots=True)
class _Whole:
    """How many ms of all transactions one sampled session and one round trip stand for."""

    core_ms_each_sample: float
    wait_ms_each_sample: float
    outside_ms_each_trip: float
    engine_ms_each_trip: float
    network_each_trip: Estimate


def _type_time(
    facts: TransactionFacts, kind: TypeTimes, samples: WaitSamples, split: Sampled, whole: _Whole
) -> TypeTime:
    """Return the time of a type. Args: samples, its own; split, the same by core and wait event."""
    per_transaction = 1.0 / kind.ended_count
    trips = kind.round_trip_count * per_transaction
    instants = np.unique(samples.sampled_at_ns).size
    missed_ms = _RULE_OF_THREE / instants * facts.window_seconds * 1e3 * per_transaction
    core_ms, core_drawn = _sampled_ms(
        split, _CORE, whole.core_ms_each_sample * per_transaction * instants
    )
    wait_ms, wait_drawn = _sampled_ms(
        split, _WAIT, whole.wait_ms_each_sample * per_transaction * instants
    )
    outside_ms = whole.outside_ms_each_trip * trips
    core = _estimate(core_ms, core_drawn, split.block_count, missed_ms, outside_ms)
    waits = _estimate(wait_ms, wait_drawn, split.block_count, missed_ms, 0.0)
    way = whole.network_each_trip.scaled(trips, "ms") if trips else without_interval(0.0, "ms")
    held, engine = kind.held_ns / 1e6 * per_transaction, whole.engine_ms_each_trip * trips
    rest = held - engine - way.value - outside_ms
    drawn = rest - core_drawn - wait_drawn
    residual = without_interval(rest - core_ms - wait_ms, "ms")
    if split.block_count > 1 and np.ptp(drawn) > 0:
        known = within_run_estimate(
            residual.value, drawn, split.block_count, "ms", is_positive=False
        )
        assert known.low is not None, "two blocks give an interval"
        assert known.high is not None
        low = min(known.low, known.value - missed_ms)
        residual = replace(known, low=low, high=max(known.high, known.value + missed_ms))
    return TypeTime(
        name=kind.name,
        is_background=kind.is_background,
        count=kind.ended_count,
        held=without_interval(held, "ms"),
        core=core,
        waits=waits,
        network=way,
        engine=without_interval(engine, "ms"),
        residual=residual,
        events=(),
    )


def _sum(amounts: Iterable[Estimate]) -> float:
    return math.fsum(ms.value for ms in amounts)


def _sampled_ms(split: Sampled, name: str, ms_each: float) -> tuple[float, FloatArray]:
    """Return the time of one side in ms, and its redrawn values."""
    if name not in split.events:
        return 0.0, np.zeros(len(split.redrawn_count))
    column = split.events.index(name)
    return float(split.point_count[column]) * ms_each, split.redrawn_count[:, column] * ms_each


def _estimate(
    value: float, drawn: FloatArray, block_count: int, missed_ms: float, more_ms: float
) -> Estimate:
    """Return the sum of a sampled time and of `more_ms`, which was counted, with its interval."""
    if block_count < 2 or drawn.size < 2:
        return without_interval(value + more_ms, "ms")
    estimate = within_run_estimate(value, drawn, block_count, "ms", is_positive=False)
    low = min(estimate.low or 0.0, value - missed_ms)
    high = max(estimate.high or 0.0, value + missed_ms)
    return replace(
        estimate, value=value + more_ms, low=max(low, 0.0) + more_ms, high=high + more_ms
    )


def _largest(event: npt.NDArray[np.str_], counts: FloatArray) -> tuple[tuple[str, float], ...]:
    """Return the largest wait events with their shares."""
    if not counts.sum():
        return ()
    names, place = np.unique(event, return_inverse=True)
    sums = np.bincount(place, weights=counts, minlength=len(names)) / counts.sum()
    order = np.argsort(-sums)[:_EVENTS_SHOWN]
    return tuple((str(names[i]), float(sums[i])) for i in order if sums[i] > 0)
