"""The warm-up cut."""

from __future__ import annotations

import numpy as np
import pytest

from pgdyno.analysis.within_run import warmup_cut
from pgdyno.errors import AnalysisError

TENTH_NS = 100_000_000


def brute_force(counts: list[float]) -> int:
    """The definition of MSER-5, term by term: the first cut with the smallest score."""
    batches = [sum(counts[i : i + 5]) / 5 for i in range(0, len(counts) // 5 * 5, 5)]
    scores = []
    for cut in range(len(batches) // 2 + 1):
        rest = batches[cut:]
        mean = sum(rest) / len(rest)
        scores.append(sum((value - mean) ** 2 for value in rest) / len(rest) ** 2)
    return 5 * scores.index(min(scores))


def test_a_slow_start_is_cut_off() -> None:
    rng = np.random.default_rng(1)
    counts = np.concatenate([np.linspace(20, 95, 40), np.full(560, 100)]) + rng.normal(0, 3, 600)
    cut = warmup_cut(counts, TENTH_NS)
    assert 35 * TENTH_NS <= cut.cut_ns <= 50 * TENTH_NS
    assert cut.cut_ns % TENTH_NS == 0
    assert cut.is_steady


@pytest.mark.parametrize("seed", range(8))
def test_the_cut_is_the_one_of_the_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.normal(100, 10, 203) - 60 * np.exp(-np.arange(203) / 30)
    assert warmup_cut(counts, TENTH_NS).cut_ns == brute_force(list(counts)) * TENTH_NS


def test_a_run_that_never_settles_is_not_steady() -> None:
    assert warmup_cut(np.linspace(1, 100, 300), TENTH_NS).is_steady is False


def test_steady_noise_is_called_steady() -> None:
    rng = np.random.default_rng(2)
    are_steady = [warmup_cut(rng.poisson(100, 600), TENTH_NS).is_steady for _ in range(100)]
    assert all(are_steady)


def test_a_short_series_is_cut_but_not_judged() -> None:
    assert warmup_cut(np.arange(50.0), TENTH_NS).is_steady is None


def test_a_series_too_short_for_a_cut_is_refused() -> None:
    with pytest.raises(AnalysisError, match="at least 20"):
        warmup_cut([1.0] * 19, TENTH_NS)
