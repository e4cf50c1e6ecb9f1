"""The load held under a latency target, from trials of servers whose capacity is known."""

from __future__ import annotations

import pytest
from tests.plan.slo_server import SloServer, searched

from pgdyno.analysis.capacity import LoadLimit, LoadTrial, capacity
from pgdyno.errors import AnalysisError

TARGET = LoadLimit("p99", 20.0)


def trial(offered: float, *, ms: float = 5.0, achieved: float = 1.0) -> LoadTrial:
    return LoadTrial(offered, achieved, ms)


def test_a_trial_fails_by_its_latency_or_by_what_was_not_done() -> None:
    assert TARGET.is_met(trial(100, ms=20.0))
    assert not TARGET.is_met(trial(100, ms=20.1))
    assert not TARGET.is_met(trial(100, achieved=0.98))


def test_the_capacity_is_between_held_and_failed_loads() -> None:
    held_load = capacity([trial(700), trial(875, ms=50), trial(760), trial(830, ms=30)], TARGET)
    assert held_load.end == "found"
    assert 760 < held_load.load.value < 830
    assert held_load.load.low is not None
    assert held_load.load.high is not None
    assert held_load.load.low < held_load.load.value < held_load.load.high
    assert held_load.confirmed_count == 700
    assert held_load.failed_by == "p99"
    assert "20 ms" in held_load.rule
    assert "99 %" in held_load.rule


def test_when_all_trials_are_held_the_most_that_was_offered_is_a_lower_bound() -> None:
    held_load = capacity([trial(700), trial(875)], TARGET)
    assert (held_load.end, held_load.load.value, held_load.load.low, held_load.load.high) == (
        "above",
        875,
        875,
        None,
    )


def test_when_none_is_held_the_least_that_was_offered_is_an_upper_bound() -> None:
    held_load = capacity([trial(700, ms=50), trial(490, ms=40, achieved=0.9)], TARGET)
    assert (held_load.end, held_load.load.high, held_load.confirmed_count) == ("below", 490, None)
    assert held_load.failed_by == "p99 and offered load that was not achieved"


def test_without_trials_there_is_no_capacity() -> None:
    with pytest.raises(AnalysisError):
        capacity([], TARGET)


@pytest.mark.parametrize("noise_ratio", [0.02, 0.1, 0.3])
def test_the_interval_holds_the_truth_of_simulated_servers(noise_ratio: float) -> None:
    """make prove has 1,000 of each (tests/statistics); the seed makes these the same every time."""
    servers = [SloServer.any(seed, noise_ratio) for seed in range(120)]
    covered = counted = 0
    for server in servers:
        held_load = capacity(searched(server, TARGET), TARGET)
        if held_load.end != "found":
            continue
        counted += 1
        assert held_load.load.low is not None
        assert held_load.load.high is not None
        covered += held_load.load.low <= server.capacity_tps <= held_load.load.high
    assert counted >= 115
    assert covered / counted >= 0.90
