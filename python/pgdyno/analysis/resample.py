"""Block bootstrap over time, and the correction that makes it honest with few blocks."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pgdyno.analysis.arrays import FloatArray
from pgdyno.analysis.estimate import Estimate, t_quantile

REPLICATES = 1000
_GROUPS_MAX = 240
_Z = 1.959963984540054  # the 97.5 % quantile of the normal distribution


def batch_count_for(length: int) -> int:
    """Return how many batches a series is cut into to learn how much it varies.

    Ten, so that batches stay long against the correlation time; one for every 60 values beyond
    600, at most 30. A series under ten values is its own batches.
    """
    return min(length, max(10, min(30, length // 60)))


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """How a series of `length` steps is cut: into groups of steps, and blocks of groups."""

    length: int
    group_count: int
    block_length: int

    @property
    def block_count(self) -> int:
        """Blocks that fit; the degrees of freedom are one fewer."""
        return self.group_count // self.block_length

    def group_of(self, step: FloatArray) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Return the group of each step, 0-based."""
        return (step.astype(np.int64) * self.group_count) // self.length


def plan_blocks(length: int) -> BlockPlan:
    """Cut `length` time steps so that the cost of resampling is bounded for any length of run.

    Source: Politis and Romano 1992 (circular blocks); the number of blocks as in batch means.
    Limits: correlation over more than a tenth of the run is not seen, as with any single run.
    """
    group_count = min(length, _GROUPS_MAX)
    block_length = max(1, group_count // batch_count_for(10 * group_count))
    return BlockPlan(length, group_count, block_length)


def block_weights(
    plan: BlockPlan, rng: np.random.Generator, replicates: int = REPLICATES
) -> FloatArray:
    """Return how often each group is drawn in each replicate, shape (replicates, groups)."""
    draws = math.ceil(plan.group_count / plan.block_length)
    start = rng.integers(0, plan.group_count, size=(replicates, draws))
    member = (start[:, :, None] + np.arange(plan.block_length)) % plan.group_count
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
