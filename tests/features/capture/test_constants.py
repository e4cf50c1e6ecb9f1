"""Constants of a program in texts of pg_stat_statements, and how long lists of rows are."""

from __future__ import annotations

import pytest
from tests.fixtures.captures import column

from pgdyno.engine.distribution import Distribution, Hot
from pgdyno.features.capture.reading.constants import constant_count, first_constant
from pgdyno.features.capture.reading.numbered import length_of


@pytest.mark.parametrize(
    ("text", "first", "count"),
    [
        # The program numbers in its order: that $2 comes after $3 shows the constant.
        ("UPDATE a SET x = x + $1, n = n + $3 WHERE id = $2", 3, 1),
        ("SELECT x FROM a WHERE $2 = $2 AND x < $3 AND y = $1 AND z = $4", 3, 2),
        # Nothing shows where the constants begin.
        ("SELECT x FROM a WHERE y = $1 AND z = $2", 3, 0),
        ("SELECT x FROM a", 1, 0),
    ],
)
def test_constants_have_the_numbers_after_those_of_the_program(
    text: str, first: int, count: int
) -> None:
    assert (first_constant(text), constant_count(text)) == (first, count)


def shape(*shares: float, first: int = 1) -> Distribution:
    hot = tuple(Hot(value=str(first + n), fraction=share) for n, share in enumerate(shares))
    return Distribution(kind="integer", distinct=len(hot), hot=hot)


def test_numbers_of_rows_tell_how_many_rows_are_added_together() -> None:
    # Of ten lists all have two rows, half have a third, and one has a fourth.
    shares = [10 / 26, 10 / 26, 5 / 26, 1 / 26]
    length = length_of(column("public.lines.number", "integer", shape(*shares)))
    assert length is not None
    assert (length.least, length.most) == (2, 4)
    assert length.mean == pytest.approx(2.6)
    from_zero = length_of(column("public.lines.number", "integer", shape(*shares, first=0)))
    assert from_zero == length


@pytest.mark.parametrize("shares", [(0.2, 0.5, 0.3), (1.0,)])
def test_other_numbers_tell_nothing(shares: tuple[float, ...]) -> None:
    assert length_of(column("public.lines.number", "integer", shape(*shares))) is None
