from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.server.pgbench_tables import load

from pgdyno.errors import RefusedError, ServerError
from pgdyno.quantities import format_bytes
from pgdyno.server import server_facts as facts
from pgdyno.server.configuration import read_back
from pgdyno.server.connect import Connection, connect
from pgdyno.server.dataset import inspection as dataset
from pgdyno.server.dataset import removal as dataset_removal
from pgdyno.server.reset import reset
from pgdyno.server.safety import OtherSessions, describe
from pgdyno.server.scratch.cluster import ScratchCluster

ALL = "pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers"


@pytest.fixture(autouse=True)
def no_tables_afterwards(cluster: ScratchCluster) -> Iterator[None]:
    yield
    with cluster.connect(verb="test") as connection:
        connection.use_load_path()
        connection.execute(f"DROP TABLE IF EXISTS {ALL}")


def test_an_empty_database_has_no_dataset(connection: Connection) -> None:
    present = dataset.inspect(connection)
    assert (present.state, present.scale, str(present)) == ("none", None, "no pgbench tables")
    assert dataset_removal.drop(connection) == present
    with pytest.raises(ServerError, match="no pgbench tables") as caught:
        dataset.require_complete(present)
    assert "pgdyno init" in caught.value.hint


def test_the_mark_of_a_dataset_has_scale_size_and_options(connection: Connection) -> None:
    load(connection, scale=1, fillfactor=90)
    present = dataset.inspect(connection)
    assert (present.state, present.is_marked, present.scale) == ("complete", True, 1)
    assert present.options == {"scale": "1", "fillfactor": "90"}
    assert 15e6 < present.size_bytes < 19e6
    assert str(present) == "scale 1 by pgdyno"
    assert dataset.require_complete(present) == 1


def test_a_marked_dataset_is_dropped(connection: Connection) -> None:
    load(connection)
    assert dataset_removal.drop(connection).scale == 1
    assert dataset.inspect(connection).state == "none"


def test_tables_without_the_mark_are_never_dropped(connection: Connection) -> None:
    load(connection, is_marked=False)
    assert str(dataset.inspect(connection)) == "scale 1 not by pgdyno"
    with pytest.raises(RefusedError, match="were not made by pgdyno"):
        dataset_removal.drop(connection)
    assert dataset.inspect(connection).state == "complete"


def test_one_table_without_the_mark_makes_all_somebody_else_s(connection: Connection) -> None:
    load(connection)
    connection.execute("COMMENT ON TABLE pgbench_tellers IS 'pgdyno datasets are nice'")
    assert not dataset.inspect(connection).is_marked


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        ("DROP TABLE pgbench_tellers", "pgbench_tellers missing"),
        (
            "ALTER TABLE pgbench_accounts DROP CONSTRAINT pgbench_accounts_pkey",
            "pgbench_accounts without a primary key",
        ),
        ("TRUNCATE pgbench_branches", "pgbench_branches is empty"),
        ("DELETE FROM pgbench_accounts WHERE aid > 99990", "the last account is 99990, not 100000"),
    ],
)
def test_a_partial_dataset_says_what_is_missing(
    connection: Connection, damage: str, why: str
) -> None:
    load(connection)
    connection.execute(damage)
    present = dataset.inspect(connection)
    assert (present.state, present.why_partial) == ("partial", why)
    with pytest.raises(ServerError, match="incomplete pgbench tables by pgdyno") as caught:
        dataset.require_complete(present)
    assert "after pgdyno drop" in caught.value.hint
    assert dataset_removal.drop(connection).state == "partial"
    assert dataset.inspect(connection).state == "none"


def test_a_dataset_in_use_is_not_waited_for_long(
    connection: Connection, cluster: ScratchCluster
) -> None:
    load(connection)
    with cluster.connect(verb="test") as other, other.transaction():
        other.execute("LOCK TABLE public.pgbench_history IN ACCESS SHARE MODE")
        with pytest.raises(ServerError, match="not dropped: canceling statement due to lock"):
            dataset_removal.drop(connection, lock_timeout_ms=50)
    assert dataset.inspect(connection).state == "complete"


def test_partitioned_accounts_count_with_their_partitions(connection: Connection) -> None:
    load(connection)
    plain = dataset.inspect(connection)
    connection.execute("ALTER TABLE pgbench_accounts RENAME TO source")
    connection.execute("ALTER INDEX pgbench_accounts_pkey RENAME TO source_pkey")
    connection.execute(
        "CREATE TABLE pgbench_accounts (aid int PRIMARY KEY, bid int, abalance int,"
        " filler char(84)) PARTITION BY RANGE (aid)"
    )
    connection.execute(
        "CREATE TABLE pgbench_accounts_1 PARTITION OF pgbench_accounts"
        " FOR VALUES FROM (MINVALUE) TO (MAXVALUE)"
    )
    connection.execute("INSERT INTO pgbench_accounts SELECT * FROM source")
    connection.execute("DROP TABLE source")
    present = dataset.inspect(connection)
    assert (present.state, present.is_marked) == ("complete", False)
    assert present.size_bytes == pytest.approx(plain.size_bytes, rel=0.25)


def test_the_reset_is_whole_on_a_marked_dataset(connection: Connection) -> None:
    load(connection)
    connection.execute("INSERT INTO pgbench_history SELECT 1, 1, 1, 1 FROM generate_series(1, 7)")
    connection.execute("UPDATE pgbench_accounts SET abalance = 1 WHERE aid <= 100")
    done = reset(connection, dataset.inspect(connection), is_scratch=True)
    assert not any(step.skipped for step in done.steps)
    assert [step.name for step in done.steps] == ["empty history", "vacuum", "checkpoint"]
    assert done.history_rows_removed == 7
    assert connection.execute("SELECT count(*) FROM pgbench_history").fetchone() == (0,)
    json.dumps(done.as_document())


def test_the_reset_vacuums_the_tables_that_changed(connection: Connection) -> None:
    load(connection)
    connection.execute("SELECT pg_stat_force_next_flush()")

    def vacuumed() -> dict[str, int]:
        reset(connection, dataset.inspect(connection), is_scratch=True)
        counted = "SELECT relname, vacuum_count FROM pg_stat_user_tables"
        return dict(connection.execute(counted).fetchall())

    before = vacuumed()
    assert min(before.values()) > 0, "a table that was never vacuumed is vacuumed"
    connection.execute("UPDATE pgbench_accounts SET abalance = 1 WHERE aid <= 100")
    connection.execute("UPDATE pgbench_branches SET bbalance = 1")
    connection.execute("SELECT pg_stat_force_next_flush()")
    after = vacuumed()
    assert after["pgbench_branches"] == before["pgbench_branches"] + 1
    assert after["pgbench_accounts"] == before["pgbench_accounts"], "0.1 % of the rows changed"
    connection.execute("UPDATE pgbench_accounts SET abalance = 2 WHERE aid <= 5000")
    connection.execute("SELECT pg_stat_force_next_flush()")
    assert vacuumed()["pgbench_accounts"] == before["pgbench_accounts"] + 1


def test_the_reset_leaves_somebody_else_s_tables_alone(connection: Connection) -> None:
    load(connection, is_marked=False)
    connection.execute("INSERT INTO pgbench_history VALUES (1, 1, 1, 1)")
    done = reset(connection, dataset.inspect(connection), is_scratch=False)
    assert [step.skipped for step in done.steps] == ["no table has pgdyno's mark"] * 2 + [""]
    assert connection.execute("SELECT count(*) FROM pgbench_history").fetchone() == (1,)


def test_steps_without_rights_are_left_out_of_the_reset_with_a_note(
    cluster: ScratchCluster, connection: Connection
) -> None:
    load(connection)
    connection.execute("CREATE ROLE plain LOGIN")
    connection.execute(f"GRANT SELECT, TRUNCATE ON {ALL} TO plain")
    try:
        with connect(replace(cluster.target, user="plain"), verb="test") as plain:
            done = reset(plain, dataset.inspect(plain), is_scratch=False)
        said = {step.name: step.skipped for step in done.steps}
        assert said["empty history"] == ""
        assert "checkpoint" in said["checkpoint"].lower()
        assert "pgbench_accounts" in said["vacuum"]
    finally:
        connection.execute(f"REVOKE ALL ON {ALL} FROM plain")
        connection.execute("DROP ROLE plain")


def test_facts_of_a_local_server_are_complete(
    cluster: ScratchCluster, connection: Connection
) -> None:
    load(connection)
    seen = facts.collect(connection, cluster.target)
    assert (seen.version, seen.major) == (cluster.binaries.version, cluster.binaries.major)
    assert (seen.is_local, seen.postmaster_pid) == (True, cluster.pid)
    assert seen.shared_buffers_bytes == 128 << 20
    assert seen.settings["max_connections"] == "30"
    assert seen.durability["fsync"] == "on"
    assert seen.weakened_durability == ()
    assert seen.rights["superuser"]
    assert seen.ram_bytes == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert seen.data_storage is not None
    assert seen.data_storage.path == str(cluster.data_dir)
    assert seen.connections.max_connections == 30
    json.dumps(seen.as_document())


def test_line_1_names_the_target(cluster: ScratchCluster, connection: Connection) -> None:
    load(connection)
    seen = facts.collect(connection, cluster.target)
    line = facts.target_line(replace(seen, ram_bytes=64 << 30, others=()))
    size = seen.dataset.size_bytes / 2**20
    assert line.startswith(
        f"scratch local:{seen.port}/postgres  PostgreSQL {seen.version}, scale 1 by pgdyno:"
        f" {size:.0f} MB ({size / 128:.2g}x shared_buffers, {size / 65536:.2g}x RAM), "
    )
    assert seen.data_storage is not None
    assert line.endswith(f"{seen.data_storage.file_system} on {seen.data_storage.device}")
    far = replace(
        seen,
        host="db1",
        is_scratch=False,
        is_standby=True,
        ram_bytes=None,
        data_storage=None,
        wal_storage=None,
        dataset=dataset.Dataset("none"),
        database_size_bytes=412 << 30,
        others=(OtherSessions("erp", 30), OtherSessions("", 7)),
    )
    assert facts.target_line(far) == (
        f"db1:{seen.port}/postgres  PostgreSQL {seen.version} standby,"
        " 412 GB (3296x shared_buffers), 37 sessions of 2 other applications"
    )


def test_weakened_durability_is_named(cluster: ScratchCluster) -> None:
    cluster.apply({"fsync": "off", "synchronous_commit": "off"})
    try:
        with cluster.connect(verb="test") as connection:
            seen = facts.collect(connection, cluster.target)
        assert seen.weakened_durability == ("fsync", "synchronous_commit")
    finally:
        cluster.apply({})


def test_a_setting_has_the_place_that_a_new_session_of_the_role_gets_it_from(
    cluster: ScratchCluster, connection: Connection
) -> None:
    name = cluster.target.database
    connection.execute("CREATE ROLE tuned LOGIN SUPERUSER")
    connection.execute("ALTER ROLE tuned SET random_page_cost = 1.5")
    connection.execute(f'ALTER DATABASE "{name}" SET wal_compression = on')
    try:
        target = replace(cluster.target, user="tuned")
        with connect(target, verb="test") as tuned:
            seen = facts.collect(tuned, target)
        assert seen.settings["random_page_cost"] == "1.5"
        places = seen.setting_sources
        assert places["random_page_cost"] == "ALTER ROLE"
        assert places["wal_compression"] == "ALTER DATABASE"
        assert places["work_mem"] == "default"
        conf = re.escape(str(cluster.path / "postgresql.conf"))
        assert re.fullmatch(rf"{conf} line \d+", places["max_connections"])
    finally:
        connection.execute(f'ALTER DATABASE "{name}" RESET wal_compression')
        connection.execute("DROP ROLE tuned")


def test_a_plain_role_sees_what_it_may(cluster: ScratchCluster, connection: Connection) -> None:
    connection.execute("CREATE ROLE plain LOGIN")
    try:
        target = replace(cluster.target, user="plain")
        with connect(target, verb="test") as plain:
            seen = facts.collect(plain, target)
        assert not any(seen.rights[name] for name in ("superuser", "pg_monitor", "pg_checkpoint"))
        assert seen.data_storage is None
        assert "data_directory" not in seen.settings
    finally:
        connection.execute("DROP ROLE plain")


def test_sessions_of_pgdyno_are_not_others(cluster: ScratchCluster, connection: Connection) -> None:
    with (
        connect(cluster.target, verb="bench", run="2"),
        connect(cluster.target, verb="test") as other,
    ):
        other.execute("SET application_name = 'erp'")
        other_database = connect(cluster.target.with_database("template1"), verb="test")
        other_database.execute("SET application_name = 'elsewhere'")
        assert facts.other_sessions(connection) == (OtherSessions("erp", 1),)
        assert facts.connection_room(connection).used_count == 4
        seen = facts.collect(connection, cluster.target)
        assert "1 session of 1 other application, 1 session in another database" in (
            facts.target_line(seen)
        )
        other_database.close()


def test_a_session_of_another_role_that_calls_itself_pgdyno_is_another_application(
    cluster: ScratchCluster, connection: Connection
) -> None:
    connection.execute("CREATE ROLE mon LOGIN")
    try:
        with connect(replace(cluster.target, user="mon"), verb="watch", run="2"):
            others = facts.other_sessions(connection)
            assert others == (OtherSessions("pgdyno/watch/2", 1, "mon"),)
            assert describe(others) == "1 of role mon that calls itself pgdyno/watch/2 (sessions)"
            assert facts.other_sessions(connection, ["mon"]) == ()
            seen = facts.collect(connection, cluster.target)
            assert "1 session of 1 other application" in facts.target_line(seen)
    finally:
        connection.execute("DROP ROLE mon")


def test_only_a_citus_has_sessions_that_work_for_others(
    cluster: ScratchCluster, connection: Connection
) -> None:
    with connect(cluster.target, verb="test") as other:
        other.execute("SET application_name = 'citus_internal gpid=1'")
        assert facts.other_sessions(connection) == (OtherSessions("citus_internal gpid=1", 1),)


def test_sessions_of_other_roles_count_without_pg_monitor_too(
    cluster: ScratchCluster, connection: Connection
) -> None:
    connection.execute("CREATE ROLE plain LOGIN")
    try:
        plain_target = replace(cluster.target, user="plain")
        with (
            connect(cluster.target, verb="test") as other,
            connect(plain_target, verb="bench") as plain,
        ):
            other.execute("SET application_name = 'erp'")
            seen = sum(others.count for others in facts.other_sessions(plain))
            assert seen >= 1  # Parallel and other workers with a role may count as well.
            assert facts.connection_room(plain).used_count >= 3
    finally:
        connection.execute("DROP ROLE plain")


@pytest.mark.parametrize(
    ("name", "wanted", "is_seen"),
    [
        ("shared_buffers", "128MB", True),
        ("shared_buffers", "131072kB", True),
        ("shared_buffers", "16384", True),
        ("shared_buffers", "0.125GB", True),
        ("shared_buffers", "64MB", False),
        ("checkpoint_timeout", "5min", True),
        ("checkpoint_timeout", "300", True),
        ("checkpoint_timeout", "300s", True),
        ("checkpoint_timeout", "301s", False),
        ("fsync", "true", True),
        ("fsync", "1", True),
        ("fsync", "of", False),
        ("synchronous_commit", "ON", True),
        ("synchronous_commit", "off", False),
        ("random_page_cost", "4.0", True),
        ("random_page_cost", "1.1", False),
        ("wal_buffers", "-1", True),
        ("search_path", '"$user", public', True),
        ("no_such_setting", "1", False),
    ],
)
def test_a_setting_is_read_back_in_any_unit(
    connection: Connection, name: str, wanted: str, is_seen: bool
) -> None:
    assert (read_back(connection, {name: wanted}) == []) is is_seen


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (7_838_315_315, "7.3 GB"),
        (412 << 30, "412 GB"),
        (1 << 20, "1 MB"),
    ],
)
def test_sizes_have_units(size_bytes: int, text: str) -> None:
    assert format_bytes(size_bytes) == text
