"""The share that was late, against known shares."""

from __future__ import annotations

import numpy as np
import pytest

from pgdyno.analysis.histogram import Histogram, late_share, over_limit_count

MS = 1_000_000


def _seconds(late_ratio: float, count: int, seed: int, per_second: int = 400) -> list[Histogram]:
    rng = np.random.default_rng(seed)
    slow = rng.random((count, per_second)) < late_ratio
    return [Histogram.from_values_ns(np.where(row, 30 * MS, 3 * MS)) for row in slow]


def test_transactions_above_the_limit_are_counted() -> None:
    histogram = Histogram.from_values_ns([1 * MS, 5 * MS, 20 * MS, 21 * MS])
    assert over_limit_count(histogram, 10 * MS) == 2
    assert over_limit_count(histogram, 100 * MS) == 0


def test_the_share_is_exact_and_what_never_ended_is_late() -> None:
    histogram = Histogram.from_values_ns([1 * MS] * 6 + [50 * MS] * 2)
    share = late_share([histogram], 10 * MS, seed=1, unfinished_ages_ns=[90 * MS, 0])
    assert share.value == pytest.approx(4 / 10)
    assert not share.has_interval


def test_no_late_transaction_is_a_share_of_nothing() -> None:
    share = late_share(_seconds(0.0, 30, 1), 10 * MS, seed=1)
    assert (share.value, share.low) == (0.0, 0.0)


def test_the_interval_covers_the_true_share() -> None:
    covered = 0
    for seed in range(60):
        share = late_share(_seconds(0.1, 40, seed), 10 * MS, seed=seed)
        assert share.low is not None
        assert share.high is not None
        covered += share.low <= 0.1 <= share.high
    # 95 % of 60 is 57; below 50 has a probability under 0.1 %.
    assert covered >= 50
