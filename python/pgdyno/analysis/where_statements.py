"""The server's time of a transaction by statement: samples that carry a query identifier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pgdyno.analysis.arrays import FloatArray, IntArray, coded
from pgdyno.analysis.estimate import Estimate, without_interval
from pgdyno.analysis.resample import REPLICATES, within_run_estimate
from pgdyno.analysis.where_facts import ANSWERING, NOT_INSTRUMENTED, TransactionFacts, WaitSamples
from pgdyno.analysis.where_sampled import sampled

_EVENTS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Place:
    """A statement of a script: how often it was executed, and the identifiers it may have."""

    script: str
    line: int
    text: str
    calls: int
    query_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StatementTime:
    """What one statement takes of the server's time of a mean transaction of the run.

    `ms` has unit "ms". `events`: its largest wait events, each with its share of `ms`, 0..1. `line`
    is 0 for what belongs to no single line.
    """

    script: str
    line: int
    text: str
    ms: Estimate
    events: tuple[tuple[str, float], ...]


def named_statements(
    facts: TransactionFacts,
    server_ms: float,
    places: Sequence[Place],
    *,
    seed: int,
    replicates: int = REPLICATES,
) -> tuple[StatementTime, ...]:
    """Return the server's time by statement, the largest first; they sum to `server_ms`.

    A statement that stands in several places is shared out by how often each was executed. One
    entry holds what has no identifier: BEGIN and END (in extended protocol before PostgreSQL 18),
    and planning; another, identifiers that are no statement's of the scripts.
    Returns: nothing where no sample has an identifier.
    """
    samples = facts.samples
    if samples is None or samples.query_id is None or not samples.query_id.any():
        return ()
    event_names, event = coded(samples.event)
    kept = event != (event_names.index(ANSWERING) if ANSWERING in event_names else -1)
    event, counts = event[kept], samples.session_count[kept]
    by_id: dict[int, list[Place]] = {}
    for place in places:
        for identifier in place.query_ids:
            by_id.setdefault(identifier, []).append(place)
    ids, of_sample = np.unique(samples.query_id[kept], return_inverse=True)
    names = [_label(int(one), by_id) for one in ids]
    label = list(map(names.__getitem__, of_sample.tolist()))
    labelled = WaitSamples(samples.sampled_at_ns, samples.time_ns[kept], label, counts)
    found = sampled(replace(facts, samples=labelled), np.random.default_rng(seed), replicates)
    total, blocks = found.point_count.sum(), found.block_count
    drawn = found.redrawn_count / np.maximum(found.redrawn_count.sum(axis=1, keepdims=True), 1e-12)
    times = []
    for i, key in enumerate(found.events):
        ms = _estimate(
            float(found.point_count[i] / total) * server_ms, drawn[:, i] * server_ms, blocks
        )
        rows = np.isin(of_sample, [place for place, name in enumerate(names) if name == key])
        shares = _events(event_names, event[rows], counts[rows])
        times += _named(key, by_id, places, ms, shares)
    return tuple(sorted(times, key=lambda time: -time.ms.value))


_WITHOUT, _UNKNOWN = "without", "unknown"


def _label(identifier: int, by_id: Mapping[int, Sequence[Place]]) -> str:
    """Return one key for all identifiers of the same places."""
    if not identifier:
        return _WITHOUT
    return str(min(by_id[identifier][0].query_ids)) if identifier in by_id else _UNKNOWN


def _named(
    key: str,
    by_id: Mapping[int, Sequence[Place]],
    places: Sequence[Place],
    ms: Estimate,
    events: tuple[tuple[str, float], ...],
) -> list[StatementTime]:
    if key == _UNKNOWN:
        return [StatementTime("", 0, "statements that are not the scripts' own", ms, events)]
    if key == _WITHOUT:
        bare = dict.fromkeys(place.text.rstrip(";") for place in places if not place.query_ids)
        text = ", ".join([*bare, "planning"])
        return [StatementTime("", 0, f"without an identifier: {text}", ms, events)]
    those = by_id[int(key)]
    calls = sum(place.calls for place in those) or 1
    return [
        StatementTime(p.script, p.line, p.text, ms.scaled(p.calls / calls, "ms"), events)
        for p in those
        if p.calls
    ]


def _estimate(value: float, drawn: FloatArray, block_count: int) -> Estimate:
    if block_count < 2 or np.ptp(drawn) == 0:
        return without_interval(value, "ms")
    found = within_run_estimate(value, drawn, block_count, "ms", is_positive=False)
    return replace(found, low=max(0.0, found.low or 0.0))


def _events(
    names: Sequence[str], event: IntArray, counts: IntArray
) -> tuple[tuple[str, float], ...]:
    """Return the largest events with their shares. Args: event, places of the names."""
    sums = np.bincount(event, weights=counts, minlength=len(names))
    found = ((names[place], sums[place] / sums.sum()) for place in np.unique(event).tolist())
    shares = sorted(found, key=lambda pair: -pair[1])
    return tuple((name or NOT_INSTRUMENTED, float(share)) for name, share in shares[:_EVENTS_SHOWN])
