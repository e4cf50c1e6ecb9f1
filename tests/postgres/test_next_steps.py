"""The next step of an error does what the reader needs, on real servers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.fixtures.clusters import run_sql
from tests.fixtures.command import Command, server_options
from tests.fixtures.engine_process import Engine, load_job

from pgdyno.server.target import Target

pytestmark = pytest.mark.pg


@pytest.fixture
def with_a_view(database: Target, pgdyno: Command) -> Target:
    """The pgbench tables, and a view of the user that depends on one of them."""
    assert pgdyno("init", *server_options(database), "-s", "1").code == 0
    run_sql(database, "CREATE VIEW branches AS SELECT bid FROM pgbench_branches")
    return database


def test_drop_names_the_view_that_depends_on_a_table_and_never_says_cascade(
    with_a_view: Target, pgdyno: Command
) -> None:
    said = pgdyno("drop", *server_options(with_a_view))
    assert said.code == 1, said.err
    words = " ".join(said.error.split())
    assert "Other objects depend on the tables: view public.branches" in words
    assert "CASCADE" not in words
    assert run_sql(with_a_view, "SELECT count(*) FROM branches") == [(1,)]


def test_a_missing_privilege_is_granted_and_no_statement_is_corrected(
    database: Target, pgdyno: Command, tmp_path: Path
) -> None:
    run_sql(database, "CREATE TABLE closed (a int)")
    run_sql(database, "DROP ROLE IF EXISTS stranger")
    run_sql(database, "CREATE ROLE stranger LOGIN")
    path = tmp_path / "closed.sql"
    path.write_text("SELECT a FROM closed ORDER BY a")
    where = server_options(database, "stranger")
    try:
        said = pgdyno("work-mem", *where, "-f", str(path), "--allow-explain-analyze")
    finally:
        run_sql(database, "DROP ROLE stranger")
    assert "permission denied" in said.error
    assert "next: grant the missing privilege" in said.error
    assert "correct the statement" not in said.error


def test_an_apply_command_that_fails_is_not_a_variant_that_cannot_start(
    database: Target, pgdyno: Command, tmp_path: Path
) -> None:
    path = tmp_path / "one.sql"
    path.write_text("SELECT 1;\n")
    variants = ("--variant", "now", "--variant", "new: checkpoint_timeout=7min")
    said = pgdyno(
        *("compare", *server_options(database), "-f", str(path), "-T", "1s", "--warmup", "0s"),
        *(*variants, "--apply-command", "false"),
    )
    words = " ".join(said.error.split())
    assert "false ended with exit code 1" in words
    assert "variants that cannot start" not in words
    assert "the command runs as sh -c" in words


@pytest.mark.parametrize("name", ["DateStyle", "datestyle", "DATESTYLE"])
def test_a_setting_is_explained_in_any_case(name: str, database15: Target, pgdyno: Command) -> None:
    said = pgdyno("settings", *server_options(database15), "--explain", name)
    assert said.code == 0, said.err
    assert said.out.lower().startswith("datestyle")


# A function that fails as the server does in this state; the step that the reader needs.
STEPS = {
    "08006": "start the node",
    "08P01": "see the log of the server, or of the pooler before it",
    "25006": "connect to a server that accepts writes",
    "40001": "use fewer clients, or a script in which fewer transactions meet",
    "53100": "make room on the server's disk",
    "53200": "lower work_mem",
    "53300": "raise max_connections",
    "53400": "raise the limit that the message names",
    "55P03": "raise lock_timeout",
    "58030": "see the server's log",
    "22012": "correct the script, or the data that it works on",
    "23505": "let the script make rows that keep this rule",
}


@pytest.mark.parametrize("state", STEPS)
def test_every_failure_of_a_load_has_its_next_step_and_the_line_that_failed(
    state: str, database15: Target, engine: Engine
) -> None:
    run_sql(
        database15,
        "CREATE FUNCTION fails() RETURNS void LANGUAGE plpgsql AS $$ BEGIN"
        f" RAISE EXCEPTION 'as in a real one' USING ERRCODE = '{state}'; END $$",
    )
    script = "\\set x 1\nSELECT :x;\nSELECT fails();\nSELECT 3;\n"
    [failure] = engine(load_job(database15, script, max_tries=1)).failures
    assert (failure.kind, failure.sqlstate, failure.line) == ("too_many_failures", state, 3)
    assert "all failed in script test, line 3: ERROR: as in a real one" in failure.message
    assert STEPS[state] in failure.hint


def test_a_statement_timeout_is_raised_and_a_missing_privilege_or_column_is_named(
    database15: Target, engine: Engine
) -> None:
    run_sql(database15, "CREATE TABLE closed (a int)")
    run_sql(database15, "CREATE ROLE hasty LOGIN")
    run_sql(database15, "ALTER ROLE hasty SET statement_timeout = '50ms'")
    hasty = replace(database15, user="hasty")
    try:
        # Twenty clients reach the first hundred transactions in a quarter of a second.
        [slow] = engine(load_job(hasty, "SELECT pg_sleep(1);", clients=20, measure_s=5)).failures
        [closed] = engine(load_job(hasty, "SELECT a FROM closed;")).failures
    finally:
        run_sql(database15, "DROP ROLE hasty")
    [column] = engine(load_job(database15, "SELECT 1;\nSELECT wrong FROM closed;")).failures
    assert (slow.sqlstate, slow.line) == ("57014", 1)
    assert "raise statement_timeout of the load's user" in slow.hint
    assert (closed.sqlstate, closed.line) == ("42501", 1)
    assert "grant the missing privilege to the user of the load" in closed.hint
    assert (column.sqlstate, column.line) == ("42703", 2)
    assert "correct the statement" in column.hint


@pytest.mark.parametrize(
    ("given", "words", "step"),
    [
        (("init", "nothing", "SERVER"), "init nothing: this is not a kind of tables", "tpcc"),
        (
            ("compare", "--scratch", "-S", "--variant", "a", "--variant", "b:work_mem="),
            "work_mem= has no value; work_mem must be a number from 64",
            "give work_mem=VALUE",
        ),
        (
            ("bench", "--scratch", "-S", "--set", "work_mem=much"),
            "work_mem=much: must be a number from 64",
            "WHERE name = 'work_mem'",
        ),
        (
            ("tune", "--scratch", "-S", "--setting", "work_mem="),
            "--setting work_mem= names no values to search",
            "work_mem=LOW..HIGH",
        ),
    ],
)
def test_a_word_too_few_is_named_with_what_to_write(
    given: tuple[str, ...], words: str, step: str, pgdyno: Command
) -> None:
    said = pgdyno(*(word.replace("SERVER", "host=/nowhere") for word in given))
    error, _, after = " ".join(said.error.split()).partition("next: ")
    assert said.code == 1
    assert words in error
    assert step in after
