"""What stops a run before it begins, and the words it stops with."""

from __future__ import annotations

import socket
from dataclasses import replace

import pytest
from tests.fixtures.clusters import Make, run_sql
from tests.fixtures.command import Command, server_options
from tests.fixtures.engine_process import Engine, EngineEnd, load_job
from tests.postgres.test_money import await_no_backends

from pgdyno.engine.records import Interval, Warning_
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target

PROTOCOLS = ("simple", "extended", "prepared")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_missing_tables_stop_the_run_before_any_load(
    protocol: str, database: Target, engine: Engine
) -> None:
    end = engine(load_job(database, "tpcb-like", protocol=protocol))
    [failure] = end.failures
    assert (failure.kind, failure.sqlstate) == ("prepare", "42P01")
    assert "pgbench_" in failure.message
    assert "init" in failure.hint
    assert end.exit_code == 2
    loaded = [r for r in end.records if isinstance(r, Interval) and r.phase in ("warm", "measure")]
    assert loaded == []
    assert end.summary.counts.scheduled == 0
    assert end.summary.ending == "aborted"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_statement_that_does_not_parse_stops_the_run_with_its_place(
    protocol: str, database15: Target, engine: Engine
) -> None:
    script = "SELECT 1;\nSELEKT 2;\n"
    [failure] = engine(load_job(database15, script, protocol=protocol)).failures
    assert (failure.kind, failure.sqlstate) == ("prepare", "42601")
    assert (failure.script, failure.line) == ("test", 2)
    assert "SELEKT" in failure.message


def test_a_role_without_rights_stops_the_run(
    bank15: Target, pg15: ScratchCluster, engine: Engine
) -> None:
    run_sql(bank15, "DROP ROLE IF EXISTS poor")
    run_sql(bank15, "CREATE ROLE poor LOGIN")
    end = engine(load_job(replace(bank15, user="poor"), "select-only"))
    assert [(f.kind, f.sqlstate) for f in end.failures] == [("prepare", "42501")]
    assert end.exit_code == 2
    run_sql(pg15.target, "DROP ROLE poor")


def test_a_load_that_can_only_fail_ends_before_it_fills_the_servers_log(
    database15: Target, pg15: ScratchCluster, engine: Engine
) -> None:
    run_sql(database15, "CREATE TABLE only_here (a int CHECK (a < 0))")
    logged = len(pg15.log_path.read_text().splitlines())
    end = engine(load_job(database15, "INSERT INTO only_here VALUES (1);", clients=4))
    [failure] = end.failures
    assert (failure.kind, failure.sqlstate) == ("too_many_failures", "23514")
    words = 'new row for relation "only_here" violates check constraint "only_here_a_check"'
    assert failure.message.startswith(
        "the first 100 transactions all failed in script test, line 1: "
    )
    assert f"ERROR: {words} (SQLSTATE 23514)" in failure.message
    assert end.summary.failure_messages == {"23514": f"ERROR: {words} (SQLSTATE 23514)"}
    # What was under way when the hundredth failed: three lines of the log each.
    assert len(pg15.log_path.read_text().splitlines()) - logged < 3 * 2_000


def test_missing_write_permission_is_reported_before_the_load(
    bank15: Target, pgdyno: Command
) -> None:
    run_sql(bank15, "DROP ROLE IF EXISTS reader")
    run_sql(bank15, "CREATE ROLE reader LOGIN")
    run_sql(bank15, "ALTER ROLE reader SET default_transaction_read_only = on")
    try:
        said = pgdyno("bench", *server_options(bank15, "reader"), "-b", "tpcb-like", "-c", "2")
    finally:
        run_sql(bank15, "DROP ROLE reader")
    assert (said.code, said.out) == (1, "")
    refused = " ".join(said.error.split())
    assert "accepts no writes in this session: default_transaction_read_only is on" in refused


def test_an_error_names_a_missing_database(pg15: ScratchCluster, engine: Engine) -> None:
    end = engine(load_job(pg15.target.with_database("nowhere"), "select-only"))
    [failure] = end.failures
    assert failure.sqlstate == "3D000"
    assert "nowhere" in failure.message
    assert end.exit_code == 2


def test_the_error_without_a_listener_has_host_and_port(engine: Engine) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # Bound and not listening: nobody else can take it meanwhile.
        port = taken.getsockname()[1]
        target = Target(host="127.0.0.1", ports=str(port), user="u", database="d")
        job = load_job(target, "SELECT 1;", connect={"timeout_ns": 2_000_000_000})
        end = engine(job)
    [failure] = end.failures
    assert failure.kind == "connect"
    assert "127.0.0.1" in failure.message
    assert str(port) in failure.message
    assert failure.hint
    assert end.exit_code == 2


def test_a_server_that_never_answers_ends_the_connect_phase_in_time(engine: Engine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        target = Target(host="127.0.0.1", ports=str(port), user="u", database="d")
        end = engine(load_job(target, "SELECT 1;", connect={"timeout_ns": 500_000_000}))
    assert [failure.kind for failure in end.failures] == ["connect"]
    assert end.exit_code == 2


def test_the_error_of_too_many_clients_quotes_the_server(new_cluster: Make, engine: Engine) -> None:
    cluster = new_cluster(clients=1)  # max_connections 21
    end = engine(load_job(cluster.target, "SELECT 1;", clients=60))
    [failure] = end.failures
    assert (failure.kind, failure.sqlstate) == ("too_many_connections", "53300")
    assert "max_connections" in failure.hint
    assert end.exit_code == 2
    await_no_backends(cluster.target)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_bad_statement_in_a_branch_warns_first_and_fails_when_reached(
    protocol: str, database15: Target, engine: Engine
) -> None:
    script = "\\if :client_id {}\nSELECT * FROM not_there;\n\\else\nSELECT 1;\n\\endif\n"

    def end_of(condition: str) -> EngineEnd:
        text = script.format(condition)
        return engine(
            load_job(database15, text, clients=3, transactions=4, threads=2, protocol=protocol)
        )

    never = end_of("< 0")
    assert (never.exit_code, never.summary.counts.completed) == (0, 12)
    [warning] = [record for record in never.records if isinstance(record, Warning_)]
    assert warning.kind == "statement_refused"
    assert "test, line 2: " in warning.message
    assert "not_there" in warning.message
    by_one = end_of("= 1").summary
    assert (by_one.counts.completed, by_one.counts.failed) == (8, 4)
