"""Simulated comparisons that end on the way, at a planned look, or at the last: how often wrong?

An experiment here is what the design of `compare` does: random order of each pair, an interval for
every look at 1 %, the planned looks at 4 % together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from tests.statistics.noise import autocorrelated

from pgdyno.analysis.arrays import FloatArray
from pgdyno.analysis.compare import MARGIN_RATIO, shuffled
from pgdyno.analysis.estimate import t_quantile
from pgdyno.analysis.intervals import look, planned_looks, sequential_t

DEVIATION = 0.05
PERIODS = (2.0, 2.3, 3.0, 3.7, 4.0, 5.0, 6.0, 7.7, 8.0, 11.0, 16.0, 23.0, 40.0)


def quiet(rng: np.random.Generator, count: int, runs: int) -> FloatArray:
    return rng.standard_normal((count, runs)) * DEVIATION


def drifting(rng: np.random.Generator, count: int, runs: int) -> FloatArray:
    """1 % faster from run to run."""
    return quiet(rng, count, runs) + 0.01 * np.arange(runs)


def heavy(rng: np.random.Generator, count: int, runs: int) -> FloatArray:
    """Student's t with 3 degrees of freedom."""
    return np.asarray(DEVIATION * rng.standard_t(3, (count, runs)))


def lasting(rng: np.random.Generator, count: int, runs: int) -> FloatArray:
    return DEVIATION * autocorrelated(rng, 0.6, count, runs)


def walking(rng: np.random.Generator, count: int, runs: int) -> FloatArray:
    """The speed of the machine is a random walk."""
    return np.cumsum(quiet(rng, count, runs), axis=1)


def in_spells(rng: np.random.Generator, count: int, runs: int) -> FloatArray:
    """Spells of about 10 runs in which the machine is 30 % slower, a quarter of the time."""
    slow = np.empty((count, runs), dtype=bool)
    slow[:, 0] = rng.random(count) < 0.25
    for run in range(1, runs):
        goes_on = rng.random(count) > np.where(slow[:, run - 1], 0.1, 1 / 30)
        slow[:, run] = slow[:, run - 1] == goes_on
    return quiet(rng, count, runs) - 0.36 * slow


def periodic(rng: np.random.Generator, count: int, runs: int, *, period: float) -> FloatArray:
    """A sine of 5 %, with its own phase in each experiment."""
    phase = 2 * math.pi * rng.random((count, 1))
    sine = np.sin(2 * math.pi * np.arange(runs) / period + phase)
    return np.asarray(quiet(rng, count, runs) + 0.05 * sine)


Noise = Callable[[np.random.Generator, int, int], FloatArray]


@dataclass(frozen=True, slots=True)
class Ended:
    """How experiments ended: log ratio, half-width of its interval, and number of pairs."""

    mean: FloatArray
    half: FloatArray
    pairs: FloatArray

    def held(self, effect: float) -> float:
        """Return the share of intervals that hold the truth."""
        return float(np.mean(np.abs(self.mean - effect) <= self.half))

    def decided(self, sign: int) -> float:
        """Return the share of verdicts with this direction."""
        return float(np.mean(sign * self.mean > self.half))


def ended(
    rng: np.random.Generator,
    count: int,
    noise: Noise,
    *,
    pairs: int,
    effect: float,
    order_seeds: Sequence[int] | None = None,
) -> Ended:
    """Carry out `count` experiments of at most `pairs` pairs, with a new order or with these."""
    runs = noise(rng, count, 2 * pairs).reshape(count, pairs, 2)
    if order_seeds is None:
        first = int(rng.integers(1 << 30))
        order_seeds = range(first, first + count)
    sign = np.array(
        [
            [1 if shuffled("AB", order_seed, pair) == ["A", "B"] else -1 for pair in range(pairs)]
            for order_seed in order_seeds
        ]
    )
    ratios = sign * (runs[:, :, 1] - runs[:, :, 0]) + effect
    n = np.arange(1, pairs + 1)
    mean = np.cumsum(ratios, axis=1) / n
    variance = (np.cumsum(ratios**2, axis=1) - n * mean**2) / np.maximum(n - 1, 1)
    half = np.full_like(mean, math.inf)
    factors = np.array([_factor(int(k), pairs) for k in n])
    known = np.isfinite(factors)
    half[:, known] = (np.sqrt(np.maximum(variance, 0) / n)[:, known]) * factors[known]
    margin = math.log1p(MARGIN_RATIO)
    is_decided = (np.abs(mean) > half) | (np.abs(mean) + half <= margin)
    at = np.where(is_decided.any(axis=1), is_decided.argmax(axis=1), pairs - 1)
    row = np.arange(count)
    return Ended(mean[row, at], half[row, at], at + 1.0)


def _factor(count: int, most: int) -> float:
    """Return the factor of the standard error after `count` of at most `most` pairs."""
    looks, error_ratio = look(count, planned_looks(most), is_over=False)
    if looks == "fixed":
        return t_quantile(1 - error_ratio / 2, count - 1)
    return sequential_t(count, error_ratio)


def false_verdicts(count: int, rng: np.random.Generator, *, noise: Noise, pairs: int) -> float:
    """The share of directions although there is no difference."""
    done = ended(rng, count, noise, pairs=pairs, effect=0.0)
    return done.decided(1) + done.decided(-1)


def covered(count: int, rng: np.random.Generator, *, noise: Noise, pairs: int) -> float:
    """The share of intervals that hold a true difference of 5 %."""
    effect = math.log(1.05)
    return ended(rng, count, noise, pairs=pairs, effect=effect).held(effect)


def seen(count: int, rng: np.random.Generator, *, ratio: float, noise: Noise, pairs: int) -> float:
    """The share of verdicts with the direction of a true ratio."""
    effect = math.log(ratio)
    return ended(rng, count, noise, pairs=pairs, effect=effect).decided(1 if ratio > 1 else -1)


def noisy(rng: np.random.Generator, count: int, runs: int) -> FloatArray:
    """The ratio of a pair scatters by 20 %."""
    return 0.2 / math.sqrt(2) * rng.standard_normal((count, runs))
