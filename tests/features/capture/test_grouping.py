"""Which statements form a transaction: from numbers alone, as a server has them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
import pytest

from pgdyno.features.capture.observed import StatementKind
from pgdyno.features.capture.reading import grouping
from pgdyno.features.capture.reading.call_series import (
    CallSeries,
    FloatArray,
    is_no_chance,
    sums,
)
from pgdyno.features.capture.reading.counted import Sessions
from pgdyno.features.capture.reading.grouping import StatementGroup, grouped

NAMES = {"accounts": 1, "balance": 2, "tellers": 3, "branches": 4, "history": 5, "other": 6}
KINDS: dict[str, StatementKind] = {"balance": "select", "other": "select", "history": "insert"}


def groups(
    calls: Mapping[str, tuple[int, ...]],
    transactions: float,
    sessions: Sessions | None = None,
    writing: tuple[int, ...] = (),
) -> list[StatementGroup]:
    countings = [
        CallSeries(name, NAMES[name], "app", KINDS.get(name, "update"), sum(series), series)
        for name, series in calls.items()
    ]
    return grouped(
        countings,
        sessions or Sessions(),
        transactions=transactions,
        writing=writing,
    )


# Of twelve intervals, as clients that choose at random make them.
OFTEN = (803, 764, 812, 795, 840, 779, 821, 790, 768, 833, 801, 786)
RARE = (97, 121, 88, 103, 110, 92, 85, 117, 99, 106, 90, 113)


def both(*series: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(map(sum, zip(*series, strict=True)))


def seen(sessions: Sessions, *names: str, count: int = 10) -> Sessions:
    """Let sessions have these statements in one transaction, in this order."""
    for first, second in itertools.combinations(names, 2):
        sessions.together[frozenset((NAMES[first], NAMES[second]))] = count
        sessions.in_order[NAMES[first], NAMES[second]] = count
    for name in names:
        sessions.inside[NAMES[name]] = count
    return sessions


def test_statements_that_are_all_transactions_stay_alone() -> None:
    calls = {"accounts": (100, 100), "tellers": (100, 100), "balance": (50, 50)}
    made = groups(calls, transactions=500)
    assert [(group.calls, list(group.turns), group.is_block) for group in made] == [
        (200, ["accounts"], False),
        (200, ["tellers"], False),
        (100, ["balance"], False),
    ]


def test_equal_calls_alone_are_no_proof() -> None:
    # Two transactions may always follow each other.
    made = groups(dict.fromkeys(("accounts", "history"), OFTEN), transactions=sum(OFTEN))
    assert [(list(group.turns), group.is_proved) for group in made] == [
        (["accounts"], False),
        (["history"], False),
    ]
    sessions = seen(Sessions(), "accounts", "history", count=1)
    [group] = groups(dict.fromkeys(("accounts", "history"), OFTEN), sum(OFTEN), sessions)
    assert (list(group.turns), group.is_proved) == (["accounts", "history"], True)


@pytest.mark.parametrize("late", [0, 700])
def test_a_statement_seen_again_in_one_transaction_is_its_loop(late: int) -> None:
    sessions = seen(Sessions(), "accounts", "history")
    calls = {"accounts": RARE, "history": tuple(10 * count for count in RARE)}
    assert len(groups(calls, sum(RARE) + late, sessions)) == 2
    sessions.repeated[NAMES["history"]] = 2
    [group] = groups(calls, sum(RARE) + late, sessions)
    assert group.turns == {"accounts": 1.0, "history": 10.0}
    assert group.is_block


def test_a_statement_that_sessions_show_alone_joins_no_transaction() -> None:
    sessions = seen(Sessions(), "accounts", "tellers")
    sessions.alone[NAMES["other"]] = 3
    calls = {"accounts": OFTEN, "tellers": OFTEN, "other": OFTEN}
    made = groups(calls, 2 * sum(OFTEN), sessions)
    assert sorted(len(group.turns) for group in made) == [1, 2]
    assert all(group.is_proved for group in made)


def test_the_time_since_the_start_of_the_transaction_is_the_order() -> None:
    sessions = seen(Sessions(), "accounts", "tellers", "history")
    sessions.in_order.clear()
    for place, name in enumerate(("history", "tellers", "accounts"), 1):
        sessions.inside[NAMES[name]] = 4
        sessions.after_s[NAMES[name]] = [place * 0.001] * 4
    calls = dict.fromkeys(("accounts", "tellers", "history"), OFTEN)
    [group] = groups(calls, sum(OFTEN), sessions)
    assert list(group.turns) == ["history", "tellers", "accounts"]


def test_two_whose_sum_is_a_third_one_are_in_different_transactions() -> None:
    sessions = seen(seen(Sessions(), "branches", "tellers", count=1), "other", "tellers", count=1)
    calls = {"branches": OFTEN, "other": RARE, "tellers": both(OFTEN, RARE)}
    made = groups(calls, 0, sessions)
    assert sorted(sorted(group.turns) for group in made) == [
        ["branches", "tellers"],
        ["other", "tellers"],
    ]
    assert all(group.is_proved for group in made)


def test_the_sum_of_a_loop_and_its_transaction_says_nothing() -> None:
    twice, thrice = (tuple(turns * count for count in OFTEN) for turns in (2, 3))
    series = {"accounts": OFTEN, "branches": twice, "tellers": thrice}
    counts = [
        CallSeries(id=name, query_id=1, role="", kind="update", calls=sum(own), series=own)
        for name, own in series.items()
    ]
    assert sums(counts, ()) == {}


def test_a_statement_seen_alone_and_in_a_transaction_is_both() -> None:
    sessions = seen(Sessions(), "accounts", "balance")
    sessions.alone[NAMES["balance"]] = 10
    calls = {"accounts": RARE, "balance": both(RARE, OFTEN)}
    alone, inside = groups(calls, sum(RARE) + sum(OFTEN), sessions)
    assert (list(alone.turns), alone.calls, alone.is_block) == (["balance"], sum(OFTEN), False)
    assert (set(inside.turns), inside.is_block) == ({"accounts", "balance"}, True)


def test_a_statement_rarely_seen_inside_is_not_a_block() -> None:
    sessions = Sessions()
    sessions.alone[NAMES["other"]], sessions.inside[NAMES["other"]] = 3, 1
    sessions.inside[NAMES["accounts"]] = 2
    made = groups({"accounts": (10, 10), "other": (40, 40)}, transactions=100, sessions=sessions)
    assert {tuple(g.turns): g.is_block for g in made} == {("other",): False, ("accounts",): True}


def test_kinds_that_are_equally_frequent_are_told_apart_by_what_was_seen_together() -> None:
    sessions = Sessions()
    seen(sessions, "accounts", "balance")
    seen(sessions, "tellers", "branches")
    # All transactions have BEGIN, which is not among the calls.
    sessions.together |= {frozenset((99, NAMES[name])): 20 for name in ("accounts", "tellers")}
    calls = dict.fromkeys(("accounts", "balance", "tellers", "branches"), OFTEN)
    made = groups(calls, 2 * sum(OFTEN), sessions)
    assert {frozenset(group.turns) for group in made} == {
        frozenset(("accounts", "balance")),
        frozenset(("tellers", "branches")),
    }
    assert [group.calls for group in made] == [sum(OFTEN)] * 2


def test_a_statement_that_is_mostly_outside_is_also_in_the_transactions_that_show_it() -> None:
    sessions = Sessions()
    seen(sessions, "accounts", "balance")
    sessions.alone[NAMES["balance"]] = 100
    calls = {"accounts": (100, 100), "balance": (400, 400)}
    alone, inside = groups(calls, transactions=800, sessions=sessions)
    assert (list(alone.turns), alone.calls, alone.is_block) == (["balance"], 600, False)
    assert set(inside.turns) == {"accounts", "balance"}


def test_a_group_whose_statements_were_seen_again_is_a_loop() -> None:
    sessions = Sessions()
    seen(sessions, "accounts", "balance")
    seen(sessions, "tellers", "branches")
    for name in ("tellers", "branches"):
        sessions.repeated[NAMES[name]] = 2
    calls = dict.fromkeys(("accounts", "balance", "tellers", "branches"), (100, 100))
    once, loop = groups(calls, transactions=220, sessions=sessions)
    assert (once.calls, set(once.turns.values())) == (200, {1.0})
    assert (loop.calls, loop.turns) == (20, {"tellers": 10.0, "branches": 10.0})


def test_a_few_long_waits_for_locks_do_not_change_the_order() -> None:
    sessions = seen(Sessions(), "branches", "history", "tellers")
    sessions.in_order.clear()
    for name, waited_s in (("tellers", 0.0), ("branches", 0.9), ("history", 0.0)):
        sessions.inside[NAMES[name]] = 4
        usual_s = {"tellers": 0.001, "branches": 0.002, "history": 0.003}[name]
        sessions.after_s[NAMES[name]] = [usual_s, usual_s, usual_s + waited_s, usual_s + waited_s]
    calls = dict.fromkeys(("branches", "history", "tellers"), OFTEN)
    [group] = groups(calls, sum(OFTEN), sessions)
    assert list(group.turns) == ["tellers", "branches", "history"]


def test_statements_that_were_seen_after_each_other_have_this_order() -> None:
    sessions = seen(Sessions(), "accounts", "branches", "tellers")
    sessions.in_order.clear()
    for name, usual_s in (("accounts", 0.001), ("tellers", 0.003), ("branches", 0.002)):
        sessions.inside[NAMES[name]] = 4
        # A statement that is seldom seen is seen when its client waited for a CPU.
        sessions.after_s[NAMES[name]] = [usual_s] * 4
    sessions.in_order[NAMES["tellers"], NAMES["branches"]] = 5
    sessions.in_order[NAMES["branches"], NAMES["tellers"]] = 1
    calls = dict.fromkeys(("accounts", "branches", "tellers"), OFTEN)
    [group] = groups(calls, sum(OFTEN), sessions)
    assert list(group.turns) == ["accounts", "tellers", "branches"]


def test_polls_tell_pauses_and_which_statements_share_a_transaction() -> None:
    sessions = Sessions()
    idle = (7, "app", "idle", None, 2, "Client:ClientRead")
    sessions.add([(*idle, 0.3, 100.0, None)])
    sessions.add([(*idle, 0.5, 100.0, None)])
    active = (7, "app", "active", 101.0)
    sessions.add([(*active, 1, "", 0.0, 101.0, 0.0)])
    sessions.add([(*active, 3, "IO:WALSync", 0.0, 101.2, 0.2)])
    assert sessions.idle_s == [0.5]
    assert sessions.alone == {2: 1, 1: 1}
    assert sessions.inside == {3: 1}
    assert sessions.together == {frozenset((1, 3)): 1}
    sessions.follow([(*active, 4, "", 0.0, 101.3, 0.3)])
    assert sessions.in_order == {(1, 3): 1, (1, 4): 1, (3, 4): 1}
    assert sessions.inside == {3: 1}
    assert sessions.waits == {"CPU": 1, "IO:WALSync": 1}


def test_a_statement_as_frequent_as_the_transactions_that_wrote_is_in_each_of_them() -> None:
    wrote = both(OFTEN, RARE)
    sessions = seen(seen(Sessions(), "history", "accounts"), "history", "tellers")
    calls = {"history": wrote, "accounts": OFTEN, "tellers": RARE}
    made = groups(calls, sum(wrote), sessions, writing=wrote)
    assert {frozenset(group.turns) for group in made} == {
        frozenset(("history", "accounts")),
        frozenset(("history", "tellers")),
    }


def test_the_number_of_transactions_that_wrote_tells_the_turns_of_a_loop() -> None:
    sessions = Sessions()
    seen(sessions, "tellers", "branches")
    sessions.repeated[NAMES["tellers"]] = sessions.repeated[NAMES["branches"]] = 2
    loop = tuple(10 * count for count in RARE)
    calls = {"accounts": OFTEN, "tellers": loop, "branches": loop}
    # The server counts all transactions late, and those that write at once.
    late = sum(OFTEN) + 1.05 * sum(RARE)
    once, repeating = groups(calls, late, sessions, writing=both(OFTEN, RARE))
    assert (once.calls, repeating.calls) == (sum(OFTEN), sum(RARE))
    assert repeating.turns == {"tellers": 10.0, "branches": 10.0}


def test_a_rare_statement_is_no_part_of_a_sum() -> None:
    changes = (4, -3, 3, -4, 3, -3) * 2
    nearly = tuple(count + change for count, change in zip(OFTEN, changes, strict=True))
    series = {"accounts": OFTEN, "tellers": nearly, "balance": (1, 0, 0, 1, 0, 1) * 2}
    counts = [
        CallSeries(id=name, query_id=1, role="", kind="update", calls=sum(own), series=own)
        for name, own in series.items()
    ]
    assert sums(counts, ()) == {}


def test_each_statement_is_compared_with_few_others(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0

    def counting(first: FloatArray, other: FloatArray) -> bool:
        nonlocal compared
        compared += 1
        return is_no_chance(first, other)

    monkeypatch.setattr(grouping, "is_no_chance", counting)
    generator = np.random.default_rng(1)
    series = [generator.poisson(generator.integers(5, 4000), 60).tolist() for _ in range(500)]
    many = [CallSeries(f"{n:03}", n, "app", "update", sum(s), s) for n, s in enumerate(series)]
    total = float(sum(map(sum, series)))
    assert len(grouped(many, Sessions(), transactions=total)) == 500
    # All pairs would be 125,000.
    assert compared < 20 * len(many)
