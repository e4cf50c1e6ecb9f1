"""Messages about a run in which nothing completed, or hardly anything."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pgdyno.engine.records import Counts, Summary
from pgdyno.errors import AnalysisError
from pgdyno.loop.load_numbers import _tps, require_completed


def summary(*, completed: int = 0, **failures: int) -> Any:
    counts = Counts(completed=completed, failed=sum(failures.values()))
    return Summary.model_construct(counts=counts, failures=failures)


@pytest.mark.parametrize(
    ("failures", "said", "next_step"),
    [
        ({}, "No transaction completed within the measured time", "longer"),
        (
            {"22012": 8, "42601": 3_000},
            r"3,008 failed \(42601: 3,000, 22012: 8\)",
            "correct the script",
        ),
        ({"XXopen_block": 5}, "5 failed", "COMMIT"),
    ],
)
def test_a_run_without_a_transaction_says_what_failed_instead(
    failures: dict[str, int], said: str, next_step: str
) -> None:
    with pytest.raises(AnalysisError, match=said) as caught:
        require_completed(summary(**failures))
    assert next_step in caught.value.hint


def test_one_completed_transaction_is_enough() -> None:
    require_completed(summary(completed=1, deadlock=9))


def test_a_run_whose_only_transaction_ends_in_its_last_interval_has_a_throughput() -> None:
    tps = _tps(np.zeros(15, dtype=np.int64), 100_000_000, 1, 1_520_000_000)
    assert (tps.value, tps.low) == (pytest.approx(1 / 1.52), None)
