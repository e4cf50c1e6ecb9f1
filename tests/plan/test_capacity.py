"""The search for the load held under a latency target."""

from __future__ import annotations

import numpy as np
from tests.plan.slo_server import SloServer, searched

from pgdyno.analysis.capacity import LoadLimit, LoadTrial, capacity
from pgdyno.plan.capacity import RUNS_MAX, next_clients, next_rate

TARGET = LoadLimit("p99", 20.0)


def still(**changes: float) -> SloServer:
    fields = {"peak_tps": 1000.0, "capacity_tps": 600.0, "base_ms": 2.0, "noise_ratio": 0.0}
    rng = np.random.default_rng(3)
    return SloServer(**{**fields, **changes}, rng=rng)


def test_the_first_load_is_below_the_peak_of_the_closed_loop() -> None:
    assert next_rate([], TARGET, 1000.0) == 700.0


def test_the_search_brackets_closes_in_and_confirms() -> None:
    server = SloServer.any(4, 0.02)
    trials = searched(server, TARGET)
    met = [TARGET.is_met(trial) for trial in trials]
    assert any(met)
    assert not all(met)
    assert len(trials) <= RUNS_MAX
    held_load = capacity(trials, TARGET)
    assert held_load.load.low is not None
    assert held_load.load.low <= server.capacity_tps
    assert held_load.confirmed_count is not None
    assert held_load.confirmed_count <= server.capacity_tps * 1.02


def test_a_target_nothing_can_hold_ends_the_search_at_a_hundredth_of_the_peak() -> None:
    trials = searched(still(base_ms=19.9, capacity_tps=1.0), TARGET)
    assert not any(TARGET.is_met(trial) for trial in trials)
    assert 10.0 <= min(trial.offered_count for trial in trials) < 20.0


def test_a_target_everything_holds_ends_the_search_at_twice_the_peak() -> None:
    trials = searched(still(capacity_tps=1e9), TARGET)
    assert 1500 < max(trial.offered_count for trial in trials) <= 2000


def test_the_same_trials_lead_to_the_same_next_load() -> None:
    trials = searched(SloServer.any(4, 0.1), TARGET)
    assert next_rate(trials[:5], TARGET, 800.0) == next_rate(trials[:5], TARGET, 800.0)


def test_most_searches_take_fewer_runs_than_the_most_allowed() -> None:
    counts = [len(searched(SloServer.any(seed, 0.05), TARGET)) for seed in range(60)]
    assert np.median(counts) <= 13


ORDERS = LoadLimit("new-order.p90", 5000.0, "terminals")


def search_of_terminals(
    most: int, *, levels: tuple[int, ...], seed: int = 0, noise_ratio: float = 0.0
) -> tuple[list[LoadTrial], int]:
    """Return every trial on a server that keeps the target with up to `most` terminals."""
    rng = np.random.default_rng(seed)

    def trial(terminals: int) -> LoadTrial:
        factor = np.exp(noise_ratio * rng.standard_normal())
        return LoadTrial(terminals, 1.0, 5000.0 * terminals / (most + 0.5) * float(factor))

    trials, count = [trial(level) for level in levels], 0
    largest = max(levels)
    while (
        terminals := next_clients(trials, ORDERS, largest=largest, search_count=count)
    ) is not None:
        assert 1 <= terminals <= largest
        trials.append(trial(terminals))
        count += 1
    return trials, count


def test_the_most_terminals_that_keep_a_target_are_found_exactly() -> None:
    for most in (1, 2, 3, 7, 50, 99):
        trials, count = search_of_terminals(most, levels=(1, 100))
        assert count <= RUNS_MAX
        held_load = capacity(trials, ORDERS)
        assert (held_load.end, held_load.load.unit) == ("found", "terminals")
        assert held_load.load.low is not None
        assert held_load.load.high is not None
        assert held_load.load.low <= most + 0.5 <= held_load.load.high, most


def test_with_noise_most_intervals_have_the_most_terminals() -> None:
    held = 0
    for seed in range(40):
        trials, count = search_of_terminals(60, levels=(10, 40, 160), seed=seed, noise_ratio=0.03)
        assert count <= RUNS_MAX
        load = capacity(trials, ORDERS).load
        assert load.low is not None
        assert load.high is not None
        held += load.low <= 60.5 <= load.high
    assert held >= 36


def test_terminals_are_never_more_than_the_largest_level_and_never_none() -> None:
    trials, count = search_of_terminals(1000, levels=(4, 16))
    assert (count, capacity(trials, ORDERS).end) == (0, "above")
    trials, count = search_of_terminals(0, levels=(4, 16))
    assert min(trial.offered_count for trial in trials) == 1
    assert capacity(trials, ORDERS).end == "below"
