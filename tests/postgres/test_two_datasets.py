"""A database with two datasets: each verb takes the one that it is asked about."""

from __future__ import annotations

import pytest
from tests.fixtures.clusters import run_sql
from tests.fixtures.command import Command, server_options

from pgdyno.server.target import Target

pytestmark = pytest.mark.pg
RAN = (0, 3)  # A run of a second is too short to be valid.
SHORT = ("-c", "2", "-T", "500ms", "--warmup", "0s", "--json")
TABLES = "SELECT count(*) FROM pg_class WHERE relname IN ('pgbench_accounts', 'warehouse')"


def test_bench_check_and_drop_take_the_dataset_that_they_are_asked_about(
    pgdyno: Command, fresh_warehouse: Target
) -> None:
    where = server_options(fresh_warehouse)
    assert pgdyno("init", *where, "-s", "1").code == 0
    for builtin in ("tpcc-like", "tpcb-like"):
        said = pgdyno("bench", *where, "-b", builtin, *SHORT)
        assert said.code in RAN, said.err
    assert "1 warehouse by pgdyno" in pgdyno("show", "1").out
    assert "scale 1 by pgdyno" in pgdyno("show", "2").out
    assert pgdyno("check", "tpcc", *where).code == 0
    asked = pgdyno("drop", *where)
    assert asked.code != 0
    assert "2 datasets: pgbench (scale 1 by pgdyno) and tpcc (1 warehouse by pgdyno)" in asked.error
    assert "pgdyno drop pgbench or pgdyno drop tpcc" in asked.error
    assert run_sql(fresh_warehouse, TABLES) == [(2,)]
    assert pgdyno("drop", "tpcc", *where).code == 0
    assert run_sql(fresh_warehouse, TABLES) == [(1,)]
    assert pgdyno("drop", *where).code == 0
    assert run_sql(fresh_warehouse, TABLES) == [(0,)]
