"""A statement whose answer does not come is given up; one that is answered late is not."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from itertools import repeat

import pytest
from psycopg.abc import PQGen
from psycopg.waiting import Ready, Wait

from pgdyno.clock import thread_cpu_ns
from pgdyno.server import silence as limits
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


def test_time_in_which_an_answer_is_read_counts_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def read_slowly() -> Generator[Wait, Ready, str]:
        while True:
            until_ns = thread_cpu_ns() + 20_000_000
            while thread_cpu_ns() < until_ns:
                pass
            yield Wait.R

    monkeypatch.setattr(limits, "ANSWER_S_MAX", 0.2)
    monkeypatch.setattr(limits, "_PAUSE_S_MAX", 0.001)
    waiting = hearing(read_slowly(), None)
    next(waiting)
    with pytest.raises(NoAnswer, match="the answer had not ended"):
        looked(waiting, repeat(Ready.R, 20))
