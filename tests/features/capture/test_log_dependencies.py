"""Logs written by hand, whose parameters follow from returned values, turns and arrays."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.features.capture.test_log_transactions import capture_of, entry

from pgdyno.features.capture.model import (
    Capture,
    Constant,
    Count,
    Equal,
    Linear,
    ListOf,
    Plus,
    Returned,
    Turn,
)
from pgdyno.features.capture.model import Number as Counted

COUNTER = (
    "UPDATE pgbench_branches SET bbalance = bbalance + 1 WHERE bid = $1 RETURNING bbalance - 1"
)
HISTORY = "INSERT INTO pgbench_history (tid, bid, aid, delta) VALUES ($1, $2, $3, $4)"
READ = "SELECT abalance FROM pgbench_accounts WHERE aid = $1"
WRITE = "UPDATE pgbench_accounts SET abalance = $1 WHERE aid = $2"
LISTED = "SELECT aid FROM pgbench_accounts WHERE aid = ANY ($1::int[])"
EACH = "UPDATE pgbench_accounts SET abalance = abalance + $2 WHERE aid = $1 RETURNING filler"
NUMBERED = "UPDATE pgbench_tellers SET tbalance = 0 WHERE tid = $1"
ARRAYS = (
    "INSERT INTO pgbench_history (tid, bid, aid, delta)"
    " SELECT $1, l.* FROM unnest($2::int[], $3::int[], $4::int[]) AS l"
)

Step = tuple[str, Sequence[str]]


def logged(folder: Path, transactions: Sequence[Sequence[Step]]) -> Capture:
    """Return the capture of transactions that follow each other."""
    said = ""
    for number, steps in enumerate(transactions):
        for place, (text, values) in enumerate([("BEGIN", []), *steps, ("COMMIT", [])]):
            said += entry("1.a", number + place / 100, text, values)
    return capture_of(folder, said)


def test_an_array_may_have_one_earlier_value_in_all_places(tmp_path: Path) -> None:
    transactions = []
    for number in range(12):
        account, count = str(7 * number), 1 + number % 3
        arrays = [["3"] * count, [account] * count, [str(n) for n in range(5, 5 + count)]]
        given = ["{" + ",".join(items) + "}" for items in arrays]
        transactions.append([(READ, [account]), (ARRAYS, ["5", *given])])
    [template] = logged(tmp_path, transactions).templates
    accounts = template.steps[2].parameters[2]
    assert isinstance(accounts, ListOf)
    assert accounts.of == Equal(step=1, parameter=0)
    assert accounts.as_long_as == 1


def test_a_number_that_counts_in_each_row_is_what_the_counter_returned(tmp_path: Path) -> None:
    rng, counters = random.Random(3), {"1": 70_000, "2": 300, "3": 41}
    transactions = []
    for _ in range(60):
        branch = rng.choice(list(counters))
        counters[branch] += 1
        given = ["5", branch, str(rng.randrange(90_000)), str(counters[branch])]
        transactions.append([(COUNTER, [branch]), (HISTORY, given)])
    [template] = logged(tmp_path, transactions).templates
    assert template.steps[2].parameters[3] == Returned(step=1, column=0)
    assert template.steps[1].parameters[1:] == (Constant(value="1"), Constant(value="1"))


@pytest.mark.parametrize("sign", [1, -1])
def test_a_written_value_is_the_read_one_and_an_earlier_parameter(
    tmp_path: Path, sign: int
) -> None:
    rng, balances = random.Random(4), dict.fromkeys("123", 0)
    transactions = []
    for _ in range(80):
        account, amount = rng.choice(list(balances)), rng.randrange(1, 500)
        balances[account] += sign * amount
        transactions.append(
            [
                (READ, [account]),
                (HISTORY, ["5", "1", account, str(amount)]),
                (WRITE, [str(balances[account]), account]),
            ]
        )
    [template] = logged(tmp_path, transactions).templates
    plus = Plus(step=2, parameter=3, slope=sign)
    expected = Linear(step=1, column=0, slope=1, offset=0, plus=plus)
    assert template.steps[3].parameters[0] == expected


def test_turns_and_arrays_follow_from_each_other(tmp_path: Path) -> None:
    rng, transactions = random.Random(5), []
    for _ in range(40):
        items = sorted(rng.sample(range(1, 90_000), rng.randrange(3, 9)))
        amounts = [rng.randrange(1, 5_000) for _ in items]
        count = len(items)
        numbers = rng.sample(range(1, count + 1), count)
        arrays = ["{" + ",".join(map(str, x)) + "}" for x in (items, amounts, numbers)]
        transactions.append(
            [
                (LISTED, arrays[:1]),
                *((EACH, [str(a), str(b)]) for a, b in zip(items, amounts, strict=True)),
                *((NUMBERED, [str(turn)]) for turn in range(1, 11)),
                (HISTORY, ["5", "1", "7", str(count)]),
                (ARRAYS, ["5", *arrays]),
            ]
        )
    [template] = logged(tmp_path, transactions).templates
    _, listed, changed, numbered, history, inserted, _ = template.steps
    assert isinstance(listed.parameters[0], ListOf)
    assert listed.parameters[0].is_sorted
    assert changed.parameters[0] == Equal(step=1, parameter=0, take="element")
    assert changed.turns == Counted(step=1, parameter=0)
    assert numbered.parameters[0] == Turn(offset=1)
    assert history.parameters[3] == Count(step=2)
    _, same, amounts, numbers = inserted.parameters
    assert same == Equal(step=1, parameter=0)
    assert amounts == Equal(step=2, parameter=1, take="all")
    assert isinstance(numbers, ListOf)
    assert numbers.of == Turn(offset=1)
