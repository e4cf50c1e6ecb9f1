"""Loading, load and telemetry on a real Citus: one statement becomes several on other nodes."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import psycopg
import pytest
from tests.fixtures.citus import WORKER_COUNT
from tests.fixtures.clusters import connection, run_sql, scalar
from tests.fixtures.command import Command, eventually, server_options

from pgdyno.server.dataset_kinds import KINDS
from pgdyno.server.scratch import ScratchCluster
from pgdyno.server.target import Target

QUICK = ("--rounds", "1", "--knee-duration", "1s")
BUILTINS = ("tpcb-like", "simple-update", "select-only", "insert-only", "update-only")
TABLES_OF_NODES = {"nodes", "shards", "node_connections", "node_waits", "node_hosts", "placements"}
WORKER_PORTS = "SELECT nodeport FROM pg_dist_node WHERE groupid <> 0 ORDER BY nodeport"
SHARDS = (
    "SELECT count(*) FROM citus_shards WHERE table_name = 'pgbench_accounts'::regclass"
    " AND nodeport <> current_setting('port')::int"
)


@pytest.mark.parametrize("column", ["aid", "bid"])
def test_a_dataset_is_distributed_by_either_column_and_dropped(
    pgdyno: Command, citus: Target, column: str
) -> None:
    where = server_options(citus)
    said = pgdyno(
        "init", *where, "-s", "9", "--distribute", f"citus:{column}", "--dry-run", "--json"
    )
    sizes = [node["size_bytes"] for node in said.document["nodes"]]
    assert sizes == [said.document["size_bytes"] // WORKER_COUNT] * WORKER_COUNT
    said = pgdyno("init", *where, "-s", "2", "--distribute", f"citus:{column}", "--json")
    assert said.code == 0, said.err
    assert said.document["state"] == "complete"
    distribution = "SELECT distribution_column FROM citus_tables WHERE table_name = %s::regclass"
    assert scalar(citus, distribution, "pgbench_accounts") == column
    assert scalar(citus, SHARDS) == 8
    totals = "SELECT count(*), min(aid), max(aid), count(DISTINCT bid) FROM pgbench_accounts"
    assert run_sql(citus, totals) == [(200_000, 1, 200_000, 2)]
    assert scalar(citus, "SELECT count(*) FROM pgbench_tellers") == 20
    assert pgdyno("drop", *where).code == 0
    left = "SELECT count(*) FROM pg_class WHERE relname ~ '^(pgbench|pgdyno)'"
    assert scalar(citus, left) == 0


def test_foreign_keys_point_at_reference_tables(pgdyno: Command, citus: Target) -> None:
    where = server_options(citus)
    said = pgdyno("init", *where, "-s", "1", "--distribute", "citus", "--foreign-keys")
    assert said.code == 0, said.err
    keys = (
        "SELECT count(*) FROM pg_constraint JOIN citus_tables ON table_name = conrelid"
        " WHERE contype = 'f'"
    )
    assert scalar(citus, keys) == 5
    assert pgdyno("drop", *where).code == 0


def test_the_builtin_scripts_and_a_sweep_run_and_the_coordinator_is_observed(
    pgdyno: Command, citus: Target, tmp_path: Path
) -> None:
    where = server_options(citus)
    said = pgdyno("init", *where, "-s", "1", "--distribute", "citus")
    assert said.code == 0, said.err
    scripts = [word for name in BUILTINS for word in ("-b", name)]
    store = ("--json", "--store", str(tmp_path))
    with connection(citus) as session:
        session.execute("ALTER SYSTEM SET citus.enable_stat_counters = on")
        session.execute("SELECT pg_reload_conf()")
    said = pgdyno("bench", *where, *scripts, "-c", "4", "-T", "5s", *store)
    # Runs of few seconds are not valid: 10 s are the least.
    assert said.code in (0, 3), said.err
    assert all(script["tps"]["value"] > 0 for script in said.document["scripts"])
    time = said.document["where_the_time_goes"]
    assert len(time["nodes"]) == WORKER_COUNT
    assert all(node["ms"] > 0 for node in time["nodes"])
    assert time["several_shards_ratio"] < 0.5
    parts = {part["name"]: part["ms"] for part in time["parts"]}
    # A sample may find no session at work on a node.
    sums = [sum(node["waits"].values()) for node in time["nodes"] if node["waits"]]
    assert sums == pytest.approx([1.0] * len(sums))
    assert all(0 < node["processors_ratio"] < 1.1 for node in time["nodes"])
    assert 0 < parts["other nodes"] <= sum(node["ms"] for node in time["nodes"]) * 1.001
    assert sum(parts.values()) + time["residual_ms"] == pytest.approx(time["latency_ms"])
    said = pgdyno("sweep", *where, "-b", "select-only", "-c", "1,2", "-T", "1s", *QUICK, *store)
    assert said.code in (0, 3), said.err
    tables = {path.stem for path in tmp_path.glob("*/runs/*/telemetry/*.parquet")}
    assert tables >= {"database", "wal", *TABLES_OF_NODES}, tables
    assert pgdyno("drop", *where).code == 0


def test_a_role_that_cannot_read_the_counters_of_workers_does_not_try(
    pgdyno: Command, citus_nodes: tuple[Target, list[ScratchCluster]], tmp_path: Path
) -> None:
    citus, workers = citus_nodes
    assert pgdyno("init", *server_options(citus), "-s", "1", "--distribute", "citus").code == 0
    run_sql(citus, "CREATE ROLE reader LOGIN IN ROLE pg_monitor, pg_read_all_data")
    load = ("-b", "select-only", "-c", "1", "-T", "3s", "--json", "--store", str(tmp_path))
    said = pgdyno("bench", *server_options(citus, "reader"), *load)
    assert said.code in (0, 3), said.err
    assert not list(tmp_path.glob("*/runs/*/telemetry/node_hosts.parquet"))
    assert list(tmp_path.glob("*/runs/*/telemetry/nodes.parquet"))
    for worker in workers:
        logs = [path.read_text(errors="replace") for path in worker.path.rglob("*.log")]
        assert logs
        assert not any("permission denied for function" in log for log in logs)
    assert pgdyno("drop", *server_options(citus)).code == 0


def test_several_coordinators_are_loaded_in_turns_and_the_balance_is_shown(
    pgdyno: Command, citus: Target, tmp_path: Path
) -> None:
    assert pgdyno("init", *server_options(citus), "-s", "1", "--distribute", "citus").code == 0
    workers = [port for (port,) in run_sql(citus, WORKER_PORTS)]
    hosts = ",".join((citus.host, *("127.0.0.1" for _ in workers)))
    ports = ",".join((citus.ports, *map(str, workers)))
    many = ("-h", hosts, "-p", ports, "-U", citus.user, "-d", citus.database)
    load = ("-b", "select-only", "-c", "6", "-T", "2s", "--warmup", "0s", "--json")
    said = pgdyno("bench", *many, *load, "--servers-in-turns", "--store", str(tmp_path))
    assert said.code in (0, 3), said.err
    [script] = said.document["scripts"]
    shares = said.document["connections"]["hosts"]
    assert [share["port"] for share in shares] == [int(citus.ports), *workers]
    assert [share["opened_count"] for share in shares] == [2, 2, 2]
    assert all(share["transactions_count"] > 0 for share in shares)
    assert sum(share["transactions_count"] for share in shares) == script["transactions"]
    [page] = tmp_path.glob("*/report.html")
    assert "Servers of the load" in page.read_text()
    # Without the option the same list is for failover.
    said = pgdyno("bench", *many, *load)
    shares = said.document["connections"]["hosts"]
    assert [share["opened_count"] for share in shares] == [6, 0, 0]
    said = pgdyno("bench", *server_options(citus), *load, "--servers-in-turns")
    assert said.code == 1
    assert "several servers" in said.error
    assert pgdyno("drop", *server_options(citus)).code == 0


def test_the_tpcc_like_program_runs_in_every_mode_and_keeps_the_data_consistent(
    pgdyno: Command, citus: Target
) -> None:
    where = server_options(citus)
    words = ("--warehouses", "1", "--distribute", "citus", "--foreign-keys", "--json")
    said = pgdyno("init", "tpcc", *where, *words)
    assert said.code == 0, said.err
    # Customers of another warehouse, and lines from another one, are on any node.
    keys = (
        "SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND conrelid = ANY(%s::regclass[])"
    )
    assert scalar(citus, keys, list(KINDS["tpcc"].tables)) == 8
    distributed = dict(
        run_sql(citus, "SELECT table_name::text, citus_table_type FROM citus_tables")
    )
    places = "SELECT count(DISTINCT colocation_id) FROM citus_tables WHERE citus_table_type = %s"
    assert scalar(citus, places, "distributed") == 1, "a warehouse is on one node"
    assert distributed.pop("item") == "reference"
    assert distributed == dict.fromkeys(set(KINDS["tpcc"].tables) - {"item"}, "distributed")
    # The coordinator has empty tables: the size is that of the shards.
    assert said.document["size_bytes"] > 80e6
    for mode in ("statements", "pipeline", "procedures"):
        way = ("-b", "tpcc-like", "--mode", mode, "-c", "2", "-T", "1s", "--warmup", "0s")
        said = pgdyno("bench", *where, *way, "--reset", "none", "--no-check", "--json")
        assert said.code in (0, 3), said.err
        done = {script["name"]: script for script in said.document["scripts"]}
        assert done["new-order"]["transactions"] > 0, mode
        assert not any(script["failures"] for script in done.values()), (mode, done)
    said = pgdyno("check", "tpcc", *where, "--json")
    assert said.document["violations"] == {str(number): 0 for number in range(1, 14)}
    assert [drawn["name"] for drawn in said.document["drawn"]] == ["customers", "items"]
    assert pgdyno("drop", *where).code == 0
    assert scalar(citus, "SELECT to_regclass('stock')") is None


def test_an_interrupted_load_goes_on(pgdyno: Command, citus: Target) -> None:
    words = ["init", *server_options(citus), "-s", "5", "--distribute", "citus", "--load-jobs", "2"]
    with connection(citus) as session, session.transaction():
        session.execute("SET application_name = 'pgdyno/test'")
        running = pgdyno.start(*words)
        eventually(
            lambda: _locked(session, "pgdyno_load"),
            unless=lambda: running.process.poll() is not None,
        )
        running.signal(signal.SIGINT)
        said = running.wait()
    assert said.code == 130, said.err
    said = pgdyno(*words, "--json")
    assert said.code == 0, said.err
    assert said.document["is_resumed"]
    assert scalar(citus, "SELECT count(*) FROM pgbench_accounts") == 500_000
    assert pgdyno("drop", "pgbench", *server_options(citus)).code == 0


def test_a_citus_without_workers_is_said_before_the_load(pgdyno: Command, citus: Target) -> None:
    run_sql(citus, "CREATE DATABASE alone")
    alone = citus.with_database("alone")
    run_sql(alone, "CREATE EXTENSION citus")
    said = pgdyno("init", *server_options(alone), "-s", "1", "--distribute", "citus")
    assert "no workers" in said.err
    assert "citus_add_node" in said.err
    assert said.code == 0, said.err


def test_tables_with_another_distribution_than_the_scripts_need_are_a_doubt(
    pgdyno: Command, citus: Target
) -> None:
    where = server_options(citus)
    assert pgdyno("init", *where, "-s", "1", "--distribute", "citus:bid").code == 0
    with connection(citus) as session:
        session.execute("ALTER SYSTEM SET citus.enable_stat_counters = on")
        session.execute("SELECT pg_reload_conf()")
    load = ("-b", "select-only", "-c", "2", "-T", "4s", "--warmup", "0s", "--json")
    said = pgdyno("bench", *where, *load)
    warnings = {warning["kind"]: warning["hint"] for warning in said.document["warnings"]}
    assert "alter_distributed_table" in warnings["several_shards"]
    assert pgdyno("drop", *where).code == 0


def test_deadlocks_over_several_nodes_are_counted(
    pgdyno: Command, citus: Target, tmp_path: Path
) -> None:
    where = server_options(citus)
    assert pgdyno("init", *where, "-s", "1", "--distribute", "citus").code == 0
    rows = run_sql(
        citus,
        "SELECT min(aid) FROM pgbench_accounts JOIN citus_shards s ON s.shardid ="
        " get_shard_id_for_distribution_column('pgbench_accounts', aid)"
        " WHERE aid <= 100 GROUP BY s.nodeport",
    )
    assert len(rows) == WORKER_COUNT
    script = tmp_path / "opposite.sql"
    pair = [f"UPDATE pgbench_accounts SET abalance = 1 WHERE aid = {aid};\n" for (aid,) in rows]
    # A script locks the rows of two nodes in one order, the other script in the opposite order.
    for name, statements in (("forth", pair), ("back", pair[::-1])):
        script = tmp_path / f"{name}.sql"
        script.write_text("BEGIN;\n" + "SELECT pg_sleep(0.01);\n".join(statements) + "END;\n")
    run_sql(citus, "ALTER SYSTEM SET deadlock_timeout = '200ms'")
    run_sql(citus, "SELECT pg_reload_conf()")
    scripts = ("-f", tmp_path / "forth.sql", "-f", tmp_path / "back.sql")
    load = ("-c", "4", "-T", "4s", "--warmup", "0s", "--reset", "none", "--allow-write", "--json")
    said = pgdyno("bench", *where, *scripts, *load)
    run_sql(citus, "ALTER SYSTEM RESET deadlock_timeout")
    run_sql(citus, "SELECT pg_reload_conf()")
    assert said.code in (0, 3), said.err
    assert said.document["retried"] > 0
    [doubt] = [of for of in said.document["warnings"] if of["kind"] == "deadlocks_of_nodes"]
    assert re.match(r"[1-9]\d* deadlocks? went over several nodes", doubt["message"])
    assert pgdyno("drop", *where).code == 0


def test_shards_that_move_during_a_run_are_a_doubt(
    pgdyno: Command, citus: Target, tmp_path: Path
) -> None:
    where = server_options(citus)
    assert pgdyno("init", *where, "-s", "1", "--distribute", "citus").code == 0
    load = ("-b", "select-only", "-c", "1", "-T", "6s", "--warmup", "0s", "--reset", "none")
    running = pgdyno.start("bench", *where, *load, "--json", "--store", str(tmp_path))
    eventually(
        lambda: any(tmp_path.glob("*/runs/*/telemetry/placements.jsonl")),
        unless=lambda: running.process.poll() is not None,
    )
    run_sql(
        citus,
        "SELECT citus_move_shard_placement(s.shardid, s.nodename, s.nodeport, n.nodename,"
        " n.nodeport, 'block_writes') FROM citus_shards s, pg_dist_node n"
        " WHERE s.table_name = 'pgbench_accounts'::regclass AND n.groupid <> 0"
        " AND n.nodeport <> s.nodeport LIMIT 1",
    )
    said = running.wait()
    assert "rebalanced" in {doubt["kind"] for doubt in json.loads(said.out)["warnings"]}, said.err


def test_variants_with_more_workers_have_a_speed_up_and_an_efficiency(
    pgdyno: Command, citus_nodes: tuple[Target, list[ScratchCluster]]
) -> None:
    citus, workers = citus_nodes
    targets = []
    for count in (1, 2):
        # Each database has its own list of workers.
        name = f"with_{count}"
        target = citus.with_database(name)
        for server in (citus, *(worker.target for worker in workers)):
            run_sql(server, f"CREATE DATABASE {name}")
            run_sql(server.with_database(name), "CREATE EXTENSION citus")
        run_sql(target, f"SELECT citus_set_coordinator_host('127.0.0.1', {citus.ports})")
        for worker in workers[:count]:
            port = scalar(worker.target, "SELECT current_setting('port')::int")
            run_sql(target, "SELECT citus_add_node('127.0.0.1', %s)", port)
        assert pgdyno("init", *server_options(target), "--distribute", "citus").code == 0
        targets.append(target)
    said = pgdyno(
        *("compare", *server_options(targets[0]), "-b", "select-only", "-c", "2", "-T", "2s"),
        *("--budget", "16s", "--json"),
        *(
            word
            for count, target in zip((1, 2), targets, strict=True)
            for word in ("--variant", f"{count} of them: dsn={target.as_conninfo()}")
        ),
    )
    assert said.code in (0, 3), said.err
    first, second = said.document["scaling_out"]["variants"]
    assert (first["name"], first["workers"], second["workers"]) == ("1 of them", 1, 2)
    assert second["efficiency"]["value"] == pytest.approx(second["speed_up"]["value"] / 2)
    shown = pgdyno("show", "1").out
    assert "scaling out" in shown
    assert "efficiency" in shown


def test_a_worker_killed_in_a_run_makes_the_run_not_valid_and_is_named(
    pgdyno: Command, citus_nodes: tuple[Target, list[ScratchCluster]], tmp_path: Path
) -> None:
    citus, workers = citus_nodes
    where = server_options(citus)
    assert pgdyno("init", *where, "-s", "1", "--distribute", "citus").code == 0
    load = ("-b", "tpcb-like", "-c", "2", "-T", "12s", "--warmup", "0s", "--reset", "none")
    running = pgdyno.start("bench", *where, *load, "--json", "--store", str(tmp_path))
    eventually(
        lambda: any(tmp_path.glob("*/runs/*/telemetry/nodes.jsonl")),
        unless=lambda: running.process.poll() is not None,
    )
    workers[1].kill()
    said = running.wait()
    assert said.code != 0
    document = json.loads(said.out)
    doubts = {doubt["kind"]: doubt["verdict"] for doubt in document["warnings"]}
    assert doubts["node_lost"] == "not_valid"
    assert "08006" in document["failures"]
    assert "connection to the remote node" in said.err
    workers[1].start()


def _locked(session: psycopg.Connection, table: str) -> bool:
    try:
        with session.transaction():
            session.execute(f"LOCK TABLE {table} IN ACCESS SHARE MODE")
    except psycopg.errors.UndefinedTable:
        return False
    return True
