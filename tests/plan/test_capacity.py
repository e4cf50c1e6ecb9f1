"""The search for the load held under a latency target."""

from __future__ import annotations

import numpy as np
from tests.plan.slo_server import SloServer, searched

from pgdyno.analysis.capacity import Target, capacity
from pgdyno.plan.capacity import RUNS_MAX, next_rate

TARGET = Target("p99", 20.0)


def still(**changes: float) -> SloServer:
    fields = {"peak_tps": 1000.0, "capacity_tps": 600.0, "base_ms": 2.0, "noise_ratio": 0.0}
    rng = np.random.default_rng(3)
    return SloServer(**{**fields, **changes}, rng=rng)


def test_the_first_load_is_below_the_peak_of_the_closed_loop() -> None:
    assert next_rate([], TARGET, 1000.0) == 700.0


def test_the_search_brackets_closes_in_and_confirms() -> None:
    server = SloServer.any(4, 0.02)
    trials = searched(server, TARGET)
    met = [TARGET.is_met(one) for one in trials]
    assert any(met)
    assert not all(met)
    assert len(trials) <= RUNS_MAX
    found = capacity(trials, TARGET)
    assert found.tps.low is not None
    assert found.tps.low <= server.capacity_tps
    assert found.confirmed_tps is not None
    assert found.confirmed_tps <= server.capacity_tps * 1.02


def test_a_target_nothing_can_hold_ends_the_search_at_a_hundredth_of_the_peak() -> None:
    trials = searched(still(base_ms=19.9, capacity_tps=1.0), TARGET)
    assert not any(TARGET.is_met(one) for one in trials)
    assert 10.0 <= min(one.offered_tps for one in trials) < 20.0


def test_a_target_everything_holds_ends_the_search_at_twice_the_peak() -> None:
    trials = searched(still(capacity_tps=1e9), TARGET)
    assert 1500 < max(one.offered_tps for one in trials) <= 2000


def test_the_same_trials_lead_to_the_same_next_load() -> None:
    trials = searched(SloServer.any(4, 0.1), TARGET)
    assert next_rate(trials[:5], TARGET, 800.0) == next_rate(trials[:5], TARGET, 800.0)


def test_most_searches_take_fewer_runs_than_the_most_allowed() -> None:
    counts = [len(searched(SloServer.any(seed, 0.05), TARGET)) for seed in range(60)]
    assert np.median(counts) <= 13
