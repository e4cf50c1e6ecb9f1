"""Latency against the server's own clock, which it stamps into every answer."""

from __future__ import annotations

import pytest
from bench.yardsticks import STAMPS, Stamp
from tests.fixtures.engine_process import Engine, EngineEnd, load_job
from tests.fixtures.null_server import StartNullServer

from pgdyno.engine.records import Interval, TimeDistribution

MS = 1_000_000
# What the kernel and a busy machine may add between the server's clock and the engine's.
WAY_NS = 15 * MS


def _of(end: EngineEnd, measured: str) -> TimeDistribution:
    distributions = [
        d for d in end.summary.distributions if d.measured == measured and d.script is None
    ]
    assert distributions, measured
    return distributions[0]


def _services(stamps: list[Stamp]) -> list[int]:
    return [stamp.sent_ns - stamp.received_ns for stamp in stamps]


@pytest.mark.parametrize("protocol", ["simple", "extended", "prepared"])
def test_latency_is_the_servers_time_and_the_way(
    protocol: str, null_server: StartNullServer, engine: Engine
) -> None:
    server = null_server(*STAMPS, "--service-us", "40000")
    job = load_job(server.target, "SELECT 1;", clients=3, transactions=15, protocol=protocol)
    latency = _of(engine(job), "latency")
    # The first statements are those that prepare; the load's are the last.
    truth = _services(server.stamps())[-45:]
    assert latency.count == 45
    assert latency.min_ns >= min(truth)
    assert sum(truth) <= latency.sum_ns <= sum(truth) + 45 * WAY_NS


def test_a_transaction_lasts_as_long_as_its_statements_together(
    null_server: StartNullServer, engine: Engine
) -> None:
    server = null_server(*STAMPS, "--service-us", "20000")
    end = engine(load_job(server.target, "BEGIN;\nSELECT 1;\nEND;", clients=1, transactions=10))
    truth = _services(server.stamps())[-30:]
    latency, statements = _of(end, "latency"), end.summary.distributions
    assert sum(truth) <= latency.sum_ns <= sum(truth) + 30 * WAY_NS
    by_statement = [d for d in statements if d.measured == "statement" and d.statement is not None]
    assert [d.count for d in by_statement] == [10, 10, 10]
    assert sum(d.sum_ns for d in by_statement) <= latency.sum_ns
    assert all(d.min_ns >= 20 * MS for d in by_statement)


def test_a_stall_is_in_the_latency_and_in_the_intervals(
    null_server: StartNullServer, engine: Engine
) -> None:
    server = null_server(*STAMPS, "--service-us", "1000", "--stall", "400:500")
    end = engine(load_job(server.target, "SELECT 1;", clients=2, measure_s=1.5))
    longest = max(_services(server.stamps()))
    latency = _of(end, "latency")
    assert longest >= 400 * MS
    assert longest <= latency.max_ns <= longest + 5 * WAY_NS
    measured = [r for r in end.records if isinstance(r, Interval) and r.phase == "measure"]
    silent = [interval for interval in measured if interval.counts.completed == 0]
    assert len(silent) >= 3
    assert all(interval.in_flight == 2 for interval in silent)


def test_the_round_trip_is_measured_without_the_servers_work(
    null_server: StartNullServer, engine: Engine
) -> None:
    server = null_server("--service-us", "50000")
    end = engine(load_job(server.target, "SELECT 1;", clients=1, transactions=3))
    assert _of(end, "round_trip").min_ns < 50 * MS
    assert _of(end, "latency").min_ns >= 50 * MS
    assert _of(end, "connect").count == 1
