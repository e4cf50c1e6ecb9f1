"""TPC-C-like transactions from a log: the mirror breaks nothing and leaves consistent tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fixtures.clusters import Make, run_sql
from tests.fixtures.command import Command, server_options
from tests.fixtures.engine_process import Engine, load_job

from pgdyno.features.capture.mirror.job import mirror_load
from pgdyno.spec.workload import Script

pytestmark = pytest.mark.pg
LOGGED = {
    "logging_collector": "on",
    "log_destination": "csvlog",
    "log_directory": "log",
    "autovacuum": "off",
}


def test_a_mirror_of_a_logged_tpcc_leaves_tables_in_which_all_conditions_hold(
    pgdyno: Command, engine: Engine, new_cluster: Make, tmp_path: Path
) -> None:
    cluster, path = new_cluster("15", settings=LOGGED), tmp_path / "core.capture"
    run_sql(cluster.target, "CREATE DATABASE core")
    core = cluster.target.with_database("core")
    said = pgdyno("init", "tpcc", *server_options(core), "-W", "1", "-q")
    assert said.code == 0, said.err
    run_sql(cluster.target, "CREATE DATABASE copy TEMPLATE core STRATEGY FILE_COPY")
    run_sql(core, "ALTER DATABASE core SET log_transaction_sample_rate = 1")
    tpcc = {"name": "tpcc", "weight": 1, "source": {"builtin": "tpcc-like"}}
    connect = {"timeout_ns": 20_000_000_000, "background_terminals": 1}
    engine(load_job(core, scripts=[tpcc], protocol="prepared", measure_s=2.0, connect=connect))
    [[folder]] = run_sql(core, "SELECT current_setting('data_directory')")
    logs = [word for log in Path(str(folder), "log").glob("*.csv") for word in ("--log", str(log))]
    said = pgdyno("capture", *server_options(core), "-o", str(path), "-q", *logs)
    assert said.code == 0, said.err
    mirror = mirror_load(Script(builtin="mirror", capture=path))
    script = {"name": "mirror", "weight": 1, "source": {"builtin": "mirror"}, "mirror": mirror}
    copy = cluster.target.with_database("copy")
    end = engine(load_job(copy, scripts=[script], clients=4, measure_s=2.0, seed=3))
    assert end.summary.failures == {}, end.summary.failure_messages
    assert end.summary.counts.completed > 50
    said = pgdyno("check", "tpcc", *server_options(copy))
    assert "all 13 conditions hold" in said.out, said.out
