"""Counters over a span that the samples do not meet."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pgdyno.loop.counter_growth import grown, load_backends
from pgdyno.observe.processes.backends import LOAD
from pgdyno.observe.rates import Deltas
from pgdyno.store.run_writer import RunWriter
from pgdyno.store.stored_run import StoredRun

S = 1_000_000_000


def sampled(from_s: int, to_s: int, per_second: float) -> Deltas:
    """A counter that grows evenly, sampled at whole seconds."""
    ends = np.arange(from_s + 1, to_s + 1, dtype=np.int64) * S
    length = np.full(ends.size, S, dtype=np.int64)
    return Deltas({}, ends, length, {"busy": np.full(ends.size, per_second)})


def test_a_span_between_samples_takes_its_part_of_the_intervals_at_its_ends() -> None:
    assert grown(sampled(0, 10, 100.0), "busy", int(2.5 * S), int(7.5 * S)) == pytest.approx(500.0)


def test_the_samples_rate_is_used_for_the_uncovered_end() -> None:
    assert grown(sampled(0, 9, 100.0), "busy", 0, 10 * S) == pytest.approx(1000.0)


def test_a_span_that_is_hardly_covered_says_nothing() -> None:
    assert grown(sampled(0, 5, 100.0), "busy", 0, 10 * S) is None


def test_a_missing_sample_inside_the_span_says_nothing() -> None:
    whole = sampled(0, 10, 100.0)
    kept = np.arange(10) != 5
    torn = Deltas({}, whole.time_ns[kept], whole.interval_ns[kept], {"busy": np.full(9, 100.0)})
    assert grown(torn, "busy", 0, 10 * S) is None


def test_a_collector_that_did_not_run_says_nothing() -> None:
    assert grown(None, "busy", 0, S) is None


def test_the_loads_backends_count_from_their_first_instant(tmp_path: Path) -> None:
    # They began just after the sample at 9.9 s; the first sample with them is that at 10.9 s.
    samples = [(99, "checkpointer", 70), (109, LOAD, 9), (119, LOAD, 19)]
    with RunWriter(tmp_path / "0001.partial", 1, "bench", {}) as writer:
        for tenth, group, used in samples:
            row = {"time_ns": tenth * S // 10, "interval_ns": S, "backend_type": group}
            counters = {"processes": 1, "run_ns": used * S // 10, "wait_ns": 0, "slices": used}
            writer.add_samples("backends", [{**row, **counters}])
    growth = load_backends(StoredRun.open_partial(tmp_path / "0001"))
    # Nine tenths of 1 s, then all of 1 s; the last 0.1 s has the rate of the samples.
    assert grown(growth, "run_ns", 10 * S, 12 * S) == pytest.approx(1.9e9, rel=0.02)
