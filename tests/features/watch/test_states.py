"""Servers in a bad state, one for all rules: each is found, and before it is not."""

from __future__ import annotations

import os
import re
import signal
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from tests.features.watch.incidents import (
    busy,
    findings,
    judged,
    judged_until,
    of_kind,
    session,
    waiting,
)
from tests.fixtures.clusters import make_cluster, run_sql, scalar
from tests.fixtures.command import eventually
from tests.fixtures.poolers import Pooler
from tests.fixtures.standby import Standby

from pgdyno.features.watch.incident.finding import IncidentFinding
from pgdyno.features.watch.tally import Tally
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target

pytestmark = pytest.mark.pg
SETTINGS = {
    "shared_preload_libraries": "pg_stat_statements",
    "autovacuum_freeze_max_age": "100000",
    "autovacuum_max_workers": "1",
    "autovacuum_naptime": "1s",
    "autovacuum_vacuum_cost_delay": "0",
    "max_prepared_transactions": "5",
    "max_wal_size": "32MB",
    "min_wal_size": "32MB",
    "wal_level": "logical",
    "work_mem": "64kB",
}
# Each block with EXCEPTION that writes takes a transaction id.
_CONSUME = (
    "DO $$ BEGIN FOR i IN 1..130000 LOOP BEGIN INSERT INTO consumed VALUES (i);"
    " EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END $$"
)


@pytest.fixture(scope="module", params=["15", "18"])
def server(request: pytest.FixtureRequest, house: Path) -> Iterator[ScratchCluster]:
    """A server whose limits are small."""
    with make_cluster(request.param, settings=SETTINGS, clients=25) as cluster:
        run_sql(cluster.target, "CREATE EXTENSION pg_stat_statements")
        run_sql(
            cluster.target,
            "CREATE TABLE orders AS SELECT id, 0 AS n, repeat('x', 60) AS note"
            " FROM generate_series(1, 40000) id",
        )
        run_sql(cluster.target, "ALTER TABLE orders ADD PRIMARY KEY (id)")
        run_sql(cluster.target, "CREATE TABLE consumed (i int)")
        run_sql(cluster.target, "VACUUM ANALYZE")
        yield cluster


def by_kind(listed: list[IncidentFinding]) -> dict[str, IncidentFinding]:
    """Return the first finding of each kind."""
    return {finding.kind: finding for finding in reversed(listed)}


def test_a_server_without_trouble_has_no_finding(server: ScratchCluster) -> None:
    with busy(
        server.target, "web", lambda worker, turn: worker.execute("SELECT 1 FROM orders LIMIT 1")
    ):
        assert judged(server.target, 1) == []


def test_what_keeps_rows_and_transaction_ids_is_named(server: ScratchCluster) -> None:
    """A slot, a prepared transaction, a standby's query and an idle session keep old rows."""
    target = server.target
    for name in ("max_connections", "max_prepared_transactions"):
        # The base backup has them; a standby needs at least those of its primary.
        run_sql(target, f"ALTER SYSTEM SET {name} = {scalar(target, f'SHOW {name}')}")
    with Standby(server) as standby, ExitStack() as opened:
        run_sql(target, "ALTER SYSTEM RESET synchronous_standby_names")
        run_sql(target, "SELECT pg_reload_conf()")
        run_sql(standby.target, "ALTER SYSTEM SET hot_standby_feedback = on")
        run_sql(standby.target, "ALTER SYSTEM SET wal_receiver_status_interval = '1s'")
        run_sql(standby.target, "SELECT pg_reload_conf()")
        report = opened.enter_context(session(standby.target, "report"))
        report.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        report.execute("SELECT count(*) FROM orders")
        run_sql(target, "SELECT pg_create_logical_replication_slot('cdc', 'test_decoding')")
        run_sql(target, "CREATE TABLE paid (n int)")
        two_phase = opened.enter_context(session(target, "two-phase", autocommit=True))
        two_phase.execute("BEGIN")
        two_phase.execute("INSERT INTO paid VALUES (1)")
        two_phase.execute("PREPARE TRANSACTION 'pay-17'")
        idle = opened.enter_context(session(target, "notebook"))
        idle.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        idle.execute("SELECT 1 FROM orders LIMIT 1")
        feedback = "SELECT backend_xmin IS NOT NULL FROM pg_stat_replication"
        eventually(lambda: scalar(target, feedback))
        try:
            run_sql(target, _CONSUME)
            run_sql(standby.target, "SELECT pg_wal_replay_pause()")
            for _ in range(4):
                run_sql(target, "UPDATE orders SET n = n + 1")
            listed = judged(target, 1)
            lag = "SELECT coalesce(extract(epoch FROM replay_lag), 0) > 10 FROM pg_stat_replication"
            eventually(lambda: scalar(target, lag))
            late = by_kind(judged(target, 1))
            of_standby = by_kind(judged(standby.target, 1))
        finally:
            run_sql(target, "ROLLBACK PREPARED 'pay-17'")
            run_sql(target, "SELECT pg_drop_replication_slot('cdc')")
    kinds = by_kind(listed)
    assert "standby walreceiver" in kinds["standby keeps rows"].said
    assert "replication slot cdc" in kinds["slot keeps rows"].said
    assert "ROLLBACK PREPARED 'pay-17'" in kinds["prepared transaction"].next_step
    assert "orders has" in kinds["prepared transaction"].cost
    assert kinds["wraparound"].evidence["age"] > 120_000
    assert "kept by" in str(kinds["wraparound"].lines)
    if "autovacuum cannot keep up" in kinds:
        assert "no vacuum can remove them" in kinds["autovacuum cannot keep up"].next_step
    assert "cdc" in kinds["slot keeps WAL"].said
    assert "standby walreceiver is" in late["standby lag"].said
    assert "not replayed" in late["standby lag"].said
    assert "paus" in of_standby["standby lag"].next_step
    assert "notebook" in late["idle in transaction"].said


def test_limits_that_are_near_are_named(server: ScratchCluster) -> None:
    """Connections of all, of one role, WAL that forces checkpoints, temporary files, a serial."""
    target = server.target
    run_sql(target, "CREATE ROLE web LOGIN CONNECTION LIMIT 5")
    run_sql(target, "CREATE TABLE events (id serial, n int)")
    run_sql(target, "SELECT setval('events_id_seq', 2000000000)")
    room = int(str(scalar(target, "SELECT current_setting('max_connections')")))
    web = replace(target, user="web")
    with ExitStack() as opened:
        for _ in range(5):
            opened.enter_context(session(web, "web", autocommit=True))
        for _ in range(room - 3 - 5 - 3):
            opened.enter_context(session(target, "pool", autocommit=True))
        grow = "INSERT INTO consumed SELECT g FROM generate_series(1, 100000) g"
        # Wide rows: many bytes for little CPU time, also on a busy machine.
        sort = "SELECT repeat(note, 20), id FROM orders ORDER BY -id OFFSET 39999"
        with (
            busy(target, "growing", lambda worker, _: worker.execute(grow)),
            busy(target, "sorting", lambda worker, _: worker.execute(sort)),
        ):
            kinds = by_kind(judged_until(target, "temporary files", 3))
    assert "role web has 5 of 5 sessions" in kinds["connection limit"].said
    assert "further sessions" in kinds["connections"].cost
    assert "max_wal_size" in kinds["forced checkpoints"].said
    assert kinds["temporary files"].evidence["files"] >= 10
    assert "events_id_seq has used 93 %" in kinds["sequence near its end"].said


def test_one_worker_that_is_always_busy_cannot_keep_up(server: ScratchCluster) -> None:
    target = server.target
    slow = "autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1"
    run_sql(target, f"CREATE TABLE busy_one (n int) WITH ({slow})")
    run_sql(target, "INSERT INTO busy_one SELECT generate_series(1, 100000)")
    run_sql(target, "CREATE TABLE waits AS SELECT generate_series(1, 20000) AS n")
    run_sql(target, "DELETE FROM busy_one")
    at_work = (
        "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'autovacuum worker'"
        " AND query LIKE '%busy_one%'"
    )
    try:
        eventually(lambda: scalar(target, at_work))
        run_sql(target, "UPDATE waits SET n = n + 1")
        with busy(target, "web", lambda w, _: w.execute("UPDATE waits SET n = n + 1")):
            finding = by_kind(judged(target, 2))["autovacuum cannot keep up"]
    finally:
        run_sql(target, "DROP TABLE busy_one, waits")
    assert "its only worker is busy" in finding.said
    assert "dead rows" in finding.cost


def test_ddl_that_waits_for_a_slow_vacuum_is_named_with_the_vacuum(server: ScratchCluster) -> None:
    """Neither a vacuum by hand nor one against wraparound gives way to DDL."""
    target = server.target
    run_sql(target, "CREATE TABLE old AS SELECT generate_series(1, 100000) AS n")
    slow = "-c vacuum_cost_delay=100 -c vacuum_cost_limit=1"
    alter, read = "ALTER TABLE old ADD COLUMN added int", "SELECT * FROM old LIMIT 1"
    patient = replace(target, options=slow)
    try:
        with (
            waiting(patient, "maintenance", "VACUUM (FREEZE) old"),
            waiting(target, "migration", alter),
            waiting(target, "web", read, 3),
        ):
            finding = by_kind(judged(target, 3))["lock queue behind DDL"]
    finally:
        run_sql(target, "DROP TABLE old")
    assert "maintenance" in finding.said
    assert "VACUUM" in str(finding.lines)
    assert finding.evidence["waiting"] == 4
    assert "pg_cancel_backend" in finding.next_step


@contextmanager
def holding(target: Target, state: str) -> Iterator[None]:
    """Let a session hold row 7 of `orders` in a state until the block ends."""
    with session(target, "holder") as holder:
        holder.execute("UPDATE orders SET n = 1 WHERE id = 7")
        if state == "prepared":
            holder.execute("PREPARE TRANSACTION 'left''over'")
        with ExitStack() as stack:
            stack.callback(holder.close)
            cursor = holder.cursor()
            if state == "does not read its result":
                stack.enter_context(
                    cursor.copy("COPY (SELECT repeat('x', 1000) FROM orders) TO STDOUT")
                )
            elif state == "sends nothing more":
                stack.enter_context(cursor.copy("COPY orders FROM STDIN"))
            elif state == "at work":
                long = "SELECT pg_sleep(60)"
                stack.enter_context(suppress(psycopg.Error))
                sleeper = threading.Thread(target=suppressed, args=(cursor, long))
                sleeper.start()
                stack.callback(sleeper.join)
                stack.callback(holder.cancel)
            yield


def suppressed(cursor: psycopg.Cursor, statement: str) -> None:
    """Execute a statement that somebody ends."""
    with suppress(psycopg.Error):
        cursor.execute(statement)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "state",
    [
        *("idle in transaction", "at work", "does not read its result", "sends nothing more"),
        "prepared",
    ],
)
def test_the_printed_step_ends_the_queue(server: ScratchCluster, state: str) -> None:
    target = server.target
    waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    with (
        suppress(psycopg.OperationalError),
        holding(target, state),
        waiting(target, "shop", "UPDATE orders SET n = 2 WHERE id = 7", 2),
    ):
        finding = by_kind(judged(target, 2.5))["lock queue"]
        assert state in f"{finding.said}"
        steps = re.findall(
            r"SELECT pg_catalog\.\w+\(\d+\)|ROLLBACK PREPARED '.*'", finding.next_step
        )
        run_sql(target, steps[-1])
        eventually(lambda: scalar(target, waits) == 0)


def test_sessions_behind_an_advisory_lock_of_an_idle_session_are_named(
    server: ScratchCluster,
) -> None:
    with session(server.target, "leader", autocommit=True) as leader:
        leader.execute("SELECT pg_advisory_lock(4)")
        with waiting(server.target, "worker", "SELECT pg_advisory_lock(4)", 2):
            finding = by_kind(judged(server.target, 2.5))["lock queue"]
    assert "an advisory lock" in finding.said
    assert "releases it" in finding.next_step


def test_a_session_without_a_name_behind_a_pooler_is_named_by_its_address(
    server: ScratchCluster, pgbouncer: Path, house: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("pooler", numbered=True)
    for place in (folder, *folder.parents):
        # Only folders of the tests: those of the system are open to all, and stay so.
        if place.stat().st_uid == os.getuid() and stat.S_IMODE(place.stat().st_mode) == 0o700:
            place.chmod(0o755)
    target = server.target
    (server.path / "pg_hba.conf").write_text(
        "local all all trust\nhost all all 127.0.0.1/32 trust\n"
    )
    run_sql(target, "SELECT pg_reload_conf()")
    pooler = Pooler(pgbouncer, replace(target, host="127.0.0.1"), folder)
    try:
        with session(pooler.target, "") as holder:
            holder.execute("UPDATE orders SET n = 1 WHERE id = 3")
            with waiting(target, "shop", "UPDATE orders SET n = 2 WHERE id = 3", 2):
                finding = by_kind(judged(target, 2.5))["lock queue"]
    finally:
        pooler.stop()
    assert "127.0.0.1:" in finding.said
    assert "SHOW SERVERS" in str(finding.lines)


def test_a_process_that_was_killed_is_a_crash_of_the_server(
    server: ScratchCluster, tmp_path: Path
) -> None:
    target = server.target
    began = time.monotonic()

    def kill(_: object) -> bool:
        if time.monotonic() - began < 2:
            return False
        victim = session(target, "victim", autocommit=True)
        os.kill(victim.info.backend_pid, signal.SIGKILL)
        victim.close()
        return True

    def is_back(tally: Tally) -> bool:
        return tally.gap_count > 0 or tally.reset_count > 0

    listed, document = findings(target, tmp_path, 3, kill, is_back)
    assert "recovered" in of_kind(listed, "crash")["said"]
    assert "crashed" in document["sentence"]
