"""Histograms of durations in the engine's buckets, their percentiles, and shares above a limit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pgdyno.analysis.arrays import IntArray
from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.resample import block_weights, plan_blocks, within_run_estimate
from pgdyno.errors import AnalysisError


def over_limit_count(histogram: Histogram, limit_ns: int) -> int:
    """Return how many values are above the limit.

    Limits: the error of the limit is up to half a bucket (0.05 %).
    """
    return int(histogram.count[histogram.middles_ns() > limit_ns].sum())


def late_share(
    seconds: Sequence[Histogram],
    limit_ns: int,
    *,
    seed: int,
    unfinished_ages_ns: npt.ArrayLike = (),
) -> Estimate:
    """Return the share above the limit, in 0..1, with an interval if the run is long enough.

    Args: seconds, latencies of completed transactions, one histogram a second in time order, at
    least one value in all; unfinished_ages_ns, ages of the transactions that were due or had
    started, and never ended.
    Returns: unit "ratio". Unfinished transactions count as late.
    Source: circular block bootstrap over seconds (Politis and Romano 1992), as for percentiles.
    """
    ages = np.asarray(unfinished_ages_ns, dtype=np.int64)
    late = np.array([over_limit_count(second, limit_ns) for second in seconds], dtype=np.float64)
    total = np.array([second.transaction_count for second in seconds], dtype=np.float64)
    value = float((late.sum() + ages.size) / (total.sum() + ages.size))
    plan = plan_blocks(late / np.maximum(total, 1.0), 1.0)
    weights = block_weights(plan, np.random.default_rng(seed))
    group = plan.group_of(np.arange(len(seconds), dtype=np.float64))
    late_drawn = weights @ np.bincount(group, late, minlength=plan.group_count) + ages.size
    drawn = weights @ np.bincount(group, total, minlength=plan.group_count) + ages.size
    shares = late_drawn[drawn > 0] / drawn[drawn > 0]
    share = within_run_estimate(value, shares, plan.block_count, "ratio", is_positive=False)
    if not share.has_interval or share.low is None or share.high is None:
        return share
    low, high = max(share.low, 0.0), min(share.high, 1.0)
    return Estimate(value, low, high, share.n, "ratio", share.scope)


_UNIT_BITS = 6  # one unit is 64 ns
_LINEAR = 2048  # below this many units a bucket is one unit wide
_HALF = 1024  # above this, each doubling of the value has 1024 buckets


def bucket_of(value_ns: npt.ArrayLike) -> IntArray:
    """Return the bucket of each value.

    Args: value_ns, integers >= 0. Source: the engine's contract, `bucket.rs`.
    """
    unit = np.asarray(value_ns, dtype=np.int64) >> _UNIT_BITS
    # Subtle: frexp of an integer below 2**53 is exact, so the result is always floor(log2).
    exponent = np.maximum(np.frexp(unit.astype(np.float64))[1].astype(np.int64) - 1 - 10, 0)
    return np.where(unit < _LINEAR, unit, _HALF * exponent + (unit >> exponent)).astype(np.int64)


def bucket_range_ns(bucket: npt.ArrayLike) -> tuple[IntArray, IntArray]:
    """Return the smallest value and the width of each bucket, in nanoseconds."""
    index = np.asarray(bucket, dtype=np.int64)
    exponent = np.where(index < _LINEAR, 0, index // _HALF - 1)
    low_ns = (index - _HALF * exponent) << exponent << _UNIT_BITS
    return low_ns, np.int64(1) << (exponent + _UNIT_BITS)


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """Counts by bucket (ascending, all above 0), with exact sum, minimum and maximum."""

    index: npt.NDArray[np.signedinteger[Any]]
    count: npt.NDArray[np.signedinteger[Any]]
    sum_ns: int
    min_ns: int
    max_ns: int

    @classmethod
    def from_buckets(
        cls, buckets: Sequence[Sequence[int]], *, sum_ns: int, min_ns: int, max_ns: int
    ) -> Histogram:
        """Return the histogram of a record's `[[bucket, count], ...]`.

        Raises: AnalysisError if buckets are not ascending or a count is not above 0.
        """
        pairs = np.asarray(buckets, dtype=np.int64).reshape(-1, 2)
        if (np.diff(pairs[:, 0]) <= 0).any() or (pairs[:, 1] <= 0).any():
            raise AnalysisError("a histogram needs ascending buckets with counts above 0")
        return cls(pairs[:, 0].copy(), pairs[:, 1].copy(), sum_ns, min_ns, max_ns)

    @classmethod
    def from_values_ns(cls, values_ns: npt.ArrayLike) -> Histogram:
        """Return the histogram of single durations in nanoseconds."""
        values = np.asarray(values_ns, dtype=np.int64)
        if values.size == 0:
            return cls.merged(())
        index, count = np.unique(bucket_of(values), return_counts=True)
        low, high = int(values.min()), int(values.max())
        return cls(index, count.astype(np.int64), int(values.sum()), low, high)

    @classmethod
    def merged(cls, histograms: Iterable[Histogram]) -> Histogram:
        """Return the sum of all; the empty histogram (all zero) if there are none."""
        parts = [part for part in histograms if part.index.size]
        if not parts:
            nothing = np.zeros(0, dtype=np.int64)
            return cls(nothing, nothing, 0, 0, 0)
        dense = np.zeros(max(int(part.index[-1]) for part in parts) + 1, dtype=np.int64)
        for part in parts:
            dense[part.index] += part.count
        index = np.flatnonzero(dense).astype(np.int64)
        count = dense[index]
        return cls(
            index,
            count,
            sum(part.sum_ns for part in parts),
            min(part.min_ns for part in parts),
            max(part.max_ns for part in parts),
        )

    @property
    def transaction_count(self) -> int:
        """Return the number of recorded values."""
        return int(self.count.sum())

    @property
    def mean_ns(self) -> float:
        """Return the exact mean: the histogram keeps the sum in addition to the buckets."""
        self._refuse_empty()
        return self.sum_ns / self.transaction_count

    def buckets(self) -> list[list[int]]:
        """Return `[[bucket, count], ...]` as in a record."""
        return [
            [int(index), int(count)] for index, count in zip(self.index, self.count, strict=True)
        ]

    def percentile_ns(self, percentile: float) -> float:
        """Return the value at nearest rank, as the middle of its bucket.

        Args: percentile, 0 < p <= 100.
        Source: HdrHistogram's definition, rank = ceil(p/100 * n), at least 1.
        Limits: the error is up to half a bucket (0.05 %). The value is never outside the exact
        minimum and maximum.
        """
        return self.percentiles_ns((percentile,))[0]

    def percentiles_ns(self, percentiles: Sequence[float]) -> list[float]:
        """Return the value at nearest rank for each percentile, as `percentile_ns` does."""
        self._refuse_empty()
        middles_ns: list[float] = self._middles_of(self.buckets_at(percentiles)).tolist()
        return middles_ns

    def percentile_with_unfinished(
        self, percentile: float, unfinished_ages_ns: npt.ArrayLike
    ) -> tuple[float, bool]:
        """Return the percentile if some transactions never ended, and whether it is censored.

        An unfinished transaction took at least its age. The percentile is computed twice: as if
        these transactions ended at once, and as if they never end. If both values are equal, the
        percentile is exact. Else the smaller value is a lower bound (">= x"), and the second result
        is True.
        Source: Kaplan and Meier 1958, bounds for right-censored values.
        """
        ages = Histogram.from_values_ns(unfinished_ages_ns)
        if not ages.transaction_count:
            return self.percentile_ns(percentile), False
        at_least = Histogram.merged((self, ages)).percentile_ns(percentile)
        rank = nearest_rank(percentile, self.transaction_count + ages.transaction_count)
        if rank > self.transaction_count:
            return at_least, True
        place = int(np.searchsorted(np.cumsum(self.count), rank))
        at_most = float(self.middles_ns()[place])
        # Values are equal if their buckets are: limiting to minimum and maximum may change a value
        # within its bucket.
        return at_least, bool(bucket_of(int(at_least)) != bucket_of(int(at_most)))

    def middles_ns(self) -> npt.NDArray[np.float64]:
        """Return the value that stands for each bucket: its middle, within minimum and maximum."""
        return self._middles_of(self.index)

    def buckets_at(self, percentiles: Sequence[float]) -> npt.NDArray[np.signedinteger[Any]]:
        """Return the bucket of each percentile."""
        below = np.cumsum(self.count)
        total = int(below[-1])
        return self.index[
            below.searchsorted([nearest_rank(percentile, total) for percentile in percentiles])
        ]

    def _middles_of(self, index: npt.ArrayLike) -> npt.NDArray[np.float64]:
        low_ns, width_ns = bucket_range_ns(index)
        return np.clip(low_ns + width_ns / 2, self.min_ns, self.max_ns)

    def _refuse_empty(self) -> None:
        if self.transaction_count == 0:
            raise AnalysisError("an empty histogram has no percentile and no mean")


def percentiles_of_each(
    histograms: Sequence[Histogram], percentiles: Sequence[float]
) -> npt.NDArray[np.float64]:
    """Return the percentiles of many distributions, each as `Histogram.percentile_ns` does.

    Returns: shape (histograms, percentiles), NaN for an empty histogram.
    """
    values = np.full((len(histograms), len(percentiles)), np.nan)
    known = [place for place, histogram in enumerate(histograms) if histogram.index.size]
    if known:
        parts = [histograms[place] for place in known]
        low_ns, width_ns = bucket_range_ns(
            [histogram.buckets_at(percentiles) for histogram in parts]
        )
        least_ns = np.array([[part.min_ns] for part in parts])
        most_ns = np.array([[part.max_ns] for part in parts])
        values[known] = np.clip(low_ns + width_ns / 2, least_ns, most_ns)
    return values


def nearest_rank(percentile: float, total: int) -> int:
    """Return the 1-based rank of a percentile among `total` values.

    Raises: AnalysisError if percentile is not in (0, 100].
    """
    if not 0 < percentile <= 100:
        raise AnalysisError(f"a percentile must be above 0 and at most 100, got {percentile}")
    # Subtle: the percentile is lowered by the smallest step before ceil. Otherwise the 99.9th of
    # 1000 values would be rounded up to rank 1000.
    exact = math.nextafter(percentile, 0.0) / 100 * total
    return min(max(math.ceil(exact), 1), total)
