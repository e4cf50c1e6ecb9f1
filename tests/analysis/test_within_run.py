"""Throughput and latency of one run against values worked by hand and known truths."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from tests.statistics.noise import autocorrelated

from pgdyno.analysis.histogram import Histogram
from pgdyno.analysis.resample import batch_count_for, correlation_time, plan_blocks, widening
from pgdyno.analysis.within_run import (
    _first_reaching,
    effective_sample_size,
    latency,
    throughput,
)
from pgdyno.errors import AnalysisError

MS = 1_000_000
TENTH_NS = 100_000_000


def test_effective_sample_size_of_four_values_worked_by_hand() -> None:
    # Batches (1, 1) and (3, 3): means 1 and 3, variance 2; the values' variance is 4/3.
    # 4 * (4/3) / (2 * 2) = 4/3.
    assert effective_sample_size([1.0, 1.0, 3.0, 3.0], 2) == pytest.approx(4 / 3)


def test_effective_sample_size_of_autocorrelated_values_is_the_known_one() -> None:
    # AR(1): n (1 - phi) / (1 + phi); median over series because each is known to a factor of 2.
    series = autocorrelated(np.random.default_rng(5), 0.8, 200, 3000)
    sizes = [effective_sample_size(values, 30) for values in series]
    assert statistics.median(sizes) == pytest.approx(3000 / 9, rel=0.15)


def test_effective_sample_size_never_exceeds_the_values() -> None:
    assert effective_sample_size([1.0, 2.0] * 20, 10) == 40
    assert effective_sample_size([5.0] * 20, 10) == 20


@pytest.mark.parametrize("batch_count", [1, 3])
def test_too_few_or_too_many_batches_are_refused(batch_count: int) -> None:
    with pytest.raises(AnalysisError, match="from 2 to 2"):
        effective_sample_size([1.0, 2.0, 3.0, 4.0], batch_count)


def test_throughput_is_the_t_interval_of_batch_means() -> None:
    # 50 counts make 5 batches of 10 with means 10, 12, 14, 12, 12: mean 12, variance 2.
    counts = np.repeat([10, 12, 14, 12, 12], 10)
    tps = throughput(counts, TENTH_NS)
    assert tps.value == pytest.approx(120)
    assert tps.high == pytest.approx(120 + 10 * 2.776445 * math.sqrt(2 / 5), rel=1e-6)
    assert (tps.unit, tps.scope) == ("tps", "within_run")


def test_throughput_of_few_intervals_has_no_interval() -> None:
    assert not throughput([3, 4, 5], TENTH_NS).has_interval


def test_throughput_of_a_run_with_a_transaction_stays_above_zero() -> None:
    low = throughput([0] * 49 + [1], TENTH_NS).low
    assert low is not None
    assert 0 < low < 0.2
    assert throughput([0] * 50, TENTH_NS).low == 0


def test_correlation_time_of_autoregressive_noise_is_the_known_one() -> None:
    series = autocorrelated(np.random.default_rng(6), 0.8, 40, 4000)
    times = [correlation_time(values) for values in series]
    assert statistics.median(times) == pytest.approx(9, rel=0.1)  # (1 + phi) / (1 - phi)
    assert correlation_time(np.array([1.0, -1.0] * 50)) == 1


def test_batches_get_longer_with_the_correlation_time() -> None:
    rng = np.random.default_rng(7)
    assert batch_count_for(rng.normal(size=50), 10) == 5
    assert batch_count_for(rng.normal(size=600), 10) == 10
    assert batch_count_for(rng.normal(size=6000), 10) == 30
    assert batch_count_for(autocorrelated(rng, 0.99, 1, 600)[0], 10) == 5
    assert batch_count_for(rng.normal(size=3), 1) == 3


def test_an_hour_is_resampled_in_a_bounded_number_of_groups() -> None:
    plan = plan_blocks(np.random.default_rng(8).normal(size=3600), 1)
    assert (plan.group_count, plan.block_count) == (240, 30)
    groups = plan.group_of(np.arange(3600.0))
    assert set(np.bincount(groups)) == {15}


def test_widening_for_five_blocks_worked_by_hand() -> None:
    assert widening(5) == pytest.approx(2.776445 / 1.959964 * math.sqrt(5 / 4), rel=1e-6)


def seconds(rng: np.random.Generator, count: int, per_second_count: int = 200) -> list[Histogram]:
    values = rng.lognormal(14, 0.5, size=(count, per_second_count)).astype(np.int64)
    return [Histogram.from_values_ns(sample) for sample in values]


def test_latency_values_are_those_of_all_transactions_together() -> None:
    parts = seconds(np.random.default_rng(9), 30)
    estimates = latency(parts, (50, 99), seed=1)
    whole = Histogram.merged(parts)
    assert estimates.mean.value == whole.mean_ns
    assert estimates.percentile[99].value == whole.percentile_ns(99)
    assert estimates.max_ns == whole.max_ns


def test_latency_intervals_hold_the_bootstrap_answer_for_independent_seconds() -> None:
    # The standard error of a mean of n independent values is s / sqrt(n): 60 x 200 lognormals.
    estimates = latency(seconds(np.random.default_rng(10), 60), (50,), seed=2)
    deviation = math.exp(14 + 0.125) * math.sqrt(math.exp(0.25) - 1)
    expected = 2 * 2.262 * deviation / math.sqrt(12_000)
    assert estimates.mean.low is not None
    assert estimates.mean.high is not None
    assert estimates.mean.high - estimates.mean.low == pytest.approx(expected, rel=0.5)
    assert estimates.mean.low < estimates.mean.value < estimates.mean.high


def test_the_same_seed_gives_the_same_interval() -> None:
    parts = seconds(np.random.default_rng(11), 20)
    assert latency(parts, (99,), seed=3) == latency(parts, (99,), seed=3)
    assert latency(parts, (99,), seed=3) != latency(parts, (99,), seed=4)


def test_a_percentile_among_unfinished_transactions_has_no_upper_end() -> None:
    parts = [Histogram.from_values_ns(np.full(90, 10 * MS)) for _ in range(10)]
    estimates = latency(parts, (50, 99.5), seed=1, unfinished_ages_ns=np.full(9, 3000 * MS))
    assert estimates.percentile[99.5].censored
    assert estimates.percentile[99.5].high is None
    assert estimates.percentile[99.5].value == pytest.approx(3000 * MS, rel=1e-3)
    assert not estimates.percentile[50].censored
    assert estimates.max_ns == 3000 * MS


def test_empty_seconds_are_part_of_the_run() -> None:
    parts = [Histogram.from_values_ns([MS]), Histogram.merged(())] * 5
    estimates = latency(parts, (50,), seed=1)
    assert estimates.mean.value == MS
    assert estimates.mean.has_interval


def test_one_second_gives_numbers_without_interval() -> None:
    estimates = latency([Histogram.from_values_ns([MS, 2 * MS])], (50,), seed=1)
    assert not estimates.percentile[50].has_interval


def test_an_error_says_that_no_transaction_completed() -> None:
    with pytest.raises(AnalysisError, match="no transaction was completed"):
        latency([Histogram.merged(())], (50,), seed=1)


@pytest.mark.parametrize("seconds", [2, 5, 12])
def test_the_interval_of_a_percentile_is_within_the_sample_or_open(
    seconds: int,
) -> None:
    rng = np.random.default_rng(5)
    parts = [
        Histogram.from_values_ns((rng.lognormal(15, 1.5, 40) * (1 + 3 * (n % 2))).astype(int))
        for n in range(seconds)
    ]
    whole = Histogram.merged(parts)
    estimates = latency(parts, (50.0, 95.0, 99.0), seed=1)
    for estimate in estimates.percentile.values():
        assert estimate.low is None or estimate.low >= whole.min_ns
        assert estimate.high is None or estimate.high <= whole.max_ns


def test_a_percentile_in_the_middle_of_an_even_run_has_both_ends() -> None:
    rng = np.random.default_rng(6)
    parts = [Histogram.from_values_ns(rng.lognormal(15, 0.5, 500).astype(int)) for _ in range(30)]
    estimate = latency(parts, (50.0,), seed=1).percentile[50.0]
    assert estimate.low is not None
    assert estimate.high is not None
    assert estimate.low < estimate.value < estimate.high


def test_bisection_finds_the_bucket_that_all_cumulative_counts_show() -> None:
    rng = np.random.default_rng(11)
    weights = rng.multinomial(6, np.full(6, 1 / 6), size=50).astype(np.float64)
    below = np.cumsum(rng.poisson(0.7, size=(40, 6)), axis=0).astype(np.float64)
    whole = weights @ below.T
    for share in (0.0, 0.01, 0.5, 0.99, 1.0, 1.01):
        rank = np.ceil(share * whole[:, -1])
        expected = (whole < rank[:, None]).sum(axis=1)
        assert _first_reaching(rank, weights, below).tolist() == expected.tolist()


def test_no_percentile_begins_below_a_smaller_one_and_the_mean_not_below_half_of_p50() -> None:
    rng = np.random.default_rng(5)
    # Every other second is 30 times slower: the tail's bootstrap alone would begin near 0.
    parts = [
        Histogram.from_values_ns((rng.lognormal(15, 1.0, 40) * 30 ** (n % 2)).astype(int))
        for n in range(8)
    ]
    estimates = latency(parts, (50.0, 90.0, 99.0), seed=3)
    lows = [estimates.percentile[percent].low or 0.0 for percent in (50.0, 90.0, 99.0)]
    assert lows == sorted(lows)
    assert estimates.mean.low is not None
    assert estimates.mean.low >= lows[0] / 2 > 0
