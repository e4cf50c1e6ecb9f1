"""The records of several engines, added up to those of one."""

from __future__ import annotations

import random
from collections import Counter

from pgdyno.engine.records import (
    Counts,
    HistogramRecord,
    Interval,
    Phase,
    PhaseName,
    Record,
    TimeDistribution,
)
from pgdyno.features.hosts.merge import Merge
from pgdyno.features.hosts.merge_summary import merged_distributions
from pgdyno.features.hosts.run import parts_of

MS = 1_000_000


def distribution(buckets: list[int]) -> TimeDistribution:
    """Return a distribution of values that are their bucket's number, in ns."""
    return TimeDistribution(
        measured="latency",
        count=len(buckets),
        sum_ns=sum(buckets),
        min_ns=min(buckets),
        max_ns=max(buckets),
        buckets=tuple(sorted(Counter(buckets).items())),
    )


def interval(at_ms: int, completed: int, in_flight: int = 1) -> Interval:
    return Interval(
        time_ns=at_ms * MS,
        interval_ns=100 * MS,
        phase="measure",
        counts=Counts(scheduled=completed, started=completed, completed=completed),
        completed_by_script=(completed,),
        latency_sum_ns=completed * 10,
        in_flight=in_flight,
        backlog=0,
        connections=2,
        cpu_ns=at_ms,
    )


def phase(at_ms: int, name: PhaseName, event: str) -> Phase:
    return Phase.model_validate({"time_ns": at_ms * MS, "phase": name, "event": event})


def merged(merge: Merge, place: int, *records: Record) -> list[Record]:
    return [whole for record in records for whole in merge.add(place, record)]


def test_the_merged_histogram_is_that_of_the_union_of_all_latencies() -> None:
    chance = random.Random(3)
    shares = [[chance.randrange(5000) for _ in range(chance.randrange(1, 400))] for _ in range(4)]
    whole = distribution([value for share in shares for value in share])
    assert merged_distributions(map(distribution, shares)) == [whole]


def test_an_interval_is_complete_when_every_host_has_sent_it() -> None:
    merge = Merge(["a", "b"])
    first = merged(merge, 0, phase(0, "measure", "begin"), interval(100, 7), interval(200, 8))
    assert first == []
    histogram = HistogramRecord(
        **distribution([5, 6]).model_dump(),
        time_ns=103 * MS,
        interval_ns=100 * MS,
        phase="measure",
    )
    began = phase(3, "measure", "begin")
    both = merged(merge, 1, began, interval(103, 5), histogram, interval(203, 1))
    assert both[0] == phase(0, "measure", "begin")
    assert isinstance(both[1], Interval)
    assert (both[1].counts.completed, both[1].in_flight, both[1].connections) == (12, 2, 4)
    assert (both[1].cpu_ns, both[1].latency_sum_ns) == (203, 120)
    assert isinstance(both[2], HistogramRecord)
    assert both[2].count == 2
    assert len(both) == 3
    ended = merged(merge, 0, phase(200, "measure", "end"))
    assert ended == []
    ended = merged(merge, 1, phase(203, "measure", "end"), phase(203, "drain", "begin"))
    assert isinstance(ended[0], Interval)
    assert ended[0].counts.completed == 9


def test_the_others_go_on_without_a_host_that_is_lost() -> None:
    merge = Merge(["a", "b"])
    merged(merge, 0, phase(0, "measure", "begin"), interval(100, 7), interval(200, 8))
    assert merged(merge, 1, phase(0, "measure", "begin")) == []
    alone = list(merge.lose(1))
    assert [record.counts.completed for record in alone if isinstance(record, Interval)] == [7]
    after = merged(merge, 0, interval(300, 9))
    assert [record.counts.completed for record in after if isinstance(record, Interval)] == [8]


def test_the_histograms_of_a_long_run_are_kept_as_few() -> None:
    merge = Merge(["a"])
    merged(merge, 0, phase(0, "measure", "begin"))
    chance = random.Random(4)
    values = [[chance.randrange(900) for _ in range(5)] for _ in range(500)]
    for number, part in enumerate(values, start=1):
        record = HistogramRecord(
            **distribution(part).model_dump(),
            time_ns=number * MS,
            interval_ns=100 * MS,
            phase="measure",
        )
        merged(merge, 0, interval(number * 100, 5), record)
    assert len(merge.streams[0].histograms) < 40
    whole = distribution([value for part in values for value in part])
    assert merged_distributions(merge.streams[0].histograms) == [whole]


def test_every_thread_of_a_load_belongs_to_exactly_one_host() -> None:
    for threads in range(1, 40):
        for hosts in range(1, threads + 1):
            parts = parts_of(threads, hosts)
            ranges = [range(p.first_thread, p.first_thread + p.threads) for p in parts]
            assert [number for own in ranges for number in own] == list(range(threads))
            sizes = {part.threads for part in parts}
            assert max(sizes) - min(sizes) <= 1
            assert min(sizes) >= 1
