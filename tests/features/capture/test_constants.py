"""Constants of a program in texts of pg_stat_statements, and how long lists of rows are."""

from __future__ import annotations

import pytest

from pgdyno.features.capture.reading.constants import constant_count, first_constant


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
