"""Logs of programs that send hundreds of parameters in one statement."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pgdyno.features.capture.reading.log_dependencies import Earlier, dependency
from pgdyno.features.capture.reading.observed import Observed, paired
from pgdyno.features.capture.reading.parameter_uses import Parameter


def observed(position: int, values: list[str], instances: list[int]) -> Observed:
    return Observed(0, position, Parameter("insert"), "text", instances, values, ())


class Unread(list[object]):
    """Earlier parameters that nobody may look at."""

    def __iter__(self) -> Iterator[object]:
        raise AssertionError("each parameter would be compared with all before it")


def test_values_that_are_too_few_for_a_dependency_are_compared_with_no_others() -> None:
    earlier = Earlier(known=Unread())  # type: ignore[arg-type]
    assert dependency(observed(1, ["a", "b"], [0, 1]), earlier) is None


@pytest.mark.parametrize("instances", [[0, 1, 2], [0, 0, 1]])
def test_parameters_of_the_same_turns_are_paired_one_by_one(instances: list[int]) -> None:
    own, other = (observed(n, ["a", "b", "c"], list(instances)) for n in (0, 1))
    assert paired(own, other) == ([0, 1, 2], [0, 1, 2])
    assert paired(own, other, 2) == ([0, 1], [0, 1])
