"""Thinning keeps what a mean would hide."""

from __future__ import annotations

from pgdyno.report.chart import thin, thin_axis


def test_a_short_series_is_left_as_it_is() -> None:
    thinned = thin((1.0, None, 3.0), 10)
    assert thinned.mean == (1.0, None, 3.0)
    assert thinned.low is None


def test_minimum_and_maximum_of_every_bucket_survive() -> None:
    thinned = thin((1.0, 9.0, 2.0, 4.0), 2)
    assert thinned.mean == (5.0, 3.0)
    assert thinned.low == (1.0, 2.0)
    assert thinned.high == (9.0, 4.0)


def test_a_spike_of_one_second_in_an_hour_is_still_there() -> None:
    values = [1.0] * 3600
    values[1234] = 500.0
    thinned = thin(values)
    assert len(thinned.mean) == 600
    assert thinned.high is not None
    assert max(v for v in thinned.high if v is not None) == 500.0


def test_a_bucket_of_gaps_stays_a_gap_and_gaps_do_not_dilute_a_mean() -> None:
    thinned = thin((None, None, 4.0, None), 2)
    assert thinned.mean == (None, 4.0)


def test_the_axis_is_thinned_into_the_same_buckets() -> None:
    assert thin_axis((0.0, 1.0, 2.0, 3.0), 2) == (0.5, 2.5)
    assert len(thin_axis(tuple(range(3601)))) == len(thin([0.0] * 3601).mean)
