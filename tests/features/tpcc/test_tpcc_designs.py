"""Restore, passes, matrix and watch with the TPC-C-like load."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from tests.fixtures import needs
from tests.fixtures.clusters import QUICK, Make, run_sql
from tests.fixtures.command import Command, server_options
from tests.fixtures.tpcc import CHECKED, contents, new_orders_take

from pgdyno.server.connect import connect
from pgdyno.server.reset import restore_database
from pgdyno.server.target import Target

pytestmark = pytest.mark.pg
RAN = (0, 3)  # A run of seconds is too short to be valid, and pgdyno says so.
SHORT = ("-b", "tpcc-like", "-T", "500ms", "--warmup", "0s", "--reset", "none", "--no-check")


def test_changes_of_a_run_are_gone_after_a_restore(pgdyno: Command, warehouse: Target) -> None:
    with connect(warehouse.with_database("postgres"), verb="test") as control:
        restore_database(control, warehouse.database)
        loaded = contents(warehouse)
        said = pgdyno("bench", *server_options(warehouse), *SHORT, "-c", "2", "--json")
        assert said.code in RAN, said.err
        ran = contents(warehouse)
        assert {name for name in ran if ran[name] == loaded[name]} == {"item"}
        restore_database(control, warehouse.database)
        assert contents(warehouse) == loaded
        template = f"{warehouse.database}_template"
        control.execute(f"ALTER DATABASE {template} IS_TEMPLATE false")
        control.execute(f"DROP DATABASE {template}")
    said = pgdyno("check", "tpcc", *server_options(warehouse), "--json")
    assert said.document["violations"] == CHECKED


@needs.POSTGRESQL_15
def test_every_pass_begins_with_the_loaded_data_and_is_checked(
    pgdyno: Command, tmp_path: Path
) -> None:
    spec = tmp_path / "passes.toml"
    spec.write_text(
        f"""
[experiment]
name = "passes"
reset = "restore"
[server]
scratch = {{ version = "15" }}
settings = {{ {", ".join(f'{name} = "{value}"' for name, value in QUICK.items())} }}
[dataset]
kind = "tpcc"
warehouses = 1
[workload]
scripts = [{{ builtin = "tpcc-like", options = {{ mode = "procedures" }} }}]
clients = 2
duration = "500ms"
warmup = "0s"
[[variant]]
name = "base"
[[variant]]
name = "pass 1"
settings = {{ work_mem = "8MB" }}
[design]
kind = "passes"
rounds = 1
"""
    )
    said = pgdyno("run", spec, "--json")
    assert said.code in RAN, said.err
    assert said.document["metric"] == "nopm"
    assert [variant["name"] for variant in said.document["variants"]] == ["base", "pass 1"]
    kept = sorted(pgdyno.store.glob("*/runs/*/server.json"))
    first, second = [json.loads(path.read_text()) for path in kept]
    assert first["reset"]["steps"][0]["name"] == "make template"
    assert second["reset"]["steps"][0]["name"] == "restore"
    # The first run added thousands of rows.
    assert first["totals"]["database.tup_inserted"] > 0
    assert second["reset"]["dead_rows_before"] == 0
    size = "database_bytes_before"
    assert second["reset"][size] == first["reset"][size]
    for run in (first, second):
        verdicts = run["consistency"]["conditions"]
        assert [verdict["number"] for verdict in verdicts] == list(range(1, 13))
        assert not any(verdict["violations"] for verdict in verdicts)


def test_a_matrix_of_two_factors_is_decided_by_nopm(
    pgdyno: Command, warehouse: Target, tmp_path: Path
) -> None:
    dsn = f"host={warehouse.host} port={warehouse.ports} user={warehouse.user}"
    dsn += f" dbname={warehouse.database}"
    spec = tmp_path / "matrix.toml"
    spec.write_text(
        f"""
[experiment]
name = "matrix"
reset = "none"
check = false
[server]
dsn = "{dsn}"
[dataset]
kind = "existing"
[workload]
scripts = [{{ builtin = "tpcc-like" }}]
clients = 2
duration = "500ms"
warmup = "0s"
[design]
kind = "matrix"
rounds = 1
[[design.factors]]
name = "memory"
[[design.factors.levels]]
name = "little"
settings = {{ work_mem = "1MB" }}
[[design.factors.levels]]
name = "much"
settings = {{ work_mem = "8MB" }}
[[design.factors]]
name = "terminals"
[[design.factors.levels]]
name = "one"
clients = 1
[[design.factors.levels]]
name = "three"
clients = 3
"""
    )
    said = pgdyno("run", spec, "--json")
    # One round decides nothing.
    assert said.code in (*RAN, 5), said.err
    document = said.document
    assert (document["format"], document["metric"]) == ("pgdyno.matrix/1", "nopm")
    cells = {cell["name"]: cell["metrics"]["nopm"]["value"] for cell in document["variants"]}
    assert cells.keys() == {"little, one", "little, three", "much, one", "much, three"}
    assert all(nopm > 0 for nopm in cells.values())
    [heading] = [line for line in pgdyno("show", "-v", "last").out.splitlines() if "p50 ms" in line]
    assert heading.split()[0] == "NOPM"


def test_a_watch_sees_the_statements_of_the_load(pgdyno: Command, new_cluster: Make) -> None:
    cluster = new_cluster("15", settings={"shared_preload_libraries": "pg_stat_statements"})
    run_sql(cluster.target, "CREATE EXTENSION pg_stat_statements")
    where = server_options(cluster.target)
    assert pgdyno("init", "tpcc", *where, "--warehouses", "1", "--no-check").code == 0
    words = ("-b", "tpcc-like", "-c", "2", "-T", "10min", "--warmup", "0s", "--no-check")
    with new_orders_take(cluster.target, 0.05):
        load = pgdyno.start("bench", *where, *words)
        load.await_load(pgdyno.store)
        said = pgdyno("watch", *where, "--duration", "3s", "--json")
        load.signal(signal.SIGINT)
        assert load.wait().code == 130
    assert said.code == 0, said.err
    (first, *_) = said.document["statements"]
    assert first["text"].startswith("INSERT INTO orders ")
    assert first["calls"] > 0
    assert first["ms_per_call"] > 50
    events = {wait["wait_event"] for wait in said.document["waits"]}
    assert "Timeout:PgSleep" in events
