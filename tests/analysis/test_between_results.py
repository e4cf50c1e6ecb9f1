"""Changes between two results: limits that are right for known values, and by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pgdyno.analysis.between_results import difference_between, ratio_between
from pgdyno.analysis.estimate import Estimate, without_interval


def ms(value: float, half: float) -> Estimate:
    return Estimate(value, value - half, value + half, 60, "ms", "within_run")


def test_limits_of_a_difference_are_those_of_independent_terms() -> None:
    change = difference_between(ms(10, 3), ms(14, 4))
    assert (change.value, change.low, change.high) == (4, -1, 9)
    assert change.scope == "within_run"


def test_a_term_without_an_interval_gives_none() -> None:
    assert not difference_between(without_interval(1, "ms"), ms(2, 1)).has_interval
    ratio = ratio_between(without_interval(1, "ms"), ms(2, 1))
    assert ratio is not None
    assert (ratio.value, ratio.has_interval) == (2, False)
    assert ratio_between(ms(0, 0), ms(2, 1)) is None


def test_two_numbers_that_may_both_be_0_have_no_ratio() -> None:
    noise, signal = ms(1e-6, 3e-6), ms(2, 1)
    assert ratio_between(noise, ms(4e-6, 5e-6)) is None
    for first, other in ((noise, signal), (signal, noise)):
        ratio = ratio_between(first, other)
        assert ratio is not None
        assert not ratio.has_interval


def test_the_interval_of_a_ratio_covers_the_truth() -> None:
    rng = np.random.default_rng(20_261_129)
    covered, tries = 0, 2000
    for _ in range(tries):
        ends = []
        for truth in (1000.0, 1200.0):
            half = 0.05
            log = math.log(truth) + half / 1.96 * rng.standard_normal()
            value, low, high = (math.exp(log + side * half) for side in (0, -1, 1))
            ends.append(Estimate(value, low, high, 60, "tps", "within_run"))
        ratio = ratio_between(*ends)
        assert ratio is not None
        assert ratio.low is not None
        assert ratio.high is not None
        covered += ratio.low <= 1.2 <= ratio.high
    assert covered / tries == pytest.approx(0.95, abs=0.015)
