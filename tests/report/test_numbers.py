"""Numbers become words: digits by interval, units, bounds."""

from __future__ import annotations

import pytest

from pgdyno import quantities
from pgdyno.analysis.estimate import Estimate, mean_between_runs, without_interval
from pgdyno.analysis.rounding import ends_text
from pgdyno.report import numbers


def between(value: float, low: float, high: float, unit: str = "tps") -> Estimate:
    return Estimate(value, low, high, 12, unit, "within_run")


@pytest.mark.parametrize(
    ("value", "low", "high", "words"),
    [
        (1892.35, 1861.2, 1923.4, "1,892 (1,861 to 1,923)"),
        (3412, 3352, 3472, "3,410 (3,350 to 3,470)"),
        (61_812, 60_912, 62_712, "61,800 (60,900 to 62,700)"),
        (24.81, 23.32, 26.30, "24.8 (23.3 to 26.3)"),
        (0.01234, 0.01201, 0.01267, "0.0123 (0.0120 to 0.0127)"),
        (-0.2, -0.5, 0.1, "-0.20 (-0.50 to 0.10)"),
        (9.2, 8.22, 10.18, "9.2 (8.2 to 10.2)"),
    ],
)
def test_digits_follow_the_half_width_of_the_interval(
    value: float, low: float, high: float, words: str
) -> None:
    assert numbers.estimate_text(between(value, low, high)) == words


@pytest.mark.parametrize(
    ("value", "low", "high", "words"),
    [
        (1902.04, 1901.91, 1902.17, "1,902.0 (1,901.9 to 1,902.2)"),
        (11.0004, 11.0001, 11.0007, "11.000 (11.000 to 11.001)"),
        (31.2, 31.1, 31.3, "31.2 (31.1 to 31.3)"),
        (31.2, 31.2, 31.2 + 1e-14, "31.2 (31.2 to 31.2)"),
        (7.96, 7.951, 7.969, "7.96 (7.95 to 7.97)"),
    ],
)
def test_a_number_has_three_digits_unless_its_ends_would_be_equal(
    value: float, low: float, high: float, words: str
) -> None:
    assert numbers.estimate_text(between(value, low, high)) == words


def test_two_digits_of_the_value_stay_when_the_interval_is_wider_than_it() -> None:
    assert numbers.estimate_text(between(12.3, 0.4, 90.0)) == "12 (0.4 to 90)"


def test_an_interval_of_width_zero_says_nothing_about_digits() -> None:
    assert numbers.estimate_text(between(7.25, 7.25, 7.25)) == "7.25 (7.25 to 7.25)"


def test_a_single_value_is_whole_and_says_that_it_has_no_interval() -> None:
    alone = without_interval(8214, "tps")
    assert numbers.estimate_text(alone) == "8,214 (no interval: n = 1)"
    assert numbers.precision_text(alone) == ""


@pytest.mark.parametrize(
    ("values", "words"),
    [
        # t is 12.7 with two runs: 88 x and / e^6.5, which is 672.
        ([53.0, 147.0], "100 ms (no interval yet: n = 2)"),
        ([99.0, 101.0], "100 ms (88 to 114)"),
        # 4.3 with three runs, and 2.4 with seven: these ends say something.
        ([60.0, 100.0, 140.0], "100 ms (30 to 290)"),
        ([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 694.0], "100 ms (10 to 980)"),
    ],
)
def test_an_interval_over_orders_of_magnitude_is_not_shown(values: list[float], words: str) -> None:
    assert numbers.estimate_text(mean_between_runs(values, "ms"), with_unit=True) == words


def test_a_censored_value_is_a_lower_bound_without_upper_end() -> None:
    bound = Estimate(2210.0, 1980.0, None, 4, "ms", "within_run", censored=True)
    assert numbers.estimate_text(bound) == ">= 2,210 (at least 1,980)"


def test_the_unit_follows_the_value_on_request() -> None:
    words = numbers.estimate_text(between(58.8, 56.1, 61.5, "ms"), with_unit=True)
    assert words == "58.8 ms (56.1 to 61.5)"


def test_the_half_width_is_given_in_percent_of_the_value() -> None:
    assert numbers.precision_text(between(200, 190, 210)) == "±5 %"


@pytest.mark.parametrize(
    ("value", "words"),
    [(0, "0"), (340_623, "340,623"), (8.456, "8.46"), (0.04, "0.0400"), (-0.0001, "-0.000100")],
)
def test_numbers_without_interval_have_three_digits_but_keep_whole_ones(
    value: float, words: str
) -> None:
    assert quantities.plain(value) == words


@pytest.mark.parametrize(
    ("value", "words"), [(2500, "2,500"), (0.5, "0.5"), (50.0, "50"), (0, "0")]
)
def test_tick_labels_have_no_trailing_zeros(value: float, words: str) -> None:
    assert quantities.tick(value) == words


@pytest.mark.parametrize(
    ("value_s", "words"),
    [(0.25, "250 ms"), (30, "30 s"), (12.5, "12.5 s"), (1085, "18 min"), (7500, "2 h 05 min")],
)
def test_elapsed_times_have_the_unit_a_person_would_choose(value_s: float, words: str) -> None:
    assert quantities.seconds(value_s) == words


@pytest.mark.parametrize(
    ("value_ms", "words"),
    [(0, "0 ms"), (0.00741, "7.4 us"), (0.023, "23 us"), (8.46, "8.46 ms"), (12_500, "12.5 s")],
)
def test_durations_are_us_ms_or_s(value_ms: float, words: str) -> None:
    assert quantities.milliseconds(value_ms) == words


@pytest.mark.parametrize(
    ("value_ms", "half_ms", "words"),
    [(0.00741, 0.0009, "7.4 us"), (0.0741, 0.00002, "74.10 us"), (1.234, 0.06, "1.23 ms")],
)
def test_a_duration_with_an_interval_keeps_the_digits_that_it_supports(
    value_ms: float, half_ms: float, words: str
) -> None:
    ends = (value_ms - half_ms, value_ms + half_ms)
    estimate = Estimate(value_ms, *ends, 5, "ms", "between_runs")
    assert numbers.duration_text(estimate) == words


@pytest.mark.parametrize(
    ("value_bytes", "words"),
    [(512, "512 B"), (7.3 * 1024**3, "7.3 GB"), (153 * 1024**2, "153 MB"), (2048, "2 kB")],
)
def test_sizes_use_powers_of_1024_as_the_server_does(value_bytes: int, words: str) -> None:
    assert quantities.format_bytes(value_bytes) == words


@pytest.mark.parametrize(
    ("ratio", "words"), [(0.62, "62 %"), (0.005, "0.5 %"), (0.0004, "< 0.1 %"), (0, "0 %")]
)
def test_shares_keep_a_decimal_below_ten_percent(ratio: float, words: str) -> None:
    assert quantities.percent(ratio) == words


def test_a_percentile_never_looks_like_more_than_the_maximum() -> None:
    p999 = Estimate(1_996.0, 1_500.0, None, 6, "ms", "within_run")
    assert numbers.value_text(p999) == "2,000"
    assert numbers.value_text(p999, most=1_998.0) == "1,996"


def test_a_lower_end_above_0_is_not_written_as_0() -> None:
    mean = Estimate(12.0, 0.04, 30.0, 6, "ms", "within_run")
    assert numbers.interval_text(mean) == "0.04 to 30"


@pytest.mark.parametrize(
    ("low", "high", "ends"),
    [(0.004, 65.0, "+0.004 to +65"), (-65.0, -0.004, "-65 to -0.004"), (0.0, 65.0, "0 to +65")],
)
def test_an_end_that_decides_shows_its_side_of_0(low: float, high: float, ends: str) -> None:
    assert ends_text(low, high, 0, is_signed=True) == ends


def test_a_difference_that_may_be_none_has_no_digits_beyond_its_interval() -> None:
    assert numbers.estimate_text(between(-0.0070, -0.6876, 0.6768)) == "0.0 (-0.7 to 0.7)"


@pytest.mark.parametrize(
    ("value", "words"),
    [(7.96, "7.96"), (7.9602, "7.96"), (7.9e-7, "< 0.001"), (0.0, "0"), (340623.4, "340,623")],
)
def test_a_legend_has_three_digits(value: float, words: str) -> None:
    assert quantities.short(value) == words
