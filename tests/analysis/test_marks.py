"""Marks of a time line: all of them while they are few, the nearest as one when they are many."""

from __future__ import annotations

from pgdyno.analysis.findings import Mark
from pgdyno.answer.marks import MARKS_MAX, nearest_merged


def checkpoints(count: int, *, every_s: float = 300.0) -> list[Mark]:
    return [Mark(place * every_s, "checkpoint", "checkpoint (a)") for place in range(count)]


def deadlocks(count: int, *, from_s: float = 0.0, every_s: float = 0.5) -> list[Mark]:
    return [Mark(from_s + place * every_s, "error", f"log: {place}") for place in range(count)]


def test_as_many_as_can_be_shown_stay_as_they_are_in_order_of_time() -> None:
    marks = checkpoints(MARKS_MAX)
    assert nearest_merged(reversed(marks)) == tuple(marks)
    assert nearest_merged([]) == ()


def test_rows_beyond_the_limit_are_counted_in_a_row_that_is_shown() -> None:
    marks = [*deadlocks(7200), *checkpoints(12)]
    shown = nearest_merged(marks)
    assert 50 < len(shown) <= MARKS_MAX
    assert sum(mark.count for mark in shown) == len(marks)
    assert sum(mark.count for mark in shown if mark.kind == "checkpoint") == 12
    assert [mark.time_s for mark in shown] == sorted(mark.time_s for mark in shown)


def test_a_rare_event_is_not_merged_with_frequent_ones() -> None:
    marks = [*deadlocks(400, from_s=1000.0, every_s=0.01), *checkpoints(12)]
    shown = nearest_merged(marks)
    assert [mark for mark in shown if mark.kind == "checkpoint"] == checkpoints(12)


def test_a_mark_of_several_says_how_many_within_which_time() -> None:
    shown = nearest_merged(deadlocks(9, from_s=5.0), at_most=2)
    assert [mark.count for mark in shown] == [5, 4]
    assert shown[0] == Mark(5.0, "error", "5 within 2 s, the first: log: 0", 5)
    [alike] = nearest_merged(checkpoints(3, every_s=1.5), at_most=1)
    assert alike.text == "3 within 3 s, each checkpoint (a)"


def test_many_at_one_instant_are_one() -> None:
    assert nearest_merged(deadlocks(50, every_s=0.0), at_most=1)[0].count == 50
