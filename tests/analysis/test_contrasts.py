"""Factorial effects and passes against effects that were put in."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy

from pgdyno.analysis.arrays import FloatArray
from pgdyno.analysis.contrasts import factorial, passes
from pgdyno.errors import AnalysisError

FACTORS = {"buffers": ["128MB", "4GB"], "wal": ["off", "on"], "io": ["worker", "sync", "uring"]}
CELLS = [
    dict(zip(FACTORS, combination, strict=True))
    for combination in itertools.product(*FACTORS.values())
]


def cell_mean(cell: dict[str, str]) -> float:
    """4GB: x1.5; uring: x1.2; wal on: x0.9, and a further x0.8 together with 4GB."""
    factor = 1.0
    factor *= 1.5 if cell["buffers"] == "4GB" else 1.0
    factor *= 0.9 if cell["wal"] == "on" else 1.0
    factor *= 0.8 if (cell["buffers"], cell["wal"]) == ("4GB", "on") else 1.0
    factor *= 1.2 if cell["io"] == "uring" else 1.0
    return 1000 * factor


def rounds(count: int, noise: float, seed: int = 1) -> FloatArray:
    rng = np.random.default_rng(seed)
    truth = np.array([cell_mean(cell) for cell in CELLS])
    round_level = np.exp(0.2 * rng.standard_normal((count, 1)))  # a round is a block
    return np.asarray(truth * round_level * np.exp(noise * rng.standard_normal((count, 12))))


def test_effects_put_in_come_out() -> None:
    effects = {effect.name: effect for effect in factorial(FACTORS, CELLS, rounds(3, 1e-9))}
    assert effects["buffers=4GB"].ratio.value == pytest.approx(1.5 * math.sqrt(0.8))
    assert effects["wal=on"].ratio.value == pytest.approx(0.9 * math.sqrt(0.8))
    assert effects["io=uring"].ratio.value == pytest.approx(1.2)
    assert effects["io=sync"].ratio.value == pytest.approx(1.0)
    assert effects["buffers=4GB x wal=on"].ratio.value == pytest.approx(0.8)
    assert effects["wal=on x io=uring"].ratio.value == pytest.approx(1.0)
    assert len(effects) == 4 + 5
    assert all(effect.aliased_with == () for effect in effects.values())


def test_the_effect_of_two_cells_is_the_paired_t_test_over_rounds() -> None:
    metric = rounds(6, 0.05)[:, :2]
    cells = [{"a": "off"}, {"a": "on"}]
    [effect] = factorial({"a": ["off", "on"]}, cells, metric)
    off, on = np.log(metric).T
    test = scipy.stats.ttest_rel(on, off)
    assert effect.p_value_ratio == pytest.approx(test.pvalue)
    interval = test.confidence_interval(0.95)
    assert effect.ratio.low == pytest.approx(math.exp(interval.low))
    assert effect.ratio.high == pytest.approx(math.exp(interval.high))


@pytest.mark.parametrize("wild", [1.0, 4.0])
def test_no_effect_is_certain_by_chance_after_three_rounds(wild: float) -> None:
    # `wild`: all cells with 4GB scatter so much more than the others. The truth has no effect.
    cells = [cell for cell in CELLS if cell["io"] != "uring"]
    factors = {**FACTORS, "io": FACTORS["io"][:2]}
    scatter = np.array([wild if cell["buffers"] == "4GB" else 1.0 for cell in cells])
    rng, sure, covered, narrow = np.random.default_rng(3), 0, 0, []
    for _ in range(1000):
        logs = 0.1 * scatter * rng.standard_normal((3, 8)) + rng.standard_normal((3, 1))
        effects = factorial(factors, cells, np.exp(logs))
        sure += any(effect.is_sure for effect in effects)
        low, high = effects[0].ratio.low, effects[0].ratio.high
        assert low is not None
        assert high is not None
        covered += low <= 1 <= high
        is_high = np.array([cell["buffers"] == "4GB" for cell in cells])
        by_round = logs[:, is_high].mean(axis=1) - logs[:, ~is_high].mean(axis=1)
        own = 2 * 4.303 * by_round.std(ddof=1) / math.sqrt(3)
        narrow.append(math.log(high / low) / own)
    assert sure <= 60
    assert covered >= 935
    assert np.median(narrow) < 0.8, "all runs show the scatter, not three values alone"


def test_an_interaction_that_chance_made_steady_is_not_certain() -> None:
    # Three rounds of synchronous_commit on and off with 1, 8 and 32 clients; neighbours halved the
    # speed of some runs, and the interaction with 8 clients was -66 % in all three rounds.
    factors = {"commit": ["on", "off"], "clients": ["1", "8", "32"]}
    cells = [{"commit": a, "clients": b} for a in ("on", "off") for b in ("1", "8", "32")]
    metric = np.array(
        [
            [90.0, 400.0, 980.0, 513.0, 686.0, 1472.0],
            [99.0, 560.0, 1030.0, 388.0, 717.0, 1516.0],
            [160.0, 1020.0, 1110.0, 247.0, 644.0, 1225.0],
        ]
    )
    effects = {effect.name: effect for effect in factorial(factors, cells, metric)}
    assert not effects["commit=off x clients=8"].is_sure
    assert effects["clients=32"].is_sure


def test_a_half_fraction_names_what_it_cannot_tell_apart() -> None:
    # 2^(4-1) with d = abc: two-way interactions are mixed in pairs, main effects stay clear.
    names = "abcd"
    cells, tps = [], []
    for a, b, c in itertools.product((-1, 1), repeat=3):
        signs = dict(zip(names, (a, b, c, a * b * c), strict=True))
        cells.append({name: "on" if sign > 0 else "off" for name, sign in signs.items()})
        tps.append(1000 * math.exp(0.1 * signs["a"] + 0.05 * signs["a"] * signs["b"]))
    factors = {name: ["off", "on"] for name in names}
    metric = np.array([tps, [value * 1.01 for value in tps]])
    effects = {effect.name: effect for effect in factorial(factors, cells, metric)}
    assert effects["a=on"].ratio.value == pytest.approx(math.exp(0.2))
    assert effects["a=on"].aliased_with == ()
    assert effects["a=on x b=on"].aliased_with == ("c=on x d=on",)
    assert effects["c=on x d=on"].ratio.value == effects["a=on x b=on"].ratio.value


def test_cells_that_mix_up_main_effects_are_refused() -> None:
    cells = [{"a": "off", "b": "off"}, {"a": "on", "b": "on"}]
    with pytest.raises(AnalysisError, match="separate a=on from b=on"):
        factorial({"a": ["off", "on"], "b": ["off", "on"]}, cells, [[1.0, 2.0], [1.0, 2.0]])


@pytest.mark.parametrize("metric", [[[1.0, 2.0]], [[1.0], [2.0]], [[1.0, 0.0], [1.0, 2.0]]])
def test_a_metric_that_makes_no_contrast_is_refused(metric: list[list[float]]) -> None:
    with pytest.raises(AnalysisError):
        factorial({"a": ["off", "on"]}, [{"a": "off"}, {"a": "on"}], metric)


def test_passes_compare_with_the_base_and_with_the_pass_before() -> None:
    rng = np.random.default_rng(2)
    truth = np.array([1000.0, 1100.0, 1100.0])
    metric = truth * np.exp(0.005 * rng.standard_normal((10, 3)))
    first, second = passes(["base", "settings", "settings + fillfactor"], metric)
    assert (first.to_base.verdict, first.to_previous.verdict) == ("faster", "faster")
    assert second.to_base.verdict == "faster"
    assert second.to_previous.verdict == "no difference"
    assert second.to_base.level_ratio == pytest.approx(1 - 0.05 / 3)


def test_a_base_alone_has_no_passes() -> None:
    with pytest.raises(AnalysisError, match="at least one change"):
        passes(["base"], [[1.0], [1.0]])
