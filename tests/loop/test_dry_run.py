"""--dry-run refuses what the run would refuse, and changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fixtures import needs
from tests.fixtures.clusters import run_sql, scalar
from tests.fixtures.command import Command, server_options

from pgdyno.server.target import Target


def variants(name: str, *values: str) -> tuple[str, ...]:
    return tuple(
        word for at, value in enumerate(values) for word in ("--variant", f"v{at}: {name}={value}")
    )


@pytest.mark.pg
@pytest.mark.parametrize(
    ("verb", "words", "said"),
    [
        ("bench", ("-b", "tpcb-like"), "no pgbench tables"),
        ("bench", ("-f", "write.sql"), "--allow-write"),
        ("bench", ("-f", "read.sql", "-c", "5000"), "connections"),
        ("compare", ("-f", "read.sql", *variants("max_wal_size", "1GB", "2GB")), "--admin"),
        (
            "compare",
            ("-f", "read.sql", *variants("shared_buffers", "64MB", "128MB")),
            "--restart-command",
        ),
        ("compare", ("-f", "read.sql", *variants("io_method", "sync", "worker")), "io_method"),
    ],
)
def test_a_dry_run_refuses_what_the_run_refuses(
    verb: str,
    words: tuple[str, ...],
    said: str,
    pgdyno: Command,
    database15: Target,
    tmp_path: Path,
) -> None:
    run_sql(database15, "CREATE TABLE t (a int)")
    (tmp_path / "write.sql").write_text("INSERT INTO t VALUES (1);\n")
    (tmp_path / "read.sql").write_text("SELECT 1;\n")
    given = [str(tmp_path / word) if word.endswith(".sql") else word for word in words]
    dry, run = (
        pgdyno(verb, *server_options(database15), *given, "-T", "1s", "--warmup", "0s", *more)
        for more in (("--dry-run",), ())
    )
    assert (dry.code, run.code) == (1, 1)
    assert said in dry.error
    assert dry.error.split("pgdyno: ")[-1] == run.error.split("pgdyno: ")[-1]
    assert scalar(database15, "SELECT count(*) FROM t") == 0


@pytest.mark.pg
def test_a_dry_run_of_what_is_allowed_prints_the_plan(
    pgdyno: Command, database15: Target, tmp_path: Path
) -> None:
    (tmp_path / "read.sql").write_text("SELECT 1;\n")
    given = ("-f", tmp_path / "read.sql", *variants("work_mem", "1MB", "2MB"), "--dry-run")
    said = pgdyno("compare", *server_options(database15), *given)
    assert said.code == 0, said.err
    assert "work_mem = 1MB (session)" in said.out
    assert pgdyno("list").out.count("compare") == 0


def test_a_dry_run_for_a_server_that_is_not_there_says_so(pgdyno: Command) -> None:
    said = pgdyno("bench", "-h", "127.0.0.1", "-p", "1", "-d", "nothing", "-S", "--dry-run")
    assert said.code == 1
    assert "Connection refused" in said.error


@needs.POSTGRESQL_15
def test_a_dry_run_names_a_version_that_no_scratch_server_can_have(pgdyno: Command) -> None:
    given = ("--variant", "a: version=15", "--variant", "b: version=15.99", "-S")
    said = pgdyno("compare", "--scratch", *given, "--dry-run")
    assert said.code == 1
    assert "PostgreSQL 15.99 was not found" in said.error
