"""A TPC-C-like run that meets trouble: other tables, conflicts, a server that starts again."""

from __future__ import annotations

import json
import subprocess

import pytest
from tests.fixtures.clusters import run_sql
from tests.fixtures.command import Command, server_options
from tests.fixtures.own_servers import MakeOwn

from pgdyno.server.target import Target

pytestmark = pytest.mark.pg
HOLD = {str(number): 0 for number in range(1, 13)}
SHORT = ("--warmup", "0s", "--reset", "none", "--json")
MARK = "COMMENT ON TABLE warehouse IS 'pgdyno dataset tpcc warehouses={} seed=1 c_last=157'"

# What somebody did to the tables, one after another, and what the run is refused with.
CHANGES = (
    ("ALTER TABLE stock DROP COLUMN s_order_cnt", "s_order_cnt"),
    ("DROP INDEX orders_lookup_idx", "no index begins with the columns of orders (o_w_id, o_d_id"),
    ("DELETE FROM district WHERE d_id = 10", "rows in district: expected 10, found 9"),
    (MARK.format(2), "with 2 warehouses: rows in warehouse: expected 2, found 1"),
    (MARK.format(0), "must have warehouses=W, W at least 1"),
)


def test_tables_that_were_changed_are_refused_with_what_is_wrong(
    pgdyno: Command, fresh_warehouse15: Target
) -> None:
    where = server_options(fresh_warehouse15)
    for change, reason in CHANGES:
        run_sql(fresh_warehouse15, change)
        said = pgdyno("bench", *where, "-b", "tpcc-like", "-T", "1s", *SHORT)
        assert said.code == 1, (change, said.err)
        assert reason in " ".join(said.error.split()), (change, said.error)
        assert ("not those of pgdyno init tpcc" in said.error) == ("DROP COLUMN" in change)


def test_retried_work_keeps_all_conditions(pgdyno: Command, fresh_warehouse15: Target) -> None:
    where = server_options(fresh_warehouse15)
    load = ("--terminals", "8", "--isolation", "serializable", "-T", "1s")
    said = pgdyno("bench", *where, "-b", "tpcc-like", *load, *SHORT)
    types = said.document["types"]
    assert sum(transaction_type["retries"] for transaction_type in types) > 0
    assert said.document["check"]["violations"] == HOLD


def test_a_server_that_starts_again_during_a_run_leaves_the_data_consistent(
    new_own_server: MakeOwn, pgdyno: Command
) -> None:
    own = new_own_server()
    host, port = own.target.host, own.target.ports
    # Named twice, the load waits for the server for a minute instead of five seconds.
    server = f"host={host},{host} port={port},{port} user={own.target.user} dbname=postgres"
    assert pgdyno("init", "tpcc", server, "--warehouses", "1", "--no-check").code == 0
    load = ("-b", "tpcc-like", "--terminals", "4", "-T", "6s", *SHORT)
    running = pgdyno.start("bench", server, *load)
    running.await_load(pgdyno.store)
    subprocess.run(f"{own.pg_ctl} restart -m immediate", shell=True, cwd="/", check=True)
    document = json.loads(running.wait().out)
    assert document["connections"]["lost_count"] > 0
    assert "restarted" in {warning["kind"] for warning in document["warnings"]}
    assert document["check"]["violations"] == HOLD


# What somebody did to the rows, and the first row that each violated condition names.
PLANTED = (
    ("UPDATE warehouse SET w_ytd = w_ytd + 1", "1", "warehouse 1"),
    ("UPDATE district SET d_next_o_id = 5 WHERE d_id = 3", "2", "warehouse 1, district 3"),
    ("DELETE FROM new_order WHERE no_d_id = 4 AND no_o_id = 2200", "3", "warehouse 1, district 4"),
    (
        "DELETE FROM order_line WHERE ol_d_id = 5 AND ol_o_id = 7",
        "6",
        "warehouse 1, district 5, order 7",
    ),
    (
        "UPDATE customer SET c_balance = 3 WHERE c_d_id = 6 AND c_id = 8",
        "10",
        "warehouse 1, district 6, customer 8",
    ),
    ("DELETE FROM item WHERE i_id IN (70000, 80000)", "13", "item 70000"),
)


def test_check_names_the_rows_that_violate_a_condition_and_sees_missing_items(
    pgdyno: Command, fresh_warehouse: Target
) -> None:
    where = server_options(fresh_warehouse)
    for change, _, _ in PLANTED:
        run_sql(fresh_warehouse, change)
    document = pgdyno("check", "tpcc", *where, "--json").document
    for change, number, row in PLANTED:
        assert row in document["rows"][number], change
    assert all(len(rows) <= 10 for rows in document["rows"].values())
    said = pgdyno("check", "tpcc", *where)
    assert said.code == 4
    assert "      warehouse 1, district 5, order 7\n" in said.out
    assert "13  is violated 2 times" in said.out


def test_tables_whose_keys_postgresql_refuses_are_refused_before_they_are_loaded(
    pgdyno: Command, database: Target
) -> None:
    mixed = ("--unlogged-tables", "--partitions", "3", "--foreign-keys")
    said = pgdyno("init", "tpcc", *server_options(database), "--warehouses", "1", *mixed)
    assert said.code == 1
    assert "exclude each other" in said.error
    assert run_sql(database, "SELECT count(*) FROM pg_class WHERE relname = 'item'") == [(0,)]
