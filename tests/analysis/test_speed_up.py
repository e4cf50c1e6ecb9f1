"""The speed-up along a curve, against values worked out apart and servers with a known ratio."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy

from pgdyno.analysis.speed_up import speed_up
from pgdyno.errors import AnalysisError


def logs(*ratios: float) -> list[float]:
    return [math.log(ratio) for ratio in ratios]


def test_mean_and_maximum_are_taken_up_to_the_knee() -> None:
    ratios = speed_up(
        {1: logs(1.02, 1.02, 1.02), 4: logs(1.1, 1.12, 1.08), 16: logs(1.5, 1.6, 1.4)},
        knee_clients=4,
    )
    assert [level.clients for level in ratios.levels] == [1, 4, 16]
    assert ratios.maximum_clients == 4
    assert ratios.maximum.value == pytest.approx((1.1 * 1.12 * 1.08) ** (1 / 3))
    assert ratios.mean.value == pytest.approx(math.sqrt(1.02 * ratios.maximum.value))


def test_levels_that_scatter_alike_have_the_interval_of_student() -> None:
    values = np.log([1.1, 1.12, 1.08])
    ratios = speed_up({n: list(values) for n in (1, 2, 4)}, knee_clients=4)
    error = values.std(ddof=1) / math.sqrt(3)
    # Degrees of freedom of the steadied variance, by its formula: 2 own and 6 shared ones.
    part = 4 / 6
    degrees = 1 / ((1 - part) ** 2 / 2 + (part**2 + 2 * part * (1 - part)) / 6)
    half = scipy.stats.t.ppf(0.975, degrees) * error
    assert ratios.levels[0].ratio.high == pytest.approx(math.exp(values.mean() + half))
    assert ratios.mean.high == pytest.approx(math.exp(values.mean() + half / math.sqrt(3)))
    wider = scipy.stats.t.ppf(1 - 0.025 / 3, degrees) * error
    assert ratios.maximum.high == pytest.approx(math.exp(values.mean() + wider))


def test_one_round_has_no_interval() -> None:
    ratios = speed_up({1: logs(1.1), 2: logs(1.2)}, knee_clients=2)
    assert not ratios.mean.has_interval
    assert not ratios.maximum.has_interval


def test_a_speed_up_needs_a_level_up_to_the_knee() -> None:
    with pytest.raises(AnalysisError, match="knee of 4"):
        speed_up({8: logs(1.1)}, knee_clients=4)


def test_intervals_hold_the_truth_of_simulated_curves() -> None:
    rng = np.random.default_rng(11)
    truth = dict(zip((1, 2, 4, 8), np.log([1.03, 1.05, 1.05, 0.98]), strict=True))
    mean = math.exp(float(np.mean(list(truth.values()))))
    tries = 600
    held = chosen = 0
    for _ in range(tries):
        runs = {n: list(value + 0.03 * rng.standard_normal(3)) for n, value in truth.items()}
        ratios = speed_up(runs, knee_clients=8)
        assert ratios.mean.low is not None
        assert ratios.mean.high is not None
        assert ratios.maximum.low is not None
        assert ratios.maximum.high is not None
        held += ratios.mean.low <= mean <= ratios.mean.high
        best = math.exp(truth[ratios.maximum_clients])
        chosen += ratios.maximum.low <= best <= ratios.maximum.high
    assert held / tries >= 0.93
    assert chosen / tries >= 0.93
