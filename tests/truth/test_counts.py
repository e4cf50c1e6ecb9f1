"""Counts against the server's own: nothing is lost, invented or counted twice."""

from __future__ import annotations

import pytest
from bench.yardsticks import STAMPS
from tests.fixtures.engine_process import Engine, EngineEnd, load_job
from tests.fixtures.null_server import StartNullServer

from pgdyno.engine.records import HistogramRecord, Interval

PROTOCOLS = ("simple", "extended", "prepared")
ONE = "SELECT 1;"
THREE = "BEGIN;\nSELECT 1;\nEND;"
COUNTS = ("scheduled", "started", "completed", "failed", "skipped", "not_started", "unfinished")


def _counts_add_up(end: EngineEnd) -> None:
    counts = end.summary.counts
    assert counts.scheduled == counts.started + counts.skipped + counts.not_started
    assert counts.started == counts.completed + counts.failed + counts.unfinished


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("script", [ONE, THREE])
def test_every_commit_of_the_server_is_a_committed_transaction(
    protocol: str, script: str, null_server: StartNullServer, engine: Engine
) -> None:
    server = null_server()
    job = load_job(
        server.target, script, clients=8, protocol=protocol, warm_s=0.2, measure_s=600, threads=2
    )
    running = engine.start(job)
    while not running.await_record(record="interval", phase="measure")["counts"]["completed"]:
        pass
    running.stop()
    end = running.wait()
    assert end.exit_code == 0, end
    _counts_add_up(end)
    tally = server.stop()
    assert tally.commits == end.summary.transactions_committed_all_phases
    assert tally.connections == tally.terminated >= 8
    completed = {"warm": 0, "measure": 0, "drain": 0}
    for interval in (record for record in end.records if isinstance(record, Interval)):
        if interval.counts.completed:
            completed[interval.phase] += interval.counts.completed
    assert completed["measure"] == end.summary.counts.completed > 0
    assert sum(completed.values()) == tally.commits


def test_intervals_and_histograms_add_up_to_the_summary(
    null_server: StartNullServer, engine: Engine
) -> None:
    end = engine(load_job(null_server().target, THREE, clients=4, warm_s=0.3, measure_s=2.05))
    measured = [r for r in end.records if isinstance(r, Interval) and r.phase == "measure"]
    for name in COUNTS:
        total = sum(getattr(interval.counts, name) for interval in measured)
        assert total == getattr(end.summary.counts, name), name
    assert sum(i.latency_sum_ns for i in measured) == _distribution(end).sum_ns
    seconds = [
        record
        for record in end.records
        if isinstance(record, HistogramRecord) and record.phase == "measure"
    ]
    for whole in end.summary.distributions:
        key = (whole.measured, whole.script, whole.statement)
        parts = [s for s in seconds if (s.measured, s.script, s.statement) == key]
        if not parts:
            assert whole.measured in ("connect", "round_trip", "attempt"), key
            continue
        assert sum(part.count for part in parts) == whole.count
        assert sum(part.sum_ns for part in parts) == whole.sum_ns
        assert max(part.max_ns for part in parts) == whole.max_ns
        merged: dict[int, int] = {}
        for part in parts:
            for bucket, count in part.buckets:
                merged[bucket] = merged.get(bucket, 0) + count
        assert sorted(merged.items()) == list(whole.buckets)


def _distribution(end: EngineEnd):  # type: ignore[no-untyped-def]
    distribution = end.summary.distribution("latency")
    assert distribution is not None
    return distribution


def test_the_measured_transactions_are_those_the_server_answered_in_that_time(
    null_server: StartNullServer, engine: Engine
) -> None:
    server = null_server(*STAMPS, "--service-us", "2000")
    job = load_job(server.target, ONE, clients=4, warm_s=0.3, measure_s=1)
    end = engine(job)
    span = end.summary.span("measure")
    assert span is not None
    shift_ns = job.clock.unix_ns - job.clock.monotonic_ns
    inside = [
        stamp
        for stamp in server.stamps()
        if span.began_ns <= stamp.sent_ns + shift_ns <= span.ended_ns
    ]
    # At each end a client's answer may be on its way.
    assert abs(len(inside) - end.summary.counts.completed) <= 8


def test_a_failure_is_counted_under_its_sqlstate_and_not_timed(
    null_server: StartNullServer, engine: Engine
) -> None:
    server = null_server("--error-every", "50:22012")
    end = engine(load_job(server.target, ONE, clients=2, transactions=200, max_tries=10))
    tally = server.stop()
    _counts_add_up(end)
    assert end.summary.failures == {"22012": tally.errors}
    assert end.summary.counts.failed == tally.errors > 0
    assert end.summary.counts.retried == 0
    assert _distribution(end).count == end.summary.counts.completed


def test_a_serialization_failure_is_retried_and_commits_once(
    null_server: StartNullServer, engine: Engine
) -> None:
    server = null_server("--error-every", "50:40001")
    end = engine(load_job(server.target, THREE, clients=2, transactions=100, max_tries=10))
    tally = server.stop()
    _counts_add_up(end)
    assert end.summary.counts.failed == 0
    assert end.summary.counts.completed == 200
    assert tally.commits == end.summary.transactions_committed_all_phases
    assert end.summary.counts.retries == tally.errors > 0


def test_without_retries_a_serialization_failure_is_a_failure(
    null_server: StartNullServer, engine: Engine
) -> None:
    server = null_server("--error-every", "50:40001")
    end = engine(load_job(server.target, ONE, clients=2, transactions=200, max_tries=1))
    assert end.summary.failures == {"40001": server.stop().errors}
    assert end.summary.counts.retries == 0


def test_a_load_that_only_fails_ends_itself(null_server: StartNullServer, engine: Engine) -> None:
    server = null_server("--error-every", "1:22012", "--service-us", "1000")
    end = engine(load_job(server.target, ONE, clients=2, measure_s=30))
    [failure] = end.failures
    assert failure.kind == "too_many_failures"
    assert failure.hint
    assert end.exit_code == 2
    assert end.summary.ending == "aborted"
    assert end.summary.failures["22012"] == end.summary.counts.failed > 0
    assert end.summary.transactions_committed_all_phases == 0


def test_a_lost_connection_is_counted_and_made_again(
    null_server: StartNullServer, engine: Engine
) -> None:
    server = null_server("--close-after", "100")
    end = engine(load_job(server.target, ONE, clients=2, measure_s=1))
    tally = server.stop()
    _counts_add_up(end)
    assert end.summary.connections.lost_count > 0
    assert end.summary.connections.reconnect_count > 0
    assert end.summary.failures.get("connection_lost", 0) > 0
    assert tally.commits == end.summary.transactions_committed_all_phases


@pytest.mark.parametrize("how", ["type", "length"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_server_that_breaks_the_protocol_ends_the_run_with_an_error(
    how: str, protocol: str, null_server: StartNullServer, engine: Engine
) -> None:
    server = null_server("--garbage", how)
    end = engine(load_job(server.target, ONE, protocol=protocol, clients=2, measure_s=5))
    assert end.failures
    assert end.failures[0].kind == "protocol"
    assert end.exit_code == 2
    assert "panicked" not in end.stderr


def test_statements_still_running_are_cancelled_at_the_end(
    null_server: StartNullServer, engine: Engine
) -> None:
    server = null_server("--service-us", "60000000")
    job = load_job(server.target, ONE, clients=3, measure_s=0.3, drain_ns=100_000_000)
    end = engine(job)
    _counts_add_up(end)
    assert end.summary.counts.unfinished == 3
    assert len(end.summary.unfinished_ages_ns) == 3
    assert min(end.summary.unfinished_ages_ns) >= 300_000_000
    assert server.stop().cancels == 3


def test_many_connections_are_opened_and_closed_properly(
    null_server: StartNullServer, engine: Engine
) -> None:
    server = null_server()
    end = engine(load_job(server.target, ONE, clients=1000, transactions=2, threads=2))
    tally = server.stop()
    assert end.summary.counts.completed == 2000
    assert 1000 <= tally.connections <= 1002
    assert tally.terminated == tally.connections
