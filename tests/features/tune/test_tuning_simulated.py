"""What a tuning claims, against the truth of simulated servers: budgets, noises, run costs."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from tests.features.tune.surfaces import (
    RANGES,
    Disturbance,
    Simulated,
    Tuned,
    either_range,
    flat,
    one_value,
    only_together,
    planted,
    tuned,
    two_ranges,
)
from tests.fixtures.prove import Proved

from pgdyno.features.tune.arms import MARGIN_RATIO
from pgdyno.features.tune.verdict import findings_of

SHORT = 40
TURN_S = 2.5
LONG = int(os.environ.get("PGDYNO_TUNINGS") or 1000)
RULES = {**dict.fromkeys(RANGES[:5], "9"), "jit": "off", "effective_io_concurrency": "200"}
DISTURBANCES: tuple[Disturbance, ...] = ("drift", "walk", "spells", "sine")
TWO = {"checkpoint_timeout", "shared_buffers"}
LARGE_RULES = {**RULES, **dict.fromkeys(TWO, "12")}
# The formulas that a server of the tests has, as one candidate.
TOGETHER = {name: LARGE_RULES[name] for name in RANGES[:5]}


def share(outcomes: Sequence[bool]) -> float:
    return sum(outcomes) / max(1, len(outcomes))


def kind(turn_s: float) -> str:
    return "turns" if turn_s else "runs"


def any_server(seed: int) -> Simulated:
    """Return a server, a load and a question by lot."""
    rng = np.random.default_rng((seed, 1))
    lists = tuple(int(count) for count in rng.integers(2, 8, rng.integers(0, 4)))
    effect = float(rng.choice([0.0, 0.0, 0.1, 0.3, 0.8]))

    def surface(point: dict[str, str]) -> float:
        return effect * (point.get("work_mem") == "1")

    return Simulated(
        surface,  # type: ignore[arg-type]
        lists,
        range_count=int(rng.integers(0 if lists else 1, 4)),
        rules=RULES if rng.random() < 0.5 else None,
        noise_ratio=float(rng.uniform(0.02, 0.3)),
        has_tails=bool(rng.random() < 0.5),
        budget_s=float(rng.uniform(60, 900)),
        run_s=float(rng.uniform(3, 15)),
        turn_s=TURN_S * (seed % 2),
    )


@pytest.mark.parametrize("seed", range(40))
def test_the_budget_is_used_and_no_verdict_contradicts_an_interval(seed: int) -> None:
    server = any_server(seed)
    outcome = tuned(server, seed)
    tuning = outcome.tuning
    answer = findings_of(tuning, server.now, 15, metric="tps", is_more_better=True)
    left_s = server.budget_s - outcome.spent_s
    # A load has at least four turns, or six when a better value is known.
    least_s = 2.2 * server.run_s + 7 * server.turn_s
    assert answer.verdict != "not known" or left_s < least_s, "time is left"
    assert left_s > -server.run_s, "the budget is kept"
    listed = {
        f"{dimension.name}={value}"
        for dimension in server.space
        if dimension.scale == "choice"
        for value in dimension.values
        if value != server.now[dimension.name]
    }
    assert listed <= {trial.name for trial in answer.tried}, "each listed value has a row"
    not_tried = [trial.name for trial in answer.tried if trial.decision == "not tried"]
    if not_tried and answer.verdict == "not known":
        assert not_tried[0] in answer.sentence()
    for trial in answer.tried:
        low, high = (trial.ratio.low, trial.ratio.high) if trial.ratio else (None, None)
        assert (trial.decision == "better") == (low is not None and low > 1), trial
        assert (trial.decision == "worse") == (high is not None and high < 1), trial
        if trial.decision == "no better":
            assert high is not None
            assert high <= 1 + MARGIN_RATIO
    if answer.verdict == "better":
        assert answer.gain is not None
        assert answer.gain.low is not None
        assert answer.gain.low > 1
        assert answer.settings
    if answer.verdict == "no better":
        assert {trial.decision for trial in answer.tried} <= {"no better", "worse", "failed"}


@pytest.mark.parametrize("noise_ratio", [0.02, 0.1, 0.3])
def test_on_a_flat_server_hardly_any_tuning_claims_a_gain(noise_ratio: float) -> None:
    server = Simulated(flat, (3, 4), 2, RULES, noise_ratio, has_tails=True)
    assert share([tuned(server, seed).claims for seed in range(SHORT)]) <= 0.05


@pytest.mark.parametrize("turn_s", [0.0, TURN_S])
@pytest.mark.parametrize("disturbance", DISTURBANCES)
def test_no_gain_is_claimed_for_what_the_machine_does(
    disturbance: Disturbance, turn_s: float
) -> None:
    server = Simulated(flat, (), 6, RULES, 0.2, True, 150, 10, disturbance, turn_s)
    assert share([tuned(server, seed).claims for seed in range(SHORT)]) <= 0.05


def test_two_pairs_prove_a_large_effect_among_six_settings() -> None:
    server = Simulated(planted(math.log(80)), (), 6, RULES, 0.2, True, 150, 10)
    outcomes = [tuned(server, seed) for seed in range(SHORT)]
    assert share([set(outcome.proposed) == {"random_page_cost"} for outcome in outcomes]) >= 0.85


def test_turns_prove_a_double_gain_among_six_settings_in_four_minutes() -> None:
    server = Simulated(planted(math.log(2)), (), 6, RULES, 0.2, True, 240, 10, turn_s=TURN_S)
    outcomes = [tuned(server, seed) for seed in range(SHORT)]
    assert share([set(outcome.proposed) == {"random_page_cost"} for outcome in outcomes]) >= 0.9
    assert share([outcome.covers for outcome in outcomes if outcome.claims]) >= 0.95


def test_a_first_pair_far_above_the_noise_is_repeated_before_slower_kinds_of_run_begin() -> None:
    surface = planted(math.log(10), "shared_buffers")
    server = Simulated(surface, (), 6, RULES, 0.05, True, 240, 10, turn_s=TURN_S)
    slow = frozenset(("max_wal_size", "checkpoint_timeout"))
    server = replace(server, apart=frozenset(("shared_buffers",)), slow=slow, long_s=13)
    outcomes = [tuned(server, seed) for seed in range(SHORT // 2)]
    assert share([set(outcome.proposed) == {"shared_buffers"} for outcome in outcomes]) >= 0.8


def test_turns_that_scatter_much_leave_the_time_to_runs_that_tell_more() -> None:
    surface = planted(math.log(1.4), "checkpoint_timeout")
    server = Simulated(surface, (), 6, RULES, 0.05, True, 720, 10, turn_s=TURN_S)
    slow = frozenset(("max_wal_size", "checkpoint_timeout"))
    server = replace(server, apart=frozenset(("shared_buffers",)), slow=slow, long_s=26)
    outcomes = [tuned(replace(server, turn_noise=20), seed) for seed in range(SHORT // 2)]
    assert share([set(outcome.proposed) == {"checkpoint_timeout"} for outcome in outcomes]) >= 0.8


def test_a_value_that_is_a_third_faster_is_found_within_four_minutes() -> None:
    server = Simulated(one_value, (3,), noise_ratio=0.1, budget_s=240)
    outcomes = [tuned(server, seed) for seed in range(SHORT)]
    assert share([outcome.proposed == {"work_mem": "2"} for outcome in outcomes]) >= 0.95
    assert share([outcome.covers for outcome in outcomes if outcome.claims]) >= 0.95


@pytest.mark.parametrize("name", ["max_wal_size", "random_page_cost", "shared_buffers"])
def test_a_third_more_is_found_in_five_minutes_among_six_settings(name: str) -> None:
    server = Simulated(planted(math.log(1.35), name), (), 6, RULES, 0.1, True, 300, 10)
    outcomes = [tuned(server, seed) for seed in range(SHORT)]
    assert share([set(outcome.proposed) == {name} for outcome in outcomes]) >= 0.7
    assert not [outcome for outcome in outcomes if outcome.claims and not outcome.true_gain]


def test_two_settings_of_six_are_found_without_riders() -> None:
    server = Simulated(two_ranges, range_count=6, rules=RULES)
    outcomes = [tuned(server, seed) for seed in range(SHORT // 2)]
    assert share([set(outcome.proposed) == TWO for outcome in outcomes]) >= 0.9


def test_of_two_settings_that_replace_each_other_one_is_proposed() -> None:
    server = Simulated(either_range, range_count=6)
    outcomes = [tuned(server, seed) for seed in range(SHORT // 2)]
    assert share([len(outcome.proposed) == 1 for outcome in outcomes]) >= 0.95


def test_two_settings_that_help_only_together_are_credited_in_their_set() -> None:
    """Of five formulas two help, and only together; the other three are proposed without credit."""
    server = Simulated(only_together, (), 6, LARGE_RULES, 0.05, True, 720, 10, turn_s=TURN_S)
    server = replace(server, together=TOGETHER)
    outcomes = [tuned(server, seed) for seed in range(SHORT // 2)]
    assert share([set(outcome.proposed) >= TWO for outcome in outcomes]) >= 0.9
    credited = [
        {name for name, _, effect in outcome.tuning.proposed() if effect is not None}
        for outcome in outcomes
    ]
    assert share([names == TWO for names in credited]) >= 0.9
    assert share([outcome.covers for outcome in outcomes if outcome.claims]) >= 0.95


@pytest.mark.parametrize("gain", [0.3, 0.7])
def test_a_set_is_decided_in_six_minutes_of_runs_of_twenty_seconds(gain: float) -> None:
    """A pair takes 40 s with its restart, as on a busy machine."""
    surface = planted(gain, "shared_buffers")
    server = Simulated(surface, (), 6, LARGE_RULES, 0.1, False, 300, 20, turn_s=TURN_S)
    server = replace(server, together=TOGETHER, apart=frozenset(("shared_buffers",)))
    outcomes = [tuned(server, seed) for seed in range(SHORT)]
    assert share([outcome.claims for outcome in outcomes]) >= (0.9 if gain > 0.5 else 0.3)
    assert share([outcome.covers for outcome in outcomes if outcome.claims]) >= 0.95


def test_a_set_without_effect_is_hardly_ever_claimed() -> None:
    server = Simulated(flat, (), 6, LARGE_RULES, 0.2, True, 300, 10, turn_s=TURN_S)
    server = replace(server, together=TOGETHER)
    outcomes = [tuned(server, seed) for seed in range(2 * SHORT)]
    assert share([outcome.claims for outcome in outcomes]) <= 0.05


def riders(outcomes: Sequence[Tuned], matter: set[str]) -> float:
    """Return which share of the proposed settings has no effect."""
    proposed = [name for outcome in outcomes for name in outcome.proposed]
    return share([name not in matter for name in proposed])


@pytest.mark.slow
@pytest.mark.parametrize("noise_ratio", [0.02, 0.05, 0.1, 0.2, 0.3])
def test_a_gain_is_claimed_wrongly_in_at_most_5_percent(noise_ratio: float, proved: Proved) -> None:
    question = Simulated(flat, (3,), noise_ratio=noise_ratio, budget_s=240)
    kinds = {
        "a list": question,
        "a list, heavy tails": replace(question, has_tails=True),
        "six settings": Simulated(flat, (3,), 5, RULES, noise_ratio, has_tails=True),
    }
    for name, server in kinds.items():
        claimed = share([tuned(server, seed).claims for seed in range(LONG)])
        assert claimed <= 0.05, name
        words = f"tuning, noise {noise_ratio:.0%}, {name}: gains claimed without a gain"
        proved(words, required="<= 5 %", seen=f"{claimed:.1%}")


@pytest.mark.slow
@pytest.mark.parametrize("turn_s", [0.0, TURN_S])
@pytest.mark.parametrize("disturbance", DISTURBANCES)
def test_a_short_tuning_claims_hardly_any_gain(
    disturbance: Disturbance, turn_s: float, proved: Proved
) -> None:
    server = Simulated(flat, (), 6, RULES, 0.2, True, 150, 10, disturbance, turn_s)
    claimed = share([tuned(server, seed).claims for seed in range(LONG)])
    assert claimed <= 0.05
    words = f"tuning of 150 s in {kind(turn_s)}, {disturbance}: gains claimed without a gain"
    proved(words, required="<= 5 %", seen=f"{claimed:.1%}")


@pytest.mark.slow
@pytest.mark.parametrize("turn_s", [0.0, TURN_S])
@pytest.mark.parametrize("factor", [80, 2, 1.35, 1.1])
def test_a_short_tuning_finds_a_large_gain(factor: float, turn_s: float, proved: Proved) -> None:
    for budget_s in (150, 240, 720):
        surface = planted(math.log(factor))
        server = Simulated(surface, (), 6, RULES, 0.2, True, budget_s, 10, turn_s=turn_s)
        outcomes = [tuned(server, seed) for seed in range(LONG // 5)]
        found_ratio = share([set(outcome.proposed) == {"random_page_cost"} for outcome in outcomes])
        assert found_ratio >= 0.85 or factor < 80
        proved(
            f"tuning of {budget_s} s in {kind(turn_s)}, {factor} times: found",
            required="shown",
            seen=f"{found_ratio:.0%}",
        )


@pytest.mark.slow
@pytest.mark.parametrize("noise_ratio", [0.05, 0.1, 0.2])
def test_gains_are_found_and_their_intervals_cover_the_truth(
    noise_ratio: float, proved: Proved
) -> None:
    listed = Simulated(one_value, (3,), noise_ratio=noise_ratio, budget_s=240)
    six = Simulated(two_ranges, (), 6, RULES, noise_ratio)
    for name, server in {"a list in 4 min": listed, "two of six in 12 min": six}.items():
        outcomes = [tuned(server, seed) for seed in range(LONG)]
        claims = [outcome for outcome in outcomes if outcome.claims]
        covered = share([outcome.covers for outcome in claims])
        matter = {"work_mem", *TWO}
        assert covered >= 0.95, name
        assert riders(claims, matter) <= 0.05, name
        said = f"tuning, noise {noise_ratio:.0%}, {name}"
        proved(
            f"{said}: found", required="shown", seen=f"{share([o.claims for o in outcomes]):.1%}"
        )
        proved(f"{said}: intervals of the gain", required=">= 95 %", seen=f"{covered:.1%}")
