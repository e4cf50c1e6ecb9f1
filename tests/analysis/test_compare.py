"""Pairs, verdicts, outlook, noise floor."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy

from pgdyno.analysis.arrays import FloatArray
from pgdyno.analysis.compare import (
    Better,
    compare,
    family_level,
    holm,
    log_ratios,
    noise_floor,
    predict_pairs,
    shuffled,
)
from pgdyno.analysis.intervals import (
    half_width,
    interval_of_mean,
    look,
    planned_looks,
    sequential_t,
)
from pgdyno.errors import AnalysisError


def pairs(mean: float, deviation: float, count: int) -> FloatArray:
    """Log ratios with exactly this mean and sample standard deviation."""
    raw = np.linspace(-1, 1, count)
    return np.asarray(mean + deviation * (raw - raw.mean()) / raw.std(ddof=1))


def test_a_pair_is_the_logarithm_of_b_over_a() -> None:
    assert log_ratios([100, 200], [110, 190]) == pytest.approx([math.log(1.1), math.log(0.95)])


@pytest.mark.parametrize(("a", "b"), [([1.0], [1.0, 2.0]), ([1.0], [0.0])])
def test_runs_that_make_no_pairs_are_refused(a: list[float], b: list[float]) -> None:
    with pytest.raises(AnalysisError):
        log_ratios(a, b)


def test_the_order_of_each_pair_is_a_coin_of_the_seed() -> None:
    orders = [[shuffled("AB", seed, pair) == ["A", "B"] for pair in range(400)] for seed in (1, 2)]
    assert orders[0] == [shuffled("AB", 1, pair) == ["A", "B"] for pair in range(400)]
    assert orders[0] != orders[1]
    for order in orders:
        assert sum(order) == pytest.approx(200, abs=40)
        same = sum(first == other for first, other in itertools.pairwise(order))
        assert same == pytest.approx(200, abs=40)


def test_a_planned_look_spends_what_looks_on_the_way_leave() -> None:
    assert planned_looks(6) == (6,)
    assert look(5, (6,), is_over=False) == ("sequential", 0.01)
    assert look(6, (6,), is_over=False) == ("fixed", 0.04)
    assert look(4, (6,), is_over=True) == ("fixed", 0.04)
    assert look(2, (6,), is_over=True) == ("sequential", 0.01)
    for most in (3, 22, 33, 66, 110, 1000):
        looks = planned_looks(most)
        assert looks[-1] == most
        spent = sum(look(count, looks, is_over=False)[1] for count in looks)
        assert spent + 0.01 == pytest.approx(0.05)


def test_the_sequential_bound_solves_the_mixture_worked_by_hand() -> None:
    # n = 10, alpha = 0.05: c = (sqrt(11) / 0.05)^(1/5) = 2.3140, t^2 = 9 * 1.3140 / (1 - c / 11).
    assert sequential_t(10, 0.05) == pytest.approx(3.8698, abs=2e-4)
    assert sequential_t(4, 0.05) == math.inf


@pytest.mark.parametrize(("count", "alpha"), [(5, 0.05), (20, 0.05), (100, 0.01)])
def test_the_sequential_bound_is_the_ratio_of_noncentral_t_densities(
    count: int, alpha: float
) -> None:
    # The mixture is over the noncentrality sqrt(n) d of t, d normal with variance 1: at the
    # bound, its density over the null's must be 1 / alpha.
    t = sequential_t(count, alpha)

    def weighted(d: float) -> float:
        density = scipy.stats.nct.pdf(t, count - 1, math.sqrt(count) * d)
        return float(density) * math.exp(-d * d / 2) / math.sqrt(2 * math.pi)

    mixed, _ = scipy.integrate.quad(weighted, -6, 6, limit=200)
    assert mixed / scipy.stats.t.pdf(t, count - 1) == pytest.approx(1 / alpha, rel=1e-4)


def test_the_fixed_interval_is_students() -> None:
    sleep = np.array([1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4])
    mean, half = interval_of_mean(sleep, level=0.95, looks="fixed")
    assert (mean - half, mean + half) == pytest.approx((0.7001142, 2.4598858), abs=1e-6)


def test_looking_all_the_time_costs_width() -> None:
    for count in (5, 10, 50, 400):
        fixed = half_width(0.05, count, 0.95, "fixed")
        assert half_width(0.05, count, 0.95, "sequential") > fixed


@pytest.mark.parametrize(
    ("mean", "better", "verdict"),
    [
        (0.05, "more", "faster"),
        (-0.05, "more", "slower"),
        (0.05, "less", "higher"),
        (-0.05, "less", "lower"),
        (0.0, "more", "no difference"),
    ],
)
def test_the_verdict_follows_from_the_interval(mean: float, better: Better, verdict: str) -> None:
    comparison = compare(pairs(mean, 0.02, 20), looks="sequential", better=better)
    assert comparison.verdict == verdict
    assert comparison.ratio.value == pytest.approx(math.exp(mean))


def test_a_real_but_small_effect_is_named_by_its_direction() -> None:
    comparison = compare(pairs(0.01, 0.01, 50), looks="sequential")
    assert comparison.ratio.low is not None
    assert comparison.ratio.low > 1
    assert comparison.verdict == "faster"


def test_an_undecided_comparison_says_how_many_pairs_are_missing() -> None:
    values = pairs(0.03, 0.05, 8)
    assert compare(values, looks="sequential").verdict == "cannot tell"
    more = predict_pairs(values, looks="sequential")
    assert more is not None
    count = 8 + more
    assert half_width(0.05, count, 0.95, "sequential") < 0.03
    assert half_width(0.05, count - 1, 0.95, "sequential") >= 0.03


def test_fewer_than_five_pairs_have_no_sequential_interval() -> None:
    values = pairs(0.5, 0.01, 4)
    comparison = compare(values, looks="sequential")
    assert comparison.verdict == "cannot tell"
    assert not comparison.ratio.has_interval
    assert predict_pairs(values, looks="sequential") == 1


def test_pairs_for_a_precision_are_found_by_the_formula() -> None:
    # Fixed, s = 5 %: t * 0.05 / sqrt(n) < log(1.03) first at n = 14 (t13 = 2.1604: 0.02887).
    assert predict_pairs(pairs(0.0, 0.05, 6), looks="fixed", half_width_ratio=0.03) == 8
    assert predict_pairs(pairs(0.0, 1.0, 6), looks="sequential") is None


def test_several_variants_share_the_error() -> None:
    assert family_level(2) == 0.95
    assert family_level(6) == pytest.approx(0.99)
    with pytest.raises(AnalysisError):
        family_level(1)


def test_holm_on_the_textbook_example() -> None:
    # p = 0.01, 0.04, 0.03, 0.005: steps 4 * 0.005, 3 * 0.01, 2 * 0.03, then not below that.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == pytest.approx([1.0, 1.0])


def test_the_noise_floor_is_the_power_of_the_t_test() -> None:
    floor = noise_floor(pairs(0.0, 0.03, 12), pair_count=20)
    # (2.0930 + 0.8610) * 0.03 / sqrt(20) = 0.019816
    assert floor.detectable_ratio == pytest.approx(math.expm1(0.019816), abs=2e-6)
    effect = math.log1p(floor.detectable_ratio) / 0.03 * math.sqrt(20)
    power = scipy.stats.nct.sf(scipy.stats.t.ppf(0.975, 19), 19, effect)
    assert power == pytest.approx(0.8, abs=0.02)
