"""Counters over a span that the samples do not meet."""

from __future__ import annotations

import numpy as np
import pytest

from pgdyno.loop.counter_growth import grown
from pgdyno.observe.rates import Deltas

S = 1_000_000_000


def sampled(from_s: int, to_s: int, per_second: float) -> Deltas:
    """A counter that grows evenly, sampled at whole seconds."""
    ends = np.arange(from_s + 1, to_s + 1, dtype=np.int64) * S
    length = np.full(ends.size, S, dtype=np.int64)
    return Deltas({}, ends, length, {"busy": np.full(ends.size, per_second)}, ())


def test_a_span_between_samples_takes_its_part_of_the_intervals_at_its_ends() -> None:
    assert grown(sampled(0, 10, 100.0), "busy", int(2.5 * S), int(7.5 * S)) == pytest.approx(500.0)


def test_the_rate_of_the_samples_stands_for_the_end_they_do_not_reach() -> None:
    assert grown(sampled(0, 9, 100.0), "busy", 0, 10 * S) == pytest.approx(1000.0)


def test_a_span_that_is_hardly_covered_says_nothing() -> None:
    assert grown(sampled(0, 5, 100.0), "busy", 0, 10 * S) is None


def test_a_missing_sample_inside_the_span_says_nothing() -> None:
    whole = sampled(0, 10, 100.0)
    kept = np.arange(10) != 5
    torn = Deltas({}, whole.time_ns[kept], whole.interval_ns[kept], {"busy": np.full(9, 100.0)}, ())
    assert grown(torn, "busy", 0, 10 * S) is None


def test_a_collector_that_did_not_run_says_nothing() -> None:
    assert grown(None, "busy", 0, S) is None
