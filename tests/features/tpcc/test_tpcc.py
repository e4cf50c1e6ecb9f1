"""The tables of the TPC-C-like workload: as specified, the same for a seed, and checked."""

from __future__ import annotations

import json
import signal
from typing import Any

import psycopg
import pytest
from tests.fixtures.clusters import connection, run_sql, scalar
from tests.fixtures.command import TIMEOUT_S, Command, eventually, server_options
from tests.fixtures.prove import Proved
from tests.fixtures.tpcc import CHECKED, contents

from pgdyno.clock import monotonic_ns
from pgdyno.features.tpcc.conditions import CONDITIONS
from pgdyno.server.connect import Connection, connect
from pgdyno.server.dataset.conditions import Verdict, judge
from pgdyno.server.dataset.kinds import KINDS, needed_bytes
from pgdyno.server.target import Target
from pgdyno.spec.dataset import TpccDataset

pytestmark = pytest.mark.pg

TABLES = KINDS["tpcc"].tables
# Clause 1.3 of the specification: a table, and the table that it refers to.
FOREIGN_KEYS = [
    ("customer", "district"),
    ("district", "warehouse"),
    ("history", "customer"),
    ("history", "district"),
    ("new_order", "orders"),
    ("order_line", "orders"),
    ("order_line", "stock"),
    ("orders", "customer"),
    ("stock", "item"),
    ("stock", "warehouse"),
]


def test_a_loaded_warehouse_is_as_the_specification_has_it(
    pgdyno: Command, either_database: Target
) -> None:
    where = server_options(either_database)
    said = pgdyno("init", "tpcc", *where, "--warehouses", "1", "--foreign-keys", "--json")
    assert said.code == 0, said.err
    assert (said.document["state"], said.document["scale"]) == ("complete", 1)
    counts = {table: scalar(either_database, f"SELECT count(*) FROM {table}") for table in TABLES}
    lines = counts.pop("order_line")
    assert counts == {
        **{"warehouse": 1, "district": 10, "customer": 30_000, "history": 30_000},
        **{"new_order": 9_000, "orders": 30_000, "item": 100_000, "stock": 100_000},
    }
    assert isinstance(lines, int)
    assert abs(lines - 300_000) < 3_000
    share = "SELECT avg((c_credit = 'BC')::int)::float8 FROM customer"
    assert scalar(either_database, share) == pytest.approx(0.1, abs=0.01)
    share = "SELECT avg((s_data LIKE '%ORIGINAL%')::int)::float8 FROM stock"
    assert scalar(either_database, share) == pytest.approx(0.1, abs=0.01)
    zips = "SELECT count(*) FROM customer WHERE c_zip !~ '^[0-9]{4}11111$'"
    assert scalar(either_database, zips) == 0
    names = "SELECT count(DISTINCT c_last) FROM customer WHERE c_id <= 1000"
    assert scalar(either_database, names) == 1000
    keys = (
        "SELECT conrelid::regclass::text, confrelid::regclass::text FROM pg_constraint"
        " WHERE contype = 'f' ORDER BY 1, 2"
    )
    assert run_sql(either_database, keys) == FOREIGN_KEYS
    mark = scalar(either_database, "SELECT obj_description('warehouse'::regclass)")
    assert "c_last=157" in str(mark)
    frozen = "SELECT count(*) FROM pg_class WHERE relname = ANY(%s) AND relallvisible < relpages"
    assert scalar(either_database, frozen, list(TABLES)) == 0
    size = (
        "SELECT sum(pg_total_relation_size(name::regclass))::int8 FROM unnest(%s::text[]) AS name"
    )
    real = scalar(either_database, size, list(TABLES))
    assert KINDS["tpcc"].tables_bytes(TpccDataset()) == pytest.approx(real, rel=0.1)
    assert needed_bytes(TpccDataset())["data"] > real  # type: ignore[operator]

    said = pgdyno("check", "tpcc", *where, "--json")
    assert said.code == 0, said.err
    assert said.document["violations"] == CHECKED
    run_sql(either_database, "UPDATE district SET d_next_o_id = 9 WHERE d_id = 3")
    said = pgdyno("check", "tpcc", *where)
    assert said.code == 4
    assert "violated: 2" in said.out
    assert pgdyno("drop", *where).code == 0
    assert scalar(either_database, "SELECT to_regclass('stock')") is None


def test_the_same_seed_makes_the_same_rows_however_they_are_loaded(
    pgdyno: Command, database15: Target, fresh_warehouse15: Target
) -> None:
    words = ("init", "tpcc", *server_options(database15), "--seed", "2", "--no-check")
    assert pgdyno(*words, "--warehouses", "2", "-j", "1").code == 0
    alone = contents(database15)
    assert pgdyno(*words, "--warehouses", "2", "-j", "4", "--partitions", "3").code == 0
    assert contents(database15) == alone
    parts = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'stock'::regclass"
    assert scalar(database15, parts) == 3
    first = [_first_warehouse(database15, *names) for names in DRAWN]
    # It was loaded with the default seed.
    other = [_first_warehouse(fresh_warehouse15, *names) for names in DRAWN]
    assert all(rows != others for rows, others in zip(first, other, strict=True))


# Tables with drawn columns, and their column of the warehouse.
DRAWN = (("stock", "s_w_id"), ("customer", "c_w_id"), ("order_line", "ol_w_id"))


def _first_warehouse(target: Target, table: str, column: str) -> object:
    """Return a checksum of the rows of warehouse 1, in any order."""
    rows = f"SELECT sum(hash_record_extended(t, 0)::numeric) FROM {table} AS t"
    return scalar(target, f"{rows} WHERE {column} = 1")


def test_an_interrupted_load_ends_with_the_same_rows(
    pgdyno: Command, database15: Target, fresh_warehouse15: Target
) -> None:
    words = ["init", "tpcc", *server_options(database15), "--warehouses", "1", "--no-check"]
    with connection(database15) as session, session.transaction():
        session.execute("SET application_name = 'pgdyno/test'")
        running = pgdyno.start(*words)
        eventually(
            lambda: _locked(session, "pgdyno_load"),
            unless=lambda: running.process.poll() is not None,
        )
        running.signal(signal.SIGINT)
        assert running.wait().code == 130
    said = pgdyno(*words, "--json")
    assert said.code == 0, said.err
    assert said.document["is_resumed"]
    assert contents(database15) == contents(fresh_warehouse15)


MODES = ("statements", "pipeline", "procedures")


def test_all_conditions_hold_after_runs_in_every_mode(
    pgdyno: Command, either_database: Target
) -> None:
    where = server_options(either_database)
    # What a load or a run violates is still violated at the end: one check sees it.
    assert pgdyno("init", "tpcc", *where, "--warehouses", "2", "--no-check").code == 0
    for mode in MODES:
        options = ("-c", "6", "-T", "500ms", "--no-check", "--builtin-option", f"mode={mode}")
        scripts = _run(pgdyno, where, *options)
        done = {name: script["transactions"] for name, script in scripts.items()}
        # A deck has 10, 10, 1, 1 and 1 card; each client may be in the middle of one.
        assert done["new-order"] == pytest.approx(done["payment"], abs=60), mode
        assert all(done.values()), (mode, done)
        assert not any(script["failures"] for script in scripts.values()), (mode, scripts)
    said = pgdyno("check", "tpcc", *where, "--json")
    assert said.document["violations"] == CHECKED


@pytest.mark.slow
def test_ten_warehouses_keep_all_conditions_in_every_mode(
    pgdyno: Command, database: Target, proved: Proved
) -> None:
    where = server_options(database)
    began_ns = monotonic_ns()
    said = pgdyno("init", "tpcc", *where, "--warehouses", "10", "--no-check", timeout_s=600)
    assert said.code == 0, said.err
    seen = [f"load {(monotonic_ns() - began_ns) / 1e9:.0f} s"]
    for mode in MODES:
        scripts = _run(
            pgdyno,
            where,
            *("-c", "16", "-T", "20", "--no-check", "--builtin-option", f"mode={mode}"),
            timeout_s=300,
        )
        seen.append(f"{mode} {scripts['new-order']['transactions']} New-Orders in 20 s")
        assert not any(script["failures"] for script in scripts.values()), (mode, scripts)
    said = pgdyno("check", "tpcc", *where, "--json", timeout_s=600)
    assert said.document["violations"] == CHECKED
    seen.append(f"check {said.document['seconds']:.1f} s")
    version = scalar(database, "SHOW server_version")
    claim = f"10 warehouses after a run in each mode, PostgreSQL {version}"
    proved(claim, required="12 of 12 conditions hold", seen="held; " + ", ".join(seen))


def test_a_procedure_of_another_pgdyno_is_replaced_and_a_foreign_one_refused(
    pgdyno: Command, fresh_warehouse15: Target
) -> None:
    where = server_options(fresh_warehouse15)
    procedure = "pgdyno_tpcc_payment(int, int, int, int, int, text, numeric)"
    create = f"CREATE PROCEDURE {procedure} LANGUAGE sql AS ''"
    run_sql(
        fresh_warehouse15,
        create.replace("int, text", "INOUT p int, text").replace("''", "'SELECT 1'"),
    )
    words = ("bench", *where, "-b", "tpcc-like", "--builtin-option", "mode=procedures")
    words = (*words, "-c", "2", "-T", "300ms", "--no-check")
    refused = pgdyno(*words)
    assert refused.code != 0
    assert "pgdyno did not make it" in " ".join(refused.error.split())
    old = "pgdyno tpcc procedure 0000000000000000"
    run_sql(fresh_warehouse15, f"COMMENT ON PROCEDURE {procedure} IS '{old}'")
    said = pgdyno(*words, "--json")
    assert not any(script["failures"] for script in said.document["scripts"])
    told = {warning["kind"]: warning["message"] for warning in said.document["warnings"]}
    assert "another version of pgdyno" in told["procedures_replaced"]
    # The identifiers of CALL statements are known, so samples find their types.
    stored = sorted(pgdyno.store.glob("bench*/runs/0001/server.json"))[-1]
    identifiers = json.loads(stored.read_text())["query_ids"]
    assert all(identifiers[name] for name in ("new-order", "payment", "deferred-delivery"))
    comment = scalar(
        fresh_warehouse15, f"SELECT obj_description('{procedure}'::regprocedure, 'pg_proc')"
    )
    assert str(comment).startswith("pgdyno tpcc procedure ")
    assert comment != old
    told = {warning["kind"] for warning in pgdyno(*words, "--json").document["warnings"]}
    assert "procedures_replaced" not in told
    # A procedure without our fingerprint stays.
    run_sql(fresh_warehouse15, "CREATE PROCEDURE pgdyno_tpcc_own() LANGUAGE sql AS 'SELECT 1'")
    assert pgdyno("drop", *where).code == 0
    left = run_sql(fresh_warehouse15, "SELECT proname FROM pg_proc WHERE proname LIKE 'pgdyno%%'")
    assert [name for (name,) in left] == ["pgdyno_tpcc_own"]


def _run(
    pgdyno: Command, where: list[str], *options: str, timeout_s: float = TIMEOUT_S
) -> dict[str, dict[str, Any]]:
    """Return each transaction type of a run; the verdict on its figures does not matter."""
    words = ("bench", *where, "-b", "tpcc-like", *options, "--json")
    said = pgdyno(*words, timeout_s=timeout_s)
    assert said.code in (0, 3), said.err
    return {script["name"]: script for script in said.document["scripts"]}


def _locked(session: psycopg.Connection, table: str) -> bool:
    try:
        with session.transaction():
            session.execute(f"LOCK TABLE {table} IN ACCESS SHARE MODE")
    except psycopg.errors.UndefinedTable:
        return False
    return True


def test_tables_of_another_loader_are_refused_with_their_names(
    pgdyno: Command, database15: Target
) -> None:
    run_sql(database15, "CREATE TABLE customer (id int)")
    said = pgdyno("init", "tpcc", *server_options(database15), "--warehouses", "1")
    assert said.code == 1
    assert "customer, which pgdyno did not make" in " ".join(said.error.split())
    assert pgdyno("init", "tpcc", *server_options(database15), "--warehouses", "0").code == 1
    assert pgdyno("check", "tpcc", *server_options(database15)).code != 0


# One customer's debt for one order, which must follow when the order is delivered by hand.
_DEBT = (
    "UPDATE customer SET c_delivery_cnt = c_delivery_cnt + 1, c_balance = c_balance + (SELECT"
    " sum(ol_amount) FROM order_line WHERE ol_w_id = 1 AND ol_d_id = 1 AND ol_o_id = 2500)"
    " WHERE c_w_id = 1 AND c_d_id = 1 AND c_id ="
    " (SELECT o_c_id FROM orders WHERE o_w_id = 1 AND o_d_id = 1 AND o_id = 2500)"
)
_STRAY = "INSERT INTO history VALUES (0, 11, 1, 11, 1, now(), 5.00, '')"
_FIRST = "c_w_id = 1 AND c_d_id = 1 AND c_id = 1"
# By condition: what violates it and no other one.
FAULTS = {
    1: (_STRAY, "UPDATE warehouse SET w_ytd = w_ytd + 5"),
    2: ("UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_id = 1",),
    3: (
        "DELETE FROM new_order WHERE no_d_id = 1 AND no_o_id = 2500",
        "UPDATE orders SET o_carrier_id = 3 WHERE o_d_id = 1 AND o_id = 2500",
        _DEBT,
        "UPDATE order_line SET ol_delivery_d = now() WHERE ol_d_id = 1 AND ol_o_id = 2500",
    ),
    4: ("INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number) VALUES (9999, 1, 1, 1)",),
    5: (
        "UPDATE orders SET o_carrier_id = NULL WHERE o_d_id = 1 AND o_id = 7",
        "UPDATE order_line SET ol_delivery_d = NULL WHERE ol_d_id = 1 AND ol_o_id = 7",
    ),
    6: (
        "UPDATE orders SET o_ol_cnt = o_ol_cnt + 1 WHERE o_d_id = 1 AND o_id = 7",
        "UPDATE orders SET o_ol_cnt = o_ol_cnt - 1 WHERE o_d_id = 1 AND o_id = 8",
    ),
    7: (
        "UPDATE order_line SET ol_delivery_d = NULL"
        " WHERE ol_d_id = 1 AND ol_o_id = 7 AND ol_number = 1",
    ),
    8: (_STRAY,),
    9: (
        "UPDATE district SET d_ytd = d_ytd + 1 WHERE d_id = 1",
        "UPDATE district SET d_ytd = d_ytd - 1 WHERE d_id = 2",
    ),
    10: (
        "UPDATE customer SET c_balance = c_balance + 1, c_ytd_payment = c_ytd_payment - 1"
        f" WHERE {_FIRST}",
    ),
    11: (f"UPDATE customer SET c_delivery_cnt = 1 WHERE {_FIRST}",),
    12: (f"UPDATE customer SET c_ytd_payment = NULL WHERE {_FIRST}",),
}


@pytest.fixture
def two_districts(pgdyno: Command, fresh_warehouse15: Target) -> Target:
    """A warehouse with two of its districts: small enough to be checked often."""
    for table, column in (
        *(("district", "d_id"), ("customer", "c_d_id"), ("history", "h_d_id")),
        *(("orders", "o_d_id"), ("new_order", "no_d_id"), ("order_line", "ol_d_id")),
    ):
        run_sql(fresh_warehouse15, f"DELETE FROM {table} WHERE {column} > 2")
    run_sql(fresh_warehouse15, "UPDATE warehouse SET w_ytd = 60000")
    run_sql(fresh_warehouse15, "VACUUM ANALYZE")
    return fresh_warehouse15


def judged(session: Connection) -> list[Verdict]:
    """Return all verdicts in the transaction of the session, which has unsaved faults."""
    return [verdict for condition in CONDITIONS for verdict in judge(session, [condition])]


def test_each_fault_violates_the_one_condition_it_is_planted_for(two_districts: Target) -> None:
    with connect(two_districts, verb="test") as session:
        session.use_load_path()
        session.execute("SET statement_timeout = 0")
        assert not any(verdict.violation_count for verdict in judged(session))
        for number, statements in FAULTS.items():
            with session.transaction(force_rollback=True):
                for statement in statements:
                    session.execute(statement.encode())
                verdicts = judged(session)
            violated = {v.condition.number: v.violations_by_part for v in verdicts}
            violated = {key: value for key, value in violated.items() if value}
            assert violated.keys() == {number}
            assert violated[number].keys() == {1}
