"""Whether drawn customers and items are recognised as NURand's."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy

from pgdyno.features.tpcc.nurand import (
    chi_square_tail,
    constants_of_run,
    drawn_doubts,
    drawn_findings,
    nurand_probabilities,
)

# NURand's A, the largest value and the number of intervals.
CASES = {"customers": (1023, 3000, 16), "items": (8191, 100_000, 64)}


def counts(name: str, values: np.ndarray) -> list[int]:
    _, most, bin_count = CASES[name]
    return np.bincount((values - 1) * bin_count // most, minlength=bin_count).tolist()


def nurand(name: str, constant: int, *, size: int, seed: int) -> list[int]:
    a, most, _ = CASES[name]
    generator = np.random.default_rng(seed)
    factor, uniform = generator.integers(0, a + 1, size), generator.integers(1, most + 1, size)
    return counts(name, ((factor | uniform) + constant) % most + 1)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("size", [1000, 100_000])
def test_draws_of_nurand_follow_it_with_its_c_and_with_any(name: str, size: int) -> None:
    drawn = nurand(name, 777, size=size, seed=4)
    known, unknown = drawn_findings(name, drawn, constant=777), drawn_findings(name, drawn)
    assert (known.verdict, unknown.verdict) == ("follows", "follows")
    assert known.chi_square_value is not None
    assert unknown.chi_square_value is not None
    assert unknown.chi_square_value <= known.chi_square_value
    assert list(drawn_doubts([known, unknown])) == []


@pytest.mark.parametrize("name", CASES)
def test_p_values_of_right_draws_are_uniform(name: str) -> None:
    draws = [
        drawn_findings(name, nurand(name, 5, size=2000, seed=seed), constant=5).p_value
        for seed in range(400)
    ]
    assert scipy.stats.kstest(draws, "uniform").pvalue > 0.001


@pytest.mark.parametrize("name", CASES)
def test_uniform_draws_differ_from_nurand_with_any_c(name: str) -> None:
    _, most, _ = CASES[name]
    drawn = counts(name, np.random.default_rng(1).integers(1, most + 1, 1000))
    draws = drawn_findings(name, drawn)
    assert draws.verdict == "differs"
    [doubt] = drawn_doubts([draws])
    assert doubt.verdict == "doubt"
    assert f"{draws.words}, 1,000 rows, DIFFERS from NURand" in doubt.message


@pytest.mark.parametrize("name", CASES)
def test_draws_with_another_c_differ_if_the_c_is_known(name: str) -> None:
    drawn = nurand(name, 900, size=10_000, seed=2)
    assert drawn_findings(name, drawn, constant=300).verdict == "differs"
    assert drawn_findings(name, drawn).verdict == "follows"


def test_fewer_than_a_thousand_draws_tell_nothing() -> None:
    draws = drawn_findings("customers", [999, *[0] * 15])
    assert (draws.verdict, draws.p_value) == ("too_few", None)
    assert draws.verdict_words == "too few to tell (at least 1,000 are needed)"
    assert list(drawn_doubts([draws])) == []


def test_values_outside_the_range_differ() -> None:
    drawn = nurand("items", 1, size=5000, seed=3)
    assert drawn_findings("items", drawn, outside_count=1, constant=1).verdict == "differs"


def test_probabilities_are_those_of_all_pairs() -> None:
    a, most = 7, 21
    pairs = [(factor | number) % most for factor, number in product(range(8), range(1, 22))]
    expected = np.bincount(pairs, minlength=most) / len(pairs)
    assert nurand_probabilities(a, most) == pytest.approx(expected, abs=1e-15)


def test_the_tail_of_chi_square_is_scipys() -> None:
    for freedom_count, chi_square in product((15, 63), (0.0, 1.0, 14.3, 70.0, 150.0, 1e6)):
        expected = scipy.stats.chi2.sf(chi_square, freedom_count)
        assert chi_square_tail(chi_square, freedom_count) == pytest.approx(expected, rel=1e-9)


def test_constants_follow_from_the_seed_and_fit_their_ranges() -> None:
    drawn = [constants_of_run(seed, 157) for seed in range(2000)]
    assert constants_of_run(7, 157) == drawn[7]
    assert max(constants["customers"] for constants in drawn) in range(1000, 1024)
    assert max(constants["items"] for constants in drawn) in range(8000, 8192)
