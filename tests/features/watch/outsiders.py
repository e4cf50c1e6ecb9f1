"""More incidents of public reports, staged small: each is a context with a server in trouble."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import psycopg
from tests.features.watch.incidents import busy, session, waiting
from tests.features.watch.strangers import Worker, loop, several
from tests.fixtures.clusters import run_sql, scalar
from tests.fixtures.command import eventually
from tests.fixtures.poolers import Pooler
from tests.fixtures.standby import Standby

from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target


@contextmanager
def multixacts(target: Target) -> Iterator[None]:
    """Readers look up rows that one locks and another one changes (GitLab, AWS)."""
    run_sql(target, "CREATE TABLE parents AS SELECT id, 0 AS n FROM generate_series(1, 20000) id")
    run_sql(target, "ALTER TABLE parents ADD PRIMARY KEY (id)")
    run_sql(target, "ANALYZE parents")
    with session(target, "importer") as locker, session(target, "counter") as writer:
        # Each block has another id, so each row has another multixact.
        locker.execute(
            "DO $$ BEGIN FOR i IN 1..20000 LOOP BEGIN PERFORM FROM parents WHERE id = i"
            " FOR KEY SHARE; EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END $$"
        )
        writer.execute("UPDATE parents SET n = n + 1")
        with several(target, "runner", loop("SELECT count(*) FROM parents"), 4):
            yield


@contextmanager
def multixacts_run_out(target: Target) -> Iterator[None]:
    """Foreign keys to hot rows use up multixacts (Metronome)."""
    run_sql(target, "CREATE TABLE hot AS SELECT id FROM generate_series(1, 10) id")
    run_sql(target, "ALTER TABLE hot ADD PRIMARY KEY (id)")
    with session(target, "cart") as cart:
        cart.execute("SELECT FROM hot WHERE id = 1 FOR KEY SHARE")
        run_sql(
            target,
            "DO $$ BEGIN FOR i IN 1..13000 LOOP PERFORM FROM hot WHERE id = 1 FOR KEY SHARE;"
            " COMMIT; END LOOP; END $$",
        )
        yield


@contextmanager
def integers_run_out(target: Target) -> Iterator[None]:
    """The sequence is a bigint, its column is not: each insert fails (Basecamp, Buildkite)."""
    run_sql(target, "CREATE SEQUENCE numbers AS bigint START 2147483648")
    run_sql(target, "CREATE TABLE notes (id int DEFAULT nextval('numbers'), n int)")

    def act(worker: Worker, turn: int) -> None:
        try:
            worker.execute("INSERT INTO notes (n) VALUES (1)")
        except psycopg.Error:
            threading.Event().wait(0.01)

    with several(target, "web", act, 2):
        yield


@contextmanager
def queue_of_locked_rows(target: Target) -> Iterator[None]:
    """A worker took thousands of jobs and stands still; the others pass over them (Solid Queue)."""
    run_sql(target, "CREATE TABLE jobs AS SELECT id, 0 AS n FROM generate_series(1, 60000) id")
    run_sql(target, "ALTER TABLE jobs ADD PRIMARY KEY (id)")
    run_sql(target, "VACUUM ANALYZE jobs")
    with session(target, "stuck-worker") as stuck:
        stuck.execute("SELECT id FROM jobs ORDER BY id LIMIT 30000 FOR UPDATE SKIP LOCKED")
        take = loop("SELECT id FROM jobs ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED")
        with several(target, "worker", take, 2):
            yield


@contextmanager
def limit_plan(target: Target) -> Iterator[None]:
    """With LIMIT the planner walks the key and finds nothing (the dashboard of many)."""
    run_sql(
        target,
        "CREATE TABLE tickets AS SELECT id, CASE WHEN id > 58000 THEN 'open' ELSE 'shut' END AS s,"
        " repeat('x', 60) AS note FROM generate_series(1, 60000) id",
    )
    run_sql(target, "ALTER TABLE tickets ADD PRIMARY KEY (id)")
    run_sql(target, "CREATE INDEX ON tickets (s)")
    run_sql(target, "VACUUM ANALYZE tickets")
    asked = "SELECT id FROM tickets WHERE s = %s ORDER BY id LIMIT 5"
    with several(target, "dashboard", loop(asked, lambda _: "open"), 2):
        yield


@contextmanager
def deep_pages(target: Target) -> Iterator[None]:
    """A crawler asks for the last pages with OFFSET (GitLab)."""
    asked = "SELECT * FROM orders ORDER BY id LIMIT 5 OFFSET %s"
    with several(target, "crawler", loop(asked, lambda turn: 40000 + turn % 9000), 2):
        yield


@contextmanager
def large_values(target: Target) -> Iterator[None]:
    """Each request reads documents of megabytes (pganalyze)."""
    run_sql(target, "CREATE TABLE documents (id int PRIMARY KEY, body text)")
    run_sql(target, "ALTER TABLE documents ALTER body SET STORAGE EXTERNAL")
    run_sql(
        target, "INSERT INTO documents SELECT i, repeat('x', 4000000) FROM generate_series(1, 8) i"
    )
    run_sql(target, "VACUUM ANALYZE documents")
    asked = "SELECT length(substr(body, 7)) FROM documents WHERE id = %s"
    with several(target, "web", loop(asked, lambda turn: 1 + turn % 8), 2):
        yield


@contextmanager
def calls_inside_transactions(target: Target) -> Iterator[None]:
    """Sessions wait for another service within a transaction, so a pool runs dry (GeoID)."""

    def act(worker: Worker, turn: int) -> None:
        with worker.transaction():
            worker.execute("SELECT n FROM orders WHERE id = %s", [1 + turn])
            threading.Event().wait(0.5)

    with several(target, "web", act, 12):
        yield


@contextmanager
def compiled_again_and_again(target: Target) -> Iterator[None]:
    """Each call compiles its plan (the dashboard of a health service)."""
    run_sql(target, "CREATE TABLE days (day int, area int, n int) PARTITION BY RANGE (day)")
    for part in range(6):
        run_sql(
            target,
            f"CREATE TABLE days{part} PARTITION OF days FOR VALUES FROM ({part}) TO ({part + 1})",
        )
    run_sql(target, "INSERT INTO days SELECT i % 6, i, 1 FROM generate_series(1, 2000) i")
    run_sql(target, "ANALYZE days")

    def act(worker: Worker, turn: int) -> None:
        if turn == 1:
            worker.execute("SET jit_above_cost = 0; SET jit_inline_above_cost = 0")
            worker.execute("SET jit_optimize_above_cost = 0")
        worker.execute("SELECT area, sum(n) FROM days WHERE area < %s GROUP BY 1", [turn % 50])

    with session(target, "dashboard", autocommit=True) as before:
        act(before, 1)
    with several(target, "dashboard", act, 2):
        yield


@contextmanager
def notifications(target: Target) -> Iterator[None]:
    """Commits that notify queue for one lock of the whole server (Recall.ai)."""
    run_sql(target, "CREATE TABLE calls (n int)")

    def act(worker: Worker, turn: int) -> None:
        if turn == 1:
            worker.execute("SET synchronous_commit = on")
        with worker.transaction():
            worker.execute("INSERT INTO calls VALUES (%s)", [turn])
            worker.execute(
                "SELECT pg_notify('calls', i || repeat('x', 7000)) FROM generate_series(1, 300) i"
            )

    with several(target, "recorder", act, 10):
        yield


@contextmanager
def index_behind_a_transaction(target: Target) -> Iterator[None]:
    """CREATE INDEX CONCURRENTLY waits for a transaction that does not touch its table."""
    with session(target, "notebook") as idle:
        idle.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        idle.execute("SELECT 1 FROM items LIMIT 1")
        with waiting(target, "migrate", "CREATE INDEX CONCURRENTLY ON orders (n)"):
            yield


@contextmanager
def slow_standby(standby: Standby, target: Target) -> Iterator[None]:
    """Commits wait until a standby that stands still has replayed them."""
    run_sql(standby.target, "SELECT pg_wal_replay_pause()")
    applied = replace(target, options="-c synchronous_commit=remote_apply")
    try:
        with waiting(applied, "web", "INSERT INTO items VALUES (0, 0)", 3):
            yield
    finally:
        run_sql(standby.target, "SELECT pg_wal_replay_resume()")


@contextmanager
def cancelled_reports(standby: Standby, target: Target) -> Iterator[Target]:
    """Replay of a vacuum cancels the reports that a standby runs (Heroku)."""
    run_sql(standby.target, "ALTER SYSTEM SET max_standby_streaming_delay = 0")
    run_sql(standby.target, "SELECT pg_reload_conf()")
    there = standby.target.with_database(target.database)

    def report(worker: Worker, turn: int) -> None:
        try:
            # Recovery also ends sessions: each report has its own.
            with session(there, "report") as own:
                own.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                own.execute("SELECT count(*) FROM items")
                own.execute("SELECT pg_sleep(0.1)")
                own.execute("SELECT count(*) FROM items")
        except psycopg.Error:
            return

    def change(worker: Worker, turn: int) -> None:
        worker.execute("UPDATE items SET n = n + 1")
        worker.execute("VACUUM items")
        # Without a pause, replay would cancel those that look, too.
        time.sleep(0.3)

    with several(there, "report", report, 2), busy(target, "web", change):
        counted = "SELECT sum(confl_snapshot) FROM pg_stat_database_conflicts"
        eventually(lambda: scalar(there, counted))
        yield there


@contextmanager
def clients_behind_a_pool(pooler: Pooler) -> Iterator[None]:
    """All server connections of a pool are in transactions that stand still."""
    with ExitStack() as opened:
        for _ in range(4):
            opened.enter_context(session(pooler.target, "web")).execute("SELECT 1")
        queue = [threading.Thread(target=_ask, args=(pooler.target,)) for _ in range(3)]
        for thread in queue:
            thread.start()
        try:
            yield
        finally:
            opened.close()
            for thread in queue:
                thread.join()


def _ask(target: Target) -> None:
    with session(target, "web", autocommit=True) as made:
        made.execute("SELECT 1")


@contextmanager
def stuck_receiver(cluster: ScratchCluster, target: Target) -> Iterator[None]:
    """The receiver of a slot is connected and stands still, as a stalled Debezium."""
    run_sql(target, "SELECT pg_create_logical_replication_slot('cdc', 'test_decoding')")
    program = Path(cluster.binaries.bin_dir) / "pg_recvlogical"
    where = ["-h", target.host, "-p", target.ports, "-U", target.user, "-d", target.database]
    receiver = subprocess.Popen(
        [program, *where, "--slot", "cdc", "--start", "-f", "-"], stdout=subprocess.DEVNULL
    )
    try:
        active = "SELECT active FROM pg_replication_slots WHERE slot_name = 'cdc'"
        eventually(lambda: scalar(target, active))
        os.kill(receiver.pid, signal.SIGSTOP)
        run_sql(target, "CREATE TABLE changed (n int, note text)")
        grow = "INSERT INTO changed SELECT g, repeat('y', 300) FROM generate_series(1, 20000) g"
        with busy(target, "web", loop(grow)):
            yield
    finally:
        receiver.kill()
        receiver.wait()
        eventually(lambda: not scalar(target, active))
        run_sql(target, "SELECT pg_drop_replication_slot('cdc')")
