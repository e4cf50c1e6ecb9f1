"""Loading on a real Citus: distribution, foreign keys, interruptions, and a lost worker."""

from __future__ import annotations

import signal

import psycopg
import pytest
from tests.fixtures.citus import WORKER_COUNT
from tests.fixtures.clusters import connection, run_sql, scalar
from tests.fixtures.command import Command, eventually, server_options

from pgdyno.server.dataset.kinds import KINDS
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target

pytestmark = pytest.mark.pg

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
    if column == "bid":
        # The script finds accounts by aid, so every shard must look for them.
        load = ("-b", "select-only", "-c", "2", "-T", "3s", "--warmup", "0s", "--json")
        said = pgdyno("bench", *where, *load)
        hints = {warning["kind"]: warning["hint"] for warning in said.document["warnings"]}
        assert "alter_distributed_table" in hints["several_shards"]
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


def test_a_load_goes_on_after_a_worker_was_killed(
    pgdyno: Command, citus_nodes: tuple[Target, list[ScratchCluster]]
) -> None:
    citus, workers = citus_nodes
    words = ["init", *server_options(citus), "-s", "5", "--distribute", "citus", "--load-jobs", "2"]
    with connection(citus) as session, session.transaction():
        session.execute("SET application_name = 'pgdyno/test'")
        running = pgdyno.start(*words)
        eventually(
            lambda: _locked(session, "pgdyno_load"),
            unless=lambda: running.process.poll() is not None,
        )
        workers[0].kill()
    said = running.wait()
    assert said.code == 2
    assert "The dataset was not loaded" in said.error
    assert "run the same command again" in said.error
    said = pgdyno("bench", *server_options(citus), "-b", "select-only", "-c", "1", "-T", "1s")
    assert said.code == 1, "tables of which a part is missing are not measured"
    workers[0].start()
    said = pgdyno(*words, "--json")
    assert said.code == 0, said.err
    assert said.document["is_resumed"]
    totals = "SELECT count(*), min(aid), max(aid), count(DISTINCT aid) FROM pgbench_accounts"
    assert run_sql(citus, totals) == [(500_000, 1, 500_000, 500_000)]
    left = "SELECT count(*) FROM pg_class WHERE relname ~ '^pgdyno'"
    assert scalar(citus, left) == 0
    assert pgdyno("drop", *server_options(citus)).code == 0


def test_before_the_load_citus_without_workers_gives_a_message(
    pgdyno: Command, citus: Target
) -> None:
    run_sql(citus, "CREATE DATABASE alone")
    alone = citus.with_database("alone")
    run_sql(alone, "CREATE EXTENSION citus")
    said = pgdyno("init", *server_options(alone), "-s", "1", "--distribute", "citus")
    assert "no workers" in said.err
    assert "citus_add_node" in said.err
    assert said.code == 0, said.err


def _locked(session: psycopg.Connection, table: str) -> bool:
    try:
        with session.transaction():
            session.execute(f"LOCK TABLE {table} IN ACCESS SHARE MODE")
    except psycopg.errors.UndefinedTable:
        return False
    return True
