"""Where the time goes: how sure each part is, and which parts are counted rather than sampled."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.analysis.where_samples import MS, exact, facts, samples

from pgdyno.analysis import where as where_module
from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.where import where_the_time_goes
from pgdyno.analysis.where_facts import WaitSamples


def test_intervals_come_from_the_samples_and_exact_parts_have_none() -> None:
    where = where_the_time_goes(
        facts(
            samples=samples({"IO:WALSync": 3.0, "": 1.0}),
            engine_round_trip_count=7,
            exchange_ns=1e4,
        ),
        seed=1,
    )
    by_name = {part.name: part.ms for part in where.parts}
    sync = by_name["IO:WALSync"]
    assert sync.low is not None
    assert sync.high is not None
    # Share 3/4 of 600 x 4 sessions; about binomial: 8 ms * sqrt(.75 * .25 / 2400) * 2.26 * 2.
    assert sync.high - sync.low == pytest.approx(8 * math.sqrt(0.1875 / 2400) * 4.52, rel=0.5)
    assert not by_name["network"].has_interval


@pytest.mark.parametrize(
    ("value", "low", "high", "clipped"),
    [(-0.1, -0.3, -0.05, (0.0, 0.0, 0.0)), (-0.1, -0.3, 0.2, (0.0, 0.0, 0.2))],
)
def test_value_and_interval_of_a_part_agree_if_it_is_negative_within_its_error(
    value: float, low: float, high: float, clipped: tuple[float, float, float]
) -> None:
    part = where_module._above_zero(Estimate(value, low, high, 9, "ms", "within_run"))
    assert (part.value, part.low, part.high) == clipped


def test_a_part_in_every_sample_may_still_be_less_than_the_whole() -> None:
    where = where_the_time_goes(facts(samples=exact({"Timeout:PgSleep": 4})), seed=1)
    [part] = where.parts
    # 100 moments may have missed 3/100 of a session of 4: that much of 8 ms.
    assert (part.ms.value, part.ms.low) == (8.0, pytest.approx(8.0 - 8.0 * 3 / 100 / 4))


def test_the_part_of_a_rare_event_is_covered_however_few_the_samples() -> None:
    rng = np.random.default_rng(7)
    covered = 0
    for seed in range(100):
        rare = rng.binomial(3, 0.005, size=60)
        at = np.arange(60) * 100_000_000
        waits = WaitSamples(
            at, np.tile(at, 2), [*["Timeout:PgSleep"] * 60, *["Lock:tuple"] * 60],
            np.concatenate([3 - rare, rare]),
        )  # fmt: skip
        where = where_the_time_goes(
            facts(samples=waits, window_seconds=6.0), seed=seed, replicates=100
        )
        ms = {part.name: part.ms for part in where.parts}["Timeout:PgSleep"]
        assert ms.low is not None
        assert ms.high is not None
        covered += ms.low <= 8.0 * 0.995 <= ms.high
    assert covered >= 95


def waiting_for_a_core(waits: WaitSamples, queue_ms: float) -> Estimate:
    """Of 2 ms without wait event and 0.5 ms of CPU in each of 6,000 transactions."""
    counted = {"backends_cpu_ns": 6000 * 0.5 * MS, "backends_runqueue_ns": 6000 * queue_ms * MS}
    where = where_the_time_goes(facts(samples=waits, **counted), seed=1)
    return next(part.ms for part in where.parts if part.name == "waiting for a core")


def test_waiting_for_a_core_is_as_uncertain_as_what_the_samples_may_have_missed() -> None:
    # 100 samples of 4 sessions, 8 ms: 3 sessions more or fewer are 0.06 ms.
    waits = exact({"IO:WALSync": 3, "": 1})
    inside = waiting_for_a_core(waits, 5.0)
    assert (inside.value, inside.low, inside.high) == pytest.approx((1.5, 1.44, 1.56))
    # No more than the kernel counted, of which just as much may not have been there.
    at_the_end = waiting_for_a_core(waits, 1.5)
    ends = (at_the_end.value, at_the_end.low, at_the_end.high)
    assert ends == pytest.approx((1.5, 1.44, 1.5))


def test_a_wait_for_a_core_counted_by_the_kernel_has_no_interval() -> None:
    waiting = waiting_for_a_core(exact({"IO:WALSync": 3, "": 1}), 0.7)
    assert (waiting.value, waiting.has_interval) == (pytest.approx(0.7), False)
    varied = waiting_for_a_core(samples({"IO:WALSync": 3.0, "": 1.0}), 0.7)
    assert (varied.value, varied.has_interval) == (pytest.approx(0.7), False)
