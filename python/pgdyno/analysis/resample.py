"""Resampling for intervals: scatter of a few runs, correlation time, block bootstrap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgdyno.analysis.arrays import FloatArray
from pgdyno.analysis.estimate import Estimate, t_quantile
from pgdyno.errors import AnalysisError

_SHARED_DEGREES = 4.0  # weight of the scatter of all levels against a level's own


@dataclass(frozen=True, slots=True, eq=False)
class LevelScatter:
    """Standard error of each level's mean, and its degrees of freedom; 0 with one run a level."""

    error_values: FloatArray
    degrees: float

    @property
    def is_known(self) -> bool:
        """Return whether there are enough runs to know the scatter."""
        return self.degrees > 0


def scatter_of(levels: Sequence[FloatArray]) -> LevelScatter:
    """Return the standard error of every level's mean, moderated by the scatter of all levels.

    Args: levels, the values of the runs of each level: logarithms of a metric, or log ratios.
    Raises: AnalysisError if some levels have one run and others several.
    The scatter of three runs is very uncertain. Therefore each level's variance is averaged with
    the mean variance of all levels, which has the weight of 4 degrees of freedom.
    Source: moderated variance, Smyth 2004, with a fixed prior weight.
    """
    sizes = np.array([level.size for level in levels])
    if (sizes == 1).all():
        return LevelScatter(np.zeros(len(levels)), 0)
    if (sizes == 1).any():
        raise AnalysisError(
            "some loads have one run and others several: a curve needs at least 2 runs of each load"
        )
    own = np.array([level.var(ddof=1) for level in levels])
    shared = float(np.average(own, weights=sizes - 1))
    variance = (_SHARED_DEGREES * shared + (sizes - 1) * own) / (_SHARED_DEGREES + sizes - 1)
    # Degrees of freedom from the variance of this average: 2 / variance (Satterthwaite 1946).
    least, total = float(sizes.min() - 1), float((sizes - 1).sum())
    part = _SHARED_DEGREES / (_SHARED_DEGREES + least)
    degrees = 1 / ((1 - part) ** 2 / least + (part**2 + 2 * part * (1 - part)) / total)
    return LevelScatter(np.sqrt(variance / sizes), degrees)


REPLICATES = 1000
_GROUPS_MAX = 240
_BATCH_TIMES = 8.0
_Z = 1.959963984540054  # the 97.5 % quantile of the normal distribution


def correlation_time(values: FloatArray) -> float:
    """Return the integrated autocorrelation time of a series, in steps, at least 1.

    Source: initial positive sequence (Geyer 1992): autocorrelations are summed in pairs until the
    sum of a pair is not above 0.
    Limits: too low for a series shorter than about ten correlation times.
    """
    centred = values - values.mean()
    size = 1 << (2 * centred.size - 1).bit_length()
    spectrum = np.fft.rfft(centred, size)
    correlation = np.fft.irfft(spectrum * np.conj(spectrum), size)[: centred.size // 2]
    if correlation.size < 2 or correlation[0] <= 0:
        return 1.0
    correlation = correlation / correlation[0]
    pairs = correlation[: correlation.size // 2 * 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs <= 0)
    upto = int(negative[0]) if negative.size else pairs.size
    return max(1.0, 2 * float(pairs[:upto].sum()) - 1)


def batch_count_for(values: FloatArray, steps_per_second: float) -> int:
    """Return the number of batches (5 to 30) from which the variance of a series is estimated.

    A batch must be long compared with the correlation time, so there are few: 5 for up to 15 s,
    then one for every 3 s up to 10, then one for every 6 s. A batch shorter than 8 correlation
    times reduces the number, down to 5. If there are fewer than 5 values, each value is a batch.
    """
    seconds = values.size / steps_per_second
    wanted = max(5, min(10, int(seconds / 3)), min(30, int(seconds / 6)))
    apart = int(values.size / (_BATCH_TIMES * correlation_time(values)))
    return min(wanted, max(apart, 5), values.size)


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """How a series of steps is divided: into groups of steps, and blocks of groups."""

    step_count: int
    group_count: int
    block_group_count: int

    @property
    def block_count(self) -> int:
        """Return the number of whole blocks; the degrees of freedom are one fewer."""
        return self.group_count // self.block_group_count

    def group_of(self, step: FloatArray) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Return the group of each step, 0-based."""
        return (step.astype(np.int64) * self.group_count) // self.step_count


def plan_blocks(values: FloatArray, steps_per_second: float) -> BlockPlan:
    """Return how to divide the time steps of `values` for resampling, at a bounded cost.

    Args: values, one per step, of the kind that will be resampled, because their correlation time
    sets the length of a block.
    Source: Politis and Romano 1992 (circular blocks); the number of blocks as in batch means.
    Limits: as with any single run, correlation over more than a fifth of the run is not seen.
    """
    group_count = min(values.size, _GROUPS_MAX)
    block_group_count = max(1, group_count // batch_count_for(values, steps_per_second))
    return BlockPlan(values.size, group_count, block_group_count)


def block_weights(
    plan: BlockPlan, rng: np.random.Generator, replicates: int = REPLICATES
) -> FloatArray:
    """Return how often each group is drawn in each replicate, shape (replicates, groups)."""
    draws = math.ceil(plan.group_count / plan.block_group_count)
    start = rng.integers(0, plan.group_count, size=(replicates, draws))
    member = (start[:, :, None] + np.arange(plan.block_group_count)) % plan.group_count
    member = member.reshape(replicates, -1)[:, : plan.group_count]
    flat = (np.arange(replicates)[:, None] * plan.group_count + member).ravel()
    weights = np.bincount(flat, minlength=replicates * plan.group_count)
    return weights.reshape(replicates, plan.group_count).astype(np.float64)


def widening(block_count: int) -> float:
    """Return the factor by which a bootstrap interval over few blocks must grow.

    Source: Hesterberg 2015, "What teachers should know about the bootstrap": the percentile
    interval lacks the factor sqrt(k/(k-1)) and Student's t for k - 1 degrees of freedom.
    """
    return t_quantile(0.975, block_count - 1) / _Z * math.sqrt(block_count / (block_count - 1))


def interval(
    value: float, replicates: FloatArray, block_count: int, *, is_positive: bool
) -> tuple[float, float]:
    """Return the 95 % percentile interval of `replicates`, widened for `block_count` blocks.

    Args: is_positive: widen on the logarithmic scale, so that the interval stays above 0.
    """
    low, high = (float(bound) for bound in np.quantile(replicates, (0.025, 0.975)))
    low, high = min(low, value), max(high, value)
    factor = widening(block_count)
    if is_positive and low > 0:
        return value * (low / value) ** factor, value * (high / value) ** factor
    return value - (value - low) * factor, value + (high - value) * factor


def within_run_estimate(
    value: float, replicates: FloatArray, block_count: int, unit: str, *, is_positive: bool = True
) -> Estimate:
    """Return the estimate of one run from its block bootstrap; one block gives no interval."""
    if block_count < 2:
        return Estimate(value, None, None, 1, unit, "none")
    low, high = interval(value, replicates, block_count, is_positive=is_positive)
    return Estimate(value, low, high, block_count, unit, "within_run")
