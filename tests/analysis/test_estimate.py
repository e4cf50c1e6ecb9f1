"""Estimates, and intervals over runs against published and tabled values."""

from __future__ import annotations

import math

import pytest

from pgdyno.analysis.estimate import Estimate, mean_between_runs, proportion, without_interval
from pgdyno.errors import AnalysisError

# Student 1908: hours of sleep gained by ten patients, drug 2 minus drug 1.
SLEEP = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4]


def test_the_interval_of_students_sleep_data_is_the_published_one() -> None:
    mean = mean_between_runs(SLEEP, "hours")
    assert mean.value == pytest.approx(1.58)
    assert mean.low == pytest.approx(0.7001142, abs=1e-6)
    assert mean.high == pytest.approx(2.4598858, abs=1e-6)
    assert (mean.n, mean.scope) == (10, "between_runs")


def test_one_run_has_no_interval() -> None:
    assert mean_between_runs([7.0], "tps") == Estimate(7.0, None, None, 1, "tps", "none")
    assert not without_interval(7, "tps").has_interval


def test_scaling_changes_value_interval_and_unit_together() -> None:
    ms = Estimate(2e6, 1e6, None, 9, "ns", "within_run", censored=True).scaled(1e-6, "ms")
    assert ms == Estimate(2.0, 1.0, None, 9, "ms", "within_run", censored=True)


def test_mapping_keeps_the_order_of_the_bounds() -> None:
    ratio = Estimate(0.0, -1.0, 1.0, 5, "log", "between_runs").mapped(math.exp, "1")
    assert (ratio.value, ratio.low, ratio.high) == (1.0, math.exp(-1), math.e)


def test_json_has_the_field_names_as_keys() -> None:
    assert without_interval(3, "tps").to_json() == {
        "value": 3.0,
        "low": None,
        "high": None,
        "n": 1,
        "unit": "tps",
        "scope": "none",
        "censored": False,
    }


@pytest.mark.parametrize("numbers", [(math.nan, None, None), (1.0, 2.0, 1.0), (1.0, math.inf, 2.0)])
def test_numbers_that_contradict_each_other_make_no_estimate(
    numbers: tuple[float, float | None, float | None],
) -> None:
    with pytest.raises(AnalysisError):
        Estimate(*numbers, n=3, unit="tps", scope="within_run")


def test_a_gap_among_runs_is_refused() -> None:
    with pytest.raises(AnalysisError, match="not finite"):
        mean_between_runs([1.0, math.nan], "tps")


def test_the_interval_of_rates_that_scatter_does_not_reach_below_zero() -> None:
    # Two runs know little: t = 12.7 would reach from -84,000 to 180,000 on the plain scale.
    mean = mean_between_runs([37_000.0, 58_000.0], "tps")
    factor = math.exp(12.706205 * math.log(58 / 37) / 2)
    assert mean.low == pytest.approx(47_500 / factor, rel=1e-5)
    assert mean.high == pytest.approx(47_500 * factor, rel=1e-5)


def test_a_rate_that_was_zero_once_has_an_interval_down_to_zero() -> None:
    assert mean_between_runs([0.0, 5.0, 6.0], "tps").low == 0.0


def test_the_interval_of_differences_may_lie_on_both_sides_of_zero() -> None:
    mean = mean_between_runs([-1.0, 2.0, 0.5], "ms")
    assert mean.low is not None
    assert mean.low < 0


def test_a_proportion_stays_within_0_and_1() -> None:
    assert proportion(0, 50).low == 0
    assert proportion(50, 50).high == 1
    half = proportion(50, 100)
    assert (half.low, half.high) == pytest.approx((0.4038, 0.5962), abs=1e-4)


@pytest.mark.parametrize(
    ("low", "high", "is_of_noise"),
    [(0.002, 532.6, True), (0.01, 70.27, True), (0.3, 12.0, False), (0.002, 1.4, False)],
)
def test_a_ratio_that_may_be_ten_times_smaller_and_larger_is_of_noise(
    low: float, high: float, is_of_noise: bool
) -> None:
    assert Estimate(1.05, low, high, 10, "1", "between_runs").is_of_noise is is_of_noise
