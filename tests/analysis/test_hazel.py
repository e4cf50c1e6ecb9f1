"""The published speed and correlations by hand, and what holding the load fixed does to them."""

from __future__ import annotations

import numpy as np
import pytest

from pgdyno.analysis.hazel import Window, hazel


def window(
    load: int, calls: float, rows: float | None = 0.0, *, active: float = 1.0, **waiting: float
) -> Window:
    return Window(
        load_count=load,
        calls_per_minute=calls,
        rows_per_minute=rows,
        waiting=waiting,
        active_count=active,
    )


def test_speed_is_statements_and_rows_a_minute_as_medians_of_what_came_before() -> None:
    correlations = hazel([window(1, calls, 10.0 * calls) for calls in (100, 300, 200, 400)])
    assert correlations is not None
    # Medians of 100; 100, 300; 100, 300, 200; and all four: of calls, and ten times that of rows.
    assert correlations.speeds_per_minute == (1100.0, 2200.0, 2200.0, 2750.0)
    assert correlations.has_rows


def test_without_counted_rows_speed_is_statements_alone() -> None:
    correlations = hazel([window(1, 100, None) for _ in range(4)])
    assert correlations is not None
    assert not correlations.has_rows
    assert correlations.speeds_per_minute == (100.0,) * 4


def test_the_weighted_correlation_has_its_published_bands() -> None:
    correlations = hazel([window(1, 100 - i, LWLock=1.0 + i, IO=0.001 * i) for i in range(5)])
    assert correlations is not None
    by_type = {wait.wait_type: wait for wait in correlations.waits}
    assert by_type["LWLock"].band == "critical"
    assert by_type["LWLock"].published_ratio == pytest.approx(-1.0)
    assert by_type["IO"].band == "ignore"


def test_a_ramp_of_load_makes_a_correlation_that_fixed_load_does_not_have() -> None:
    rng = np.random.default_rng(1)
    # Speed falls and locks grow with the load alone; within a level they have nothing in common.
    windows = [
        window(
            load,
            10_000 / load * rng.normal(1, 0.01),
            active=load,
            Lock=load * (0.1 + 0.02 * load) * rng.normal(1, 0.05),
        )
        for load in (1, 2, 4, 8, 16, 32)
        for _ in range(10)
    ]
    correlations = hazel(windows)
    assert correlations is not None
    [lock] = correlations.waits
    assert lock.published_ratio is not None
    assert lock.published_ratio < -0.5
    assert lock.low_ratio is not None
    assert lock.high_ratio is not None
    assert lock.low_ratio < 0 < lock.high_ratio


def test_waits_that_do_slow_the_load_down_are_found_at_fixed_load() -> None:
    rng = np.random.default_rng(2)
    windows = []
    for load in (4, 8):
        for _ in range(20):
            share = rng.uniform(0.1, 0.5)
            windows.append(window(load, 1000 * load * (1 - share), active=load, IO=load * share))
    correlations = hazel(windows)
    assert correlations is not None
    [io] = correlations.waits
    assert io.high_ratio is not None
    assert io.high_ratio < -0.9


def test_too_few_windows_say_nothing() -> None:
    assert hazel([window(1, 100)] * 3) is None
    correlations = hazel([window(i, 100 + i, Lock=0.1 * i) for i in range(1, 5)])
    assert correlations is not None
    assert correlations.waits[0].corrected_ratio is None
