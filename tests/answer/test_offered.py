"""What was offered is counted, not computed from the rate."""

from __future__ import annotations

import numpy as np
import pytest

from pgdyno.analysis.estimate import without_interval
from pgdyno.analysis.findings import Latency
from pgdyno.answer.judging import offered_tps
from pgdyno.engine.records import Counts, Summary
from pgdyno.loop.load_numbers import LoadNumbers


def test_random_arrivals_are_offered_as_they_came() -> None:
    numbers = LoadNumbers(
        summary=Summary.model_construct(counts=Counts(scheduled=985, completed=985)),
        scripts=(),
        began_ns=0,
        ended_ns=5_000_000_000,
        counts_100ms=np.zeros(0, dtype=np.int64),
        interval_ns=100_000_000,
        tps=without_interval(197, "tps"),
        latency=Latency(without_interval(1, "ms"), {}, 1.0),
    )
    assert offered_tps(numbers) == pytest.approx(197)
