"""Healthy servers of many kinds: each is a context in which a watch has nothing to report."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from tests.features.watch.everyday import traffic
from tests.features.watch.incidents import busy, session
from tests.features.watch.strangers import Worker, several
from tests.fixtures.clusters import run_sql, scalar
from tests.fixtures.command import eventually

from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target

Healthy = Callable[[ScratchCluster, Target], AbstractContextManager[None]]


@contextmanager
def idle(cluster: ScratchCluster, target: Target) -> Iterator[None]:
    """Nothing happens."""
    yield


@contextmanager
def steady(cluster: ScratchCluster, target: Target) -> Iterator[None]:
    """Short transactions by key, without pauses: the server is saturated."""

    def act(worker: Worker, turn: int) -> None:
        account = 1 + hash((worker.info.backend_pid, turn)) % 5000
        with worker.transaction():
            worker.execute("UPDATE accounts SET balance = balance + 1 WHERE id = %s", [account])
            worker.execute("SELECT balance FROM accounts WHERE id = %s", [account])
            worker.execute("SELECT note FROM purchases WHERE id = %s", [account])
            worker.execute("INSERT INTO history VALUES (%s, now())", [account])

    run_sql(target, "CREATE TABLE history (account int, at timestamptz)")
    with several(target, "web", act, 8):
        yield


@contextmanager
def analytics(cluster: ScratchCluster, target: Target) -> Iterator[None]:
    """Reports that read whole tables in parallel."""
    run_sql(target, "CREATE TABLE sold AS SELECT l.*, g FROM lines l, generate_series(1, 5) g")
    run_sql(target, "VACUUM ANALYZE sold")
    reports = (
        "SELECT product % 10, count(*), sum(quantity) FROM sold GROUP BY 1",
        "SELECT p.state, sum(l.quantity) FROM purchases p JOIN sold l ON l.purchase = p.id"
        " GROUP BY 1",
        "SELECT product, avg(quantity) FROM sold GROUP BY 1 ORDER BY 2 DESC LIMIT 10",
        "SELECT quantity, count(DISTINCT product) FROM sold WHERE g <> 3 GROUP BY 1",
    )

    def act(worker: Worker, turn: int) -> None:
        if turn == 1:
            worker.execute("SET work_mem = '64MB'")
        worker.execute(reports[turn % len(reports)])  # type: ignore[call-overload]

    with several(target, "report", act, 3):
        yield


@contextmanager
def nightly_batch(cluster: ScratchCluster, target: Target) -> Iterator[None]:
    """COPY into a temporary table, then changes of many rows, one session at a time."""
    run_sql(target, "CREATE TABLE totals (product int, quantity bigint)")

    def act(worker: Worker, turn: int) -> None:
        with worker.transaction():
            worker.execute("CREATE TEMP TABLE loaded (id int, note text) ON COMMIT DROP")
            with worker.cursor().copy("COPY loaded FROM STDIN") as rows:
                for row in range(3000):
                    rows.write_row((row, "x" * 50))
            worker.execute(
                "UPDATE purchases p SET n = p.n + 1 FROM loaded l"
                " WHERE p.id = l.id + %s AND l.id < 1000",
                [turn % 50000],
            )
            worker.execute("INSERT INTO totals SELECT id % 100, sum(id) FROM loaded GROUP BY 1")

    with busy(target, "nightly", act), busy(target, "teller", traffic):
        yield


@contextmanager
def queue(cluster: ScratchCluster, target: Target) -> Iterator[None]:
    """Workers take jobs with SKIP LOCKED, and others add jobs."""
    run_sql(target, "CREATE INDEX ON jobs (id) WHERE state = 'new'")

    def work(worker: Worker, turn: int) -> None:
        with worker.transaction():
            taken = worker.execute(
                "SELECT id FROM jobs WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"
            ).fetchone()
            threading.Event().wait(0.005)
            worker.execute("UPDATE jobs SET state = 'done' WHERE id = %s", taken or [0])

    def add(worker: Worker, turn: int) -> None:
        worker.execute("INSERT INTO jobs VALUES (%s, 'new', 0)", [10**6 + turn])
        threading.Event().wait(0.002)

    with several(target, "job-worker", work, 4), busy(target, "web", add):
        yield


@contextmanager
def notifications(cluster: ScratchCluster, target: Target) -> Iterator[None]:
    """Sessions listen, and others notify."""

    def ring(worker: Worker, turn: int) -> None:
        worker.execute("SELECT pg_notify('calls', %s)", [str(turn)])
        threading.Event().wait(0.005)

    with ExitStack() as stack:
        for _ in range(4):
            listener = stack.enter_context(session(target, "listener", autocommit=True))
            listener.execute("LISTEN calls")
        stack.enter_context(several(target, "web", ring, 2))
        yield


@contextmanager
def logical_replication(cluster: ScratchCluster, target: Target) -> Iterator[None]:
    """A receiver reads changes from a slot and keeps up."""
    run_sql(target, "SELECT pg_create_logical_replication_slot('fine', 'test_decoding')")
    program = Path(cluster.binaries.bin_dir) / "pg_recvlogical"
    where = ["-h", target.host, "-p", target.ports, "-U", target.user, "-d", target.database]
    receiver = subprocess.Popen(
        [program, *where, "--slot", "fine", "--start", "-f", "-"], stdout=subprocess.DEVNULL
    )
    is_active = "SELECT active FROM pg_replication_slots WHERE slot_name = 'fine'"
    try:
        eventually(lambda: scalar(target, is_active))
        with several(target, "teller", traffic, 3):
            yield
    finally:
        receiver.kill()
        receiver.wait()
        eventually(lambda: not scalar(target, is_active))
        run_sql(target, "SELECT pg_drop_replication_slot('fine')")


@contextmanager
def pooled(cluster: ScratchCluster, target: Target) -> Iterator[None]:
    """A pool keeps many idle sessions, of which few work."""
    with ExitStack() as stack:
        for number in range(16):
            idle_one = stack.enter_context(session(target, f"pool-{number}", autocommit=True))
            idle_one.execute("SELECT 1")
        stack.enter_context(several(target, "pool", traffic, 3))
        yield


ALL: tuple[Healthy, ...] = (
    idle, steady, analytics, nightly_batch, queue, notifications, logical_replication, pooled,
)  # fmt: skip
