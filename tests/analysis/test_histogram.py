"""Buckets, percentiles by nearest rank, and transactions that never ended."""

from __future__ import annotations

import numpy as np
import pytest

from pgdyno.analysis.histogram import Histogram, bucket_of, bucket_range_ns, nearest_rank
from pgdyno.errors import AnalysisError

MS = 1_000_000


@pytest.mark.parametrize(
    ("value_ns", "bucket"),
    [
        (0, 0),
        (63, 0),
        (64, 1),
        (2047 * 64 + 63, 2047),
        (2048 * 64, 2048),
        (2049 * 64, 2048),
        (2050 * 64, 2049),
        (4095 * 64, 3071),
        (4096 * 64, 3072),
        # One hour: 56.25e9 units, e = 35 - 10, 56.25e9 >> 25 = 1676.
        (3_600_000_000_000, 1024 * 25 + 1676),
    ],
)
def test_buckets_are_those_worked_by_hand(value_ns: int, bucket: int) -> None:
    assert int(bucket_of(value_ns)) == bucket


def test_every_bucket_begins_where_the_last_one_ended() -> None:
    low_ns, width_ns = bucket_range_ns(np.arange(40_000))
    assert low_ns[0] == 0
    assert (low_ns[1:] == low_ns[:-1] + width_ns[:-1]).all()
    assert (bucket_of(low_ns) == np.arange(40_000)).all()
    assert (bucket_of(low_ns + width_ns - 1) == np.arange(40_000)).all()


def test_percentiles_are_nearest_rank_to_half_a_bucket() -> None:
    histogram = Histogram.from_values_ns(np.arange(1, 1001) * MS)
    for percentile, rank in [(0.1, 1), (50, 500), (99, 990), (99.9, 999), (99.91, 1000)]:
        assert histogram.percentile_ns(percentile) == pytest.approx(rank * MS, rel=5e-4)
    assert histogram.percentile_ns(100) == pytest.approx(1000 * MS, rel=5e-4)


def test_ranks_do_not_jump_by_rounding() -> None:
    assert nearest_rank(99.9, 1000) == 999
    assert nearest_rank(29, 100) == 29  # 29 / 100 * 100 is 28.999999999999996
    assert nearest_rank(55, 100) == 55  # 55 / 100 * 100 is 55.00000000000001
    assert nearest_rank(1e-9, 10) == 1


def test_a_percentile_is_always_between_minimum_and_maximum() -> None:
    histogram = Histogram.from_values_ns([1_000_003, 1_000_003])
    assert histogram.percentile_ns(50) == 1_000_003


def test_the_mean_is_exact_because_the_sum_is_kept() -> None:
    assert Histogram.from_values_ns([1, 2, 6]).mean_ns == 3


def test_merging_equals_recording_everything_in_one() -> None:
    rng = np.random.default_rng(3)
    values = rng.integers(1, 50 * MS, 3000)
    whole = Histogram.from_values_ns(values)
    merged = Histogram.merged(Histogram.from_values_ns(part) for part in np.split(values, 3))
    assert merged.buckets() == whole.buckets()
    assert (merged.sum_ns, merged.min_ns, merged.max_ns) == (
        whole.sum_ns,
        whole.min_ns,
        whole.max_ns,
    )


def test_records_go_in_and_come_out_unchanged() -> None:
    buckets = [[5, 2], [2048, 1]]
    assert Histogram.from_buckets(buckets, sum_ns=9, min_ns=1, max_ns=7).buckets() == buckets


@pytest.mark.parametrize("buckets", [[[5, 1], [5, 1]], [[6, 1], [5, 1]], [[5, 0]]])
def test_buckets_out_of_order_or_empty_are_refused(buckets: list[list[int]]) -> None:
    with pytest.raises(AnalysisError, match="ascending"):
        Histogram.from_buckets(buckets, sum_ns=1, min_ns=1, max_ns=1)


def test_a_percentile_among_unfinished_transactions_is_a_lower_bound() -> None:
    done = Histogram.from_values_ns(np.full(90, 10 * MS))
    value, is_censored = done.percentile_with_unfinished(95, np.full(10, 40 * MS))
    assert (round(value / MS, 1), is_censored) == (40.0, True)


def test_a_percentile_below_all_unfinished_ages_is_exact() -> None:
    done = Histogram.from_values_ns(np.arange(1, 91) * MS)
    value, is_censored = done.percentile_with_unfinished(50, np.full(10, 100 * MS))
    assert (round(value / MS), is_censored) == (50, False)


def test_young_unfinished_transactions_make_a_percentile_uncertain() -> None:
    # Had the ten ended at once, rank 50 of 100 were 41 ms; had they lasted, 50 ms.
    done = Histogram.from_values_ns(np.arange(1, 91) * MS)
    value, is_censored = done.percentile_with_unfinished(50, np.full(10, 100_000))
    assert (round(value / MS), is_censored) == (40, True)


def test_an_empty_histogram_has_no_percentile() -> None:
    empty = Histogram.merged(())
    assert empty.transaction_count == 0
    with pytest.raises(AnalysisError, match="an empty histogram"):
        empty.percentile_ns(50)
    with pytest.raises(AnalysisError, match="above 0"):
        Histogram.from_values_ns([1]).percentile_ns(0)
