"""Load and telemetry on a real Citus: scripts, nodes that fail or are rebalanced, scaling out."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.fixtures.citus import WORKER_COUNT
from tests.fixtures.clusters import run_sql, scalar
from tests.fixtures.command import Command, eventually, server_options

from pgdyno.features.nodes.answer import doubts_of_nodes
from pgdyno.loop.load_numbers import load_numbers
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target
from pgdyno.store.parquet import read_arrays
from pgdyno.store.schema import table
from pgdyno.store.stored_run import StoredRun

pytestmark = pytest.mark.pg

BUILTINS = ("tpcb-like", "simple-update", "select-only", "insert-only", "update-only")
TABLES_OF_NODES = {"shards", "placements", "node_connections", "node_waits", "node_cpu"}
TABLES_OF_NODES |= {"node_database", "node_wal", "node_checkpointer", "node_disk", "node_memory"}
WORKER_PORTS = "SELECT nodeport FROM pg_dist_node WHERE groupid <> 0 ORDER BY nodeport"
SHARDS_OF = (
    "SELECT count(*) FROM citus_shards WHERE table_name = 'pgbench_accounts'::regclass"
    " AND nodeport = %s"
)

# A load that is only there, and leaves the processors to other tests.
QUIET = ("-c", "2", "-R", "100")


@pytest.fixture
def citus_bank(pgdyno: Command, citus: Target) -> Target:
    """The coordinator, with distributed pgbench tables of scale 1; they stay for the next test."""
    if scalar(citus, "SELECT to_regclass('pgbench_accounts')") is None:
        said = pgdyno("init", *server_options(citus), "-s", "1", "--distribute", "citus")
        assert said.code == 0, said.err
    return citus


def test_the_builtin_scripts_run_and_the_parts_of_their_time_add_up(
    pgdyno: Command, citus_bank: Target, tmp_path: Path
) -> None:
    citus = citus_bank
    where = server_options(citus)
    scripts = [word for name in BUILTINS for word in ("-b", name)]
    store = ("--json", "--store", str(tmp_path))
    said = pgdyno("bench", *where, *scripts, "-c", "4", "-T", "5s", *store)
    # Runs of few seconds are not valid: 10 s are the least.
    assert said.code in (0, 3), said.err
    assert all(script["tps"]["value"] > 0 for script in said.document["scripts"])
    time = said.document["where_the_time_goes"]
    if time is None:
        # On a disturbed machine the parts may not explain the latency: then none is shown.
        assert said.document["where_the_time_goes_not_computed_because"]
        return
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
    tables = {path.stem for path in tmp_path.glob("*/runs/*/telemetry/*.parquet")}
    assert tables >= {"database", "wal", *TABLES_OF_NODES}, tables
    for quantity in ("commits", "wal_bytes", "blocks_read", "blocks_written"):
        assert all(node[f"{quantity}_per_second"] is not None for node in time["nodes"])
    assert all(node["wal_bytes_per_second"] > 1000 for node in time["nodes"])
    [folder] = [path.parent for path in tmp_path.glob("*/report.html")]
    page = (folder / "report.html").read_text()
    shown = pgdyno("show", "-v", "1", "--store", str(tmp_path)).out
    for node in time["nodes"]:
        assert f">{node['name']}<" in page
        assert f"  {node['name']}  " in shown
    for title in ("WAL of workers", "Commits on workers"):
        assert title in page
    # A line needs two samples that found sessions at work.
    [waits] = tmp_path.glob("*/runs/*/telemetry/node_waits.parquet")
    rows = read_arrays(waits, table("node_waits"))
    if len(set(rows["time_ns"][rows["state"] == "active"].tolist())) > 1:
        assert "Waits of all workers" in page


def test_a_role_that_cannot_read_the_counters_of_workers_does_not_try(
    pgdyno: Command,
    citus_bank: Target,
    citus_nodes: tuple[Target, list[ScratchCluster]],
    tmp_path: Path,
) -> None:
    citus, workers = citus_bank, citus_nodes[1]
    run_sql(citus, "CREATE ROLE reader LOGIN IN ROLE pg_monitor, pg_read_all_data")
    load = ("-b", "select-only", *QUIET, "-T", "3s", "--json", "--store", str(tmp_path))
    said = pgdyno("bench", *server_options(citus, "reader"), *load)
    assert said.code in (0, 3), said.err
    assert not list(tmp_path.glob("*/runs/*/telemetry/node_cpu.parquet"))
    assert list(tmp_path.glob("*/runs/*/telemetry/node_database.parquet"))
    for worker in workers:
        logs = [path.read_text(errors="replace") for path in worker.path.rglob("*.log")]
        assert logs
        assert not any("permission denied for function" in log for log in logs)


def test_several_coordinators_are_loaded_in_turns_and_the_balance_is_shown(
    pgdyno: Command, citus_bank: Target, tmp_path: Path
) -> None:
    citus = citus_bank
    workers = [port for (port,) in run_sql(citus, WORKER_PORTS)]
    hosts = ",".join((citus.host, *("127.0.0.1" for _ in workers)))
    ports = ",".join((citus.ports, *map(str, workers)))
    many = ("-h", hosts, "-p", ports, "-U", citus.user, "-d", citus.database)
    load = ("-b", "select-only", "-c", "6", "-R", "300", "-T", "2s", "--warmup", "0s", "--json")
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


def test_deadlocks_over_several_nodes_are_counted(
    pgdyno: Command, citus_bank: Target, tmp_path: Path
) -> None:
    citus = citus_bank
    where = server_options(citus)
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


def test_a_rebalancing_during_a_run_is_a_doubt(
    pgdyno: Command,
    citus_bank: Target,
    citus_nodes: tuple[Target, list[ScratchCluster]],
    tmp_path: Path,
) -> None:
    citus, workers = citus_bank, citus_nodes[1]
    where = server_options(citus)
    load = ("-b", "select-only", *QUIET, "-T", "5s", "--warmup", "0s", "--reset", "none")
    worker = workers[1].target
    port = scalar(worker, "SELECT current_setting('port')::int")
    run_sql(citus, "SELECT citus_drain_node('127.0.0.1', %s, 'block_writes')", port)
    run_sql(
        citus, "SELECT citus_set_node_property('127.0.0.1', %s, 'shouldhaveshards', true)", port
    )
    assert scalar(citus, SHARDS_OF, port) == 0
    running = pgdyno.start("bench", *where, *load, "--json", "--store", str(tmp_path))
    eventually(
        lambda: any(tmp_path.glob("*/runs/*/telemetry/placements.jsonl")),
        unless=lambda: running.process.poll() is not None,
    )
    run_sql(citus, "SELECT citus_rebalance_start(shard_transfer_mode => 'block_writes')")
    said = running.wait()
    # The rebalancer is another session, so the run may have been repeated: the doubt is its own.
    first = StoredRun(next(tmp_path.glob("*/runs/0001")))
    doubts = {doubt.kind for doubt in doubts_of_nodes(first, load_numbers(first))}
    assert "rebalanced" in doubts, said.err
    run_sql(citus, "SELECT citus_rebalance_wait()")
    assert scalar(citus, SHARDS_OF, port) == 4


def test_variants_with_more_workers_have_a_speed_up_and_an_efficiency(
    pgdyno: Command, citus_nodes: tuple[Target, list[ScratchCluster]], tmp_path: Path
) -> None:
    citus, workers = citus_nodes
    # The pauses leave the processors to other tests: how fast it is does not matter.
    script = tmp_path / "read.sql"
    script.write_text("SELECT abalance FROM pgbench_accounts WHERE aid = 1;\n\\sleep 5 ms\n")
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
        *("compare", *server_options(targets[0]), "-f", str(script), "-c", "2", "-T", "1s"),
        *("--rounds", "3", "--json"),
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
    shown = pgdyno("show", "-v", "1").out
    assert "scaling out" in shown
    assert "efficiency" in shown


def test_a_worker_killed_in_a_run_makes_the_run_not_valid_and_is_named(
    pgdyno: Command,
    citus_bank: Target,
    citus_nodes: tuple[Target, list[ScratchCluster]],
    tmp_path: Path,
) -> None:
    citus, workers = citus_bank, citus_nodes[1]
    where = server_options(citus)
    load = ("-b", "tpcb-like", *QUIET, "-T", "8s", "--warmup", "0s", "--reset", "none")
    running = pgdyno.start("bench", *where, *load, "--json", "--store", str(tmp_path))
    running.await_load(tmp_path)
    workers[1].kill()
    said = running.wait()
    assert said.code != 0
    document = json.loads(said.out)
    doubts = {doubt["kind"]: doubt["verdict"] for doubt in document["warnings"]}
    assert doubts["node_lost"] == "not_valid"
    assert "08006" in document["failures"]
    assert "connection to the remote node" in said.err
    workers[1].start()
