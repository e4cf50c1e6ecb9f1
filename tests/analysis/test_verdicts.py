"""Doubts: each rule at its limit, on both sides."""

from __future__ import annotations

from dataclasses import fields

import pytest

from pgdyno.analysis.verdicts import (
    RULES,
    CourseFacts,
    DatabaseFacts,
    LoadFacts,
    MachineFacts,
    RunFacts,
    doubts,
    is_valid,
    other_programs_in_one_arm,
)

MS = 1_000_000
# 8 clients for 60 s at 10 ms: 48,000 transactions, 800 tps.
GOOD = {
    "measured_seconds": 60.0,
    "client_count": 8,
    "completed_count": 48_000,
    "latency_mean_ns": 10.0 * MS,
    "latency_p50_ns": 9.0 * MS,
    "thread_busy_ratio": 0.2,
    "timer_lag_p99_ns": 0.1 * MS,
    "steal_ratio": 0.0,
    "throttled_ns": 0,
    "other_programs_ratio": 0.1,
    "is_written": True,
    "checkpoint_count": 2,
    "checkpoint_timeout_seconds": 300.0,
    "scale": 8,
    "updates_branches": True,
    "is_steady": True,
}


def facts(**changed: object) -> RunFacts:
    return grouped({**GOOD, **changed})


def grouped(values: dict[str, object]) -> RunFacts:
    """Facts from the names of the fields of all groups."""
    left = dict(values)
    groups = [
        group(**{field.name: left.pop(field.name) for field in fields(group) if field.name in left})
        for group in (LoadFacts, MachineFacts, DatabaseFacts, CourseFacts)
    ]
    assert not left
    return RunFacts(*groups)  # type: ignore[arg-type]


def kinds(**changed: object) -> list[str]:
    return [doubt.kind for doubt in doubts(facts(**changed))]


def test_a_good_run_has_no_doubt() -> None:
    assert kinds() == []


@pytest.mark.parametrize(
    ("kind", "just_good", "just_bad"),
    [
        (
            "engine_busy",
            {"thread_busy_ratio": 0.89},
            {"thread_busy_ratio": 0.9},
        ),
        ("timer_lag", {"timer_lag_p99_ns": 1.0 * MS}, {"timer_lag_p99_ns": 1.01 * MS}),
        (
            "timer_lag",
            {"timer_lag_p99_ns": 5.0 * MS, "latency_p50_ns": 100.0 * MS},
            {"timer_lag_p99_ns": 5.1 * MS, "latency_p50_ns": 100.0 * MS},
        ),
        (
            "rate_not_held",
            {"offered_tps": 808.0, "is_closed_loop": False},
            {"offered_tps": 809.0, "is_closed_loop": False},
        ),
        (
            "too_short",
            {"measured_seconds": 9.95, "completed_count": 7960},
            {"measured_seconds": 9.0, "completed_count": 7200},
        ),
        (
            "too_short",
            {"measured_seconds": 5.0, "completed_count": 4000, "is_one_of_many": True},
            {"measured_seconds": 4.0, "completed_count": 3200, "is_one_of_many": True},
        ),
        ("steal", {"steal_ratio": 0.01}, {"steal_ratio": 0.011}),
        ("throttled", {"throttled_ns": 0}, {"throttled_ns": 1}),
        ("littles_law", {"latency_mean_ns": 9.51 * MS}, {"latency_mean_ns": 9.49 * MS}),
        ("littles_law", {"latency_mean_ns": 10.49 * MS}, {"latency_mean_ns": 10.51 * MS}),
        (
            "littles_law",
            {"latency_mean_ns": 9.01 * MS, "between_transactions_ns": 24_000 * MS},
            {"latency_mean_ns": 8.99 * MS, "between_transactions_ns": 24_000 * MS},
        ),
        (
            "between_transactions",
            {"latency_mean_ns": 9.5 * MS, "between_transactions_ns": 24_000 * MS},
            {"latency_mean_ns": 9.5 * MS, "between_transactions_ns": 24_001 * MS},
        ),
        ("change_point", {}, {"change_point_seconds": (31.0,)}),
        ("others", {"others_ratio": 0.05}, {"others_ratio": 0.051}),
        ("clients_above_scale", {"scale": 8}, {"scale": 7}),
        (
            # 8 clients of whom 6 think at any moment.
            "clients_above_scale",
            {"scale": 2, "completed_count": 12_000, "think_time_ns": 360_000 * MS},
            {"scale": 1, "completed_count": 12_000, "think_time_ns": 360_000 * MS},
        ),
        ("not_steady", {"is_steady": None}, {"is_steady": False}),
        ("checkpoints", {"checkpoint_count": 2}, {"checkpoint_count": 1}),
        ("checkpoints", {"checkpoint_count": 0, "is_written": False}, {"checkpoint_count": 0}),
        (
            "percentile_resolution",
            {"completed_count": 1000, "latency_mean_ns": None},
            {"completed_count": 999, "latency_mean_ns": None},
        ),
        ("same_host", {"is_same_host": False}, {"is_same_host": True}),
    ],
)
def test_a_rule_speaks_just_past_its_limit(
    kind: str, just_good: dict[str, object], just_bad: dict[str, object]
) -> None:
    assert kinds(**just_good) == []
    assert kinds(**just_bad) == [kind]


def test_every_rule_is_silent_about_what_was_not_measured() -> None:
    bare = RunFacts(LoadFacts(measured_seconds=60.0, client_count=8, completed_count=48_000))
    assert [rule(bare) for rule in RULES] == [None] * len(RULES)


def test_littles_law_needs_a_closed_loop_and_enough_transactions() -> None:
    wrong = {"latency_mean_ns": 1.0 * MS}
    assert kinds(**wrong) == ["littles_law"]
    assert kinds(**wrong, is_closed_loop=False) == []
    assert "littles_law" not in kinds(**wrong, completed_count=300)
    assert kinds(**wrong, failed_count=1000) == []


def test_transactions_that_began_before_the_run_are_no_doubt_and_more_time_than_there_was_is() -> (
    None
):
    # All clients stood still for 6 s at most, and then ended what they had begun before.
    stall = {"latency_mean_ns": 10.9 * MS}
    assert kinds(**stall) == ["littles_law"]
    assert kinds(**stall, latency_max_ns=6_000.0 * MS) == []
    [doubt] = doubts(facts(**stall, latency_max_ns=600.0 * MS))
    assert "more was counted than they had" in doubt.message
    assert "lost connections" not in doubt.hint


def test_thinking_clients_are_counted_by_the_time_they_think() -> None:
    # 1,000 terminals, of which 8 are busy on average: 992 x 60 s are thought.
    thinking = {"client_count": 1_000, "latency_mean_ns": 10.0 * MS, "scale": 1_000}
    assert kinds(**thinking, think_time_ns=59_520_000 * MS) == []
    lost = facts(**thinking, think_time_ns=56_000_000 * MS)
    assert [doubt.kind for doubt in doubts(lost)] == ["littles_law"]
    assert "latency and think time gives" in doubts(lost)[0].message


def test_measured_time_between_transactions_is_not_lost_time() -> None:
    # 11 % of 8 clients' 60 s: 52.8 s.
    assert kinds(latency_mean_ns=8.9 * MS) == ["littles_law"]
    known = doubts(facts(latency_mean_ns=8.9 * MS, between_transactions_ns=52_800 * MS))
    assert [doubt.kind for doubt in known] == ["between_transactions"]
    assert is_valid(known)
    assert "11 %" in known[0].message
    assert "5 %" in known[0].message


def test_clients_that_the_engine_had_for_over_a_fifth_of_their_time_offered_another_load() -> None:
    fifth = {"latency_mean_ns": 8.0 * MS}
    assert is_valid(doubts(facts(**fifth, between_transactions_ns=96_000 * MS)))
    reasons = doubts(facts(**fifth, between_transactions_ns=96_001 * MS))
    assert [doubt.kind for doubt in reasons] == ["between_transactions"]
    assert not is_valid(reasons)
    assert "20 %" in reasons[0].message


def test_reasons_that_make_a_run_not_valid_come_first() -> None:
    reasons = doubts(facts(is_same_host=True, throttled_ns=5 * MS))
    assert [doubt.verdict for doubt in reasons] == ["not_valid", "doubt"]
    assert not is_valid(reasons)
    assert is_valid(reasons[1:])


def test_every_doubt_says_the_value_the_limit_and_a_next_step() -> None:
    reasons = doubts(facts(thread_busy_ratio=0.97, checkpoint_count=0))
    assert "97 %" in reasons[0].message
    assert "90 %" in reasons[0].message
    assert "600 s" in reasons[1].hint
    assert all(doubt.hint for doubt in reasons)


def test_other_programs_make_a_run_doubtful_and_not_invalid() -> None:
    [doubt] = doubts(facts(other_programs_ratio=0.11))
    assert (doubt.kind, doubt.verdict) == ("other_programs", "doubt")
    assert "used 11 % of the CPU" in doubt.message


@pytest.mark.parametrize(
    ("ratios", "place"),
    [
        ((0.05, 0.4), 1),
        ((0.7, 0.4, 0.6), 0),
        ((0.7, 0.65), None),  # Disturbed alike: another run would be disturbed, too.
        ((0.7, None), None),
        ((0.7,), None),
        ((), None),
    ],
)
def test_the_run_of_a_round_with_much_more_of_other_programs_is_the_uneven_one(
    ratios: tuple[float | None, ...], place: int | None
) -> None:
    uneven = other_programs_in_one_arm(ratios)
    assert (None if uneven is None else uneven[0]) == place
