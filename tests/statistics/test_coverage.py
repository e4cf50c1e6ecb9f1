"""Intervals hold the truth as often as they claim: a quick look, and the full proof (slow)."""

from __future__ import annotations

import numpy as np
import pytest
from tests.fixtures.prove import Proved
from tests.statistics import last_look as last
from tests.statistics.cases import CASES, Case

QUICK_RATIO = 0.02


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_claim_is_not_contradicted_by_a_few_experiments(case: Case) -> None:
    count = int(case.count * QUICK_RATIO)
    low, high = case.bounds_for(count)
    assert low <= case.seen(count) <= high


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_claim_is_proved(case: Case, proved: Proved) -> None:
    low, high = case.bounds
    seen = case.seen(case.count)
    assert low <= seen <= high
    required = f"{low:.1%} to {high:.1%}" if low > 0 else f"at most {high:.0%}"
    proved(f"coverage: {case.name}", required=required, seen=f"{seen:.1%} of {case.count:,}")


def test_a_true_five_percent_is_decided_within_the_promised_runs() -> None:
    # Runs scatter by 5 %: the reach set for comparisons.
    rng = np.random.default_rng(20261120)
    done = last.ended(rng, 1000, last.quiet, pairs=110, effect=np.log(1.05))
    assert np.median(2 * done.pairs) <= 45
    assert np.quantile(2 * done.pairs, 0.9) <= 90
