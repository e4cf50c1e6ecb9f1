"""Sessions at work: when the server's count stands, and when the samples do."""

from __future__ import annotations

import numpy as np
import pytest

from pgdyno.analysis.at_work import AtWork, CountedTime, at_work, drawn_from_groups, own_time
from pgdyno.analysis.estimate import Estimate, without_interval
from pgdyno.analysis.where_sampled import shared_out

SECOND_NS = 1_000_000_000


def sampled(value: float, half: float = 0.1) -> Estimate:
    return Estimate(value, value - half, value + half, 100, "sessions", "within_run")


def counted(sessions: float, *, seconds: int = 60, own: float = 0.0) -> CountedTime:
    span_ns = seconds * SECOND_NS
    return CountedTime((sessions + own) * span_ns, own * span_ns, 0.0, span_ns)


def found(mean: Estimate | None, count: CountedTime | None, *, bare: float = 0.0) -> AtWork:
    answer = at_work(mean, seen_count=1000, bare_count=bare, counted=count)
    assert answer is not None
    return answer


def test_the_count_is_used_if_samples_miss_a_session_on_their_core() -> None:
    work = found(sampled(2.31), counted(3.02, own=0.05), bare=2.0)
    assert (work.how, work.why_sampled) == ("counted", "")
    assert work.mean.value == pytest.approx(3.02)
    assert work.factor_ratio == pytest.approx(3.02 / 2.31)


def test_a_statement_that_began_before_the_watch_is_not_of_its_time() -> None:
    work = found(sampled(1.0), counted(11.0), bare=1.0)
    assert (work.how, work.mean.value, work.factor_ratio) == ("sampled", 1.0, 1.0)
    assert work.why_sampled == "the server counts 11, with statements from before the watch"


def test_statements_that_still_run_are_missing_in_the_count() -> None:
    work = found(sampled(4.0), counted(1.0))
    assert work.how == "sampled"
    assert work.why_sampled == (
        "the server counts 1: this leaves out planning, statements that have not ended, and in a"
        " pipeline all but the last statement"
    )


def test_a_small_difference_leaves_the_count_where_samples_are_biased() -> None:
    # Measured on a busy machine: 2.72 by a second reading of the server's count.
    assert found(sampled(3.02, 0.16), counted(2.76)).how == "counted"


def test_sessions_that_all_wait_cannot_hide_on_the_core_of_the_sampler() -> None:
    assert found(sampled(2.3), counted(3.0), bare=0.0).how == "sampled"


def test_a_short_watch_allows_for_reports_that_come_a_second_late() -> None:
    assert found(sampled(3.0), counted(2.2, seconds=3)).how == "counted"
    assert found(sampled(3.0), counted(2.2, seconds=60)).how == "sampled"
    short, long = (found(sampled(3.0), counted(3.0, seconds=s)).mean for s in (5, 500))
    assert short.high is not None
    assert long.high is not None
    assert short.high - 3 == pytest.approx(100 * (long.high - 3))


def test_the_count_needs_no_right_to_see_sessions_and_samples_need_no_count() -> None:
    work = found(None, counted(3.0))
    assert (work.how, work.sampled, work.mean.value) == ("counted", None, 3.0)
    assert found(sampled(2.0), None).how == "sampled"
    assert at_work(None, seen_count=0, bare_count=0.0, counted=None) is None


def test_a_mean_of_few_samples_is_not_certain() -> None:
    few = at_work(sampled(0.02, 0.02), seen_count=2, bare_count=0.0, counted=None)
    assert few is not None
    assert not few.is_certain
    assert found(sampled(2.0), None).is_certain


def test_our_own_statements_took_between_the_two_times_that_are_known() -> None:
    assert own_time(10.0, 6.0) == (8.0, 2.0)
    assert own_time(6.0, 10.0) == (8.0, 0.0)


def test_parts_of_a_count_sum_to_it_and_cover_the_truth() -> None:
    rng = np.random.default_rng(7)
    covered = 0
    for seed in range(200):
        counts = np.column_stack([rng.binomial(80, 0.3, 100), rng.binomial(80, 0.1, 100)])
        taken = np.full(100, 10.0)
        drawn = drawn_from_groups(
            ("a", "b"), counts.astype(np.float64), taken, seconds=100.0, seed=seed
        )
        first, second = shared_out(drawn, 4.0, "sessions", seen_count=int(counts.sum()))
        assert first.value + second.value == pytest.approx(4.0)
        assert first.low is not None
        assert first.high is not None
        covered += first.low <= 3.0 <= first.high
    assert 180 <= covered <= 200


def test_half_a_sighting_tells_nothing_of_a_part() -> None:
    drawn = drawn_from_groups(("a",), np.full((10, 1), 0.05), np.ones(10), seconds=0.5, seed=1)
    (part,) = shared_out(drawn, 2.0, "ms", seen_count=0)
    assert (part.low, part.value, part.high) == (0.0, 2.0, 2.0)


def test_a_part_seen_in_every_sample_has_a_lower_end() -> None:
    drawn = drawn_from_groups(("a",), np.ones((10, 1)), np.ones(10), seconds=10.0, seed=1)
    (part,) = shared_out(drawn, 2.0, "sessions", seen_count=10)
    # The rule of three: 3/10 of the time may have been something else.
    assert (part.low, part.value, part.high) == pytest.approx((1.4, 2.0, 2.0))
    nothing = drawn_from_groups((), np.zeros((10, 0)), np.ones(10), seconds=10.0, seed=1)
    assert shared_out(nothing, 2.0, "sessions", seen_count=1) == ()
    assert not without_interval(1.0, "sessions").has_interval
