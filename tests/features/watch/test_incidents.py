"""Incidents on real servers: the watch names who, since when, the cost, and the next step."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from tests.features.watch.examples import text_of
from tests.features.watch.incidents import (
    busy,
    documents,
    findings,
    judged_until,
    of_kind,
    session,
    waiting,
)
from tests.features.watch.strangers import loop
from tests.fixtures.clusters import make_cluster, new_database, run_sql, scalar
from tests.fixtures.command import Command, server_options
from tests.fixtures.standby import Standby

from pgdyno.features.watch.segments import document_again
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target
from pgdyno.store.folder import ExperimentFolder

pytestmark = pytest.mark.pg
PRELOADED = {
    "shared_preload_libraries": "pg_stat_statements",
    "max_prepared_transactions": "10",
    "wal_level": "logical",
    "autovacuum_naptime": "1s",
}
UPDATE = "UPDATE orders SET n = n + 1 WHERE id = 7"


@pytest.fixture(scope="module", params=["15", "18"])
def counting(request: pytest.FixtureRequest, house: Path) -> Iterator[ScratchCluster]:
    """A server that counts statements."""
    with make_cluster(request.param, settings=PRELOADED) as cluster:
        yield cluster


@pytest.fixture
def shop(counting: ScratchCluster) -> Iterator[Target]:
    """A shop with 100,000 orders of 1,000 customers, without an index on the customer."""
    for target in new_database(counting):
        run_sql(target, "CREATE EXTENSION pg_stat_statements")
        run_sql(
            target,
            "CREATE TABLE orders AS SELECT id, id % 1000 AS customer, 0 AS n,"
            " repeat('x', 60) AS note FROM generate_series(1, 100000) id",
        )
        run_sql(target, "ALTER TABLE orders ADD PRIMARY KEY (id)")
        run_sql(target, "CREATE TABLE items AS SELECT id, 0 AS n FROM generate_series(1, 1000) id")
        run_sql(target, "VACUUM ANALYZE")
        yield target


def test_the_session_that_holds_a_row_is_named_with_everybody_behind_it(
    shop: Target, tmp_path: Path
) -> None:
    with session(shop, "billing-cron") as holder:
        holder.execute(UPDATE)
        pid = holder.info.backend_pid
        with waiting(shop, "shop", UPDATE, 4):
            time.sleep(1)
            listed, document = findings(shop, tmp_path)
    first = listed[0]
    assert first["kind"] == "lock queue"
    assert f"pid {pid} billing-cron" in first["said"]
    assert "idle in transaction" in first["said"]
    assert "one row of orders" in first["said"]
    assert first["evidence"]["waiting"] == 4
    assert first["evidence"]["completed"] == 0
    assert f"pg_terminate_backend({pid})" in first["next_step"]
    assert "4 sessions of shop wait for one row of orders" in document["sentence"]
    assert "nothing of theirs completed" in document["sentence"]
    assert any("SET n = n + $1" in line for line in first["lines"])
    # Four sessions lost all of the time that was watched.
    assert first["lost_s"] == pytest.approx(4 * document["seconds_seen"], rel=0.3)
    lines = text_of(document, 100).splitlines()
    assert len(lines) <= 25
    assert json.loads(json.dumps(document))["findings"] == listed
    [kept] = (tmp_path / "store").glob("*/analysis.json")
    kept.rename(kept.with_name("analysis.kept"))
    again = document_again(ExperimentFolder(kept.parent))
    assert again["findings"][0]["evidence"] == first["evidence"]


def test_who_takes_the_cores_from_others_is_named(shop: Target) -> None:
    report = (
        "SELECT a.n, count(*), max(md5(a.note || g)) FROM orders a, generate_series(1, 5) g"
        " GROUP BY a.n"
    )
    with ExitStack() as stack:
        for _ in range(3 * (os.cpu_count() or 1)):
            stack.enter_context(busy(shop, "metabase", loop(report)))
        for _ in range(4):
            stack.enter_context(busy(shop, "shop", loop("SELECT n FROM items WHERE id = 7")))
        listed = judged_until(shop, "cores are full", 5)
    finding = of_kind([made.as_document() for made in listed], "cores are full")
    # The small statement reads a table without an index, and names it: the report does not read it.
    assert "table read whole" not in {made.kind for made in listed}
    assert "metabase (role " in finding["said"]
    assert f"all {os.cpu_count()} cores are busy" in finding["said"]
    assert "a.note" in finding["cost"]
    assert "statement_timeout" in finding["next_step"]


def test_a_queue_behind_ddl_names_the_ddl_and_the_transaction_for_which_it_waits(
    shop: Target,
) -> None:
    with session(shop, "analyst") as reader:
        reader.execute("SELECT count(*) FROM items")
        alter = "ALTER TABLE items ADD COLUMN added int"
        with waiting(shop, "migration", alter), waiting(shop, "web", "SELECT * FROM items", 3):
            time.sleep(1)
            listed = documents(shop, 2.5)
        pid = reader.info.backend_pid
    first = listed[0]
    assert first["kind"] == "lock queue behind DDL"
    assert f"pid {pid} analyst" in first["said"]
    assert "AccessExclusive of items" in first["said"]
    assert "ALTER TABLE" in first["answer"]
    assert "pg_cancel_backend" in first["next_step"]
    assert any("migration" in line for line in first["lines"])
    assert any("3 sessions of web" in line for line in first["lines"])


def test_a_prepared_transaction_is_named_as_the_holder(shop: Target) -> None:
    with session(shop, "two-phase", autocommit=True) as holder:
        holder.execute("BEGIN")
        holder.execute(UPDATE)
        holder.execute("PREPARE TRANSACTION 'pay''17'")
    try:
        with waiting(shop, "shop", UPDATE, 2):
            listed = documents(shop, 2.5)
    finally:
        with session(shop, "repair", autocommit=True) as repair:
            repair.execute("ROLLBACK PREPARED 'pay''17'")
    assert "prepared transaction pay'17" in listed[0]["said"]
    assert "ROLLBACK PREPARED 'pay''17'" in listed[0]["next_step"]
    assert listed[0]["evidence"]["waiting"] == 2


def test_a_holder_that_has_ended_is_still_named(shop: Target, tmp_path: Path) -> None:
    holder = session(shop, "nightly")
    holder.execute(UPDATE)
    pid = holder.info.backend_pid
    began = time.monotonic()

    def end(tally: object) -> bool:
        if time.monotonic() - began < 5:
            return False
        holder.close()
        return True

    with waiting(shop, "shop", UPDATE, 2):
        time.sleep(1)
        listed, _ = findings(shop, tmp_path, 10, end)
    first = of_kind(listed, "lock queue")
    assert first["is_over"]
    assert f"pid {pid} nightly" in first["said"]


def test_an_idle_transaction_is_named_with_what_it_keeps(shop: Target) -> None:
    with session(shop, "forgotten") as idle:
        idle.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        idle.execute("SELECT count(*) FROM items")
        run_sql(shop, "UPDATE orders SET n = n + 1 WHERE id <= 20000")
        time.sleep(9)
        listed = documents(shop, 1.5)
        pid = idle.info.backend_pid
    finding = of_kind(listed, "idle in transaction")
    assert f"pid {pid} forgotten" in finding["said"]
    assert "dead row" in finding["cost"]
    assert "orders has 2" in finding["cost"]
    assert "forgotten" in finding["answer"]


def test_a_slot_that_nobody_reads_keeps_rows_and_wal(
    counting: ScratchCluster, shop: Target
) -> None:
    run_sql(shop, "ALTER SYSTEM SET max_wal_size = '32MB'")
    run_sql(shop, "SELECT pg_reload_conf()")
    run_sql(shop, "SELECT pg_create_logical_replication_slot('forgotten', 'test_decoding')")
    try:
        for _ in range(3):
            run_sql(shop, "UPDATE orders SET n = n + 1")
            run_sql(shop, "SELECT pg_switch_wal()")
        listed = documents(shop, 1)
    finally:
        run_sql(shop, "SELECT pg_drop_replication_slot('forgotten')")
        run_sql(shop, "ALTER SYSTEM RESET max_wal_size")
        run_sql(shop, "SELECT pg_reload_conf()")
    finding = of_kind(listed, "slot keeps WAL")
    assert "replication slot forgotten" in finding["said"]
    assert "pg_drop_replication_slot('forgotten')" in finding["next_step"]


def test_rows_that_are_read_in_vain_are_counted_and_a_missing_index_is_a_hypothesis(
    shop: Target,
) -> None:
    statement = "SELECT * FROM orders WHERE customer = %s"
    with busy(shop, "web", lambda worker, turn: worker.execute(statement, [turn % 1000])):
        listed = documents(shop, 2.5)
    first = of_kind(listed, "index missing")
    assert "reads 100,000 rows of orders for 100" in first["said"]
    assert any("no index begins with orders(customer)" in line for line in first["lines"])
    assert any("EXPLAIN" in line for line in first["lines"])
    assert first["evidence"]["rows_needed"] == pytest.approx(100)
    assert "reads 100,000 rows of orders for 100" in first["answer"]


def test_counted_rows_are_printed_and_an_estimate_is_called_so(shop: Target) -> None:
    # A page of 10: an average customer has 100 rows.
    page = "SELECT * FROM orders WHERE customer = %s ORDER BY n LIMIT 10"
    with busy(shop, "web", lambda worker, turn: worker.execute(page, [turn % 1000])):
        first = of_kind(documents(shop, 2.5), "index missing")
    assert "reads 100,000 rows of orders for 10" in first["said"]
    assert re.search(r"ms a call, ([\d.]+ calls/s|\d calls in \d s);", first["cost"])
    total = "SELECT sum(n) FROM orders WHERE customer = %s"
    with busy(shop, "web", lambda worker, turn: worker.execute(total, [turn % 1000])):
        listed = documents(shop, 2.5)
    [said] = [made["said"] for made in listed if "sum" in made["said"]]
    assert "rows of orders for about 100 that it sums (estimate)" in said


@pytest.mark.parametrize("setting", ["enable_indexscan", "random_page_cost"])
def test_settings_of_a_role_that_keep_it_from_an_index_are_named_and_the_step_resets_them(
    shop: Target, setting: str
) -> None:
    run_sql(shop, "CREATE INDEX ON orders (customer)")
    run_sql(shop, "VACUUM ANALYZE orders")
    run_sql(shop, "DROP ROLE IF EXISTS webapp")
    run_sql(shop, "CREATE ROLE webapp LOGIN SUPERUSER")
    values = {"enable_indexscan": "off", "enable_bitmapscan": "off", "random_page_cost": "100000"}
    named = [setting] if setting == "random_page_cost" else ["enable_bitmapscan", setting]
    for name in named:
        run_sql(shop, f"ALTER ROLE webapp IN DATABASE {shop.database} SET {name} = {values[name]}")
    role = replace(shop, user="webapp")
    statement = "SELECT * FROM orders WHERE customer = %s"
    with busy(role, "web", lambda worker, turn: worker.execute(statement, [turn % 1000])):
        finding = of_kind(documents(shop, 2.5), "index not used")
    assert any(f"role webapp has {named[0]}=" in line for line in finding["lines"])
    steps = finding["next_step"].partition("; sessions")[0].split("; ")
    assert len(steps) == len(named)
    for step in steps:
        run_sql(shop, step)
    with busy(role, "web", lambda worker, turn: worker.execute(statement, [turn % 1000])):
        assert documents(shop, 2) == []
    run_sql(shop, "DROP ROLE webapp")


def test_the_step_for_a_partitioned_table_can_be_carried_out(shop: Target) -> None:
    run_sql(shop, "CREATE TABLE events (id int, account int, day int) PARTITION BY RANGE (day)")
    for day in (0, 1):
        of = f"OF events FOR VALUES FROM ({day}) TO ({day + 1})"
        run_sql(shop, f"CREATE TABLE events{day} PARTITION {of}")
    rows = "SELECT i, i % 5000, i % 2 FROM generate_series(1, 60000) i"
    run_sql(shop, f"INSERT INTO events {rows}")
    run_sql(shop, "VACUUM ANALYZE")
    statement = "SELECT id FROM events WHERE account = %s"
    with busy(shop, "web", lambda worker, turn: worker.execute(statement, [turn % 5000])):
        step = of_kind(documents(shop, 2.5), "index missing")["next_step"]
    first, last = step.removesuffix(", on a copy first").split("; then, which takes these, ")
    assert first == "CREATE INDEX CONCURRENTLY on each partition"
    for day in (0, 1):
        part = last.replace("INDEX", "INDEX CONCURRENTLY").replace("events", f"events{day}")
        run_sql(shop, part)
    run_sql(shop, last)
    assert scalar(shop, "SELECT count(*) FROM pg_index WHERE NOT indisvalid") == 0
    with busy(shop, "web", lambda worker, turn: worker.execute(statement, [turn % 5000])):
        assert documents(shop, 2) == []


def test_a_step_that_a_standby_refuses_is_for_the_primary(
    counting: ScratchCluster, shop: Target, tmp_path: Path
) -> None:
    for name in ("max_connections", "max_prepared_transactions", "shared_preload_libraries"):
        value = scalar(shop, f"SHOW {name}")
        run_sql(shop, f"ALTER SYSTEM SET {name} = {value}")
    with Standby(counting) as standby:
        run_sql(shop, "ALTER SYSTEM RESET synchronous_standby_names")
        run_sql(shop, "SELECT pg_reload_conf()")
        target = standby.target.with_database(shop.database)
        statement = "SELECT * FROM orders WHERE customer = %s"
        with busy(target, "web", lambda worker, turn: worker.execute(statement, [turn % 1000])):
            listed, _ = findings(target, tmp_path, 4)
    step = of_kind(listed, "index missing")["next_step"]
    assert step.startswith("on the primary: CREATE INDEX CONCURRENTLY ON orders")


def test_a_healthy_server_under_load_has_no_finding(counting: ScratchCluster, shop: Target) -> None:
    run_sql(shop, "CREATE INDEX ON orders (customer)")
    by_index = "SELECT * FROM orders WHERE customer = %s"
    report = (
        "SELECT customer %% 10, count(*), sum(n), max(note) FROM orders WHERE id > %s GROUP BY 1"
    )
    hash_join = "SELECT count(*) FROM orders a JOIN orders b USING (customer) WHERE a.id < 5000"

    def copy(worker: object, turn: int) -> None:
        cursor = worker.cursor()  # type: ignore[attr-defined]
        with cursor.copy("COPY items (id, n) FROM STDIN") as rows:
            for row in range(2000):
                rows.write_row((row, turn))

    def parallel(worker: object, turn: int) -> None:
        if turn == 1:
            for name in ("parallel_setup_cost", "parallel_tuple_cost"):
                worker.execute(f"SET {name} = 0")  # type: ignore[attr-defined]
            worker.execute("SET min_parallel_table_scan_size = 0")  # type: ignore[attr-defined]
        worker.execute(hash_join)  # type: ignore[attr-defined]

    with (
        busy(shop, "web", lambda worker, turn: worker.execute(by_index, [turn % 1000])),
        busy(shop, "report", lambda worker, turn: worker.execute(report, [turn % 10])),
        busy(shop, "copy", copy),
        busy(shop, "parallel", parallel),
    ):
        run_sql(shop, "CHECKPOINT")
        listed = documents(shop, 3)
    assert listed == []


def test_a_role_with_pg_monitor_alone_sees_who_blocks(
    counting: ScratchCluster, shop: Target
) -> None:
    if not scalar(shop, "SELECT count(*) FROM pg_roles WHERE rolname = 'watcher'"):
        run_sql(shop, "CREATE ROLE watcher LOGIN")
        run_sql(shop, "GRANT pg_monitor TO watcher")
    with session(shop, "billing-cron") as holder:
        holder.execute(UPDATE)
        with waiting(shop, "shop", UPDATE, 2):
            listed = documents(replace(shop, user="watcher"), 2.5)
    assert "billing-cron" in listed[0]["said"]
    assert "one row of orders" in listed[0]["said"]
    assert any("UPDATE orders" in line for line in listed[0]["lines"])


@pytest.mark.parametrize("version", ["15", "18"])
def test_limits_that_are_reached_are_named(version: str, house: Path, tmp_path: Path) -> None:
    """One server in many troubles: each is a finding, in the order of danger."""
    settings = {
        "autovacuum": "off",
        "max_connections": "20",
        "superuser_reserved_connections": "3",
        "max_wal_size": "32MB",
        "min_wal_size": "32MB",
        "archive_mode": "on",
        "archive_command": "false",
        "work_mem": "64kB",
        "synchronous_standby_names": "",
    }
    with make_cluster(version, settings=settings, clients=1) as cluster:
        target = cluster.target
        run_sql(
            target,
            "CREATE TABLE t AS SELECT id, repeat('x', 100) AS x FROM generate_series(1, 60000) id",
        )
        run_sql(target, "ANALYZE t")
        room = int(str(scalar(target, "SELECT current_setting('max_connections')")))
        idle = [session(target, "pool", autocommit=True) for _ in range(room - 3 - 3)]
        grow = "UPDATE t SET x = x || 'y'"
        sort = "SELECT x, id FROM t ORDER BY x DESC, id OFFSET 59999"
        with (
            busy(target, "growing", lambda worker, _: worker.execute(grow)),
            busy(target, "sorting", lambda worker, _: worker.execute(sort)),
        ):
            time.sleep(2)
            listed, document = findings(target, tmp_path, 12)
            kinds = {finding["kind"] for finding in listed}
        for pooled in idle:
            pooled.close()
    assert len(listed) <= 5
    assert {"connections", "archiver"} <= kinds
    assert kinds >= {"temporary files"} or kinds >= {"forced checkpoints"}
    assert len(text_of(document, 100).splitlines()) <= 25


def test_commits_that_wait_for_a_standby_which_is_not_there_are_named(
    counting: ScratchCluster, shop: Target
) -> None:
    run_sql(shop, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
    run_sql(shop, "SELECT pg_reload_conf()")
    try:
        with waiting(shop, "shop", "UPDATE items SET n = 1 WHERE id = 1"):
            listed = documents(shop, 2)
    finally:
        run_sql(shop, "ALTER SYSTEM RESET synchronous_standby_names")
        run_sql(shop, "SELECT pg_reload_conf()")
    finding = of_kind(listed, "synchronous standby missing")
    assert "none is connected" in finding["said"]
    assert "none is connected" in finding["answer"]


def test_a_role_that_may_see_nothing_is_told_so_first_and_gets_no_invented_finding(
    counting: ScratchCluster, shop: Target, tmp_path: Path
) -> None:
    """A role without pg_monitor sees pids and who waits for whom, and no texts."""
    run_sql(shop, "CREATE ROLE blind LOGIN")
    try:
        with session(shop, "billing-cron") as holder:
            holder.execute(UPDATE)
            pid = holder.info.backend_pid
            with waiting(shop, "shop", UPDATE, 2):
                time.sleep(1)
                listed, document = findings(replace(shop, user="blind"), tmp_path)
    finally:
        run_sql(shop, "DROP ROLE blind")
    assert listed[0]["kind"] == "sessions hidden"
    assert "GRANT pg_monitor TO blind" in listed[0]["next_step"]
    assert "role blind may not see the sessions of others" in document["sentence"]
    # Nothing is invented: either the pid is named without a text, or there is no finding.
    for finding in listed[1:]:
        assert str(pid) in finding["said"]
        assert "UPDATE" not in str(finding)
    assert "sessions" in text_of(document)


@pytest.mark.parametrize("version", ["15", "18"])
def test_without_a_free_connection_the_watch_says_what_to_do_or_takes_a_reserved_one(
    version: str, house: Path, tmp_path: Path, pgdyno: Command
) -> None:
    settings = {"max_connections": "12", "superuser_reserved_connections": "4"}
    with make_cluster(version, settings=settings, clients=1) as cluster, ExitStack() as opened:
        run_sql(cluster.target, "CREATE ROLE web LOGIN")
        ordinary = replace(cluster.target, user="web")
        for _ in range(8):
            opened.enter_context(session(ordinary, "web", autocommit=True))
        refused = pgdyno("watch", *server_options(ordinary), "--duration", "1s")
        assert refused.code != 0
        assert "53300" in refused.error
        assert "superuser" in refused.error
        listed, document = findings(cluster.target, tmp_path, 2)
    finding = of_kind(listed, "connections")
    assert "8 of 8 connections are taken" in finding["said"]
    assert "further sessions are refused" in document["sentence"]
