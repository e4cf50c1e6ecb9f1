"""How many transactions ended: sessions report them late, and a load may begin meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import pytest

from pgdyno.features.capture.observed import Counters
from pgdyno.features.capture.reading.counted import Counted, Snapshot, Totals


def counted(calls: Sequence[int], ended: Sequence[float]) -> Counted:
    """Return what was counted: calls in each interval, and transactions until each snapshot."""
    snapshots = [
        Snapshot({(1, 1): Counters(calls=total)}, 0, "", ended_count=round(until))
        for total, until in zip(accumulate(calls, initial=0), ended, strict=True)
    ]
    totals = Totals(commits=round(ended[-1] - ended[0]))
    return Counted(first=snapshots[0], snapshots=snapshots[1:], totals=totals)


@pytest.mark.parametrize("idle_count", [0, 1, 4])
def test_a_load_that_begins_in_the_capture_has_all_its_transactions(idle_count: int) -> None:
    # A transaction has ten calls; half a second's transactions are reported later.
    calls = [0] * idle_count + [10_000] * 10
    began = [0.0] * (idle_count + 1)
    late = [*began, *(1000 * n - 250 for n in range(1, 11))]
    assert counted(calls, late).ended() == pytest.approx(10_000, abs=2)
    assert late[-1] == 9750


def test_a_load_that_ends_in_the_capture_has_all_its_transactions() -> None:
    # Then pgdyno's own statements are the only ones.
    calls = [10_000, 10_000, 5_000, 3, 3, 3]
    assert counted(calls, [0, 750, 1750, 2500, 2500, 2500, 2500]).ended() == 2500
    assert counted([500, 3, 3], [0, 40, 50, 50]).ended() == 50


def test_a_short_capture_or_an_old_one_has_what_the_server_counted() -> None:
    assert counted([100, 100], [0, 8, 18]).ended() == 18
    assert counted([100] * 8, [0] * 9).ended() == 0
