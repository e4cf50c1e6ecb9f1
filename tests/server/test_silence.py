"""A statement whose answer does not come is given up; one that is answered late is not."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from itertools import repeat

import pytest
from psycopg.abc import PQGen
from psycopg.waiting import Ready, Wait

from pgdyno.server.silence import LOOK_S, NoAnswer, hearing

LOOKS = round(2 / LOOK_S)


def two_answers() -> Generator[Wait, Ready, str]:
    first = yield Wait.R
    second = yield Wait.RW
    return f"{first.name} {second.name}"


def looked(waiting: PQGen[str], waits: Iterable[Ready]) -> None:
    for silence in waits:
        waiting.send(silence)


def test_an_answer_is_passed_on_however_often_it_was_looked_for_before() -> None:
    waiting, silence = hearing(two_answers(), 2), [Ready.NONE] * (LOOKS - 1)
    assert next(waiting) is Wait.R
    looked(waiting, [*silence, Ready.R, *silence])
    with pytest.raises(StopIteration) as done:
        waiting.send(Ready.W)
    assert done.value.value == "R W"


def test_a_silence_that_is_too_long_is_an_error() -> None:
    waiting = hearing(two_answers(), 2)
    assert next(waiting) is Wait.R
    assert waiting.send(Ready.R) is Wait.RW
    with pytest.raises(NoAnswer, match="nothing came back for 2 s"):
        looked(waiting, repeat(Ready.NONE, LOOKS))


def test_a_statement_that_needs_no_answer_has_its_result() -> None:
    def at_once() -> Generator[Wait, Ready, int]:
        return 7
        yield Wait.R

    with pytest.raises(StopIteration) as done:
        next(hearing(at_once(), 2))
    assert done.value.value == 7
