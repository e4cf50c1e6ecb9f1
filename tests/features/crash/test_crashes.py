"""Bounds of shares of crashes, and the line of recovery times."""

from __future__ import annotations

import pytest

from pgdyno.errors import AnalysisError
from pgdyno.features.crash.crashes import recovery_line, share_of_crashes


@pytest.mark.parametrize(("crashes", "percent"), [(30, 9.5), (60, 4.9), (300, 1.0)])
def test_no_loss_in_k_crashes_has_the_bound_of_one_side(crashes: int, percent: float) -> None:
    share = share_of_crashes(0, crashes)
    assert share.low == 0
    assert share.high == pytest.approx(1 - 0.05 ** (1 / crashes))
    assert 100 * share.high == pytest.approx(percent, abs=0.05)


def test_losses_have_the_exact_binomial_interval() -> None:
    # Clopper and Pearson for 3 of 60 and 58 of 60, as R's binom.test prints them.
    share = share_of_crashes(3, 60)
    assert (share.low, share.high) == (
        pytest.approx(0.0104, abs=5e-4),
        pytest.approx(0.139, abs=5e-4),
    )
    share = share_of_crashes(58, 60)
    assert (share.low, share.high) == (
        pytest.approx(0.885, abs=5e-4),
        pytest.approx(0.9959, abs=5e-4),
    )


def test_loss_in_every_crash_is_bounded_from_below() -> None:
    share = share_of_crashes(60, 60)
    assert share.high == 1
    assert share.low == pytest.approx(0.05 ** (1 / 60))


def test_a_share_of_no_crashes_is_refused() -> None:
    with pytest.raises(AnalysisError, match="n > 0"):
        share_of_crashes(0, 0)


def test_recovery_is_predicted_from_the_wal() -> None:
    # 0.5 s and 1 s for each GB, with errors that the line does not see.
    wal = [1e8, 2e8, 3e8, 4e8, 5e8, 6e8]
    seconds = [0.5 + x / 1e9 + error for x, error in zip(wal, [0.01, -0.01] * 3, strict=True)]
    line = recovery_line(wal, seconds)
    assert line is not None
    assert line.rate.value == pytest.approx(1e-9, rel=0.05)
    predicted = line.at(1e10)
    assert predicted.low is not None
    assert predicted.high is not None
    assert predicted.low < 10.5 < predicted.high


def test_no_line_is_drawn_where_the_wal_explains_nothing() -> None:
    assert recovery_line([1e6, 2e6, 3e6, 4e6], [0.5, 0.2, 0.6, 0.3]) is None
    assert recovery_line([1e6, 2e6], [0.1, 0.2]) is None
