"""The first and the last day that a program knows, such as a time that was never set."""

from __future__ import annotations

from decimal import Decimal

import pytest

from pgdyno.features.capture.reading import times


@pytest.mark.parametrize("kind", ["date", "timestamp", "timestamptz"])
@pytest.mark.parametrize("days", [-1_000_000, 3_000_000])
def test_a_stand_in_beyond_the_calendar_is_its_first_or_last_day(kind: str, days: int) -> None:
    text = times.text_of(kind, Decimal(days * times.DAY_US))
    assert text.startswith("0001-01-01" if days < 0 else "9999-12-31")
    assert times.microseconds(kind, text) is not None
