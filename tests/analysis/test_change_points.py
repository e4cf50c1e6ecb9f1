"""Changes of level within a run."""

from __future__ import annotations

import numpy as np
import pytest
from tests.fixtures.prove import Figure
from tests.statistics.noise import autocorrelated

from pgdyno.analysis.change_points import _energy_splits, change_points

SECOND_NS = 1_000_000_000


def test_a_drop_is_found_and_dated() -> None:
    counts = np.random.default_rng(1).normal(1000, 30, 60)
    counts[35:] -= 200
    (point,) = change_points(counts, interval_ns=SECOND_NS, seed=1)
    assert point.index == 35
    assert point.time_ns == 35 * SECOND_NS
    assert point.before.value == pytest.approx(counts[:35].mean())
    assert point.after.value == pytest.approx(counts[35:].mean())
    assert point.p_value_ratio == 1 / 200


def test_several_changes_of_an_hour_are_found_to_the_second() -> None:
    counts = np.random.default_rng(2).normal(1000, 40, 3600)
    counts[1000:1500] -= 150
    counts[3000:] += 100
    change_seen = change_points(counts, interval_ns=SECOND_NS, seed=1)
    assert [point.index for point in change_seen] == pytest.approx([1000, 1500, 3000], abs=2)


def test_steady_noise_has_no_change_even_when_it_lasts() -> None:
    rng = np.random.default_rng(3)
    for phi in (0.0, 0.3, 0.6):
        series = 1000 + 50 * autocorrelated(rng, phi, 60, 120)
        are_changed = [
            bool(change_points(values, interval_ns=SECOND_NS, seed=1)) for values in series
        ]
        assert sum(are_changed) <= 6, phi  # tested at 1 %; 10 % would be 6


def test_a_throughput_that_halves_is_found_in_a_run_of_twenty_seconds(figure: Figure) -> None:
    """Counts of 100 ms: Poisson, noise that lasts, a checkpoint's dip in each run."""
    rng = np.random.default_rng(6)
    seen_count, wrong_count = 0, 0
    for phi in (0.0, 0.5, 0.8, 0.9, 0.95):
        for level in 100 * (1 + 0.1 * autocorrelated(rng, phi, 100, 200)):
            at = int(rng.integers(0, 190))
            level[at : at + 10] *= 0.6
            halved = level.copy()
            halved[int(rng.integers(70, 130)) :] /= 2
            steady_counts, halved_counts = (
                rng.poisson(np.maximum(levels, 0)).reshape(20, 10).sum(axis=1)
                for levels in (level, halved)
            )
            wrong_count += bool(change_points(steady_counts, interval_ns=SECOND_NS, seed=1))
            seen_count += bool(change_points(halved_counts, interval_ns=SECOND_NS, seed=1))
    figure(
        "500 runs of 20 s whose throughput halves, and 500 steady ones, simulated",
        truth="seen in at least 95 %, false alarms at most 2 %",
        seen=f"seen in {seen_count / 500:.1%}, false alarms {wrong_count / 500:.1%}",
    )
    assert seen_count >= 0.95 * 500
    assert wrong_count <= 0.02 * 500


def test_a_single_stall_is_not_a_change_of_level() -> None:
    counts = np.random.default_rng(4).normal(1000, 30, 120)
    counts[50] = 0
    assert change_points(counts, interval_ns=SECOND_NS, seed=1) == ()


@pytest.mark.parametrize("counts", [[5.0] * 60, [1.0, 2.0, 3.0]])
def test_nothing_is_found_where_nothing_can_be(counts: list[float]) -> None:
    assert change_points(counts, interval_ns=SECOND_NS, seed=1) == ()


def test_the_energy_of_a_split_is_the_one_of_the_definition() -> None:
    points = np.random.default_rng(5).normal(size=14)
    split, energy = _energy_splits(np.abs(points[:, None] - points[None, :])[None])
    scores = {}
    for cut in range(5, 10):
        x, y = points[:cut], points[cut:]
        between = np.mean([abs(a - b) for a in x for b in y])
        within_x = np.mean([abs(a - b) for i, a in enumerate(x) for b in x[i + 1 :]])
        within_y = np.mean([abs(a - b) for i, a in enumerate(y) for b in y[i + 1 :]])
        scores[cut] = cut * (14 - cut) / 14 * (2 * between - within_x - within_y)
    assert int(split[0]) == max(scores, key=lambda cut: scores[cut])
    assert float(energy[0]) == pytest.approx(max(scores.values()))
