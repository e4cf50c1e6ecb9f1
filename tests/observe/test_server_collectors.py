"""Every collector that asks PostgreSQL, on real servers: the contract, and known loads."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from tests.fixtures.clusters import make_cluster_if_offered
from tests.observe.contract import CollectorContract

from pgdyno.clock import monotonic_ns
from pgdyno.observe.catalogue import statements
from pgdyno.observe.collector import Collector, NotMeasurable, Row
from pgdyno.observe.processes.backends import BackendsCollector, LocalProcesses
from pgdyno.observe.processes.proc_files import TICK_NS
from pgdyno.observe.processes.usage import UsageCollector
from pgdyno.observe.session import ServerSession
from pgdyno.observe.sql.database import DatabaseCollector
from pgdyno.observe.sql.io import IoCollector, SlruCollector
from pgdyno.observe.sql.objects import TablesCollector
from pgdyno.observe.sql.replication import ReplicationCollector, SlotsCollector
from pgdyno.observe.sql.sessions import LocksCollector, ProgressCollector
from pgdyno.observe.sql.sql_collector import SqlCollector, pick
from pgdyno.observe.sql.waits import UNSEEN, WaitSampler
from pgdyno.observe.sql.wal import ArchiverCollector, CheckpointerCollector, WalCollector
from pgdyno.server.connect import connect
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.session_start import AT_ONCE
from pgdyno.server.target import Target

LOAD = "pgdyno/bench/1"
WITHOUT_PARAMETERS: tuple[type[SqlCollector], ...] = (
    ReplicationCollector,
    LocksCollector,
    ProgressCollector,
    SlotsCollector,
    SlruCollector,
    ArchiverCollector,
)
PATIENCE_NS = 20_000_000_000


def open_session(cluster: ScratchCluster) -> ServerSession:
    session = ServerSession(
        lambda: connect(cluster.target, verb="observe"), "pgdyno/observe/1", is_local=True
    )
    session.open()
    return session


@pytest.fixture
def session(any_server: ScratchCluster) -> Iterator[ServerSession]:
    opened = open_session(any_server)
    yield opened
    opened.close()


def load_connection(target: Target) -> psycopg.Connection:
    load = connect(target, verb="bench", run="1")
    load.use_load_path()
    return load


def sample_until(collector: Collector, wanted: Callable[[list[Row]], bool]) -> list[Row]:
    """Sample until the rows are as wanted; fail after a generous time.

    On a machine that stood still a statement has had its time when it goes on, and is cancelled:
    that is not a sample, here as in an observer.
    """
    deadline_ns = monotonic_ns() + PATIENCE_NS
    rows: list[Row] = []
    while True:
        with contextlib.suppress(psycopg.errors.QueryCanceled):
            rows = collector.sample(0)
            if wanted(rows):
                return rows
        assert monotonic_ns() < deadline_ns, rows


class TestDatabase(CollectorContract):
    @pytest.fixture
    def collector(self, session: ServerSession) -> Collector:
        return DatabaseCollector(session, "postgres")

    def test_commits_of_the_load_are_counted_only_in_its_database(
        self, session: ServerSession, database: Target
    ) -> None:
        collector = DatabaseCollector(session, database.database)
        before = {row["scope"]: row for row in collector.sample(0)}
        with load_connection(database) as load:
            for _ in range(50):
                load.execute("SELECT 1")
        # A backend that ends reports everything before it leaves.
        grown = 50 + int(before["ours"]["xact_commit"] or 0)
        rows = sample_until(
            collector, lambda rows: any(_is_ours(row, "xact_commit", grown) for row in rows)
        )
        assert {row["scope"] for row in rows} == {"ours", "others"}


def _is_ours(row: Row, column: str, at_least: int) -> bool:
    value = row[column]
    return row["scope"] == "ours" and isinstance(value, int) and value >= at_least


class TestWal(CollectorContract):
    @pytest.fixture
    def collector(self, session: ServerSession) -> Collector:
        return WalCollector(session)

    def test_the_position_grows_by_what_is_written(
        self, collector: Collector, database: Target
    ) -> None:
        before = int(collector.sample(0)[0]["position_bytes"] or 0)
        with load_connection(database) as load:
            load.execute("CREATE TABLE t AS SELECT repeat('x', 1000) FROM generate_series(1, 500)")
        assert int(collector.sample(0)[0]["position_bytes"] or 0) > before + 500_000


class TestCheckpointer(CollectorContract):
    @pytest.fixture
    def collector(self, session: ServerSession) -> Collector:
        return CheckpointerCollector(session)

    def test_a_requested_checkpoint_is_counted(
        self, collector: Collector, database: Target
    ) -> None:
        before = int(collector.sample(0)[0]["checkpoints_requested"] or 0)
        with load_connection(database) as load:
            load.execute("CREATE TABLE t (a int)")
            load.execute("CHECKPOINT")
        sample_until(collector, lambda rows: int(rows[0]["checkpoints_requested"] or 0) > before)


class TestWaits(CollectorContract):
    @pytest.fixture
    def collector(self, session: ServerSession) -> Collector:
        return WaitSampler(session, LOAD, session.database)

    def test_a_session_of_the_load_that_waits_for_a_lock_is_counted_as_ours(
        self, collector: Collector, database: Target
    ) -> None:
        with load_connection(database) as holder, load_connection(database) as waiter:
            holder.execute("SELECT pg_advisory_lock(1)")
            thread = threading.Thread(target=waiter.execute, args=["SELECT pg_advisory_lock(1)"])
            thread.start()
            rows = sample_until(
                collector, lambda rows: any(row["wait_event"] == "Lock:advisory" for row in rows)
            )
            holder.execute("SELECT pg_advisory_unlock(1)")
            thread.join()
        (row,) = [row for row in rows if row["wait_event"] == "Lock:advisory"]
        assert (row["ours"], row["count"], row["state"]) == (1, 1, "active")
        assert row["backend_type"] == "client backend"

    def test_sessions_of_other_programs_are_listed_separately(
        self, collector: Collector, database: Target
    ) -> None:
        with connect(database, verb="other") as other, other.transaction():
            other.execute("SELECT 1")
            # The state is reported a moment before the wait begins: ask for both at once.
            seen = ("idle in transaction", "Client:ClientRead")
            rows = sample_until(
                collector, lambda rows: any((r["state"], r["wait_event"]) == seen for r in rows)
            )
        (row,) = [row for row in rows if row["state"] == "idle in transaction"]
        assert row["ours"] == 0

    def test_a_sample_without_sessions_at_work_is_still_recorded(
        self, collector: Collector, database: Target
    ) -> None:
        with load_connection(database) as load:
            load.execute("SELECT 1")
            rows = sample_until(collector, lambda rows: [row["count"] for row in rows] == [0])
        assert rows[0]["backend_type"] == ""


class TestBackends(CollectorContract):
    @pytest.fixture
    def collector(self, session: ServerSession) -> Iterator[Collector]:
        collector = BackendsCollector(session, LOAD)
        yield collector
        collector.close()

    def test_cpu_of_the_loads_backends_is_kept_when_they_end(
        self, collector: Collector, database: Target
    ) -> None:
        with load_connection(database) as load:
            sample_until(collector, lambda rows: _group(rows, "load")["processes"] == 1)
            load.execute("SELECT count(*) FROM generate_series(1, 300000)")
            busy = int(_group(collector.sample(0), "load")["run_ns"] or 0)
            assert busy > 5_000_000
        rows = sample_until(collector, lambda rows: _group(rows, "load")["processes"] == 0)
        assert int(_group(rows, "load")["run_ns"] or 0) >= busy

    def test_the_servers_background_processes_are_distinguished(self, collector: Collector) -> None:
        wanted = {"postmaster", "checkpointer", "background writer", "walwriter", "observer"}
        sample_until(collector, lambda rows: wanted <= {str(row["backend_type"]) for row in rows})

    def test_a_note_says_that_a_server_runs_in_another_container(
        self, session: ServerSession, tmp_path: Path
    ) -> None:
        (tmp_path / "self").mkdir()
        (tmp_path / "self" / "schedstat").write_text("1 2 3\n")
        with pytest.raises(NotMeasurable, match="container"):
            BackendsCollector(session, LOAD, LocalProcesses(tmp_path)).sample(0)


class TestProcessUsage(CollectorContract):
    @pytest.fixture
    def backends(self, session: ServerSession) -> Iterator[BackendsCollector]:
        backends = BackendsCollector(session, LOAD)
        yield backends
        backends.close()

    @pytest.fixture
    def collector(self, backends: BackendsCollector) -> Iterator[Collector]:
        backends.sample(0)
        collector = UsageCollector(backends.processes, LocalProcesses().usage)
        yield collector
        collector.close()

    def test_cpu_time_by_mode_is_what_the_kernel_counted_as_run(
        self, collector: Collector, backends: BackendsCollector, database: Target
    ) -> None:
        with load_connection(database) as load:
            sample_until(backends, lambda rows: _group(rows, "load")["processes"] == 1)
            load.execute("SELECT count(*) FROM generate_series(1, 1000000)")
            run_ns = int(_group(backends.sample(0), "load")["run_ns"] or 0)
            usage = _group(collector.sample(0), "load")
        modes_ns = int(usage["cpu_user_ns"] or 0) + int(usage["cpu_system_ns"] or 0)
        assert abs(modes_ns - run_ns) <= 2 * TICK_NS + run_ns // 20
        assert int(usage["minor_faults"] or 0) > 0
        # What ended stays in its total.
        sample_until(backends, lambda rows: _group(rows, "load")["processes"] == 0)
        assert _group(collector.sample(0), "load") == usage


def _group(rows: list[Row], backend_type: str) -> Row:
    matching = [row for row in rows if row["backend_type"] == backend_type]
    return matching[0] if matching else {"processes": -1, "run_ns": 0}


@pytest.mark.pg
@pytest.mark.parametrize("version", ["14", "16", "17"])
def test_every_statement_runs_on_this_version_too(version: str, house: Path) -> None:
    with make_cluster_if_offered(version) as cluster:
        session = open_session(cluster)
        for collector in (
            DatabaseCollector(session, "postgres"),
            WalCollector(session),
            CheckpointerCollector(session),
            WaitSampler(session, LOAD, session.database),
            BackendsCollector(session, LOAD),
            *(collector(session) for collector in WITHOUT_PARAMETERS),
            TablesCollector(session, "postgres"),
        ):
            for row in collector.sample(0):
                assert row.keys() == {column.name for column in collector.columns}
        if int(version) >= 16:
            assert IoCollector(session).sample(0)
        session.close()


def test_a_server_older_than_every_variant_is_not_measurable() -> None:
    with pytest.raises(NotMeasurable, match="needs PostgreSQL 14 or later, the server is 13"):
        pick("wal", {14: "a", 18: "b"}, 13)
    assert [pick("wal", {14: "a", 18: "b"}, version) for version in (14, 17, 18, 19)] == [*"aabb"]


# Of the few sessions that wait or hold others up; they are kept without values.
TEXTS_ARE_READ = {"lock_queues", "holds"}


def test_no_statement_may_write_or_read_query_texts() -> None:
    for version in range(10, 19):
        for name, sql in statements(version).items():
            # The first statement of a session is not compiled.
            assert sql.removeprefix(AT_ONCE).startswith("SELECT "), name
            if name not in TEXTS_ARE_READ:
                assert "query," not in sql.replace("query_id", ""), name
            assert "reset(" not in sql, name


def test_a_parallel_worker_that_ends_is_no_hidden_session(any_server: ScratchCluster) -> None:
    target = any_server.target
    always = (
        "debug_parallel_query"
        if int(any_server.binaries.version.split(".")[0]) >= 16
        else "force_parallel_mode"
    )
    seen: Counter[str] = Counter()
    with contextlib.closing(open_session(any_server)) as session, connect(target, verb="x") as load:
        sampler = WaitSampler(session, LOAD, session.database)
        load.execute(f"SET {always} = on")
        ends = monotonic_ns() + 3_000_000_000
        body = "FOR i IN 1..200 LOOP PERFORM count(*) FROM pg_catalog.pg_class; END LOOP"
        while monotonic_ns() < ends:
            worker = threading.Thread(target=load.execute, args=(f"DO $$ BEGIN {body}; END $$",))
            worker.start()
            while worker.is_alive():
                seen.update(str(row["backend_type"]) for row in sampler.sample(monotonic_ns()))
            worker.join()
    assert not seen[UNSEEN]
    assert seen["parallel worker"]
