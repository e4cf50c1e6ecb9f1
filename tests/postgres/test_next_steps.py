"""The next step of an error does what the reader needs, on real servers."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fixtures.clusters import run_sql
from tests.fixtures.command import Command, server_options

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
    assert "Other objects depend on the tables: view branches" in words
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
