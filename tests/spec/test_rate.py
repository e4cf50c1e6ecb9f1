"""The rate of an open loop, as people write it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pgdyno.errors import SpecError
from pgdyno.spec.rate import Rate, RatePhase, rate_from
from pgdyno.spec.workload import Script, Workload

SECOND = 1_000_000_000
SCRIPTS = (Script(builtin="select-only"),)


def test_a_number_is_one_rate_throughout() -> None:
    for text in (500, 500.0, "500", " 500 "):
        rate = rate_from(text)
        assert rate.phases == (RatePhase(500, 500),)
        assert rate.is_constant
        assert rate.length_ns is None


def test_phases_hold_ramp_and_spike() -> None:
    rate = rate_from("500:30s, 1000-4000:60s,9000:500ms,500:1min")
    assert rate.phases == (
        RatePhase(500, 500, 30 * SECOND),
        RatePhase(1000, 4000, 60 * SECOND),
        RatePhase(9000, 9000, SECOND // 2),
        RatePhase(500, 500, 60 * SECOND),
    )
    assert rate.length_ns == 150 * SECOND + SECOND // 2


def test_the_last_phase_lasts_until_the_end() -> None:
    rate = rate_from("100:2s,100-300:2s")
    assert rate.within(6 * SECOND)[-1] == RatePhase(300, 300, 2 * SECOND)
    assert rate.mean_tps(4 * SECOND) == pytest.approx(150)
    assert rate_from("100:2s,400").within(10 * SECOND)[-1].duration_ns == 8 * SECOND


def test_a_warm_up_is_never_without_load() -> None:
    assert rate_from("0-1000:60s").warm_tps == 1000
    assert rate_from("200:1s,800:1s").warm_tps == 200


@pytest.mark.parametrize(
    ("text", "piece"),
    [
        ("", "''"),
        ("fast", "'fast'"),
        ("-5", "'-5'"),
        ("500:30s,oops,5", "'oops'"),
        ("100,200:3s", "'100' needs a time"),
        ("100:1s,100-200", "'100-200' needs a time"),
        ("100:0s", "the time of '100:0s' must be above 0"),
        ("100:3parsec,5", "'100:3parsec'"),
        ("100:3s:4s", "'100:3s:4s'"),
        ("1-2-3:4s", "'1-2-3:4s'"),
        ("0", "offers no transactions"),
        ("0:5s,0", "offers no transactions"),
        ("20000000", "10,000,000"),
        (float("nan"), "nan"),
        (-1, "'-1'"),
        (True, "True"),
    ],
)
def test_the_error_of_a_rate_quotes_the_wrong_piece(text: object, piece: str) -> None:
    with pytest.raises(SpecError) as refused:
        rate_from(text)
    assert piece in refused.value.message
    assert refused.value.hint


phases = st.lists(
    st.tuples(
        st.integers(0, 10**6).map(float), st.integers(1, 10**6).map(float), st.integers(1, 10**12)
    ),
    min_size=1,
    max_size=5,
)


@given(phases)
def test_a_rate_written_is_the_rate_read(given_phases: list[tuple[float, float, int]]) -> None:
    rate = Rate(tuple(RatePhase(*phase) for phase in given_phases))
    assert rate_from(rate.text) == rate


@given(phases, st.integers(1, 10**12))
def test_phases_fill_the_time_exactly(
    given_phases: list[tuple[float, float, int]], length_ns: int
) -> None:
    rate = Rate(tuple(RatePhase(*phase) for phase in given_phases))
    assert sum(phase.duration_ns or 0 for phase in rate.within(length_ns)) == length_ns


def test_phases_say_how_long_to_measure() -> None:
    assert Workload(scripts=SCRIPTS, rate="100:2s,200:3s").duration_ns == 5 * SECOND
    assert Workload(scripts=SCRIPTS, rate="100:2s,200").duration_ns == 60 * SECOND
    assert Workload(scripts=SCRIPTS, rate=100, duration="7s").duration_ns == 7 * SECOND


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"duration": "4s"}, "last 5 s"),
        ({"transactions_per_client": 5}, "number of transactions"),
    ],
)
def test_phases_that_do_not_fit_are_refused(changes: dict[str, object], word: str) -> None:
    with pytest.raises(ValidationError, match=word):
        Workload.model_validate({"scripts": SCRIPTS, "rate": "100:2s,200:3s", **changes})


def test_a_workload_written_is_the_workload_read() -> None:
    for rate in (250, "100:2s,100-300:3s", None):
        workload = Workload.model_validate({"scripts": SCRIPTS, "rate": rate})
        document = workload.model_dump(mode="json", by_alias=True, exclude_none=True)
        assert Workload.model_validate(document) == workload
