"""Two bounds of one range in a log: the second is never below the first in a mirror."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from pgdyno.features.capture.model import Between
from pgdyno.features.capture.reading.log_dependencies import Earlier, dependency
from pgdyno.features.capture.reading.observed import Observed
from pgdyno.features.capture.reading.parameter_uses import Parameter

NOW = datetime(2026, 11, 20, tzinfo=UTC)


def bounds(column: str, operators: tuple[str, str]) -> list[Observed]:
    """Return a bound up to 100 hours before now, and one up to 100 hours after it."""
    rng = random.Random(1)
    made = []
    for position, (sign, operator) in enumerate(zip((-1, 1), operators, strict=True)):
        use = Parameter("range", "public.ticket", column if position else "due", operator)
        hours = [timedelta(hours=sign * rng.randrange(100)) for _ in range(60)]
        values = [(NOW + own).isoformat(sep=" ") for own in hours]
        made.append(Observed(0, position, use, "timestamptz", list(range(60)), values, ()))
    return made


@pytest.mark.parametrize("operators", [("BETWEEN", "BETWEEN"), (">=", "<")])
def test_the_second_bound_of_a_range_follows_from_the_first(operators: tuple[str, str]) -> None:
    first, second = bounds("due", operators)
    source = dependency(second, Earlier(known=[(None, first)]))
    assert isinstance(source, Between)
    assert 0 <= source.least < source.most <= 200 * 3600


def test_bounds_of_different_columns_do_not_follow_from_each_other() -> None:
    first, second = bounds("made", (">=", "<"))
    assert dependency(second, Earlier(known=[(None, first)])) is None
