"""The mean number of sessions at work: the server's count if it can be used, else samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgdyno.analysis.arrays import FloatArray, coded
from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.resample import plan_blocks
from pgdyno.analysis.where_facts import ANSWERING, NOT_INSTRUMENTED, How, WaitSamples
from pgdyno.analysis.where_sampled import Sampled, resampled

_NORMAL_95 = 1.959964
# A busy session reports its time once a second. Therefore a part of the last second is missing at
# both ends of a watch. This part is uniform in 0..1 s, so the standard deviation of the difference
# is known.
_REPORTED_EVERY_S = 1.0
_ENDS_S = _REPORTED_EVERY_S * math.sqrt(2 / 12)
# A sampler takes the core of a session at work, so a sample misses up to one session.
_UNSEEN_MAX = 1.0
# A difference below both limits says nothing (in sessions; relative to the samples). On a busy
# machine samples come late when most sessions are at work, so their interval alone is too narrow.
_ALIKE, _ALIKE_RATIO = 0.02, 0.1
_BUSY_RATIO = 0.9
_EVENTS_SHOWN = 3
# With fewer sightings of sessions at work, their mean is mostly chance. It is then no headline.
SIGHTINGS_MIN = 30


@dataclass(frozen=True, slots=True)
class CountedTime:
    """The growth of active_time over a span of time.

    `own_ns`: the part of our own sessions; it has an error, because the time of our statements is
    known only with the round trip and without it.
    """

    active_ns: float
    own_ns: float
    own_error_ns: float
    span_ns: int

    @property
    def mean_count(self) -> float:
        """Return the mean number of sessions at work without our own."""
        return max(self.active_ns - self.own_ns, 0.0) / self.span_ns


@dataclass(frozen=True, slots=True)
class AtWork:
    """The mean number of sessions at work, unit "sessions", and how it was made.

    `sampled`: the mean from the samples alone, None if sessions are not visible. `seen_count`: how
    often the samples saw a session at work. `why_sampled`: why the server's count was not used;
    "" if the count was used, or if the server does not count.
    """

    mean: Estimate
    how: How
    sampled: Estimate | None
    seen_count: int
    why_sampled: str = ""

    @property
    def factor_ratio(self) -> float:
        """Return the factor from samples to the mean."""
        if self.sampled is None or not self.sampled.value:
            return 1.0
        return self.mean.value / self.sampled.value

    @property
    def is_certain(self) -> bool:
        """Return whether the mean does not depend on only a few samples."""
        return self.how == "counted" or self.seen_count >= SIGHTINGS_MIN


def own_time(most_ns: float, least_ns: float) -> tuple[float, float]:
    """Return the time of our own statements in the server, and the half-width of its error.

    Args: most_ns, as measured here, with the round trip; least_ns, without the round trip.
    """
    return (most_ns + least_ns) / 2, max(most_ns - least_ns, 0.0) / 2


def at_work(
    sampled: Estimate | None, *, seen_count: int, bare_count: float, counted: CountedTime | None
) -> AtWork | None:
    """Return the sessions at work: the server's count if the samples agree with it.

    The count is exact, but the server adds a statement when it ends or, in a busy session, once a
    second. So a long statement that still runs is missing, and a statement that began before the
    watch is counted whole. Samples see the sessions at work at one moment, but they miss a session
    on the core of the sampler. The count is used if these causes and a tenth of the samples explain
    the difference.
    Args: sampled, None if sessions are not visible; seen_count, sightings of sessions in samples;
    bare_count, mean sessions without a wait event; counted, None if the server does not count.
    Returns: None with neither samples nor count.
    """
    if counted is None or counted.span_ns <= 0:
        return None if sampled is None else AtWork(sampled, "sampled", sampled, seen_count)
    count, span_s = counted.mean_count, counted.span_ns / 1e9
    if sampled is not None and (why_not := _why_not(sampled, bare_count, count, span_s)):
        return AtWork(sampled, "sampled", sampled, seen_count, why_not)
    ends = _NORMAL_95 * _ENDS_S * math.sqrt(count) / span_s
    half = math.hypot(ends, counted.own_error_ns / counted.span_ns)
    mean = Estimate(count, max(count - half, 0.0), count + half, span_s, "sessions", "within_run")
    return AtWork(mean, "counted", sampled, seen_count)


def _why_not(sampled: Estimate, bare_count: float, count: float, span_s: float) -> str:
    """Return why the server's count does not describe the span; "" if the samples agree."""
    low = sampled.value if sampled.low is None else sampled.low
    high = sampled.value if sampled.high is None else sampled.high
    apart = _ALIKE + sampled.value * (_REPORTED_EVERY_S / span_s + _ALIKE_RATIO)
    if count > high + min(bare_count, _UNSEEN_MAX) + apart:
        return f"the server counts {count:.3g}, with statements from before the watch"
    if count < low - apart:
        return (
            f"the server counts {count:.3g}: this leaves out planning, statements that have not"
            " ended, and in a pipeline all but the last statement"
        )
    return ""


def drawn_from_groups(
    names: Sequence[str], counts: FloatArray, taken: FloatArray, *, seconds: float, seed: int
) -> Sampled:
    """Return mean sessions by name from samples that were added up over stretches of time.

    Args: counts, shape (groups, names), sessions seen; taken, shape (groups,), samples of each.
    """
    if not counts.sum():
        return Sampled((), np.zeros(0), np.zeros((1, 0)), 1)
    plan = plan_blocks(counts.sum(axis=1) / taken, len(taken) / seconds)
    return resampled(tuple(names), counts, taken, plan, np.random.default_rng(seed))


def events_while_busy(samples: WaitSamples) -> tuple[tuple[str, float], ...]:
    """Return the largest wait events with their shares at times when all sessions were busy.

    A transaction waits for a free client only while no client is free. These are the samples with
    at least nine tenths of the maximum of sessions.
    Returns: nothing with few sightings.
    """
    names, event = coded(samples.event)
    kept = event != (names.index(ANSWERING) if ANSWERING in names else -1)
    instants, place = np.unique(samples.time_ns[kept], return_inverse=True)
    counts = samples.session_count[kept].astype(np.float64)
    if not instants.size:
        return ()
    busy_count = np.bincount(place, counts)
    is_busy = (busy_count >= _BUSY_RATIO * busy_count.max())[place]
    sums = np.bincount(event[kept][is_busy], counts[is_busy], len(names))
    total = float(sums.sum())
    if total < SIGHTINGS_MIN:
        return ()
    largest = np.argsort(-sums, kind="stable")[:_EVENTS_SHOWN].tolist()
    return tuple(
        (names[i] or NOT_INSTRUMENTED, float(sums[i]) / total) for i in largest if sums[i] > 0
    )
