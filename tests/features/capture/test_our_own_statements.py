"""The statements of pgdyno itself are no load: neither in statistics nor in logs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fixtures.captured_load import SETTINGS, capture_new_log, capture_statistics
from tests.fixtures.clusters import Make, run_sql
from tests.fixtures.command import Command, server_options

from pgdyno.features.capture.file import capture_at
from pgdyno.server.target import Target


@pytest.fixture
def core(new_cluster: Make) -> Target:
    server = new_cluster("15", settings=SETTINGS).target
    run_sql(server, "CREATE DATABASE core")
    core = server.with_database("core")
    run_sql(core, "CREATE EXTENSION pg_stat_statements")
    run_sql(core, "CREATE TABLE t AS SELECT 1 AS a")
    # A prefix without %a: only the texts tell whose they are.
    run_sql(core, "ALTER DATABASE core SET log_min_duration_statement = 0")
    return core


def use(pgdyno: Command, core: Target) -> None:
    for _ in range(20):
        run_sql(core, "SELECT a FROM t WHERE a = 1")
    for verb in ("doctor", "settings"):
        assert pgdyno(verb, *server_options(core)).code in (0, 2, 3, 4)


def texts_of(path: Path) -> list[str]:
    capture = capture_at(path)
    return [own.text for own in capture.statements] + [own.text for own in capture.left_out]


@pytest.mark.pg
@pytest.mark.parametrize("origin", ["statistics", "log"])
def test_other_verbs_leave_no_statement_in_a_capture(
    origin: str, pgdyno: Command, core: Target, tmp_path: Path
) -> None:
    path = tmp_path / "a.capture"
    if origin == "log":
        capture_new_log(pgdyno, core, path, lambda: use(pgdyno, core))
    else:
        capture_statistics(pgdyno, core, path, lambda: use(pgdyno, core), seconds=8)
    others = [text for text in texts_of(path) if "FROM t" not in text]
    assert [text for text in others if "pg_catalog." in text or "pg_stat" in text] == []
