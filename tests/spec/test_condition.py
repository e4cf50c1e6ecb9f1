"""Conditions, read and judged on the unfavourable end."""

from __future__ import annotations

import pytest

from pgdyno.analysis.estimate import Estimate, without_interval
from pgdyno.analysis.gates import is_kept
from pgdyno.errors import SpecError
from pgdyno.spec.condition import WATCHED, condition_from, memory_limit_from, slo_from


@pytest.mark.parametrize(
    ("text", "limit", "unit"),
    [
        ("p99<20ms", 20, "ms"),
        ("p99 > 2s", 2000, "ms"),
        ("p999<800us", 0.8, "ms"),
        ("cpu_per_tx<2", 2, "ms"),
        ("tps>1000", 1000, "1/s"),
        ("tps_ratio>0.97", 0.97, "1"),
        ("wal_per_tx<8kB", 8192, "bytes"),
        ("duration<2min", 120, "s"),
    ],
)
def test_a_limit_is_held_in_the_metrics_own_unit(text: str, limit: float, unit: str) -> None:
    condition = condition_from(text)
    assert condition.limit == pytest.approx(limit)
    assert condition.unit == unit


@pytest.mark.parametrize(
    "text", ["p98<1ms", "p99=1", "tps_ratio>0.9s", "p99<", "tps<3ms", "p99<20 parsecs"]
)
def test_a_wrong_condition_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="is no"):
        condition_from(text)


@pytest.mark.parametrize(
    ("text", "at_limit"), [("p99<20ms", False), ("p99<=20ms", True), ("tps>=5", True)]
)
def test_only_a_condition_with_an_equals_sign_is_met_at_its_limit(
    text: str, at_limit: bool
) -> None:
    condition = condition_from(text)
    assert condition.is_met(condition.limit) == at_limit
    assert condition.text == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("p99=20sec", "sec is not a unit of p99"),
        ("p99=0ms", "must be above 0"),
        ("tps=5", "is not a latency target"),
        ("p99>5ms", "is not a latency target"),
        ("p99<<=20ms", "is not a latency target"),
    ],
)
def test_a_wrong_latency_target_is_refused_with_its_own_reason(text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        slo_from(text)


@pytest.mark.parametrize("text", ["memory<0%", "memory<700%", "memory<20MB", "memory>5%"])
def test_a_limit_on_memory_is_a_share_of_the_ram(text: str) -> None:
    with pytest.raises(SpecError, match="not a condition on memory"):
        memory_limit_from(text)
    assert memory_limit_from("memory < 70 %") == 0.7
    assert memory_limit_from("p99<1ms") is None


def test_a_brake_takes_only_what_is_known_every_second() -> None:
    with pytest.raises(SpecError, match="tps_ratio"):
        condition_from("tps_ratio<1", WATCHED)


@pytest.mark.parametrize(
    ("text", "kept"),
    [("p99<22ms", True), ("p99<20ms", False), ("p99>17ms", True), ("p99>19", False)],
)
def test_the_unfavourable_end_of_the_interval_decides(text: str, kept: bool) -> None:
    estimate = Estimate(19.5, 18, 21, 5, "ms", "between_runs")
    assert is_kept(condition_from(text), estimate) == kept


def test_a_number_without_an_interval_keeps_no_gate() -> None:
    assert not is_kept(condition_from("p99<20ms"), without_interval(1.0, "ms"))


def test_a_percentile_among_unfinished_transactions_keeps_no_upper_gate() -> None:
    censored = Estimate(5, 4, 6, 5, "ms", "within_run", censored=True)
    assert not is_kept(condition_from("p99<20ms"), censored)
