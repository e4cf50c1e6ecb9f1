"""Counters into differences: resets, wraps and gaps dropped and said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pgdyno.observe.collector import Column, counter, gauge, key
from pgdyno.observe.rates import deltas, since_zero

SECOND = 1_000_000_000
COLUMNS = (
    key("device", "which"),
    counter("reads", "requests", "reads"),
    counter("time_ns_used", "ns", "time"),
    gauge("queue", "requests", "now"),
)


def samples(reads: list[float], used: list[float] | None = None, **more: Any) -> dict[str, Any]:
    count = len(reads)
    return {
        "time_ns": np.arange(count, dtype=np.int64) * SECOND,
        "interval_ns": np.array([0] + [SECOND] * (count - 1), dtype=np.int64),
        "device": np.array(["sda"] * count, dtype=object),
        "reads": np.array(reads),
        "time_ns_used": np.array(used or range(count)),
        "queue": np.zeros(count),
    } | more


def test_differences_and_rates_are_of_each_interval() -> None:
    (growth,) = deltas(samples([5, 7, 12], time_ns=np.array([0, 1, 3]) * SECOND), COLUMNS)
    assert growth.key == {"device": "sda"}
    assert growth.by_column["reads"].tolist() == [2, 5]
    assert growth.per_second("reads").tolist() == [2, 2.5]
    assert "queue" not in growth.by_column


def test_each_key_has_its_own_differences_whatever_the_order_of_rows() -> None:
    arrays = samples([0, 100, 1, 103])
    arrays["device"] = np.array(["b", "a", "b", "a"], dtype=object)
    arrays["time_ns"] = np.array([0, 0, SECOND, SECOND])
    arrays["interval_ns"] = np.array([0, 0, SECOND, SECOND])
    first, second = deltas(arrays, COLUMNS)
    assert (first.key, first.by_column["reads"].tolist()) == ({"device": "a"}, [3])
    assert (second.key, second.by_column["reads"].tolist()) == ({"device": "b"}, [1])


def test_a_counter_that_fell_is_a_reset_and_the_interval_is_dropped() -> None:
    (growth,) = deltas(samples([5, 9, 2, 6]), COLUMNS)
    assert growth.by_column["reads"].tolist() == [4, 4]
    assert growth.time_ns.tolist() == [SECOND, 3 * SECOND]


def test_a_reset_that_the_counters_hide_is_seen_by_its_time() -> None:
    arrays = samples([5, 9, 12], stats_reset_ns=np.array([1, 7, 7]))
    (growth,) = deltas(arrays, COLUMNS)
    assert growth.by_column["reads"].tolist() == [3]
    assert growth.time_ns.tolist() == [2 * SECOND]


def test_a_counter_that_began_again_at_its_end_is_dropped_as_a_reset_is() -> None:
    (growth,) = deltas(samples([1, 2, 3], [(1 << 32) - 5, 10, 20]), COLUMNS)
    assert growth.time_ns.tolist() == [2 * SECOND]
    assert growth.by_column["time_ns_used"].tolist() == [10]


def test_an_interval_after_a_gap_is_dropped() -> None:
    arrays = samples([5, 9, 12])
    arrays["interval_ns"][2] = 0
    (growth,) = deltas(arrays, COLUMNS)
    assert growth.by_column["reads"].tolist() == [4]
    assert growth.time_ns.tolist() == [SECOND]


def test_a_counter_that_dips_is_read_as_not_grown() -> None:
    columns = (Column("reads", "int64", "n", "m", "counter", dips=True),)
    (growth,) = deltas(samples([5, 4, 9]), columns)
    assert growth.by_column["reads"].tolist() == [0, 5]


def test_a_counter_that_is_not_measured_stays_not_a_number() -> None:
    (growth,) = deltas(samples([float("nan")] * 3), COLUMNS)
    assert np.isnan(growth.by_column["reads"]).all()
    assert growth.by_column["time_ns_used"].tolist() == [1, 1]


def test_a_total_counts_parts_of_intervals_in_proportion() -> None:
    (growth,) = deltas(samples([0, 10, 30, 60]), COLUMNS)
    assert growth.total("reads", SECOND // 2, 5 * SECOND // 2) == pytest.approx(5 + 20 + 15)


def test_a_total_over_a_dropped_interval_is_not_a_number() -> None:
    (growth,) = deltas(samples([5, 9, 2, 6]), COLUMNS)
    assert np.isnan(growth.total("reads", 0, 3 * SECOND))
    assert growth.total("reads", 0, SECOND) == 4


def test_no_samples_or_one_give_no_differences() -> None:
    assert deltas(samples([]), COLUMNS) == []
    (growth,) = deltas(samples([4]), COLUMNS)
    assert growth.time_ns.size == 0


def test_counters_first_listed_in_a_whole_list_began_at_zero() -> None:
    arrays = samples([5, 7, 30, 9, 31])
    arrays["device"] = np.array(["a", "a", "b", "a", "b"], dtype=object)
    arrays["time_ns"] = np.array([0, 1, 1, 2, 2]) * SECOND
    arrays["interval_ns"] = np.array([0, 1, 1, 1, 1]) * SECOND
    _, late = deltas(since_zero(arrays, COLUMNS, rows_max=2), COLUMNS)
    assert late.by_column["reads"].tolist() == [30, 1]
    assert late.time_ns.tolist() == [SECOND, 2 * SECOND]
    # A list that was cut does not say where something stood that was not in it.
    _, late = deltas(since_zero(arrays, COLUMNS, rows_max=1), COLUMNS)
    assert late.by_column["reads"].tolist() == [1]


def test_counters_first_listed_after_a_gap_have_an_unknown_begin() -> None:
    arrays = samples([5, 30, 31])
    arrays["device"] = np.array(["a", "b", "b"], dtype=object)
    arrays["interval_ns"] = np.array([0, 0, SECOND])
    (_, late) = deltas(since_zero(arrays, COLUMNS, rows_max=9), COLUMNS)
    assert late.by_column["reads"].tolist() == [1]
