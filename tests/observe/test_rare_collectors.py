"""Collectors of what changes slowly: sizes, sessions, ages, functions, indexes, objects, memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
from tests.fixtures.clusters import connection, run_sql
from tests.observe.contract import CollectorContract
from tests.observe.test_server_collectors import sample_until

from pgdyno.observe.collector import Collector, NotMeasurable, Row
from pgdyno.observe.processes.programs import FootprintCollector, parse
from pgdyno.observe.session import ServerSession
from pgdyno.observe.sql.database import AgesCollector, SizesCollector
from pgdyno.observe.sql.io import BuffersCollector
from pgdyno.observe.sql.objects import FunctionsCollector, IndexesCollector, ObjectsCollector
from pgdyno.observe.sql.replication import ConflictsCollector
from pgdyno.observe.sql.sessions import SessionsCollector
from pgdyno.server.connect import connect
from pgdyno.server.target import Target


@pytest.fixture
def session(database: Target) -> Iterator[ServerSession]:
    """A session within a database of the test's own, on each server."""
    yield from _session(database)


@pytest.fixture
def session15(database15: Target) -> Iterator[ServerSession]:
    """A session within a database of the test's own, on PostgreSQL 15."""
    yield from _session(database15)


def _session(database: Target) -> Iterator[ServerSession]:
    opened = ServerSession(
        lambda: connect(database, verb="observe"), "pgdyno/observe/1", is_local=True
    )
    opened.open()
    yield opened
    opened.close()


class TestSizes(CollectorContract):
    @pytest.fixture
    def collector(self, session: ServerSession) -> Collector:
        return SizesCollector(session)

    def test_a_database_grows_by_what_is_put_into_it(
        self, collector: Collector, database: Target
    ) -> None:
        def size() -> int:
            rows = collector.sample(0)
            return next(int(r["size_bytes"] or 0) for r in rows if r["name"] == database.database)

        before = size()
        run_sql(database, "CREATE TABLE t AS SELECT repeat('x', 900) FROM generate_series(1, 9000)")
        assert size() > before + 8_000_000
        kinds = {row["kind"] for row in collector.sample(0)}
        assert kinds == {"database", "tablespace", "wal"}


class TestSessions(CollectorContract):
    gives_rows = False

    @pytest.fixture
    def collector(self, session: ServerSession) -> Collector:
        return SessionsCollector(session)

    def test_sessions_of_one_application_are_one_row_whatever_numbers_they_carry(
        self, collector: Collector, database: Target
    ) -> None:
        def named(rows: list[Row]) -> list[tuple[object, object]]:
            return [(r["state"], r["sessions"]) for r in rows if r["application"] == "pool-"]

        with connection(database) as first, connection(database) as other:
            for number, member in enumerate((first, other)):
                member.execute(f"SET application_name = 'pool-{number}'")
            sample_until(collector, lambda rows: named(rows) == [("idle", 2)])


class TestAges(CollectorContract):
    @pytest.fixture
    def collector(self, session: ServerSession) -> Collector:
        return AgesCollector(session)

    def test_an_open_snapshot_ages_with_every_transaction_of_others(
        self, collector: Collector, database: Target
    ) -> None:
        run_sql(database, "CREATE TABLE t (a int)")
        with connection(database) as holder, connection(database) as writer:
            holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            holder.execute("SELECT 1")
            for _ in range(7):
                writer.execute("INSERT INTO t VALUES (1)")
            (row,) = collector.sample(0)
        assert int(row["snapshot_age"] or 0) >= 7
        assert row["prepared"] == 0


class TestConflicts(CollectorContract):
    gives_rows = False

    @pytest.fixture
    def collector(self, session: ServerSession) -> Collector:
        return ConflictsCollector(session)


class TestFunctions(CollectorContract):
    gives_rows = False

    @pytest.fixture
    def collector(self, session: ServerSession, database: Target) -> Collector:
        return FunctionsCollector(session, database.database)

    def test_calls_are_counted_where_track_functions_is_on(
        self, collector: Collector, database: Target
    ) -> None:
        run_sql(
            database,
            "CREATE FUNCTION slow(seconds float8) RETURNS void LANGUAGE plpgsql"
            " AS 'BEGIN PERFORM pg_sleep(seconds); END'",
        )
        with connection(database) as caller:
            caller.execute("SET track_functions = 'all'")
            for _ in range(3):
                caller.execute("SELECT slow(0.02)")
        (row,) = sample_until(collector, lambda rows: [entry["calls"] for entry in rows] == [3])
        assert row["function"] == "public.slow(seconds double precision)"
        assert int(row["self_time_ns"] or 0) >= 60_000_000


class TestIndexes(CollectorContract):
    gives_rows = False

    @pytest.fixture
    def collector(self, session: ServerSession, database: Target) -> Collector:
        return IndexesCollector(session, database.database)

    def test_a_scan_is_counted_for_its_index(self, collector: Collector, database: Target) -> None:
        run_sql(database, "CREATE TABLE t AS SELECT a FROM generate_series(1, 1000) a")
        run_sql(database, "CREATE INDEX t_a ON t (a)")
        with connection(database) as reader:
            reader.execute("SET enable_seqscan = off")
            reader.execute("SELECT * FROM t WHERE a = 5")
        (row,) = sample_until(collector, lambda rows: [entry["scans"] for entry in rows] == [1])
        assert (row["index"], row["entries_read"]) == ("t_a", 1)


class TestObjects(CollectorContract):
    gives_rows = False

    @pytest.fixture
    def collector(self, session: ServerSession, database: Target) -> Collector:
        return ObjectsCollector(session, database.database)

    def test_each_kind_is_found_once_and_a_sound_schema_is_not_there(
        self, collector: Collector, database: Target
    ) -> None:
        for statement in (
            "CREATE TABLE parent (a int PRIMARY KEY)",
            "CREATE TABLE child (a int REFERENCES parent, b int, c int) WITH (fillfactor = 70)",
            "CREATE INDEX child_bc ON child (b, c)",
            "CREATE INDEX child_b ON child (b)",
            "CREATE INDEX child_hash ON child USING hash (c)",
            "CREATE UNLOGGED TABLE bare (a int)",
            "CREATE SEQUENCE short AS smallint",
            "SELECT setval('short', 30000)",
            "CREATE STATISTICS pair ON b, c FROM child",
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'child_hash'::regclass",
        ):
            run_sql(database, statement)
        objects = {(str(r["kind"]), str(r["object"]), str(r["note"])) for r in collector.sample(0)}
        assert objects == {
            ("index that is not valid", "public.child_hash on public.child", ""),
            ("hash index", "public.child_hash on public.child", ""),
            *(
                ("index never used", f"public.child_{of} on public.child", "")
                for of in ("bc", "b", "hash")
            ),
            (
                "index that another index covers",
                "public.child_b on public.child",
                "by public.child_bc",
            ),
            ("table without an index", "public.bare", ""),
            (
                "foreign key without an index",
                "child_a_fkey of public.child",
                "refers to public.parent",
            ),
            ("unlogged table", "public.bare", ""),
            ("sequence that used over half of its numbers", "public.short", "used to 92 of 100"),
            ("table with storage options", "public.child", "fillfactor=70"),
            ("extended statistics", "public.pair", "of public.child"),
        }


class TestBuffers(CollectorContract):
    # The embedded 18 comes without the extension.
    @pytest.fixture
    def collector(self, session15: ServerSession, database15: Target) -> Collector:
        run_sql(database15, "CREATE EXTENSION pg_buffercache")
        return BuffersCollector(session15)

    def test_a_table_that_was_just_filled_is_in_the_buffers_and_dirty(
        self, collector: Collector, database15: Target
    ) -> None:
        run_sql(database15, "CREATE TABLE filled AS SELECT a FROM generate_series(1, 20000) a")
        rows = {(row["kind"], row["name"]): row for row in collector.sample(0)}
        assert int(rows["relation", "filled"]["blocks"] or 0) > 80
        assert int(rows["database", database15.database]["blocks"] or 0) > 80
        of = {kind: 0 for kind, _ in rows}
        for (kind, _), row in rows.items():
            of[kind] += int(row["blocks"] or 0)
        assert of["usage"] == of["database"]

    def test_without_the_extension_there_is_nothing_to_read(self, session: ServerSession) -> None:
        with pytest.raises(NotMeasurable, match="pg_buffercache is not in the database"):
            BuffersCollector(session).sample(0)


@dataclass
class Processes:
    """A folder like /proc, and what kind its processes are of."""

    folder: Path
    groups: dict[int, str]

    def add(self, pid: int, group: str, *, pss: int) -> None:
        text = f"00400000-7fff rollup\nRss: {pss * 3} kB\nPss: {pss} kB\n"
        text += f"Private_Clean: 1 kB\nPrivate_Dirty: {pss // 2} kB\n"
        (self.folder / str(pid)).mkdir()
        (self.folder / str(pid) / "smaps_rollup").write_text(text)
        self.groups[pid] = group


class TestFootprint(CollectorContract):
    gives_rows = False
    minute_ns: ClassVar[int] = 60_000_000_000

    @pytest.fixture
    def processes(self, tmp_path: Path) -> Processes:
        made = Processes(tmp_path, {})
        made.add(1, "checkpointer", pss=100)
        return made

    @pytest.fixture
    def collector(self, processes: Processes) -> Collector:
        return FootprintCollector(lambda: processes.groups, processes.folder)

    def test_it_looks_at_first_when_the_load_comes_and_then_once_a_minute(
        self, collector: Collector, processes: Processes
    ) -> None:
        minute_ns = self.minute_ns
        assert [row["backend_type"] for row in collector.sample(minute_ns)] == ["checkpointer"]
        assert collector.sample(minute_ns + 1) == []
        for pid in (11, 12, 13):
            processes.add(pid, "load", pss=pid)
        checkpointer, load = collector.sample(minute_ns + 2)
        assert (load["backend_type"], load["processes"]) == ("load", 2)
        assert load["proportional_bytes"] == 11_776  # The mean of 11 and 12 kB.
        assert checkpointer["private_bytes"] == 51 * 1024
        assert collector.sample(2 * minute_ns) == []
        assert len(collector.sample(2 * minute_ns + 2)) == 2

    def test_processes_that_ended_are_left_out(
        self, collector: Collector, processes: Processes
    ) -> None:
        processes.groups[99] = "load"
        assert [row["backend_type"] for row in collector.sample(self.minute_ns)] == ["checkpointer"]


def test_the_memory_of_this_process_can_be_read() -> None:
    resident, proportional, private = parse(Path("/proc/self/smaps_rollup").read_text())
    assert resident >= proportional >= private > 0
