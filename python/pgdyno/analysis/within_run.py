"""Numbers from one run: the end of its warm-up, its throughput and its latency, with intervals."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pgdyno.analysis.arrays import FloatArray, finite
from pgdyno.analysis.estimate import Estimate, t_quantile, without_interval
from pgdyno.analysis.histogram import Histogram, nearest_rank
from pgdyno.analysis.resample import (
    REPLICATES,
    BlockPlan,
    batch_count_for,
    block_weights,
    interval,
    plan_blocks,
    within_run_estimate,
)
from pgdyno.errors import AnalysisError

_BATCH = 5  # the 5 of MSER-5
_STEADY_COUNT_MIN = 100


@dataclass(frozen=True, slots=True)
class WarmupCut:
    """How much of the start to leave out.

    `is_steady`: False if the best cut is at the bound (half of the series); None if the series has
    fewer than 100 counts, because one of ten such series reaches the bound by chance.
    """

    cut_ns: int
    is_steady: bool | None


def warmup_cut(counts: npt.ArrayLike, interval_ns: int) -> WarmupCut:
    """Return the cut with the most certain mean of the remaining counts.

    Args: counts, transactions of equal intervals (100 ms) in time order, at least 20 of them;
    interval_ns, the length of each.
    Raises: AnalysisError if there are fewer than 20 counts.
    Source: MSER-5 (White, Cobb and Spratt 2000): batches of 5, and the cut d, at most half of the
    batches, that minimises sum((Y - mean)^2) / (k - d)^2 over the remaining k - d batches.
    Limits: one large outlier near the start can move the cut. With less than 10 s of counts the
    answer is rough. If the minimum is at the bound, throughput still changes: run longer.
    """
    series = finite(counts, what="warm-up counts", at_least=20)
    batch_count = series.size // _BATCH
    means = series[: batch_count * _BATCH].reshape(batch_count, _BATCH).mean(axis=1)
    bound = batch_count // 2
    # Sums over the counts after each cut, from the end backwards; centred for precision.
    tail = (means - means.mean())[::-1]
    left = np.arange(1, batch_count + 1, dtype=np.float64)
    spread = np.cumsum(tail**2) - np.cumsum(tail) ** 2 / left
    score = (np.maximum(spread, 0.0) / left**2)[::-1][: bound + 1]
    cut = int(np.argmin(score))
    intervals = cut * _BATCH
    is_steady = cut < bound if series.size >= _STEADY_COUNT_MIN else None
    return WarmupCut(intervals * interval_ns, is_steady)


_NS_PER_SECOND = 1_000_000_000


def batch_mean_variance(values: FloatArray, batch_count: int) -> float:
    """Return the variance of the means of `batch_count` equal batches, without a remainder."""
    length = values.size // batch_count
    means = values[: length * batch_count].reshape(batch_count, length).mean(axis=1)
    return float(means.var(ddof=1))


def effective_sample_size(values: npt.ArrayLike, batch_count: int) -> float:
    """Return how many independent values carry the same information as `values`.

    Args: values, shape (n,), in time order, any unit; 2 <= batch_count <= n // 2.
    Returns: between 1 and n; n itself when all values are equal.
    Raises: AnalysisError if `values` has a NaN or is shorter than two batches.
    Source: method of batch means (Law and Kelton, "Simulation Modeling and Analysis"):
    n * s^2 / (m * s_m^2) for batches of m values.
    Limits: too high if batches are shorter than the correlation time. With 10 batches the error is
    about a factor of 2; the t interval of `throughput` includes this error.
    """
    series = finite(values, what="effective sample size", at_least=4)
    if not 2 <= batch_count <= series.size // 2:
        raise AnalysisError(
            f"batch_count must be from 2 to {series.size // 2} (half the values), got {batch_count}"
        )
    of_batches = batch_mean_variance(series, batch_count)
    of_values = float(series.var(ddof=1))
    if of_batches == 0 or of_values == 0:
        return float(series.size)
    size = series.size * of_values / (of_batches * (series.size // batch_count))
    return float(min(max(size, 1.0), series.size))


def throughput(counts: npt.ArrayLike, interval_ns: int) -> Estimate:
    """Return transactions per second over a measured phase, with Student's t interval.

    Args: counts, committed transactions of equal intervals in time order; interval_ns, the length
    of each.
    Returns: unit "tps"; `n` is the effective sample size.
    Source: batch means with k - 1 degrees of freedom, k from `batch_count_for`.
    Limits: the interval is for this run only. It does not include changes between runs (layout,
    cache, neighbours). With fewer than 8 counts there is no interval.
    """
    per_second = _NS_PER_SECOND / interval_ns
    return mean_of(finite(counts, what="throughput"), per_second, per_second, "tps")


def mean_of(series: FloatArray, per_second: float, factor: float, unit: str) -> Estimate:
    """Return the mean of values in time order, with the interval of `throughput`.

    Args: per_second, how many values a second has; factor, from the values to `unit`.
    """
    mean = float(series.mean()) * factor
    if series.size < 8:
        return without_interval(mean, unit)
    batch_count = min(batch_count_for(series, per_second), series.size // 2)
    deviation = math.sqrt(batch_mean_variance(series, batch_count) / batch_count)
    half = t_quantile(0.975, batch_count - 1) * deviation * factor
    size = effective_sample_size(series, batch_count)
    if half < mean:
        return Estimate(mean, mean - half, mean + half, size, unit, "within_run")
    # If batches differ as much as their mean, the logarithmic scale keeps the mean above 0.
    low = mean * math.exp(-half / mean) if mean > 0 else 0.0
    return Estimate(mean, low, mean + half, size, unit, "within_run")


@dataclass(frozen=True, slots=True)
class LatencyEstimates:
    """Mean and percentiles of latency in one run, unit "ns"; `percentile[99.9]` is p99.9."""

    mean: Estimate
    percentile: dict[float, Estimate]
    max_ns: int


def latency(
    seconds: Sequence[Histogram],
    percentiles: Sequence[float],
    *,
    seed: int,
    unfinished_ages_ns: npt.ArrayLike = (),
    replicates: int = REPLICATES,
) -> LatencyEstimates:
    """Return mean and percentiles of latency with intervals, from per-second histograms.

    Args: seconds, one histogram per second of the measured phase in time order, including empty
    histograms; percentiles in (0, 100]; unfinished_ages_ns, age of each transaction that never
    ended.
    Returns: unit "ns". A percentile among the unfinished transactions is censored, and its `high`
    is None. `high` is also None if the interval would reach beyond the slowest transaction, because
    few or uneven seconds give no upper end for a tail.
    Raises: AnalysisError if no transaction was completed.
    Source: circular block bootstrap over seconds (Politis and Romano 1992), widened after
    Hesterberg 2015.
    Limits: p99.9 of a few thousand transactions depends on only a few of them. A run of more than
    240 seconds is resampled in 240 equal parts, so the cost is bounded.
    """
    counted = [part.transaction_count for part in seconds]
    if not any(counted):
        raise AnalysisError("no transaction was completed, so there is no latency")
    sums = np.array([part.sum_ns for part in seconds], dtype=np.float64)
    counts = np.array(counted, dtype=np.float64)
    every = np.full(len(seconds), sum(part.sum_ns for part in seconds) / sum(counted))
    plan = plan_blocks(np.divide(sums, counts, out=every, where=counts > 0), 1.0)
    weights = block_weights(plan, np.random.default_rng(seed), replicates)
    group = plan.group_of(np.arange(len(seconds), dtype=np.float64))
    edges = np.searchsorted(group, np.arange(plan.group_count + 1)).tolist()
    groups = [Histogram.merged(seconds[a:b]) for a, b in itertools.pairwise(edges)]
    total = Histogram.merged(groups)
    below = _cumulative_counts(groups, total)
    sums = np.bincount(group, sums, minlength=plan.group_count).astype(np.float64)
    weights = weights[weights @ below[-1] > 0]  # A replicate of empty seconds has no latency.
    means = (weights @ sums) / (weights @ below[-1])
    unfinished = np.asarray(unfinished_ages_ns, dtype=np.int64)
    mean = within_run_estimate(total.mean_ns, means, plan.block_count, "ns")
    by_percent = {
        wanted: _percentile(wanted, total, (weights, below), unfinished, plan)
        for wanted in percentiles
    }
    return LatencyEstimates(
        mean=_not_below(mean, _least_mean_ns(total, by_percent)),
        percentile=_in_order(by_percent),
        max_ns=max(total.max_ns, int(unfinished.max(initial=0))),
    )


def _in_order(percentile: Mapping[float, Estimate]) -> dict[float, Estimate]:
    """Return the percentiles with increasing lower ends, because p90 is at least p50."""
    least_ns, in_order = 0.0, {}
    for wanted in sorted(percentile):
        in_order[wanted] = _not_below(percentile[wanted], least_ns)
        least_ns = max(least_ns, in_order[wanted].low or 0.0)
    return {wanted: in_order[wanted] for wanted in percentile}


def _least_mean_ns(total: Histogram, percentile: Mapping[float, Estimate]) -> float:
    """Return a lower bound of the mean: half of all transactions take p50 or longer.

    Source: Markov's inequality.
    """
    p50 = percentile.get(50.0)
    median_ns = max(total.min_ns, p50.low or 0.0) if p50 is not None else total.min_ns
    return (total.min_ns + median_ns) / 2


def _not_below(estimate: Estimate, least: float) -> Estimate:
    if estimate.low is None or estimate.low >= least:
        return estimate
    return replace(estimate, low=min(least, estimate.value))


def _cumulative_counts(groups: Sequence[Histogram], total: Histogram) -> FloatArray:
    """Return the cumulative counts of transactions, a row for each bucket and a column a group."""
    counts = np.zeros((len(groups), total.index.size))
    column = np.zeros(int(total.index[-1]) + 1, dtype=np.int64)
    column[total.index] = np.arange(total.index.size)
    for row, part in zip(counts, groups, strict=True):
        row[column[part.index]] = part.count
    return np.ascontiguousarray(np.cumsum(counts, axis=1, out=counts).T)


def _percentile(
    percentile: float,
    total: Histogram,
    drawn: tuple[FloatArray, FloatArray],
    unfinished_ages_ns: npt.NDArray[np.int64],
    plan: BlockPlan,
) -> Estimate:
    """Return one percentile. Args: drawn, weights of the groups, and their cumulative counts."""
    value, is_censored = total.percentile_with_unfinished(percentile, unfinished_ages_ns)
    if plan.block_count < 2:
        return Estimate(value, None, None, 1, "ns", "none", is_censored)
    weights, below = drawn
    size = weights @ below[-1] + unfinished_ages_ns.size
    rank = np.ceil(math.nextafter(percentile, 0.0) / 100 * size)
    # Past the last bucket: never finished.
    middles = np.append(total.middles_ns(), np.inf)
    replicates = np.sort(middles[_first_reaching(rank, weights, below)])
    is_open = nearest_rank(97.5, replicates.size) > int(np.isfinite(replicates).sum())
    bounded = np.where(np.isfinite(replicates), replicates, float(total.max_ns))
    low, high = interval(value, bounded, plan.block_count, is_positive=True)
    # An interval that reaches beyond the slowest transaction has no upper end.
    is_open = is_open or high > total.max_ns
    low = max(low, float(total.min_ns))
    high_or_none = None if is_censored or is_open else high
    return Estimate(value, low, high_or_none, plan.block_count, "ns", "within_run", is_censored)


def _first_reaching(
    rank: FloatArray, weights: FloatArray, below: FloatArray
) -> npt.NDArray[np.int64]:
    """Return, for each replicate, the first bucket at which its cumulative count reaches `rank`.

    Bisection is used, because a product of all weights and counts takes a hundred times as long.
    """
    low = np.zeros(rank.size, dtype=np.int64)
    high = np.full(rank.size, below.shape[0], dtype=np.int64)
    while (low < high).any():
        middle = (low + high) // 2
        # If `low` and `high` are equal, `middle` may be past the last bucket; it changes nothing.
        upto = below[np.minimum(middle, below.shape[0] - 1)]
        is_reached = np.einsum("ij,ij->i", weights, upto) >= rank
        high = np.where(is_reached & (low < high), middle, high)
        low = np.where(~is_reached & (low < high), middle + 1, low)
    return low
