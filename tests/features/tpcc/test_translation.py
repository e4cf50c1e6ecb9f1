"""Files of other TPC-C tools become specs; what does not correspond is listed."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from pgdyno.errors import SpecError
from pgdyno.features.tpcc.benchmarksql import from_benchmarksql
from pgdyno.features.tpcc.hammerdb import from_hammerdb
from pgdyno.features.tpcc.verbs.spec import spec_text
from pgdyno.spec.designs import SweepDesign
from pgdyno.spec.file import to_toml
from pgdyno.spec.translation import Translated, mix_of

VERSION_6 = """\
# BenchmarkSQL 6
db=postgres
driver=org.postgresql.Driver
application=PostgreSQLStoredProc
conn=jdbc:postgresql://db1:5433/bench?sslmode=require&loggerLevel=OFF
user=bench
password=do-not-keep
warehouses=50
sutThreads=16
rampupMins=10
runMins=30
keyingTimeMultiplier=1.0
thinkTimeMultiplier=0.5
paymentWeight=43.2
orderStatusWeight=4.2
deliveryWeight=4.2
stockLevelWeight=4.2
somethingNew=1
"""
VERSION_5 = """\
db=postgres
conn=jdbc:postgresql://localhost/tpcc
warehouses=10
terminals=20
// A comment of version 5
runTxnsPerTerminal=100
runMins=0
limitTxnsPerMin=300
terminalWarehouseFixed=false
"""
TCL = """\
#!/bin/tclsh
dbset db pg
dbset bm TPC-C
diset connection pg_host db2
diset tpcc pg_count_ware 100
diset tpcc pg_dbase tpcc
diset tpcc pg_user tpcc
diset tpcc pg_pass do-not-keep
diset tpcc pg_driver timed
diset tpcc pg_rampup 2
diset tpcc pg_duration 5
diset tpcc pg_allwarehouse true
vuset vu 16
"""


def options_of(translated: Translated) -> dict[str, str]:
    [script] = translated.experiment.workload.scripts
    assert script.builtin == "tpcc-like"
    return script.options


def notes_of(translated: Translated) -> dict[str, str]:
    return {note.key: note.words for note in translated.notes}


def test_version_6_has_ten_terminals_a_warehouse_on_shared_connections() -> None:
    translated = from_benchmarksql(VERSION_6, "b.properties")
    workload = translated.experiment.workload
    assert (workload.clients, workload.active_connections) == (500, 16)
    assert workload.think_ratio == 0.5
    assert (workload.duration_ns, workload.warmup_ns) == (1800 * 10**9, 600 * 10**9)
    assert translated.experiment.server.dsn == "postgresql://bench@db1:5433/bench?sslmode=require"
    assert options_of(translated) == {
        **{"mode": "procedures", "mix": "weights"},
        **{"new-order-weight": "221", "payment-weight": "216", "order-status-weight": "21"},
        **{"delivery-weight": "21", "stock-level-weight": "21"},
    }
    assert "does not know" in notes_of(translated)["somethingNew"]
    assert "loggerLevel" in notes_of(translated)["conn"]
    assert "init tpcc --warehouses 50" in notes_of(translated)["warehouses"]


def test_version_5_has_a_connection_a_terminal_and_a_rate() -> None:
    translated = from_benchmarksql(VERSION_5, "b.properties", is_scratch=True)
    workload = translated.experiment.workload
    assert (workload.clients, workload.active_connections, workload.think_ratio) == (20, None, 0)
    assert workload.transactions_per_client == 100
    assert workload.rate_tps == 5
    assert translated.experiment.server.scratch is not None
    assert translated.experiment.dataset.model_dump()["warehouses"] == 10
    assert options_of(translated)["home"] == "uniform"
    assert options_of(translated)["mode"] == "statements"
    assert "open loop" in notes_of(translated)["limitTxnsPerMin"]
    written = to_toml(translated.experiment)
    assert "transactions_per_client = 100" in written
    assert "duration" not in written, "one thing ends the run"


def test_a_script_of_hammerdb_calls_procedures_and_delivers_inline() -> None:
    translated = from_hammerdb(TCL, "h.tcl")
    workload = translated.experiment.workload
    assert (workload.clients, workload.think_ratio) == (16, 0)
    assert (workload.duration_ns, workload.warmup_ns) == (300 * 10**9, 120 * 10**9)
    assert translated.experiment.server.dsn == "postgresql://tpcc@db2/tpcc"
    options = options_of(translated)
    assert options["mode"] == "procedures"
    assert options["delivery"] == "inline"
    assert options["home"] == "uniform"
    assert options["new-order-weight"] == "10"


def test_a_loop_over_virtual_users_becomes_a_sweep() -> None:
    loop = TCL.replace("vuset vu 16", "foreach z { 1 2 4 8 } {\n  vuset vu $z\n  vurun\n}")
    design = from_hammerdb(loop, "h.tcl").experiment.design
    assert isinstance(design, SweepDesign)
    assert design.levels == (1, 2, 4, 8)
    assert design.run_ns == 300 * 10**9


def test_the_python_form_of_hammerdb_means_the_same() -> None:
    lines = [line.split() for line in TCL.splitlines() if not line.startswith("#")]
    calls = [f"{name}({','.join(repr(word) for word in words)})" for name, *words in lines]
    python = from_hammerdb("\n".join(calls), "h.tcl")
    assert python.experiment == from_hammerdb(TCL, "h.tcl").experiment


def test_variables_are_resolved_and_computed_values_are_listed() -> None:
    words = "set n 7\nset w [ numberOfCPUs ]\n"
    text = words + TCL.replace("vu 16", "vu $n").replace("ware 100", "ware $w")
    translated = from_hammerdb(text, "h.tcl", is_scratch=True)
    assert translated.experiment.workload.clients == 7
    assert "computes this value" in notes_of(translated)["pg_count_ware"]


def test_asynchronous_clients_are_terminals_on_shared_connections() -> None:
    more = "diset tpcc pg_async_scale true\ndiset tpcc pg_async_client 10\n"
    more += "diset tpcc pg_keyandthink true\n"
    workload = from_hammerdb(TCL + more, "h.tcl").experiment.workload
    assert (workload.clients, workload.active_connections) == (160, 16)
    assert workload.think_ratio == 1


@pytest.mark.parametrize("translate", [from_benchmarksql, from_hammerdb])
def test_no_password_gets_into_the_spec(translate: object) -> None:
    texts = {from_benchmarksql: VERSION_6, from_hammerdb: TCL}
    translated = translate(texts[translate], "file")  # type: ignore[operator, index]
    text = spec_text(translated, Path("file"))
    assert "do-not-keep" not in text
    assert "a spec holds no password" in " ".join(text.replace("#", "").split())
    assert tomllib.loads(text)["workload"]["scripts"][0]["builtin"] == "tpcc-like"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("hello", "is not a properties file"),
        (VERSION_5.replace("db=postgres", "db=oracle"), "measures PostgreSQL only"),
        (VERSION_5.replace("jdbc:postgresql:", "jdbc:mysql:"), "must begin with jdbc:postgresql"),
        (VERSION_5.replace("warehouses=10", "warehouses=ten"), "must be a whole number"),
        (VERSION_5.replace("warehouses=10", "warehouses=0"), "must be a number, at least 1"),
        (VERSION_5.replace("terminals=20", "terminals=2.5"), "must be a whole number"),
        (VERSION_5.replace("Fixed=false", "Fixed=perhaps"), "must be true or false"),
        (VERSION_5 + "paymentWeight=96\n", "needs a share above 0 %"),
        (VERSION_5.replace("terminals=20", "terminals=900000"), "an impossible experiment"),
    ],
)
def test_a_properties_file_that_cannot_be_is_refused(text: str, rule: str) -> None:
    with pytest.raises(SpecError, match=rule) as refused:
        from_benchmarksql(text, "b.properties")
    assert "b.properties" in refused.value.message
    assert refused.value.hint


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("puts hello", "is not a script of HammerDB"),
        (TCL.replace("db pg", "db mysql"), "measures PostgreSQL only"),
        (TCL.replace("bm TPC-C", "bm TPC-H"), "only TPC-C can be translated"),
        (TCL.replace("vu 16", "vu many"), "must be a number"),
    ],
)
def test_a_script_that_cannot_be_is_refused(text: str, rule: str) -> None:
    with pytest.raises(SpecError, match=rule):
        from_hammerdb(text, "h.tcl")


def test_shares_become_whole_weights() -> None:
    assert mix_of({"a": 45, "b": 55})["a-weight"] == "45"
    assert mix_of({"a": 99.99, "b": 0.01})["b-weight"] == "1"
