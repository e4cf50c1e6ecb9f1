"""A TPC-C-like run in the lab: its numbers, its page, and the check of the data after it."""

from __future__ import annotations

import csv
import io
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from tests.fixtures.clusters import run_sql, scalar
from tests.fixtures.command import Command, server_options
from tests.fixtures.tpcc import ALL_HOLD

from pgdyno.server.target import Target
from pgdyno.spec.workload import Script, Workload

pytestmark = pytest.mark.pg
RAN = (0, 3)  # A run of seconds is too short to be valid, and pgdyno says so.
SHORT = ("-T", "1s", "--warmup", "0s", "--reset", "none")


def test_a_run_has_nopm_types_shares_and_a_check(pgdyno: Command, fresh_warehouse: Target) -> None:
    where = server_options(fresh_warehouse)
    before = scalar(fresh_warehouse, "SELECT sum(d_next_o_id) FROM district")
    said = pgdyno(
        *("bench", *where, "-b", "tpcc-like", "--mode", "pipeline", "--terminals", "3"),
        *(*SHORT, "-T", "3s"),
        *("--check", "nopm>1", "--check", "nopm>9000000", "--json"),
    )
    assert said.code == 4, said.err  # One of the two checks cannot be kept.
    assert "CHECK FAILED nopm>9000000" in said.err
    assert "CHECK FAILED nopm>1 " not in said.err
    document: dict[str, Any] = said.document
    assert document["nopm"]["unit"] == "NOPM"
    assert document["nopm"]["low"] <= document["nopm"]["value"] <= document["nopm"]["high"]
    types = {transaction_type["name"]: transaction_type for transaction_type in document["types"]}
    assert set(types) >= {"new-order", "payment", "order-status", "delivery", "stock-level"}
    order = types["new-order"]
    minutes = document["duration_seconds"] / 60
    assert document["nopm"]["value"] == pytest.approx(order["count"] / minutes, rel=0.3)
    assert order["latency_ms"]["p90"]["value"] > 0
    assert order["p90_limit_ms"] == 5000
    shares = [
        transaction_type["share"]
        for transaction_type in types.values()
        if transaction_type["share"] is not None
    ]
    assert sum(shares) == pytest.approx(1)
    assert document["options"]["mode"] == "pipeline"
    assert document["warehouses"] == 1
    assert document["check"]["violations"] == ALL_HOLD
    where = document["where_the_time_goes"]
    # In so short a run there may be too few samples to split the time.
    if where is not None and where["types"]:
        parts = sum(part["ms"] for part in where["parts"])
        assert parts + where["residual_ms"] == pytest.approx(where["latency_ms"])
        times = {transaction_type["name"]: transaction_type for transaction_type in where["types"]}
        assert times.keys() == types.keys()
        in_background = [
            type_time["name"] for type_time in times.values() if type_time["is_background"]
        ]
        assert in_background == ["deferred-delivery"]
        for type_time in times.values():
            split = sum(part["ms"] for part in type_time["parts"].values())
            assert split == pytest.approx(type_time["held_ms"])
        assert times["deferred-delivery"]["held_ms"] > times["delivery"]["held_ms"]
    # What was rolled back left no order.
    after = scalar(fresh_warehouse, "SELECT sum(d_next_o_id) FROM district")
    orders = int(str(after)) - int(str(before))
    assert orders >= order["count"] - order["rolled_back"]

    shown = pgdyno("show", "-v", "last")
    lines = shown.out.splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith("NOPM"))
    assert first < next(place for place, line in enumerate(lines) if line.startswith("tps"))
    assert any(line.startswith("New-Order") for line in lines)
    assert "12 of 12 conditions hold after the run" in shown.out
    page = next(pgdyno.store.glob("*/report.html")).read_text()
    assert 'id="tpcc"' in page
    assert "time-nopm" in page


@pytest.mark.parametrize(("terminals", "threads"), [(3, 2), (11, 1)])
def test_a_load_opens_as_many_connections_as_the_lab_expects(
    pgdyno: Command, fresh_warehouse: Target, terminals: int, threads: int
) -> None:
    where = server_options(fresh_warehouse)
    said = pgdyno(
        *("bench", *where, "-b", "tpcc-like", "--terminals", str(terminals), "-j", str(threads)),
        *(*SHORT, "-T", "500ms", "--no-check"),
    )
    assert said.code in RAN, said.err
    rows = csv.DictReader(io.StringIO(pgdyno("export", "1", "--table", "intervals").out))
    script = Script(builtin="tpcc-like")
    workload = Workload(scripts=(script,), clients=terminals, threads=threads, duration="1s")
    assert max(int(row["connections"]) for row in rows) == workload.connections_of(terminals)


def test_the_skew_of_a_runs_orders_is_tested_from_the_data(
    pgdyno: Command, fresh_warehouse: Target
) -> None:
    where = server_options(fresh_warehouse)
    # One client, a seed and a number of transactions: the draws do not depend on speed.
    words = ("bench", *where, "-b", "tpcc-like", "-c", "1", "-t", "300", "--mix", "weights")
    words = (*words, "--warmup", "0s", "--reset", "none", "--seed", "11", "--json")
    no_violations = {str(number): 0 for number in range(1, 13)}
    said = pgdyno(*words)
    assert said.code in RAN, said.err
    customers, items = said.document["check"]["drawn"]
    assert (customers["name"], customers["verdict"]) == ("customers", "too_few")
    assert (items["name"], items["verdict"], items["count"] > 1000) == ("items", "follows", True)
    assert said.document["check"]["violations"] == no_violations
    shown = " ".join(pgdyno("show", "-v", "last").out.split())
    assert "items of order lines: follows NURand (p = " in shown
    page = next(pgdyno.store.glob("*/report.html")).read_text()
    assert "Skew of customers and items" in page
    checked = pgdyno("check", "tpcc", *where)
    assert checked.code == 0, checked.err
    assert "drawn: customers of orders: too few to tell" in checked.out
    assert "drawn: items of order lines: follows NURand" in checked.out
    assert checked.out.rstrip().endswith("all 13 conditions hold")
    # The other modes make the same draws, and only the orders of their own run count.
    for mode in ("pipeline", "procedures"):
        said = pgdyno(*words, "--mode", mode)
        assert said.code in RAN, said.err
        assert said.document["options"]["mode"] == mode
        assert said.document["check"]["drawn"] == [customers, items]
    run_sql(
        fresh_warehouse,
        "UPDATE order_line SET ol_i_id = (ol_o_id::bigint * 7919 + ol_number * 6007"
        " + ol_d_id * 3001) % 100000 + 1 WHERE ol_o_id > 3000",
    )
    checked = pgdyno("check", "tpcc", *where)
    assert checked.code == 0, checked.err
    assert "drawn: items of order lines: DIFFERS from NURand" in checked.out


def test_a_run_whose_items_are_drawn_evenly_has_a_doubt(
    pgdyno: Command, fresh_warehouse15: Target
) -> None:
    where = server_options(fresh_warehouse15)
    # A trigger stands for a load generator that draws evenly.
    run_sql(
        fresh_warehouse15,
        "CREATE FUNCTION evenly() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN new.ol_i_id := (new.ol_o_id::bigint * 7919 + new.ol_number * 6007"
        " + new.ol_d_id * 3001) % 100000 + 1; RETURN new; END';"
        "CREATE TRIGGER evenly BEFORE INSERT ON order_line"
        " FOR EACH ROW EXECUTE FUNCTION evenly()",
    )
    words = ("bench", *where, "-b", "tpcc-like", "-c", "1", "-t", "300", "--mix", "weights")
    said = pgdyno(*words, "--warmup", "0s", "--reset", "none", "--seed", "11", "--json")
    assert said.code in RAN, said.err
    assert said.document["check"]["drawn"][1]["verdict"] == "differs"
    doubts = {warning["kind"]: warning for warning in said.document["warnings"]}
    assert doubts["tpcc_drawn"]["verdict"] == "doubt"
    assert set(said.document["check"]["violations"].values()) == {0}


def test_a_violated_condition_makes_the_run_not_valid(
    pgdyno: Command, fresh_warehouse15: Target, tmp_path: Path
) -> None:
    where = server_options(fresh_warehouse15)
    script = tmp_path / "wrong.sql"
    script.write_text("UPDATE warehouse SET w_ytd = w_ytd + 1 WHERE w_id = 1;\n")
    words = ("bench", *where, "-f", script, "--allow-write", *SHORT, "-T", "300ms")
    words = (*words, "-c", "1", "--json")
    said = pgdyno(*words)
    assert said.code == 3, said.err
    warnings = {warning["kind"]: warning for warning in said.document["warnings"]}
    assert warnings["inconsistent"]["verdict"] == "not_valid"
    assert "1 (w_ytd = sum(d_ytd))" in warnings["inconsistent"]["message"]
    said = pgdyno(*words, "--no-check")
    assert "inconsistent" not in {warning["kind"] for warning in said.document["warnings"]}
    refused = pgdyno("bench", *where, "-b", "tpcc-like", "--think-factor", "1", *SHORT)
    assert refused.code == 1
    assert "number of terminals" in refused.error


@pytest.mark.slow
def test_a_spec_of_another_tool_runs_as_a_sweep_of_terminals(
    pgdyno: Command, tmp_path: Path
) -> None:
    script = tmp_path / "run.tcl"
    script.write_text(
        "dbset db pg\ndbset bm TPC-C\ndiset tpcc pg_count_ware 1\ndiset tpcc pg_duration 1\n"
        "diset tpcc pg_rampup 0\nforeach z {1 2} {\nvuset vu $z\nvurun\n}\n"
    )
    spec = tmp_path / "spec.toml"
    made = pgdyno("spec", "from-hammerdb", script, "--scratch", "-o", spec)
    assert made.code == 0, made.err
    document = tomllib.loads(spec.read_text())
    document["server"]["scratch"]["version"] = "15"
    document["design"] |= {"rounds": 1, "run": "2s", "knee": "2s"}
    document["experiment"]["reset"] = "none"
    spec.write_text(tomli_w.dumps(document))
    said = pgdyno("run", spec, "--json", "-q", timeout_s=240)
    assert said.code in RAN, said.err
    [curve] = said.document["curves"]
    assert [level["clients"] for level in curve["levels"]] == [1, 2]
    assert said.document["at_the_knee"]["nopm"]["value"] > 0
