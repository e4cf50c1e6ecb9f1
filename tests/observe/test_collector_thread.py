"""One thread of the observer, with collectors made for these tests and no server."""

from __future__ import annotations

import itertools
import random
import threading
from typing import Any, ClassVar

from tests.fixtures.command import eventually
from tests.observe.sinks import KeepingSink

from pgdyno import clock
from pgdyno.errors import StoreError
from pgdyno.observe.collector import SECOND_NS, Column, Notices, NotMeasurable, Row, Scope, gauge
from pgdyno.observe.collector_thread import CollectorThread, StopSignal
from pgdyno.observe.schedule import CollectorSchedule, OwnCost


class Steady:
    """A collector that works, or fails as asked."""

    name: ClassVar[str] = "steady"
    meaning: ClassVar[str] = "For tests"
    scope: ClassVar[Scope] = "host"
    interval_ns: ClassVar[int] = 1_000_000
    columns: ClassVar[tuple[Column, ...]] = (gauge("a", "things", "a number"),)

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.sample_count = 0

    def sample(self, now_ns: int) -> list[Row]:
        self.sample_count += 1
        if self.failures:
            raise self.failures.pop(0)
        return [{"a": 1}]


class Other(Steady):
    """A second collector in the same thread."""

    name: ClassVar[str] = "other"


class Often(Steady):
    """A collector whose answers are held; its rows tell them apart."""

    name: ClassVar[str] = "often"
    interval_ns: ClassVar[int] = 50_000_000

    def __init__(self, fails_at: int = 0) -> None:
        super().__init__()
        self._fails_at = fails_at
        self.read_count = 0

    def sample(self, now_ns: int) -> list[Row]:
        return self.rows(self.ask())

    def ask(self) -> int:
        self.sample_count += 1
        if self.sample_count == self._fails_at:
            raise OSError("gone")
        return self.sample_count

    def rows(self, answer: int) -> list[Row]:
        self.read_count += 1
        return [{"a": answer}]


class RefusingSink(KeepingSink):
    """A store on a full disk."""

    def add_samples(self, collector: str, rows: Any) -> None:
        raise StoreError("The disk is full.")

    add_notice = add_samples  # type: ignore[assignment]


def working(sink: KeepingSink, *collectors: Steady, cost: OwnCost | None = None) -> CollectorThread:
    pair = clock.read_pair()
    now_ns = clock.monotonic_ns()
    return CollectorThread(
        "test",
        [CollectorSchedule(collector, collector.interval_ns, now_ns) for collector in collectors],
        clock=pair,
        sink=sink,
        notices=Notices(pair, sink),
        cost=cost or OwnCost(),
    )


def test_a_failing_collector_gives_one_notice_and_the_others_continue() -> None:
    sink = KeepingSink()
    failing, other = Steady(*[OSError("gone")] * 1000), Other()
    thread = working(sink, failing, other)
    thread.start()
    sink.wait_for(lambda: len(sink.rows.get("other", [])) > 50)
    thread.stop()
    thread.join()
    (notice,) = sink.notices
    assert notice["kind"] == "collector_failed"
    assert notice["message"] == "Collector steady failed: gone."
    assert failing.sample_count < 5


def test_a_missing_source_gives_one_notice_and_is_not_asked_again() -> None:
    sink = KeepingSink()
    absent, other = Steady(NotMeasurable("There is none.")), Other()
    thread = working(sink, absent, other)
    thread.start()
    sink.wait_for(lambda: len(sink.rows.get("other", [])) > 50)
    thread.stop()
    thread.join()
    assert sink.kinds() == ["not_measurable"]
    assert absent.sample_count == 1


def test_answers_are_held_each_with_its_own_instant_and_none_is_lost_at_the_end() -> None:
    sink, often, cost = KeepingSink(), Often(), OwnCost()
    thread = working(sink, often, cost=cost)
    thread.start()
    eventually(lambda: often.sample_count > 12)
    eventually(lambda: often.sample_count > often.read_count)
    thread.stop()
    thread.join()
    rows = sink.rows["often"]
    assert [row["a"] for row in rows] == list(range(1, often.sample_count + 1))
    times = [row["time_ns"] for row in rows]
    assert [row["interval_ns"] for row in rows[1:]] == [
        later - earlier for earlier, later in itertools.pairwise(times)
    ]
    assert min(row["interval_ns"] for row in rows[1:]) > 0
    (spent,) = cost.sample(0)
    assert spent["samples"] == often.sample_count


def test_answers_before_a_failure_are_kept() -> None:
    sink, often = KeepingSink(), Often(fails_at=4)
    thread = working(sink, often)
    thread.start()
    sink.wait_for(lambda: "collector_failed" in sink.kinds())
    thread.stop()
    thread.join()
    assert [row["a"] for row in sink.rows["often"]] == [1, 2, 3]


def test_held_answers_do_not_delay_other_collectors_of_the_thread() -> None:
    sink, often, other = KeepingSink(), Often(), Other()
    thread = working(sink, often, other)
    thread.start()
    sink.wait_for(lambda: len(sink.rows.get("other", [])) > 100)
    thread.stop()
    thread.join()
    assert often.read_count >= 2
    assert other.sample_count > 5 * often.sample_count


def test_a_stop_signal_ends_present_and_future_waits_and_may_be_set_twice() -> None:
    stop = StopSignal()
    assert not stop.wait(0)
    assert not stop.wait(-1)
    timer = threading.Timer(0.05, stop.set)
    timer.start()
    assert stop.wait(20)
    timer.join()
    stop.set()
    assert stop.is_set
    assert stop.wait(20)


def test_a_store_that_refuses_ends_the_thread_quietly() -> None:
    thread = working(RefusingSink(), Steady())
    thread.start()
    thread.join(20)
    assert not thread.is_alive()


def test_a_slow_collector_lowers_its_rate_to_half_a_percent_of_a_core() -> None:
    item = CollectorSchedule(Steady(), SECOND_NS, 0)
    slowed = [item.slowed_by(30_000_000, second * SECOND_NS) for second in range(1, 12)]
    # 3 % of a core is six times too much; a tenth more than that.
    assert slowed == [0] * 10 + [6_600_000_000]
    assert item.interval_ns == 6_600_000_000


def test_a_cheap_collector_keeps_its_rate_after_a_slow_first_sample() -> None:
    item = CollectorSchedule(Steady(), SECOND_NS, 0)
    spent = [900_000_000] + [4_000_000] * 30
    slowed = [item.slowed_by(ns, second * SECOND_NS) for second, ns in enumerate(spent, 1)]
    assert not any(slowed)
    assert item.interval_ns == SECOND_NS


def test_missed_samples_are_left_out_rather_than_made_up_for() -> None:
    item = CollectorSchedule(Steady(), SECOND_NS, 5 * SECOND_NS)
    item.taken(5 * SECOND_NS + 1)
    assert item.due_ns == 6 * SECOND_NS
    item.taken(9 * SECOND_NS + 500)
    assert item.due_ns == 10 * SECOND_NS


def test_failures_are_retried_at_growing_intervals_and_forgotten_after_success() -> None:
    item = CollectorSchedule(Steady(), SECOND_NS, 0)
    waits = []
    for _ in range(8):
        item.failed(0)
        waits.append(item.due_ns // SECOND_NS)
    assert waits == [2, 4, 8, 16, 32, 60, 60, 60]
    item.taken(0)
    item.failed(0)
    assert item.due_ns == 2 * SECOND_NS


def test_gaps_between_samples_of_waits_are_random_and_follow_the_seed() -> None:
    def gaps(seed: int) -> list[int]:
        item = CollectorSchedule(Steady(), 100_000_000, 0, random.Random(seed))
        rows = []
        for _ in range(200):
            before_ns = item.due_ns
            item.taken(before_ns)
            rows.append(item.due_ns - before_ns)
        return rows

    assert gaps(1) == gaps(1) != gaps(2)
    assert 50_000_000 <= min(gaps(1)) < 60_000_000
    assert 140_000_000 < max(gaps(1)) <= 150_000_000
    assert 95e6 < sum(gaps(1)) / 200 < 105e6
