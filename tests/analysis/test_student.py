"""Student's t against tables in print, and against scipy over all that is asked of it."""

from __future__ import annotations

import math

import pytest
import scipy

from pgdyno.analysis.estimate import t_beyond, t_quantile

DEGREES = (0.7, 1, 1.5, 2, 3, 4.3, 9, 29, 30.5, 119, 499, 5000)
PROBABILITIES = (0.5, 0.51, 0.8, 0.9, 0.975, 0.99, 0.9995, 1 - 1e-6, 1 - 1e-9)


@pytest.mark.parametrize(("degrees", "tabled"), [(1, 12.706), (2, 4.303), (9, 2.262), (30, 2.042)])
def test_quantiles_are_those_of_the_printed_table(degrees: int, tabled: float) -> None:
    assert t_quantile(0.975, degrees) == pytest.approx(tabled, abs=5e-4)


@pytest.mark.parametrize("degrees", DEGREES)
def test_quantiles_are_those_of_scipy(degrees: float) -> None:
    for probability in PROBABILITIES:
        expected = scipy.stats.t.isf(1 - probability, degrees)
        assert t_quantile(probability, degrees) == pytest.approx(expected, rel=1e-9, abs=1e-15)
        assert t_quantile(1 - probability, degrees) == pytest.approx(-expected, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("degrees", DEGREES)
def test_probabilities_are_those_of_scipy(degrees: float) -> None:
    for t in (0.0, 1e-9, 0.01, 0.5, 1.0, 2.0, 5.0, 30.0, 1e3, 1e8):
        expected = 2 * scipy.stats.t.sf(t, degrees)
        assert t_beyond(t, degrees) == pytest.approx(expected, rel=1e-9, abs=1e-290)
        assert t_beyond(-t, degrees) == t_beyond(t, degrees)


def test_a_quantile_leaves_as_much_beyond_it_as_was_asked() -> None:
    for degrees in DEGREES:
        for probability in PROBABILITIES:
            beyond = t_beyond(t_quantile(probability, degrees), degrees)
            assert math.isclose(beyond, 2 * (1 - probability), rel_tol=1e-9)
