"""pg_wait_sampling and our own samples: one load, the same shares."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.fixtures.clusters import make_cluster, run_sql
from tests.observe.contract import CollectorContract
from tests.observe.test_server_collectors import LOAD, open_session, sample_until

from pgdyno.observe.collector import Collector, NotMeasurable
from pgdyno.observe.sql.statements import WaitSamplingCollector
from pgdyno.observe.sql.waits import WaitSampler
from pgdyno.server.scratch.cluster import ScratchCluster

pytestmark = pytest.mark.pg


@pytest.fixture(scope="module")
def sampled(pg_wait_sampling: Path, house: Path) -> Iterator[ScratchCluster]:
    preloaded = {"shared_preload_libraries": "pg_wait_sampling"}
    with make_cluster("15", settings=preloaded) as cluster:
        run_sql(cluster.target, "CREATE EXTENSION pg_wait_sampling")
        yield cluster


class TestWaitSampling(CollectorContract):
    @pytest.fixture
    def collector(self, sampled: ScratchCluster) -> Iterator[Collector]:
        with closing(open_session(sampled)) as session:
            run_sql(sampled.target, "SELECT pg_sleep(0.2)")
            collector = WaitSamplingCollector(session)
            sample_until(collector, bool)
            yield collector


def test_both_give_the_waits_of_one_load_the_same_shares(sampled: ScratchCluster) -> None:
    # One session holds a row for three quarters of the time, which it sleeps; another waits for it.
    # Both work within the server: it is the same load whether or not this process gets to run.
    run_sql(sampled.target, "CREATE TABLE t AS SELECT 1 AS a")
    run_sql(sampled.target, "CREATE TABLE stopped ()")
    session = open_session(sampled)
    extension, ours = WaitSamplingCollector(session), WaitSampler(session, LOAD, session.database)
    before = counted(extension)
    take = "UPDATE t SET a = a"
    threads = [
        threading.Thread(target=run_sql, args=(sampled.target, work(*steps)))
        for steps in (
            (take, "PERFORM pg_sleep(0.15)", "COMMIT", "PERFORM pg_sleep(0.05)"),
            (take, "COMMIT", "PERFORM pg_sleep(0.05)"),
        )
    ]
    for thread in threads:
        thread.start()
    seen: Counter[str] = Counter()
    try:
        for _ in range(300):
            for row in ours.sample(0):
                seen[str(row["wait_event"])] += int(row["count"] or 0)
            threading.Event().wait(0.01)
    finally:
        run_sql(sampled.target, "ALTER TABLE stopped ADD COLUMN now int")
        for thread in threads:
            thread.join()
    theirs = counted(extension)
    theirs.subtract(before)
    session.close()
    events = ("Timeout:PgSleep", "Lock:transactionid")
    share = seen[events[1]] / sum(seen[event] for event in events)
    their_share = theirs[events[1]] / sum(theirs[event] for event in events)
    assert share == pytest.approx(their_share, abs=0.1)
    assert 0.1 < share < 0.6


def work(*steps: str) -> str:
    """Return a statement that goes through these steps again and again until it shall stop."""
    more = "EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'stopped'::regclass AND attnum = 1)"
    return f"DO $$ BEGIN WHILE NOT {more} LOOP {'; '.join(steps)}; COMMIT; END LOOP; END $$"


def counted(extension: WaitSamplingCollector) -> Counter[str]:
    """Return the extension's samples by event, of all statements together."""
    events: Counter[str] = Counter()
    for row in extension.sample(0):
        events[str(row["wait_event"])] += int(row["samples"] or 0)
    return events


def test_a_notice_names_a_missing_extension(pg15: ScratchCluster) -> None:
    session = open_session(pg15)
    with pytest.raises(NotMeasurable, match="pg_wait_sampling is not in the database"):
        WaitSamplingCollector(session).sample(0)
    session.close()
