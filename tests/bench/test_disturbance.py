"""What telemetry takes from a load, told from made schedules with a known answer."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator

import pytest
from bench.disturbance import BIN_NS, Taken, taken
from bench.scheduling import Slice, record, slices_of

LOAD, TELEMETRY = range(100, 110), {7}
SECOND_NS = 1_000_000_000
OWN_NS = 200_000
EVERY_NS = 80_000_000
BEGIN_NS = 5 * SECOND_NS


def schedule(
    seconds: int, cost_ns: Callable[[int, int], float], *, watched: bool = True
) -> list[Slice]:
    """Return two cores with statements back to back, and telemetry on core 0 in midst of some.

    Args: cost_ns, of a statement by when it begins and how long after telemetry that is.
    """
    slices: list[Slice] = []
    for core in (0, 1):
        now_ns, end_ns, client = BEGIN_NS, BEGIN_NS + seconds * SECOND_NS, core
        due_ns, ran_ns = BEGIN_NS + EVERY_NS, 0
        while now_ns < end_ns:
            left_ns = round(cost_ns(now_ns, now_ns - ran_ns))
            thread = LOAD[client % len(LOAD)]
            client += 2
            if watched and core == 0 and now_ns + left_ns > due_ns:
                ran_ns = max(now_ns, due_ns)
                if ran_ns > now_ns:
                    slices.append(Slice(core, now_ns, ran_ns, thread, slept=False))
                left_ns -= ran_ns - now_ns
                slices.append(Slice(core, ran_ns, ran_ns + OWN_NS, 7, slept=True))
                now_ns = ran_ns + OWN_NS
                due_ns += EVERY_NS
            slices.append(Slice(core, now_ns, now_ns + left_ns, thread, slept=True))
            now_ns += left_ns
    return sorted(slices, key=lambda time_slice: time_slice.end_ns)


def told(slices: list[Slice]) -> Taken:
    return taken(slices, LOAD, TELEMETRY)


def usual_ns(now_ns: int) -> float:
    """Return what a statement costs: the machine halves its speed after ten seconds."""
    jitter = random.Random(now_ns).uniform(0.95, 1.05)
    return 400_000 * jitter * (1 if now_ns < BEGIN_NS + 10 * SECOND_NS else 2)


def test_the_cost_after_telemetry_is_found_although_the_speed_changes() -> None:
    dearer = []

    def cost_ns(now_ns: int, after_ns: int) -> float:
        if after_ns < 1_500_000:
            dearer.append(now_ns)
        return usual_ns(now_ns) + (150_000 if after_ns < 1_500_000 else 0)

    slices = schedule(20, cost_ns)
    cost = told(slices)
    assert cost.lost_ratio == pytest.approx(len(dearer) * 150_000 / (20 * SECOND_NS), rel=0.15)
    assert cost.own_ratio == pytest.approx(OWN_NS / EVERY_NS, rel=0.02)
    assert cost.touched_ratio == pytest.approx(3 * BIN_NS / EVERY_NS, rel=0.1)
    assert cost.idle_ratio == 0
    assert cost.statements == sum(
        time_slice.slept and time_slice.thread != 7 for time_slice in slices
    )


def test_more_interruptions_of_long_statements_are_not_a_loss() -> None:
    mean_ns, seconds = 500_000, 100

    def cost_ns(now_ns: int, after_ns: int) -> float:
        return 1000 + random.Random(now_ns).expovariate(1 / mean_ns)

    slices = schedule(seconds, cost_ns)
    # An interrupted statement lasts twice as long as others, on the mean.
    held_against_each_other = mean_ns / EVERY_NS
    assert abs(told(slices).lost_ratio) < held_against_each_other / 2


def test_an_unwatched_load_loses_nothing() -> None:
    cost = told(schedule(5, lambda now_ns, _: usual_ns(now_ns), watched=False))
    assert (cost.own_ratio, cost.lost_ratio, cost.touched_ratio) == (0, 0, 0)


def test_time_of_other_programs_is_neither_load_nor_telemetry() -> None:
    slices = schedule(2, lambda now_ns, _: usual_ns(now_ns), watched=False)
    middle = slices[len(slices) // 2]
    slices = [
        Slice(
            time_slice.core,
            time_slice.begin_ns,
            time_slice.end_ns,
            0 if time_slice is middle else time_slice.thread,
            time_slice.slept,
        )
        for time_slice in slices
    ]
    cost = told(slices)
    assert cost.idle_ratio == pytest.approx(
        (middle.end_ns - middle.begin_ns) / (2 * SECOND_NS), rel=0.01
    )
    assert cost.own_ratio == 0


def test_a_note_says_that_the_data_are_too_few() -> None:
    with pytest.raises(RuntimeError, match="bins of 5 ms are too few"):
        told(schedule(1, lambda now_ns, _: usual_ns(now_ns))[:50])
    with pytest.raises(RuntimeError, match="are too few"):
        told([])
    ever = [
        Slice(0, n * 1_000_000, (n + 1) * 1_000_000, 7 if n % 2 else 100, slept=True)
        for n in range(1000)
    ]
    with pytest.raises(RuntimeError, match="telemetry ran all the time"):
        told(ever)


def lines() -> Iterator[str]:
    yield (
        "[000] 15855.042070001: sched:sched_switch: prev_comm=perf prev_pid=12 prev_prio=120"
        " prev_state=D ==> next_comm=migration/0 next_pid=18 next_prio=0"
    )
    yield "[001] 15855.042080000: something else"
    yield (
        "[000] 15855.042105002: sched:sched_switch: prev_comm=a b prev_pid=18 prev_prio=-1"
        " prev_state=R+ ==> next_comm=load-0 next_pid=0 next_prio=120"
    )
    yield (
        "[001] 15855.042200000: sched:sched_switch: prev_comm=postgres prev_pid=40 prev_prio=120"
        " prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120"
    )
    yield (
        "[000] 15855.042300000: sched:sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120"
        " prev_state=I ==> next_comm=postgres next_pid=40 next_prio=120"
    )


def test_switches_are_read_into_slices_of_each_core() -> None:
    first_ns = 15_855_042_105_002
    assert list(slices_of(lines())) == [
        Slice(0, 15_855_042_070_001, first_ns, 18, slept=False),
        Slice(0, first_ns, 15_855_042_300_000, 0, slept=True),
    ]


def test_the_error_without_perf_names_the_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(RuntimeError, match="apt-get install linux-perf"):
        record(0.1)


def test_cores_are_recorded_for_as_long_as_asked() -> None:
    over = threading.Event()

    def sleep_again_and_again() -> None:
        while not over.wait(0.01):
            pass

    sleeper = threading.Thread(target=sleep_again_and_again)
    sleeper.start()
    try:
        slices = record(0.5)
    finally:
        over.set()
        sleeper.join()
    span_ns = slices[-1].end_ns - slices[0].begin_ns
    assert 0.4 * SECOND_NS < span_ns < 20 * SECOND_NS
    assert all(time_slice.begin_ns <= time_slice.end_ns for time_slice in slices)
    assert slices == sorted(slices, key=lambda time_slice: time_slice.end_ns)
    assert (
        sum(time_slice.thread == sleeper.native_id and time_slice.slept for time_slice in slices)
        > 3
    )
