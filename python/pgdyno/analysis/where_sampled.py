"""How many sessions were in each wait event, from samples; and whom samples cannot see."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pgdyno.analysis.arrays import FloatArray, coded, distinct
from pgdyno.analysis.estimate import Estimate, without_interval
from pgdyno.analysis.resample import (
    REPLICATES,
    BlockPlan,
    block_weights,
    plan_blocks,
    within_run_estimate,
)
from pgdyno.analysis.where_facts import ANSWERING, TransactionFacts
from pgdyno.errors import AnalysisError

_NO_EVENT = ("", ANSWERING)
# If none of n samples shows a thing, its share is below 3/n with 95 % confidence.
_RULE_OF_THREE = 3.0


@dataclass(frozen=True, slots=True, eq=False)
class Sampled:
    """Mean sessions in each event.

    `point_count` has shape (events,), `redrawn_count` (replicates, events).

    `block_count`: how many independent stretches of time the replicates are drawn from.
    """

    events: tuple[str, ...]
    point_count: FloatArray
    redrawn_count: FloatArray
    block_count: int

    @property
    def active(self) -> float:
        """Return the mean number of active sessions."""
        return float(self.point_count[is_active(self.events)].sum())


def sampled(facts: TransactionFacts, rng: np.random.Generator, replicates: int) -> Sampled:
    """Return the samples as mean sessions by event; without events when there are none."""
    samples = facts.samples
    if samples is None or samples.session_count.sum() == 0 or samples.sampled_at_ns.size == 0:
        return Sampled((), np.zeros(0), np.zeros((1, 0)), 1)
    events, column = coded(samples.event)
    instants = distinct(np.sort(samples.sampled_at_ns))
    row = np.searchsorted(instants, samples.time_ns)
    if (row == instants.size).any() or (instants[row] != samples.time_ns).any():
        raise AnalysisError("a wait sample has a time without a sampling moment")
    size = (instants.size, len(events))
    cell = row * len(events) + column
    counted = np.bincount(cell, samples.session_count, size[0] * size[1])
    by_instant = counted.astype(np.float64).reshape(size)
    # The event that varies most sets how long blocks must be.
    restless = by_instant[:, int(np.argmax(by_instant.var(axis=0)))]
    plan = plan_blocks(restless, instants.size / facts.window_seconds)
    group = plan.group_of(np.arange(instants.size, dtype=np.float64))
    starts = np.searchsorted(group, np.arange(plan.group_count))
    counts = np.add.reduceat(by_instant, starts, axis=0)
    taken = np.bincount(group, minlength=plan.group_count).astype(np.float64)
    return resampled(tuple(events), counts, taken, plan, rng, replicates)


def resampled(
    events: tuple[str, ...],
    counts: FloatArray,
    taken: FloatArray,
    plan: BlockPlan,
    rng: np.random.Generator,
    replicates: int = REPLICATES,
) -> Sampled:
    """Return mean sessions from samples that were added up in the groups of a plan.

    Args: counts, shape (groups, events), sessions seen; taken, shape (groups,), samples of each.
    """
    weights = block_weights(plan, rng, replicates)
    redrawn = (weights @ counts) / (weights @ taken)[:, None]
    return Sampled(events, counts.sum(axis=0) / taken.sum(), redrawn, plan.block_count)


def shared_out(
    samples: Sampled, total: float, unit: str, *, seen_count: int
) -> tuple[Estimate, ...]:
    """Return each event's part of a known total, with the interval of its share.

    Args: seen_count, sightings of sessions. An interval is at least as wide as the rule of three,
    because samples that are all equal may still have missed an event.
    """
    if not samples.events:
        return ()
    # The difference of two measurements may be below 0 within its error.
    total = max(total, 0.0)
    shares = samples.point_count / max(float(samples.point_count.sum()), 1e-12)
    drawn = samples.redrawn_count / np.maximum(
        samples.redrawn_count.sum(axis=1, keepdims=True), 1e-12
    )
    # A run of less than a second may have less than one sighting: its shares are not known.
    missed = total * _RULE_OF_THREE / max(seen_count, 1)
    parts = []
    for place, value in enumerate((shares * total).tolist()):
        if samples.block_count < 2:
            parts.append(without_interval(value, unit))
            continue
        part = within_run_estimate(
            value, drawn[:, place] * total, samples.block_count, unit, is_positive=False
        )
        low, high = min(part.low or 0.0, value - missed), max(part.high or 0.0, value + missed)
        parts.append(replace(part, low=max(low, 0.0), high=max(min(high, total), value)))
    return tuple(parts)


def with_unseen(facts: TransactionFacts, samples: Sampled) -> Sampled:
    """Return the samples with the sessions that were on the core of the sampler.

    Sampling needs a core. Mostly this is the core of a session that has just fallen asleep, so
    samples never see a session at work on this core. The kernel counts the sessions at work on all
    cores. The difference, up to one core's share, is added to sessions without a wait event. A
    sampler with priority takes any core at any moment, so its samples need no addition.
    """
    core_count = facts.backends.core_count
    has_priority = facts.samples is not None and facts.samples.with_priority
    if has_priority or not samples.events:
        return samples
    if not facts.backends.cpu_ns or not core_count:
        return samples
    on_core = facts.backends.cpu_ns / (facts.window_seconds * 1e9)
    events = samples.events + tuple(event for event in _NO_EVENT if event not in samples.events)
    columns = [events.index(event) for event in _NO_EVENT]

    def completed(count: FloatArray) -> FloatArray:
        known = count.reshape(-1, len(samples.events))
        whole = np.pad(known, ((0, 0), (0, len(events) - len(samples.events))))
        seen = whole[:, columns].sum(axis=1, keepdims=True)
        unseen = np.clip(on_core - seen, 0.0, on_core / core_count)
        share = np.where(seen > 0, whole[:, columns] / np.where(seen > 0, seen, 1.0), (1.0, 0.0))
        whole[:, columns] += unseen * share
        return whole.reshape(*count.shape[:-1], len(events))

    return replace(
        samples,
        events=events,
        point_count=completed(samples.point_count),
        redrawn_count=completed(samples.redrawn_count),
    )


def is_active(events: tuple[str, ...]) -> list[bool]:
    """Return, for each event, whether the server counts its time as active."""
    return [event != ANSWERING for event in events]
