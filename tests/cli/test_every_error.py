"""Every error of docs/errors.md is provoked by a test, and its next step is what a reader needs."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest
from tests.fixtures.clusters import Make, run_sql
from tests.fixtures.command import Command, server_options
from tests.fixtures.engine_process import Engine, load_job
from tests.tidy.source import ROOT

from pgdyno.server.target import Target

POSTGRES = "tests/postgres"
# Each class and kind of the page, and the test that provokes it.
PROVOKED = {
    "SpecError": "tests/cli/test_every_error.py::test_the_next_step_fits",
    "RefusedError": "tests/cli/test_every_error.py::test_the_next_step_fits",
    "ServerError": "tests/cli/test_every_error.py::test_the_next_step_fits",
    "ProcessError": "tests/process/test_child.py::test_an_error_names_a_missing_program",
    "EngineError": "tests/cli/test_every_error.py::test_the_next_step_fits",
    "StoreError": "tests/cli/test_every_error.py::test_the_next_step_fits",
    "StoreLostError": "tests/loop/test_meanwhile.py"
    "::test_a_store_that_is_removed_during_a_run_is_named",
    "AnalysisError": "",
    "TimeUsedUp": "tests/loop/test_budgets.py"
    "::test_what_takes_longer_than_the_budget_is_ended_by_it",
    "InterruptedByUser": "tests/measure/test_hanging_commands.py"
    "::test_a_signal_ends_a_restart_that_hangs_and_nothing_restarts_later",
    "TerminatedByUser": "tests/measure/test_hanging_commands.py"
    "::test_a_signal_ends_an_apply_command_that_hangs",
    "job": "tests/contract/test_jobs.py::test_an_unknown_field_of_a_job_is_refused_by_both_sides",
    "script": "crates/engine/src/plan/mod.rs::a_fault_in_a_script_has_its_place",
    "evaluation": f"{POSTGRES}/test_read_only.py"
    "::test_a_value_of_a_query_that_is_not_a_number_is_not_pasted",
    "connect": f"{POSTGRES}/test_refusals.py::test_the_error_without_a_listener_has_host_and_port",
    "authentication": f"{POSTGRES}/test_authentication.py"
    "::test_the_error_of_a_wrong_password_never_shows_it",
    "too_many_connections": f"{POSTGRES}/test_refusals.py"
    "::test_the_error_of_too_many_clients_quotes_the_server",
    "prepare": f"{POSTGRES}/test_refusals.py::test_missing_tables_stop_the_run_before_any_load",
    "too_many_failures": f"{POSTGRES}/test_refusals.py"
    "::test_a_load_that_can_only_fail_ends_before_it_fills_the_servers_log",
    "connection_lost": f"{POSTGRES}/test_money.py"
    "::test_a_server_lost_during_the_run_is_an_error_and_nothing_is_lost",
    "read_only_lost": f"{POSTGRES}/test_read_only.py"
    "::test_a_read_only_load_ends_before_it_can_write",
    "protocol": "tests/truth/test_counts.py"
    "::test_a_server_that_breaks_the_protocol_ends_the_run_with_an_error",
    "init": "crates/pgbench/tests/dataset_failures.rs"
    "::tables_that_are_there_are_kept_unless_dropping_is_ordered",
    "system": "tests/cli/test_every_error.py"
    "::test_a_journal_that_cannot_be_made_names_the_path_and_the_next_step",
}
# Errors that no command line provokes, and why.
NOT_PROVOKED = {
    "AnalysisError": "the numbers of a complete run always allow an estimate; its units are tested",
}


def test_every_row_of_the_page_has_a_test_that_provokes_it() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/errors.md").read_text(), re.M)
    assert sorted(PROVOKED) == sorted(rows)
    for name, test in PROVOKED.items():
        if name in NOT_PROVOKED:
            continue
        path, _, function = test.partition("::")
        text = (ROOT / path).read_text()
        function_text = re.search(
            rf"^ *(?:def|fn) {function}\(.*?(?=^ *(?:def|fn) |\Z)", text, re.M | re.S
        )
        assert function_text is not None, test


CASES = {
    "a word that names nothing": ("bensh", 1, "", "bench"),
    "an unknown option": ("bench --clinets 4", 1, "", "--clients"),
    "a number in the wrong unit": ("bench -T 5parsecs", 1, "", "ns, us, ms, s"),
    "a server that is not there": ("bench -S -h HOST -p PORT -U me -d x", 1, "", "check -h and -p"),
    "a database that is not there": ("bench -S SERVER/nowhere", 1, "3D000", "createdb"),
    "a role that is not there": (
        "bench -S SERVER -U nobody_here",
        1,
        "28000",
        "an existing role with -U",
    ),
    "tables that are not there": ("bench -S SERVER", 1, "", "pgdyno init"),
    "a load that writes": ("bench -f WRITES SERVER", 1, "", "--allow-write"),
    "a table that is not there": ("bench -f TABLE SERVER", 1, "42P01", "create the table"),
    "a division by zero": ("bench -f ZERO SERVER", 2, "22012", "correct the script"),
    "a variable without a value": ("bench -f VARIABLE SERVER", 1, "", "-D"),
    "a script that does not parse": ("bench -f PARSE SERVER", 1, "", "correct"),
    "a result that is not there": ("show 99", 1, "", "--store"),
    "a store that is a file": ("list --store WRITES", 1, "", "--store"),
    "an undo of nothing": ("undo 7", 1, "", "--store"),
    "a check of nothing": ("check tpcc SERVER", 1, "", "init"),
    "a setting that is not there": ("settings SERVER --explain werk_mem", 1, "", "work_mem"),
}
CORRECTED = ("a word that names nothing", "an unknown option", "a number in the wrong unit")
SCRIPTS = {
    "WRITES": "INSERT INTO t VALUES (1);\n",
    "TABLE": "SELECT * FROM not_there;\n",
    "ZERO": "SELECT 1 / (SELECT 0);\n",
    "VARIABLE": "SELECT :nothing;\n",
    "PARSE": "\\set x 1 +\nSELECT 1;\n",
}


@pytest.mark.pg
@pytest.mark.parametrize("case", CASES)
def test_the_next_step_fits(case: str, database15: Target, pgdyno: Command, tmp_path: Path) -> None:
    line, code, sqlstate, step = CASES[case]
    words: list[str] = []
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        place = {"HOST": "127.0.0.1", "PORT": str(nobody.getsockname()[1])}
        for word in line.split():
            server, _, name = word.partition("/")
            if server == "SERVER":
                target = database15.with_database(name) if name else database15
                options = server_options(target)
                words += options[:4] + options[6:] if "-U" in line else options
            elif word in SCRIPTS:
                path = tmp_path / f"{word}.sql"
                path.write_text(SCRIPTS[word])
                words.append(str(path))
            else:
                words.append(place.get(word, word))
        said = pgdyno(*words)
    assert said.code == code, said.err
    error = " ".join(said.error.split())
    before, _, after = error.partition("next: ")
    # A wrong word is corrected in the message.
    assert step in (before if case in CORRECTED else after)
    assert not sqlstate or f"SQLSTATE {sqlstate}" in before


@pytest.mark.pg
def test_a_role_without_room_is_told_how_many_connections_there_are(
    new_cluster: Make, pgdyno: Command, tmp_path: Path
) -> None:
    cluster = new_cluster(clients=1)
    script = tmp_path / "one.sql"
    script.write_text("SELECT 1;\n")
    run_sql(cluster.target, "CREATE ROLE small LOGIN")
    said = pgdyno("bench", *server_options(cluster.target, "small"), "-f", script, "-c", "900")
    assert said.code == 1
    words = " ".join(said.error.split())
    assert "max_connections is" in words
    assert "next: use at most" in words


@pytest.mark.pg
def test_a_journal_that_cannot_be_made_names_the_path_and_the_next_step(
    database15: Target, engine: Engine
) -> None:
    job = load_job(database15, "ledger", journal="/nowhere/at/all", protocol="prepared")
    [failure] = engine(job).failures
    assert failure.kind == "system"
    assert "/nowhere/at/all" in failure.message
    assert failure.hint == "name a new file in an existing folder"
