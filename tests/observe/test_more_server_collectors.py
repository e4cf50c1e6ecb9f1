"""Collectors of what is not asked every second: each held to the contract and to a known state."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg import sql
from tests.fixtures.clusters import Make, connection, run_sql, scalar
from tests.fixtures.command import eventually
from tests.fixtures.standby import Standby
from tests.observe.contract import CollectorContract
from tests.observe.test_server_collectors import open_session, sample_until

from pgdyno.observe.catalogue import statements
from pgdyno.observe.collector import Collector, NotMeasurable, Row
from pgdyno.observe.session import ServerSession
from pgdyno.observe.sql.collectors import SQL_COLLECTORS
from pgdyno.observe.sql.io import IoCollector, SlruCollector
from pgdyno.observe.sql.objects import TablesCollector
from pgdyno.observe.sql.replication import ReplicationCollector, SlotsCollector
from pgdyno.observe.sql.sessions import LocksCollector, ProgressCollector
from pgdyno.observe.sql.statements import StatementsCollector
from pgdyno.observe.sql.wal import ArchiverCollector
from pgdyno.server.connect import connect
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target


@pytest.fixture
def session(any_server: ScratchCluster) -> Iterator[ServerSession]:
    opened = open_session(any_server)
    yield opened
    opened.close()


@pytest.fixture
def session18(pg18: ScratchCluster) -> Iterator[ServerSession]:
    opened = open_session(pg18)
    yield opened
    opened.close()


class TestIo(CollectorContract):
    @pytest.fixture
    def collector(self, session18: ServerSession) -> Collector:
        return IoCollector(session18)

    def test_blocks_found_in_shared_buffers_are_counted_for_client_backends(
        self, collector: Collector, pg18: ScratchCluster
    ) -> None:
        def hits(rows: list[Row]) -> int:
            return sum(
                int(row["hits"] or 0) for row in rows if row["backend_type"] == "client backend"
            )

        before = hits(collector.sample(0))
        run_sql(pg18.target, "SELECT count(*) FROM pg_class, pg_attribute LIMIT 1")
        sample_until(collector, lambda rows: hits(rows) > before)

    def test_before_16_io_statistics_cannot_be_read(self, pg15: ScratchCluster) -> None:
        opened = open_session(pg15)
        with pytest.raises(NotMeasurable, match="needs PostgreSQL 16 or later"):
            IoCollector(opened).sample(0)
        opened.close()


class TestSlru(CollectorContract):
    @pytest.fixture
    def collector(self, session: ServerSession) -> Collector:
        return SlruCollector(session)


class TestArchiver(CollectorContract):
    @pytest.fixture
    def collector(self, session: ServerSession) -> Collector:
        return ArchiverCollector(session)

    def test_attempts_that_fail_are_counted(self, new_cluster: Make) -> None:
        archive = {"archive_mode": "on", "archive_command": "false"}
        cluster = new_cluster("15", settings=archive)
        opened = open_session(cluster)
        run_sql(cluster.target, "CREATE TABLE t (a int)")
        run_sql(cluster.target, "SELECT pg_switch_wal()")
        (row,) = sample_until(
            ArchiverCollector(opened), lambda rows: int(rows[0]["failed"] or 0) > 0
        )
        assert row["archived"] == 0
        assert int(row["last_failed_ns"] or 0) > 1_700_000_000_000_000_000
        opened.close()


class TestReplication(CollectorContract):
    gives_rows = False

    @pytest.fixture
    def collector(self, session: ServerSession) -> Collector:
        return ReplicationCollector(session)

    def test_a_receiver_of_wal_is_seen_with_what_it_lags(
        self, new_cluster: Make, tmp_path: Path
    ) -> None:
        cluster = new_cluster("15", settings={"max_wal_senders": "2"})
        rules = Path(str(scalar(cluster.target, "SHOW hba_file")))
        rules.write_text(f"local replication all trust\n{rules.read_text()}")
        run_sql(cluster.target, "SELECT pg_reload_conf()")
        target = cluster.target
        place = ["-h", target.host, "-p", target.ports, "-U", target.user]
        program = cluster.binaries.program("pg_receivewal")
        opened = open_session(cluster)
        receiver = subprocess.Popen([program, *place, "-D", tmp_path, "-s", "1"])
        try:
            collector = ReplicationCollector(opened)
            (row,) = sample_until(
                collector, lambda rows: [entry["state"] for entry in rows] == ["streaming"]
            )
            assert (row["standby"], row["sync_state"]) == ("pg_receivewal", "async")
            assert int(row["send_lag_bytes"] or 0) >= 0
            receiver.terminate()
            receiver.wait()
            sample_until(collector, lambda rows: rows == [])
        finally:
            receiver.kill()
            receiver.wait()
            opened.close()

    def test_a_standby_lags_while_it_has_not_replayed_what_came(self, new_cluster: Make) -> None:
        primary = new_cluster("15", settings={"max_wal_senders": "4"})
        with Standby(primary) as standby, connection(standby.target) as control:
            opened = ServerSession(
                lambda: connect(standby.target, verb="observe"), "pgdyno/observe/1", is_local=True
            )
            opened.open()
            collector = ReplicationCollector(opened)
            run_sql(primary.target, "CREATE TABLE written (n int)")
            # Received and replayed are read one after the other: they agree when nothing moves.
            (row,) = sample_until(
                collector,
                lambda rows: (rows[0]["replay_lag_ns"], rows[0]["replay_lag_bytes"]) == (None, 0),
            )
            assert row["standby"] == "this server"
            control.execute("SELECT pg_wal_replay_pause()")
            run_sql(primary.target, "INSERT INTO written VALUES (1)")
            (row,) = sample_until(collector, lambda rows: rows[0]["replay_lag_ns"] is not None)
            assert int(row["replay_lag_ns"] or 0) > 0
            assert int(row["replay_lag_bytes"] or 0) > 0
            opened.close()


class TestSlots(CollectorContract):
    gives_rows = False

    @pytest.fixture
    def collector(self, session: ServerSession) -> Collector:
        return SlotsCollector(session)

    def test_wal_kept_for_an_unread_slot_grows(
        self, collector: Collector, database: Target
    ) -> None:
        # WAL is kept from this moment on.
        run_sql(database, "SELECT pg_create_physical_replication_slot('kept', true)")
        try:
            (before,) = collector.sample(0)
            run_sql(
                database, "CREATE TABLE t AS SELECT repeat('x', 900) FROM generate_series(1, 9)"
            )
            (after,) = collector.sample(0)
        finally:
            run_sql(database, "SELECT pg_drop_replication_slot('kept')")
        assert (before["slot"], before["kind"], before["active"]) == ("kept", "physical", 0)
        assert int(after["kept_bytes"] or 0) > int(before["kept_bytes"] or 0)
        assert collector.sample(0) == []


class TestLocks(CollectorContract):
    gives_rows = False

    @pytest.fixture
    def collector(self, session: ServerSession) -> Collector:
        return LocksCollector(session)

    def test_a_lock_that_is_held_is_counted_as_held(
        self, collector: Collector, database: Target
    ) -> None:
        with connection(database) as holder:
            holder.execute("SELECT pg_advisory_lock(4711)")
            rows = collector.sample(0)
        (row,) = [row for row in rows if row["locked"] == "advisory"]
        assert (row["mode"], row["granted"], row["waiting"]) == ("ExclusiveLock", 1, 0)
        assert row["longest_wait_ns"] == 0


class TestProgress(CollectorContract):
    gives_rows = False

    @pytest.fixture
    def collector(self, session: ServerSession) -> Collector:
        return ProgressCollector(session)

    def test_an_index_build_that_waits_is_seen_with_its_phase(
        self, collector: Collector, database: Target
    ) -> None:
        run_sql(database, "CREATE TABLE t AS SELECT 1 AS a")
        with connection(database) as writer, connection(database) as builder:
            writer.execute("BEGIN")
            writer.execute("INSERT INTO t VALUES (2)")
            builder.execute("SET statement_timeout = '20s'")
            pid = builder.info.backend_pid
            thread = threading.Thread(
                target=builder.execute, args=["CREATE INDEX CONCURRENTLY i ON t (a)"]
            )
            thread.start()
            rows = sample_until(
                collector,
                lambda rows: any(r["pid"] == pid and "waiting" in str(r["phase"]) for r in rows),
            )
            writer.execute("COMMIT")
            thread.join()
        (row,) = [row for row in rows if row["pid"] == pid]
        assert row["command"] == "create index concurrently"


class TestTables(CollectorContract):
    gives_rows = False

    @pytest.fixture
    def collector(self, session: ServerSession) -> Collector:
        return TablesCollector(session, "postgres")

    def test_rows_of_a_table_are_counted_where_the_observer_sees_it(
        self, any_server: ScratchCluster, collector: Collector
    ) -> None:
        run_sql(any_server.target, "CREATE TABLE busy AS SELECT g FROM generate_series(1, 500) g")

        def counted(rows: list[Row]) -> bool:
            return any(row["table"] == "busy" and row["rows_inserted"] == 500 for row in rows)

        try:
            sample_until(collector, counted)
        finally:
            run_sql(any_server.target, "DROP TABLE busy")

    def test_tables_of_another_database_are_out_of_sight(self, session: ServerSession) -> None:
        assert TablesCollector(session, "elsewhere").sample(0) == []


class TestStatements(CollectorContract):
    @pytest.fixture
    def collector(self, new_cluster: Make) -> Iterator[Collector]:
        cluster = new_cluster("15", settings={"shared_preload_libraries": "pg_stat_statements"})
        run_sql(cluster.target, sql.SQL('CREATE SCHEMA "Odd"'))
        run_sql(cluster.target, sql.SQL('CREATE EXTENSION pg_stat_statements SCHEMA "Odd"'))
        run_sql(cluster.target, "SELECT pg_sleep(0.2)")
        self.cluster = cluster
        opened = open_session(cluster)
        yield StatementsCollector(opened)
        opened.close()

    def test_the_most_expensive_statement_is_first_with_calls_and_time(
        self, collector: Collector
    ) -> None:
        run_sql(self.cluster.target, "SELECT pg_sleep(0.2)")
        rows = eventually(lambda: collector.sample(0))
        known = "SELECT queryid FROM \"Odd\".pg_stat_statements WHERE query = 'SELECT pg_sleep($1)'"
        value = scalar(self.cluster.target, known)
        [sleeping] = [row for row in rows if row["query_id"] == value]
        assert sleeping["database"] == "postgres"
        assert sleeping["calls"] == 2
        assert int(sleeping["exec_time_ns"] or 0) > 400_000_000
        # Nothing else lasts as long, unless the machine stands still meanwhile.
        spent = [int(row["exec_time_ns"] or 0) for row in rows]
        assert spent == sorted(spent, reverse=True)

    def test_without_the_extension_there_is_nothing_to_read(self, session: ServerSession) -> None:
        with pytest.raises(NotMeasurable, match="pg_stat_statements is not in the database"):
            StatementsCollector(session).sample(0)


@pytest.mark.parametrize("version", [14, 15, 16, 17, 18])
def test_statements_of_a_version_are_those_of_its_collectors(version: int) -> None:
    known = set(statements(version))
    missing = {collector.name for collector in SQL_COLLECTORS} - known
    assert missing == (set() if version >= 16 else {"io"})
