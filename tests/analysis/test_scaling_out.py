"""Speed-up and efficiency by number of workers, and the law over them."""

from __future__ import annotations

import numpy as np
import pytest

from pgdyno.analysis.scaling_out import scaling_out


def test_the_law_of_simulated_workers_is_found_again() -> None:
    workers = np.array([2.0, 1.0, 4.0, 8.0])
    true_tps = 1000 * workers / (1 + 0.05 * (workers - 1))
    noise = np.exp(np.random.default_rng(7).normal(0, 0.005, (12, 4)))
    names = ["two", "one", "four", "eight"]
    answer = scaling_out(
        list(zip(names, map(int, workers), strict=True)), (true_tps * noise).tolist()
    )
    assert answer is not None
    assert [of.variant for of in answer.variants] == ["one", "two", "four", "eight"]
    assert answer.variants[0].speed_up is None
    for of in answer.variants[1:]:
        true_speed_up = of.worker_count / (1 + 0.05 * (of.worker_count - 1))
        for estimate, truth in (
            (of.speed_up, true_speed_up),
            (of.efficiency, true_speed_up / of.worker_count),
        ):
            assert estimate is not None
            assert estimate.low is not None
            assert estimate.high is not None
            assert estimate.low <= truth <= estimate.high
    assert answer.law is not None
    assert answer.law.alpha.low is not None
    assert answer.law.alpha.high is not None
    assert answer.law.alpha.low <= 0.05 <= answer.law.alpha.high
    assert answer.law.gamma.value == pytest.approx(1000, rel=0.02)


def test_equal_numbers_of_workers_are_no_scaling_out() -> None:
    assert scaling_out([("a", 2), ("b", 2)], [[1.0, 2.0]]) is None


def test_one_round_has_ratios_without_intervals_and_no_law() -> None:
    answer = scaling_out([("a", 1), ("b", 2), ("c", 2), ("d", 4)], [[10.0, 19.0, 21.0, 36.0]])
    assert answer is not None
    assert answer.law is None
    [_, twice, *_] = answer.variants
    assert twice.speed_up is not None
    assert twice.efficiency is not None
    assert (twice.speed_up.value, twice.efficiency.value) == pytest.approx((1.9, 0.95))
    assert not twice.speed_up.has_interval
