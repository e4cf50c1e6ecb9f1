"""How many different values a table has, from the server's estimate of this number."""

from __future__ import annotations

import pytest

from pgdyno.engine.distribution import Distribution, Hot
from pgdyno.features.capture.ranks import as_counted, estimated_distinct


def distribution(distinct: float, *, hot: float, bounds: tuple[str, ...]) -> Distribution:
    common = (Hot(value="7", fraction=hot),) if hot else ()
    return Distribution(kind="integer", distinct=distinct, hot=common, bounds=bounds)


def test_a_column_of_common_and_unique_values_has_more_than_the_estimate() -> None:
    # 60,000 rows, 24,000 of them with a unique value: ANALYZE finds 15,000 in its sample.
    whole = distribution(24_001, hot=0.6, bounds=("0", "1000000000"))
    assert estimated_distinct(whole, 60_000) == pytest.approx(15_002, rel=0.001)
    estimated = whole.model_copy(update={"distinct": 15_002})
    assert as_counted(estimated, 60_000).distinct == pytest.approx(24_001, rel=0.01)


def test_the_estimate_of_a_small_table_is_its_number() -> None:
    estimated = distribution(1200, hot=0.6, bounds=("0", "1000000"))
    assert as_counted(estimated, 4000) == estimated
    assert estimated_distinct(estimated, 4000) == pytest.approx(1200)


def test_no_more_values_are_asked_for_than_fit_between_the_bounds() -> None:
    full = distribution(500, hot=0, bounds=("0", "100"))
    made = as_counted(full, 1_000_000)
    assert made.distinct < 0.99 * 1_000_000
    assert estimated_distinct(made, 1_000_000) == pytest.approx(100, rel=0.01)
