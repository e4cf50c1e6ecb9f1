"""Where the time goes in several cells or runs: differences and means keep the sum."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.wait_events import canonical_event
from pgdyno.analysis.where import LatencyPart, WhereTheTimeGoes, mean_over_runs
from pgdyno.analysis.where_difference import difference


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("IO:WALSync", "IO:WalSync"),
        ("IO:BufFileRead", "IO:BuffileRead"),
        ("LWLock:WALWriteLock", "LWLock:WALWrite"),
        ("LWLock:buffer_content", "LWLock:BufferContent"),
        ("IPC:HashGrowBatchesAllocate", "IPC:HashGrowBatchesReallocate"),
    ],
)
def test_an_event_is_the_same_in_every_version(old: str, new: str) -> None:
    assert canonical_event(old) == canonical_event(new)
    assert canonical_event(old) != canonical_event("IO:DataFileRead")


def whole(latency: float, **parts: float) -> WhereTheTimeGoes:
    made = [
        LatencyPart(
            name.replace("__", ":"),
            Estimate(ms, ms - 0.1, ms + 0.2, 9, "ms", "within_run"),
            "server",
        )
        for name, ms in parts.items()
    ]
    residual = latency - sum(parts.values())
    estimate = Estimate(latency, latency - 0.3, latency + 0.4, 9, "ms", "within_run")
    return WhereTheTimeGoes(estimate, tuple(made), residual, residual / latency, None, None)


def test_differences_sum_to_the_difference_of_the_latencies_over_versions() -> None:
    a = whole(10.0, IO__WALSync=6.0, LWLock__WALWrite=1.0)
    b = whole(7.5, IO__WalSync=4.0, Lock__tuple=0.5)
    changes = difference(a, b)
    assert [(part.name, round(part.ms.value, 9)) for part in changes.parts] == [
        ("IO:WalSync", -2.0),
        ("LWLock:WALWrite", -1.0),
        ("Lock:tuple", 0.5),
    ]
    assert changes.latency_ms.value == -2.5
    assert sum(part.ms.value for part in changes.parts) + changes.residual_ms == pytest.approx(-2.5)
    sync = changes.parts[0].ms
    assert sync.low == pytest.approx(-2.0 - math.hypot(0.1, 0.2))
    assert sync.high == pytest.approx(-2.0 + math.hypot(0.2, 0.1))


def test_cpu_split_on_one_side_only_is_joined_before_the_difference() -> None:
    a = whole(10.0, **{"CPU": 1.5, "waiting for a core": 0.5})
    b = whole(10.0, **{"CPU or not instrumented": 3.0})
    (part,) = difference(a, b).parts
    assert (part.name, part.ms.value) == ("CPU or not instrumented", 1.0)


def test_the_mean_over_runs_keeps_the_sum() -> None:
    runs = [whole(10.0, IO__WALSync=6.0), whole(11.0, IO__WALSync=6.5, Lock__tuple=0.5)]
    mean = mean_over_runs(runs)
    assert {part.name: part.ms.value for part in mean.parts} == {
        "IO:WALSync": pytest.approx(6.25),
        "Lock:tuple": pytest.approx(0.25),
    }
    assert mean.latency_ms.value == 10.5
    assert mean.residual_ms == pytest.approx(4.0)
    assert mean.parts[0].ms.scope == "between_runs"


def test_a_mean_is_counted_only_if_it_was_counted_in_every_run() -> None:
    counted = whole(10.0, IO__WALSync=6.0, Lock__tuple=1.0)
    sync, row = counted.parts
    counted = replace(counted, parts=(replace(sync, how="counted"), row))
    sampled = replace(counted, server_how="sampled", why_sampled="the wall clock was set")
    both = mean_over_runs([counted, sampled])
    assert (both.server_how, both.why_sampled) == ("sampled", "the wall clock was set")
    assert {part.name: part.how for part in both.parts} == {
        "IO:WALSync": "counted",
        "Lock:tuple": "sampled",
    }
    assert mean_over_runs([counted, counted]).server_how == "counted"
