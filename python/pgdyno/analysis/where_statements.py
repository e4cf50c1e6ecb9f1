"""The server's time of a transaction by statement: samples that carry a query identifier."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pgdyno.analysis.arrays import FloatArray, IntArray, coded
from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.resample import REPLICATES
from pgdyno.analysis.where_facts import ANSWERING, NOT_INSTRUMENTED, TransactionFacts, WaitSamples
from pgdyno.analysis.where_sampled import sampled, shared_out

_EVENTS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class StatementPlace:
    """A statement of a script: how often it was executed, and the identifiers it may have.

    `server_ns`: how long the engine waited for all of its executions, without their exchanges;
    None if statements were not timed one by one. `writes`: its script writes, so that its COMMIT
    waits for the WAL.
    """

    script: str
    line: int
    text: str
    calls: int
    query_ids: tuple[int, ...]
    server_ns: float | None = None
    writes: bool = True


@dataclass(frozen=True, slots=True)
class StatementTime:
    """The server's time for one statement, in a mean transaction of the run.

    `ms` has unit "ms". `events`: its largest wait events, each with its share of `ms`, 0..1. `line`
    is 0 if the time belongs to no single line.
    """

    script: str
    line: int
    text: str
    ms: Estimate
    events: tuple[tuple[str, float], ...]


def named_statements(
    facts: TransactionFacts,
    server_ms: float,
    places: Sequence[StatementPlace],
    *,
    seed: int,
    replicates: int = REPLICATES,
) -> tuple[StatementTime, ...]:
    """Return the server's time by statement, the largest first; the times sum to `server_ms`.

    The time of a statement in several places is divided by the engine's time in each place, or by
    its number of executions. One entry has the time without an identifier: parsing, and BEGIN and
    END in the extended protocol before PostgreSQL 18. Planning has the statement's identifier.
    Another entry has identifiers that belong to no statement of the scripts.
    Args: server_ms, the server's time of a mean transaction.
    Returns: nothing if no sample has an identifier.
    """
    samples = facts.samples
    if samples is None or samples.query_id is None or not samples.query_id.any():
        return ()
    event_names, event = coded(samples.event)
    kept = event != (event_names.index(ANSWERING) if ANSWERING in event_names else -1)
    kept &= samples.session_count > 0
    event, counts = event[kept], samples.session_count[kept]
    by_id: dict[int, list[StatementPlace]] = {}
    for place in places:
        for identifier in place.query_ids:
            by_id.setdefault(identifier, []).append(place)
    ids, of_sample = np.unique(samples.query_id[kept], return_inverse=True)
    names = [_label(int(query_id), by_id) for query_id in ids]
    label = list(map(names.__getitem__, of_sample.tolist()))
    labelled = WaitSamples(samples.sampled_at_ns, samples.time_ns[kept], label, counts)
    of_statements = sampled(
        replace(facts, samples=labelled), np.random.default_rng(seed), replicates
    )
    parts = shared_out(of_statements, server_ms, "ms", seen_count=int(counts.sum()))
    seen = {
        key: ms.value / server_ms if server_ms else 0.0
        for key, ms in zip(of_statements.events, parts, strict=True)
    }
    without = _without(places, by_id, seen)
    times = []
    for key, ms in zip(of_statements.events, parts, strict=True):
        rows = np.isin(of_sample, [place for place, name in enumerate(names) if name == key])
        shares = _events(event_names, event[rows], counts[rows])
        times += _named(key, by_id, without, ms, shares)
    return tuple(sorted(times, key=lambda time: -time.ms.value))


_WITHOUT, _UNKNOWN = "without", "unknown"
_CONTROL = ("BEGIN", "START", "COMMIT", "END", "ROLLBACK")


def _label(identifier: int, by_id: Mapping[int, Sequence[StatementPlace]]) -> str:
    """Return one key for all identifiers of the same places."""
    if not identifier:
        return _WITHOUT
    return str(min(by_id[identifier][0].query_ids)) if identifier in by_id else _UNKNOWN


def _without(
    places: Sequence[StatementPlace],
    by_id: Mapping[int, Sequence[StatementPlace]],
    seen: Mapping[str, float],
) -> list[str]:
    """Return the texts of the statements that showed no identifier while they were executed.

    The extension may know one for BEGIN or COMMIT that pg_stat_activity did not show, or showed
    only while the statement was parsed: then samples saw it for less than half of its time.
    Args: seen, the share of the samples with each key.
    """
    whole_ns = math.fsum(place.server_ns or 0.0 for place in places)
    texts = []
    for place in places:
        is_control = place.text.strip().rstrip(";").partition(" ")[0].upper() in _CONTROL
        share = (place.server_ns or 0.0) / whole_ns if whole_ns else 0.0
        known = seen.get(_label(place.query_ids[0], by_id), 0.0) if place.query_ids else 0.0
        if not place.query_ids or (is_control and (not known or known < share / 2)):
            texts.append(place.text.rstrip(";"))
    return list(dict.fromkeys(texts))


def _named(
    key: str,
    by_id: Mapping[int, Sequence[StatementPlace]],
    without: Sequence[str],
    ms: Estimate,
    events: tuple[tuple[str, float], ...],
) -> list[StatementTime]:
    if key == _UNKNOWN:
        return [StatementTime("", 0, "statements that are not the scripts' own", ms, events)]
    if key == _WITHOUT:
        text = ", ".join([*without, "parsing"])
        return [StatementTime("", 0, f"without an identifier: {text}", ms, events)]
    those = by_id[int(key)]
    wal = min(1.0, math.fsum(share for event, share in events if is_of_wal(event)))
    shares = wal * shares_of(those, in_wal=True) + (1 - wal) * shares_of(those)
    return [
        StatementTime(place.script, place.line, place.text, ms.scaled(share, "ms"), events)
        for place, share in zip(those, shares.tolist(), strict=True)
        if share > 0
    ]


def shares_of(places: Sequence[StatementPlace], *, in_wal: bool = False) -> FloatArray:
    """Return how a statement's time is divided among its places, shape (places,); the sum is 1.

    The engine's time in each place divides it, or the calls if the engine did not time them.
    Args: in_wal, whether the time is waiting for the WAL, which only scripts that write do.
    Returns: zeros if the statement was never called.
    """
    is_timed = all(place.server_ns is not None for place in places)
    timed = np.array([place.server_ns or 0.0 for place in places])
    calls = np.array([place.calls for place in places], dtype=np.float64)
    writes = np.array([place.writes for place in places], dtype=np.float64)
    ways = [timed] * is_timed + [calls]
    for weights in [way * writes for way in ways] * in_wal + ways:
        if weights.sum() > 0:
            return np.asarray(weights / weights.sum())
    return np.zeros(len(places))


def is_of_wal(event: str) -> bool:
    """Return whether a session in this wait event waits for WAL to be written or confirmed."""
    return "wal" in event.casefold() or event == "IPC:SyncRep"


def _events(
    names: Sequence[str], event: IntArray, counts: IntArray | FloatArray
) -> tuple[tuple[str, float], ...]:
    """Return the largest events with their shares. Args: event, places of the names."""
    sums = np.bincount(event, weights=counts, minlength=len(names))
    shares_of_events = (
        (names[place], sums[place] / sums.sum()) for place in np.unique(event).tolist()
    )
    shares = sorted(shares_of_events, key=lambda pair: -pair[1])
    return tuple((name or NOT_INSTRUMENTED, float(share)) for name, share in shares[:_EVENTS_SHOWN])
