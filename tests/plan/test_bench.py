"""The plan of `bench`: one run that warms up, and the words about the time that is left."""

from __future__ import annotations

import pytest
from tests.plan.following import next_run
from tests.plan.simulated_server import experiment

from pgdyno.loop.drive import _position
from pgdyno.plan.designs import bench
from pgdyno.plan.designs.bench import Bench
from pgdyno.plan.history import History, Measured
from pgdyno.spec.designs import BenchDesign
from pgdyno.spec.planned import PlannedRun, Stop


@pytest.mark.parametrize(("duration", "warm_s"), [("10s", 2), ("60s", 6), ("30min", 10)])
def test_a_bench_is_one_run_that_warms_up_for_a_tenth_of_its_length(
    duration: str, warm_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Tests may have shorter warm-ups.
    monkeypatch.setattr(bench, "WARMUP_LEAST_NS", 2 * 10**9)
    asked = experiment(BenchDesign(), (), duration=duration, warmup=None)
    run = next_run(Bench, asked, ())
    assert isinstance(run, PlannedRun)
    assert (run.purpose, run.warm_ns) == ("detail", warm_s * 10**9)
    assert isinstance(next_run(Bench, asked, (Measured(run, 1000.0),)), Stop)


def test_a_warm_up_that_was_asked_for_is_kept() -> None:
    asked = experiment(BenchDesign(), (), duration="10s", warmup="1s")
    run = next_run(Bench, asked, ())
    assert isinstance(run, PlannedRun)
    assert run.warm_ns == 10**9


def test_a_position_says_how_long_the_rest_takes() -> None:
    asked = experiment(BenchDesign(), (), duration="60s")
    run = next_run(Bench, asked, ())
    assert isinstance(run, PlannedRun)
    history: History = tuple(Measured(run, 1000.0, took_ns=60 * 10**9) for _ in range(3))
    assert _position(run, history, 8, None) == "run 4 of 8, about 5 min left"
    # A search ends with its budget, whatever it would still try.
    assert _position(run, history, 8, 5 * 60 * 10**9) == "run 4, at most 120 s left"
    # The three rounds that a comparison needs may take longer than its budget.
    assert _position(run, history, 8, 60 * 10**9) == "run 4, about 5 min left"
    assert _position(run, (), 1, None) == ""
    short = tuple(Measured(run, 1000.0, took_ns=10**9) for _ in range(3))
    assert _position(run, short, 8, None) == "run 4 of 8"
