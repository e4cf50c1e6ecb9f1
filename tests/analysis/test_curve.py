"""The load curve: levels, peak, knee, what follows, and the law fitted to it."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
import scipy

from pgdyno.analysis.arrays import FloatArray
from pgdyno.analysis.curve import LoadCurve, load_curve
from pgdyno.analysis.usl import fit_usl
from pgdyno.errors import AnalysisError

CLIENTS = np.array([1, 2, 4, 8, 16, 32])
SHARP = np.array([100.0, 195, 380, 700, 550, 300])
PLATEAU = np.array([100.0, 300, 900, 972, 1000, 990])


def sweep(truth: FloatArray, *, seed: int = 1, noise: float = 0.01, runs: int = 3) -> LoadCurve:
    rng = np.random.default_rng(seed)
    clients = np.repeat(CLIENTS[: truth.size], runs)
    tps = np.repeat(truth, runs) * np.exp(noise * rng.standard_normal(clients.size))
    order = rng.permutation(clients.size)
    return load_curve(clients[order], tps[order], seed=seed)


def test_a_level_alone_is_the_t_interval_of_its_logarithms() -> None:
    curve = load_curve([4, 4, 4], [98, 100, 102], seed=1, latency_ns={"p99": [7, 8, 9]})
    (level,) = curve.levels
    logs = [math.log(98), math.log(100), math.log(102)]
    factor = math.exp(4.302653 * statistics.stdev(logs) / math.sqrt(3))
    assert (level.clients, level.tps.value) == (4, 100)
    assert level.tps.high == pytest.approx(100 * factor, rel=1e-6)
    assert level.latency["p99"].value == 8
    assert sorted(level.runs_tps) == [98, 100, 102]


def test_a_sharp_peak_is_found_with_its_knee() -> None:
    curve = sweep(SHARP)
    assert (curve.peak.clients, curve.knee.clients) == (8, 8)
    assert not curve.peak.is_at_edge
    assert curve.peak.tps.low is not None
    assert curve.peak.tps.high is not None
    assert curve.peak.tps.low < 700 < curve.peak.tps.high
    assert [
        (candidate.clients, candidate.probability_ratio) for candidate in curve.knee.candidates
    ] == [(8, 1.0)]


def test_on_a_plateau_the_knee_is_a_set_of_levels_with_probabilities() -> None:
    knee = sweep(PLATEAU, noise=0.02).knee
    assert knee.clients == 8
    assert [candidate.clients for candidate in knee.candidates] == [8, 16]
    assert 0.9 < sum(candidate.probability_ratio for candidate in knee.candidates) <= 1


def test_loss_past_the_peak_has_an_interval() -> None:
    loss = sweep(SHARP).degradation
    assert loss is not None
    assert loss.clients == 32
    assert loss.change.low is not None
    assert loss.change.high is not None
    assert loss.change.low < 300 / 700 - 1 < loss.change.high


def test_a_curve_that_still_rises_says_that_its_peak_is_at_the_edge() -> None:
    curve = sweep(np.array([100.0, 190, 350, 600]))
    assert curve.peak.is_at_edge
    assert curve.degradation is None


def test_one_run_a_level_gives_a_curve_without_intervals() -> None:
    curve = load_curve(CLIENTS, SHARP, seed=1)
    assert (curve.peak.tps.value, curve.knee.clients) == (700, 8)
    assert not curve.peak.tps.has_interval
    assert curve.knee.candidates == ()
    assert curve.usl is not None
    assert not curve.usl.alpha_is_identified


def test_identical_runs_give_intervals_of_no_width() -> None:
    curve = load_curve(np.repeat(CLIENTS, 3), np.repeat(SHARP, 3), seed=1)
    assert curve.peak.tps.low == pytest.approx(700)
    assert curve.peak.tps.high == pytest.approx(700)
    assert [candidate.clients for candidate in curve.knee.candidates] == [8]


def test_the_same_seed_gives_the_same_curve() -> None:
    assert sweep(PLATEAU) == sweep(PLATEAU)


@pytest.mark.parametrize(
    ("clients", "tps", "text"),
    [
        ([1, 2], [10.0], "2 loads but 1"),
        ([1, 2], [10.0, 0.0], "without committed"),
        ([1, 1, 2], [10.0, 11.0, 20.0], "at least 2 runs"),
    ],
)
def test_runs_that_make_no_curve_are_refused(
    clients: list[int], tps: list[float], text: str
) -> None:
    with pytest.raises(AnalysisError, match=text):
        load_curve(clients, tps, seed=1)


def law(clients: FloatArray, gamma: float, alpha: float, beta: float) -> FloatArray:
    return gamma * clients / (1 + alpha * (clients - 1) + beta * clients * (clients - 1))


def test_the_law_is_recovered_from_points_that_obey_it() -> None:
    clients = CLIENTS.astype(float)
    truth = law(clients, 120, 0.05, 0.002)
    curve = load_curve(np.repeat(CLIENTS, 3), np.repeat(truth, 3), seed=1)
    usl = curve.usl
    assert usl is not None
    assert usl.gamma.value == pytest.approx(120)
    assert usl.alpha.value == pytest.approx(0.05)
    assert usl.beta.value == pytest.approx(0.002)
    assert usl.error_ratio < 1e-9
    assert usl.tps_at(clients) == pytest.approx(truth)


def test_the_fit_is_the_constrained_least_squares_of_scipy() -> None:
    rng = np.random.default_rng(4)
    clients = CLIENTS.astype(float)
    for truth in (law(clients, 100, 0.0, 0.003), law(clients, 100, 0.4, 0.0), clients * 100):
        tps = truth * np.exp(0.05 * rng.standard_normal(clients.size))
        usl = fit_usl(clients, tps, np.zeros((0, clients.size)), run_count=6)
        assert usl is not None
        columns = np.stack([np.ones_like(clients), clients - 1, clients * (clients - 1)], axis=1)
        a, b, c = scipy.optimize.nnls(columns * (tps / clients)[:, None], np.ones(clients.size))[0]
        assert usl.gamma.value == pytest.approx(1 / a, rel=1e-6)
        assert usl.alpha.value == pytest.approx(b / a, abs=1e-9, rel=1e-6)
        assert usl.beta.value == pytest.approx(c / a, abs=1e-9, rel=1e-6)


def test_the_spec_sdm91_benchmark_peaks_near_its_published_load() -> None:
    # Gunther 2007; the R package usl (unweighted fit) publishes a peak at 96.5 of 216 users.
    clients = np.array([1.0, 18, 36, 72, 108, 144, 216])
    tps = np.array([64.9, 995, 1652, 1853, 1829, 1775, 1702])
    usl = load_curve(np.repeat(clients, 2), np.repeat(tps, 2), seed=1).usl
    assert usl is not None
    # Where the law has its peak.
    peak = math.sqrt((1 - usl.alpha.value) / usl.beta.value)
    assert peak == pytest.approx(96.5, rel=0.06)


def test_beta_is_not_identified_without_a_fall_past_the_peak() -> None:
    usl = sweep(np.array([100.0, 181, 310, 470])).usl
    assert usl is not None
    assert usl.alpha_is_identified
    assert not usl.beta_is_identified
    assert "beta is not identified" in usl.reason


def test_a_straight_line_identifies_neither_coefficient() -> None:
    usl = sweep(np.array([100.0, 200, 400, 800]), noise=0.02).usl
    assert usl is not None
    assert not usl.alpha_is_identified
    assert not usl.beta_is_identified


def test_two_levels_are_too_few_for_the_law() -> None:
    assert sweep(np.array([100.0, 190])).usl is None
