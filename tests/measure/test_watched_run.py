"""A whole run with everything that watches: a pooler in the path, files by hand, the doctor."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.fixtures import needs
from tests.fixtures.clusters import run_sql
from tests.fixtures.command import Command, server_options
from tests.fixtures.line import Line
from tests.fixtures.poolers import Pooler
from tests.fixtures.stillness import Document, on_a_machine_that_runs

from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target
from pgdyno.store.experiment import Store
from pgdyno.store.stored_run import StoredRun

EXPLAINED = 400
COMMITTED = "transactions_committed_all_phases"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "one.sql"
    path.write_text("SELECT pg_sleep(0.005);\n")
    return path


def last_run(store: Path) -> StoredRun:
    return Store.default(store).find("last").runs()[-1]


def test_a_load_through_a_pooler_is_watched_past_it(
    pgdyno: Command, pooler: Pooler, pg15: ScratchCluster, script: Path, tmp_path: Path
) -> None:
    there = pg15.target
    direct = f"host={there.host} port={there.ports} user={there.user} dbname=postgres"
    said = pgdyno(
        *("bench", "-h", "127.0.0.1", "-p", str(pooler.port), "-U", "anybody", "-d", "pooled"),
        *("-f", str(script), "-c", "2", "-T", "3", "--warmup", "1s", "--json", "--allow-write"),
        *("--observe", direct, "--store", str(tmp_path / "store")),
        *("--pooler", f"host=127.0.0.1 port={pooler.port} user=anybody"),
        *("--confirm", "postgres@local"),  # The pooler has sessions there before the load has.
    )
    assert said.code in (0, 3), said.err
    run = last_run(tmp_path / "store")
    assert {"pooler", "pooler_traffic", "database"} <= set(run.collectors())
    programs = run.telemetry("programs")
    assert programs is not None
    assert "pooler" in programs["program"]
    server = run.server_json
    assert server["settings_changed"] == []
    assert server["round_trips"]["before"]["statement"]["count"] > 0
    doctor = run.document("doctor.json") or {}
    assert doctor["format"] == "pgdyno.doctor/1"
    telemetry = said.document["telemetry"]
    assert "round trip before the run" in telemetry["facts"]
    kinds = {doubt["kind"] for doubt in said.document["warnings"]}
    assert "doctor_fsync" in kinds  # The tests' server runs with fsync = off.
    assert "observer_behind_pooler" not in kinds


def test_a_load_is_not_observed_in_another_database_or_on_another_server(
    pgdyno: Command, database15: Target, pg15: ScratchCluster, pg18: ScratchCluster, script: Path
) -> None:
    load = ("bench", *server_options(database15), "-f", str(script), "-T", "1", "--allow-write")
    for target, words in (
        (pg15.target, f"but the load goes to {database15.database}"),
        (pg18.target, "which is another server than that of the load"),
    ):
        place = f"host={target.host} port={target.ports} user={target.user} dbname=postgres"
        said = pgdyno(*load, "--observe", place)
        assert said.code == 1
        assert words in " ".join(said.error.split())


def test_clients_that_share_a_poolers_sessions_wait_there_for_one(
    pgdyno: Command, pooler: Pooler, pg15: ScratchCluster, script: Path, tmp_path: Path
) -> None:
    # Twelve clients on the pooler's four sessions, each at work for 100 ms: while four are served
    # the other eight wait, which is two thirds of what a transaction takes.
    script.write_text("SELECT pg_sleep(0.1);\n")
    there, kept = pg15.target, tmp_path / "run.json"
    direct = f"host={there.host} port={there.ports} user={there.user} dbname={there.database}"

    def measure() -> Document:
        said = pgdyno(
            *("bench", *server_options(pooler.target), "--observe", direct, "--allow-write"),
            *(
                "-f",
                str(script),
                "-c",
                "12",
                "-T",
                "8",
                "--warmup",
                "0s",
                "--json",
                str(kept),
                "-v",
            ),
            *("--confirm", "postgres@local"),
        )
        assert said.code in (0, 3), said.err
        assert "pooler: waiting for a server session" in said.out
        document: Document = json.loads(kept.read_text())
        return document

    document = on_a_machine_that_runs(measure)
    where = document["where_the_time_goes"]
    assert where is not None, document["where_the_time_goes_not_computed_because"]
    parts = {part["name"]: part["ms"] for part in where["parts"]}
    share = parts["wait for a pooled session"] / where["latency_ms"]
    assert share == pytest.approx((12 - 4) / 12, rel=0.1)


def test_the_host_of_a_server_elsewhere_is_examined_before_its_runs(
    pgdyno: Command, far_line: Line, script: Path, tmp_path: Path
) -> None:
    said = pgdyno(
        *("bench", *server_options(far_line.target)),
        *("-f", str(script), "-c", "1", "-T", "1", "--warmup", "0s", "--allow-write", "-q"),
        *("--host-shell", "sh", "--store", str(tmp_path / "store")),
    )
    assert said.code in (0, 3), said.err
    doctor = last_run(tmp_path / "store").document("doctor.json") or {}
    seen = {finding["id"]: finding for finding in doctor["findings"]}
    assert {"file_system", "free_space", "swappiness", "cpu_limit"} <= seen.keys()
    unjudged = {name for source in doctor["not_measurable"] for name in source["checks"]}
    assert not {"file_system", "free_space", "swappiness", "cpu_limit"} & unjudged
    assert seen["neighbours"]["verdict"] != "unknown"


def test_an_ssh_that_is_refused_costs_the_run_the_host_alone(
    ssh: Path, pgdyno: Command, far_line: Line, script: Path, tmp_path: Path
) -> None:
    said = pgdyno(
        *("bench", *server_options(far_line.target)),
        *("-f", str(script), "-c", "1", "-T", "1", "--warmup", "0s", "--allow-write", "--json"),
        *("--ssh", "ssh://nobody@127.0.0.1:1", "--store", str(tmp_path / "store")),
    )
    assert said.code in (0, 3), said.err
    run = last_run(tmp_path / "store")
    assert "database" in run.collectors()
    assert "cpu" not in run.collectors()
    doctor = run.document("doctor.json") or {}
    why = {name: source["why"] for source in doctor["not_measurable"] for name in source["checks"]}
    assert "Connection refused" in why["file_system"]
    assert "fsync" not in why
    doubts = " ".join(doubt["message"] for doubt in said.document["warnings"])
    assert "Connection refused" in doubts


def test_a_setting_changed_in_the_middle_of_a_run_is_a_doubt(
    pgdyno: Command, pg15: ScratchCluster, script: Path, tmp_path: Path
) -> None:
    # The load itself changes it: nothing else is sure to happen within the run.
    script.write_text("ALTER ROLE postgres SET deadlock_timeout = '2s';\n")
    there = pg15.target
    try:
        said = pgdyno(
            *("bench", "-h", there.host, "-p", there.ports, "-U", there.user, "-d", "postgres"),
            *("-f", str(script), "-c", "1", "-t", "3", "--warmup", "0s", "--json"),
            *("--allow-write", "--store", str(tmp_path / "store")),
        )
        doubts = {doubt["kind"]: doubt["message"] for doubt in said.document["warnings"]}
    finally:
        run_sql(there, "ALTER ROLE postgres RESET deadlock_timeout")
    assert "of role postgres" in doubts["setting_changed_deadlock_timeout"]


@pytest.mark.parametrize("verb", ["bench", "watch"])
def test_a_local_server_is_read_without_ssh_and_a_note_says_so(
    verb: str, pgdyno: Command, pg15: ScratchCluster, script: Path
) -> None:
    load = ("-f", str(script), "-c", "1", "-t", "3", "--warmup", "0s", "--allow-write")
    how = load if verb == "bench" else ("--duration", "1s")
    said = pgdyno(verb, *server_options(pg15.target), *how, "--host-shell", "/nowhere/shell")
    assert said.code in (0, 3), said.err
    assert said.err.count("--host-shell is ignored: the server is on this host") == 1
    assert "cannot be started" not in said.err


def test_a_way_to_a_host_is_refused_where_the_server_is_ours(pgdyno: Command) -> None:
    said = pgdyno("bench", "--scratch", "--ssh", "me@there")
    assert said.code == 1
    assert "--ssh needs a server of your own" in said.error


def test_the_collector_is_shown(pgdyno: Command) -> None:
    for verb in ("bench", "sweep", "compare", "watch", "doctor"):
        said = pgdyno(verb, "--print-collector")
        assert said.code == 0
        assert said.out.startswith("#!/bin/sh\n")


@pytest.mark.pg
@needs.POSTGRESQL_15
def test_the_loads_own_database_is_seen_on_a_scratch_server_with_its_extensions(
    pg_wait_sampling: Path, pgdyno: Command, tmp_path: Path
) -> None:
    libraries = "pg_stat_statements,pg_wait_sampling"
    said = pgdyno(
        *("bench", "--scratch", "-s", "1", "-c", "2", "-T", "3", "--warmup", "0s", "--json"),
        *("-R", "200"),
        *("--set", f"shared_preload_libraries={libraries}", "--store", str(tmp_path / "store")),
    )
    assert said.code in (0, 3), said.err
    run = last_run(tmp_path / "store")
    tables = run.telemetry("tables")
    assert tables is not None
    accounts = tables["table"] == "pgbench_accounts"
    updated = tables["rows_updated"][accounts]
    # Samples before and after the load: they hold all of it.
    assert updated[-1] - updated[0] >= said.document["transactions"]
    for collector, column in (
        ("statements", "calls"),
        ("wait_sampling", "samples"),
        ("indexes", "scans"),
        ("sizes", "size_bytes"),
        ("footprint", "proportional_bytes"),
    ):
        rows = run.telemetry(collector)
        assert rows is not None, collector
        assert rows[column].max() > 0, collector
    tables_shown = said.document["telemetry"]["tables"]
    assert {"tables", "indexes", "pg_stat_statements", "sizes", "footprint"} <= tables_shown.keys()
    called = [row["statement"] for row in tables_shown["pg_stat_statements"]]
    assert any(text.startswith("UPDATE pgbench_accounts SET abalance") for text in called)
    assert [text for text in called if "pg_stat_get_activity" in text] == []
    assert [text for text in called if text.startswith("query id")] == []


def test_explaining_statements_adds_no_transaction_to_the_load(
    pgdyno: Command, database: Target, script: Path, tmp_path: Path
) -> None:
    statements = "".join(f"SELECT {number} AS column_{number};\n" for number in range(EXPLAINED))
    script.write_text(f"BEGIN;\n{statements}END;\n")
    said = pgdyno(
        *("bench", *server_options(database), "--allow-write", "--store", str(tmp_path / "store")),
        *("-f", str(script), "-c", "1", "-T", "2", "--warmup", "0s", "--json"),
    )
    assert said.code in (0, 3), said.err
    server = last_run(tmp_path / "store").document("server.json") or {}
    assert server["totals"]["is_exact"]
    others = server["totals"]["database.xact_commit"] - said.document[COMMITTED]
    # The engine has each statement parsed once; the rest is what observes the database meanwhile.
    assert EXPLAINED <= others < 1.75 * EXPLAINED
