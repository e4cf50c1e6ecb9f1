"""Serialization failures and deadlocks, made with advisory locks, are counted one by one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.fixtures.clusters import run_sql, scalar
from tests.fixtures.command import eventually
from tests.fixtures.engine_process import Engine, EngineEnd, load_job

from pgdyno.engine.records import TimeDistribution
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target

pytestmark = pytest.mark.pg
CLIENTS, EACH = 4, 15
# A sequence does not roll back: it counts every try.
SERIALIZATION = """BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT nextval('tried');
SELECT n FROM counter;
SELECT pg_advisory_xact_lock(1);
UPDATE counter SET n = n + 1;
END;
"""
# Half of the clients take the locks in the one order, half in the other.
DEADLOCK = """\\set first :client_id % 2 + 1
\\set second 3 - :first
BEGIN;
SELECT nextval('tried');
SELECT pg_advisory_xact_lock(:first);
SELECT pg_sleep(0.01);
SELECT pg_advisory_xact_lock(:second);
UPDATE counter SET n = n + 1;
END;
"""


@pytest.fixture
def database(pg18: ScratchCluster) -> Iterator[Target]:
    """A database that counts tries and commits, and finds deadlocks soon."""
    target = pg18.target
    run_sql(target, "DROP TABLE IF EXISTS counter; DROP SEQUENCE IF EXISTS tried")
    run_sql(target, "CREATE TABLE counter AS SELECT 0 AS n")
    run_sql(target, "CREATE SEQUENCE tried")
    run_sql(target, f"ALTER ROLE {target.user} SET deadlock_timeout = '20ms'")
    yield target
    run_sql(target, f"ALTER ROLE {target.user} RESET deadlock_timeout")
    run_sql(target, "DROP TABLE counter; DROP SEQUENCE tried")


def _tries(target: Target) -> int:
    return int(scalar(target, "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM tried"))


def _done(target: Target) -> int:
    return int(scalar(target, "SELECT n FROM counter"))


def _deadlocks(target: Target) -> int:
    return int(
        scalar(
            target,
            "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()",
        )
    )


def _of(end: EngineEnd, measured: str) -> TimeDistribution:
    distribution = end.summary.distribution(measured)
    assert distribution is not None
    return distribution


def _every_try_is_counted(end: EngineEnd, target: Target) -> None:
    counts = end.summary.counts
    assert counts.started == counts.completed + counts.failed + counts.unfinished
    assert (counts.failed, counts.unfinished) == (0, 0)
    assert counts.completed == _done(target) == CLIENTS * EACH
    assert counts.retries > 0
    assert _tries(target) == counts.completed + counts.retries
    # Tries of transactions that needed several, the last one of each among them.
    attempts = _of(end, "attempt")
    assert attempts.count == counts.retries + counts.retried
    # Whole latencies hold every try, and the pauses between them.
    assert _of(end, "latency").sum_ns > attempts.sum_ns


def test_serialization_failures_are_retried_and_counted_exactly(
    database: Target, engine: Engine
) -> None:
    job = load_job(database, SERIALIZATION, clients=CLIENTS, transactions=EACH, max_tries=1000)
    end = engine(job)
    assert end.exit_code == 0, end.stderr
    _every_try_is_counted(end, database)


def test_deadlocks_are_retried_and_counted_exactly(database: Target, engine: Engine) -> None:
    before = _deadlocks(database)
    job = load_job(database, DEADLOCK, clients=CLIENTS, transactions=EACH, max_tries=1000)
    end = engine(job)
    assert end.exit_code == 0, end.stderr
    _every_try_is_counted(end, database)
    counted = before + end.summary.counts.retries
    # The server's own number comes when its backends have gone.
    assert eventually(lambda: _deadlocks(database) == counted)


def test_a_number_of_tries_is_the_most_there_are(database: Target, engine: Engine) -> None:
    script = (
        "SELECT nextval('tried');\n"
        "DO $$ BEGIN RAISE EXCEPTION 'again' USING ERRCODE = '40001'; END $$;\n"
    )
    end = engine(load_job(database, script, clients=2, transactions=3, max_tries=4))
    counts = end.summary.counts
    assert end.summary.failures == {"40001": 6}
    assert (counts.failed, counts.completed, counts.retries) == (6, 0, 6 * 3)
    assert _tries(database) == 6 * 4
    assert _of(end, "attempt").count == 6 * 4
