"""Stand-ins: length, order, equality; numbers and times between their neighbours."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.features.capture.reading import times
from pgdyno.features.capture.reading.stand_ins import StandIns

KEY = bytes(32)
TEXTS = st.lists(
    st.text(alphabet="abcdefghijklmnop qrstuvwxyz@.", min_size=6, max_size=30), max_size=60
)


def made(texts: list[str], *, shown: tuple[str, ...] = (), key: bytes = KEY) -> StandIns:
    return StandIns(texts, texts, shown=shown, key=key)


@given(TEXTS)
def test_a_text_keeps_its_length_its_place_and_its_equality(given_texts: list[str]) -> None:
    texts = sorted({text for text in given_texts if text.strip()})
    stand_ins = made(texts)
    replaced = [stand_ins.text(text) for text in texts]
    assert [len(text) for text in replaced] == [len(text) for text in texts]
    assert replaced == sorted(replaced)
    assert len(set(replaced)) == len(texts)
    assert not set(replaced) & set(texts)
    assert [stand_ins.text(text) for text in texts] == replaced


def test_another_key_makes_other_stand_ins() -> None:
    texts = ["anna@example", "bert@example"]
    mine, yours = made(texts), made(texts, key=bytes(range(32)))
    assert mine.text(texts[0]) != yours.text(texts[0])
    assert StandIns(texts, texts).text(texts[0]) != StandIns(texts, texts).text(texts[0])


@pytest.mark.parametrize("text", ["7", "42", "8642097", "19.99", "-35", "00012345678"])
def test_a_text_that_is_a_number_stays_a_number(text: str) -> None:
    texts = sorted(["anna@example", text, *map(str, range(1, 9))])
    stand_ins = made(texts)
    moved = stand_ins.text(text)
    assert len(moved) == len(text)
    assert Decimal(moved).is_finite()
    assert [place for place, letter in enumerate(moved) if not letter.isdigit()] == [
        place for place, letter in enumerate(text) if not letter.isdigit()
    ]
    assert len(text) < 6 or moved != text
    assert len({stand_ins.text(own) for own in texts}) == len(set(texts))


def test_values_of_the_schema_and_blanks_stay() -> None:
    stand_ins = made(["", "   ", "active"], shown=("active",))
    assert [stand_ins.text(text) for text in ("", "   ", "active")] == ["", "   ", "active"]


@given(st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=50, unique=True))
def test_numbers_keep_order_and_sign_and_none_is_stored(values: list[int]) -> None:
    numbers = [Decimal(value) for value in sorted(values)]
    stand_ins = StandIns([], [str(value) for value in values], key=KEY)
    moved = stand_ins.numbers(numbers, Decimal(1))
    assert moved == sorted(moved)
    assert not {str(number) for number in moved if abs(number) >= 10**5} & set(map(str, values))


def test_a_number_does_not_begin_with_a_value_of_another_column() -> None:
    salaries = [1_123_457_003 + 7919 * n for n in range(120)]
    known = [*map(str, salaries), *(f"{salary}.5" for salary in salaries)]
    columns = (
        ([Decimal(salary * 1000) for salary in salaries], Decimal(1)),
        ([salary + Decimal("0.5") for salary in salaries], Decimal("0.1")),
    )
    # Without the rule, 6 of 150 keys made such a number.
    for number in range(60):
        stand_ins = StandIns([], known, key=number.to_bytes(32, "big"))
        for values, step in columns:
            moved = stand_ins.numbers(values, step)
            assert not {f"{value:f}"[:10] for value in moved} & set(map(str, salaries))
            assert moved == sorted(moved)


@pytest.mark.parametrize("first", [100_001, 2, -100_400])
def test_a_range_without_gaps_keeps_its_shape_and_shows_no_long_number(first: int) -> None:
    numbers = [Decimal(first + n) for n in range(300)]
    stand_ins = StandIns([], [str(number) for number in numbers], key=KEY)
    moved = stand_ins.numbers(numbers, Decimal(1))
    assert moved == sorted(moved)
    assert not {str(number) for number in moved if abs(number) >= 10**5} & set(map(str, numbers))
    assert abs((moved[-1] - moved[0]) - 299) <= 40


@pytest.mark.parametrize(
    ("kind", "value", "value_us"),
    [
        ("date", "1970-01-02", 86_400_000_000),
        ("timestamp", "1970-01-01 00:00:01.5", 1_500_000),
        ("timestamptz", "1970-01-01 02:00:00+02", 0),
        ("time", "00:00:01", 1_000_000),
        ("interval", "P1DT2S", 86_402_000_000),
        ("date", "infinity", None),
        ("timestamp", "0044-03-15 00:00:00 BC", None),
        ("interval", "P", None),
    ],
)
def test_times_are_microseconds(kind: str, value: str, value_us: int | None) -> None:
    read = times.microseconds(kind, value)
    assert read == value_us
    if read is not None:
        assert times.microseconds(kind, times.text_of(kind, read)) == read


def test_different_values_never_get_the_same_stand_in() -> None:
    for seed in range(40):
        stand_ins = StandIns([chr(97 + n) for n in range(26)], (), key=bytes([seed]) * 32)
        values = [Decimal(n) for n in (0, 1, 2, 3, 5, 6, 7, 100, 101, 102)]
        assert len(set(stand_ins.numbers(values, Decimal(1)))) == len(values), seed
        letters = {stand_ins.text(chr(97 + n)) for n in range(26)}
        assert len(letters) == 26, seed


def test_a_number_moves_anywhere_between_its_neighbours() -> None:
    # Bins of 2.5: the stand-in of 8675309.25 was 8675309.31.
    values = [Decimal("8675309.25") + Decimal("2.5") * n for n in range(101)]
    shifts = []
    for number in range(20):
        stand_ins = StandIns([], map(str, values), key=number.to_bytes(32, "big"))
        moved = stand_ins.numbers(values, Decimal("0.01"))
        shifts += [float(abs(new - old)) for new, old in zip(moved, values, strict=True)]
    near = sum(shift < 0.1 for shift in shifts) / len(shifts)
    assert near < 0.1
    assert sum(shifts) / len(shifts) > 0.5


def test_a_crowded_range_moves_by_a_distance_that_nobody_can_compute() -> None:
    values = [Decimal("8675309.25") + Decimal("0.01") * n for n in range(101)]
    distances = set()
    for number in range(20):
        stand_ins = StandIns([], map(str, values), key=number.to_bytes(32, "big"))
        moved = stand_ins.numbers(values, Decimal("0.01"))
        assert not set(moved) & set(values)
        distances.add(moved[0] - values[0])
    assert len(distances) > 10


@pytest.mark.parametrize(
    "values",
    [
        ["4111111111111111"],
        ["-4111111111111111"],
        ["123456.78"],
        ["4111111111111111", "4111111111111112"],
        ["-1000001", "-1000000", "-999999"],
        ["4111111111111111", "4111111111119999"],
    ],
)
def test_numbers_without_a_place_between_neighbours_move_far(values: list[str]) -> None:
    own, step = sorted(map(Decimal, values)), Decimal("0.01" if "." in values[0] else "1")
    for number in range(200):
        stand_ins = StandIns([], values, key=number.to_bytes(32))
        moved = stand_ins.numbers(own, step)
        for value, stand_in in zip(own, moved, strict=True):
            assert abs(value) / 300 < abs(stand_in - value) < abs(value) / 7
            assert stand_in * value > 0
    assert StandIns([], []).numbers([], step) == []


@pytest.mark.parametrize(
    "values", [["1", "2", "3"], ["-7", "-1", "4"], ["0.5", "900"], ["-2", "0"]]
)
def test_no_number_becomes_zero_or_changes_its_sign(values: list[str]) -> None:
    own, step = list(map(Decimal, values)), Decimal("0.1" if "." in values[0] else "1")
    for number in range(200):
        moved = StandIns([], values, key=number.to_bytes(32)).numbers(own, step)
        assert [(value > 0) - (value < 0) for value in moved] == [
            (value > 0) - (value < 0) for value in own
        ]


def test_words_stay_words_and_equal_ones_are_equal() -> None:
    texts = sorted(f"title{n} of the red book {n % 3}" for n in range(60))
    stand_ins = made(texts)
    replaced = [stand_ins.text(text) for text in texts]
    assert [text.count(" ") for text in replaced] == [5] * 60
    assert len({text.split()[4] for text in replaced}) == 1
    assert all("book" not in text and "red" not in text for text in replaced)
