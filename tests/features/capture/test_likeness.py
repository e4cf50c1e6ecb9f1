"""How alike a column of a copy is: chance decides in a table of few rows, and nowhere else."""

from __future__ import annotations

import pytest
from tests.fixtures.captures import evenly

from pgdyno.engine.distribution import Distribution, Hot
from pgdyno.features.capture.likeness import compared


@pytest.mark.parametrize(("rows", "verdicts"), [(10, ("pass", "pass")), (400, ("short", "short"))])
def test_one_value_of_ten_is_no_difference(rows: float, verdicts: tuple[str, str]) -> None:
    source = evenly("integer", *map(str, range(10)), distinct=rows)
    copy = evenly("integer", *map(str, range(1, 11)), distinct=rows)
    quantities = compared(source, copy, rows=rows, source_correlation=0.2, copy_correlation=-0.3)
    by_name = {quantity.name: quantity for quantity in quantities}
    assert (by_name["distance"].verdict, by_name["correlation"].verdict) == verdicts
    assert by_name["distance"].copy == pytest.approx(1 / 9)


def test_a_column_whose_statistics_were_hidden_is_not_compared() -> None:
    hidden = Distribution(kind="integer", distinct=1)
    copy = Distribution(kind="integer", distinct=1, hot=(Hot(value="7", fraction=1.0),))
    quantities = compared(hidden, copy, rows=100, source_correlation=None, copy_correlation=1.0)
    assert {(item.source, item.verdict) for item in quantities} == {(None, "unknown")}
