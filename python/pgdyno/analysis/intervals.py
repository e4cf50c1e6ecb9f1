"""Intervals for the mean of independent values: one look, or a look after every value."""

from __future__ import annotations

import math
from typing import Literal

from pgdyno.analysis.arrays import FloatArray
from pgdyno.analysis.estimate import t_quantile

Looks = Literal["fixed", "sequential"]
SEQUENTIAL_PAIRS_MIN = 5
PLANNED_PAIRS_MIN = 3
# The error of a watched comparison: looks after every pair may spend the first part, and the looks
# that were planned before the first pair spend the second. If there are early ones, they share half
# of it.
_WATCHED_ERROR_RATIO = 0.01
_PLANNED_ERROR_RATIO = 0.04
# 22 pairs show a difference of 5 % in most experiments whose runs scatter by 5 %, 44 in nearly all.
_EARLY_PAIRS = (22, 44)
# The error of the first look after twice the pairs; each further one has a quarter of the last. In
# 100,000 simulated experiments of 3 to 20 pairs, all looks together were wrong in at most 4.9 %.
_LATER_ERROR_RATIO = 0.01
_EARLY_TIMES = 1.5
_MIXTURE = 1.0  # g: the variance of the prior of effect / standard deviation


def planned_looks(pair_count: int) -> tuple[int, ...]:
    """Return after which pairs a t interval is used, in an experiment of at most `pair_count`.

    There is one such look, the last. A long experiment has others after 22 and 44 pairs, so that a
    budget of hours does not delay a verdict that minutes can give.
    """
    early = [count for count in _EARLY_PAIRS if pair_count >= _EARLY_TIMES * count]
    return (*early, pair_count)


def look(pair_count: int, planned: tuple[int, ...], *, is_over: bool) -> tuple[Looks, float]:
    """Return the kind of the interval after `pair_count` pairs, and the error that it may spend.

    Args: planned, from `planned_looks`, empty if only the time ends the experiment; is_over,
    whether no further pair is measured, for a reason that is not in the results.
    Source: Bonferroni between the looks on the way, 1 % together, and the planned looks, 4 %
    together (Wassmer and Brannath 2016).
    Limits: fewer than 3 pairs have no planned look.
    """
    early = planned[:-1]
    if pair_count < PLANNED_PAIRS_MIN or not (is_over or pair_count in planned):
        return "sequential", _WATCHED_ERROR_RATIO
    if not early:
        return "fixed", _PLANNED_ERROR_RATIO
    is_early = pair_count in early and not is_over
    return "fixed", _PLANNED_ERROR_RATIO / 2 / (len(early) if is_early else 1)


def later_look(pair_count: int, looked: tuple[int, ...]) -> tuple[Looks, float]:
    """Return what `look` returns, if looks after `looked` pairs could not tell.

    The next look is after twice the pairs of the last one: a number that no result decides.
    """
    if pair_count < 2 * looked[-1]:
        return "sequential", _WATCHED_ERROR_RATIO
    return "fixed", _LATER_ERROR_RATIO / 4 ** (len(looked) - 1)


def interval_of_mean(values: FloatArray, *, level: float, looks: Looks) -> tuple[float, float]:
    """Return the mean of independent, about normal values, and the half-width of its interval.

    Args: values, in time order; level, 0..1; looks. "fixed": the interval holds for one look, at a
    number of values that was set beforehand. "sequential": it holds at all looks together, so the
    experiment may stop at any look; it is infinite below 5 values.
    """
    count = int(values.size)
    mean = float(values.mean())
    if count < 2:
        return mean, math.inf
    return mean, half_width(float(values.std(ddof=1)), count, level, looks)


def half_width(deviation: float, count: int, level: float, looks: Looks) -> float:
    """Return the half-width for `count` values with this sample standard deviation."""
    if looks == "fixed":
        factor = t_quantile((1 + level) / 2, count - 1)
    else:
        factor = sequential_t(count, 1 - level)
    if math.isinf(factor):  # Too few values, even if all are equal and the deviation is 0.
        return math.inf
    return factor * deviation / math.sqrt(count)


def sequential_t(count: int, alpha: float) -> float:
    """Return the bound on |t| that a true null crosses at any count with probability <= alpha.

    Args: count >= 2, values so far; alpha in (0, 1).
    Returns: infinity below 5 values, and while no t would be enough.
    Source: mixture over a normal prior of variance g = 1 on effect / deviation, and the right Haar
    prior on the deviation (Lai 1976; Wang and Ramdas 2024, theorem on the Gaussian mixture). The
    likelihood ratio of n values with t = sqrt(n) mean / s and v = n - 1 is
        B = (1 + n g)^(-1/2) * ((1 + t^2/v) / (1 + t^2/(v (1 + n g))))^(n/2),
    a martingale under the null. It ever reaches 1/alpha with probability <= alpha (Ville 1939).
    B = 1/alpha, solved for t, with c = (sqrt(1 + n g)/alpha)^(2/n):
        t^2 = v (c - 1) / (1 - c/(1 + n g)).
    Limits: values must be independent and normal. Skewed values need about ten more pairs.
    """
    if count < SEQUENTIAL_PAIRS_MIN:
        return math.inf
    spread = 1 + count * _MIXTURE
    c = (math.sqrt(spread) / alpha) ** (2 / count)
    if c >= spread:
        return math.inf
    return math.sqrt((count - 1) * (c - 1) / (1 - c / spread))
