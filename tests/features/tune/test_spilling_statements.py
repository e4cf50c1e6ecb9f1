"""The statements that spill, as the real pg_stat_statements counts them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.fixtures import needs
from tests.fixtures.clusters import Make, run_sql
from tests.fixtures.command import Command, server_options

from pgdyno.observe.session import ServerSession
from pgdyno.server.connect import connect
from pgdyno.server.find import find
from pgdyno.server.target import Target

pytestmark = pytest.mark.pg
SORTS = "SELECT i FROM generate_series(1, 100000) i ORDER BY i DESC OFFSET 99999"


@pytest.mark.parametrize("version", ["15", "18"])
def test_the_statements_that_spill_are_named_without_those_that_were_tried(
    new_cluster: Make, pgdyno: Command, tmp_path: Path, version: str
) -> None:
    needs.offered(
        "pg_stat_statements" not in find(version=version).lacks,
        f"PostgreSQL {version} without contrib",
    )
    preloaded = {"shared_preload_libraries": "pg_stat_statements", "work_mem": "1MB"}
    target = new_cluster(version, settings=preloaded).target
    run_sql(target, "CREATE EXTENSION pg_stat_statements")
    run_sql(target, SORTS)
    path = tmp_path / "sort.sql"
    path.write_text(SORTS)
    server = server_options(target)
    tried = pgdyno("work-mem", *server, "-f", str(path), "--allow-explain-analyze")
    assert tried.code == 0, tried.err
    done = pgdyno("work-mem", *server, "--json")
    assert done.code == 0, done.err
    spilled = json.loads(done.out)["spilled"]
    assert spilled["why_no_statements"] == ""
    [named] = spilled["statements"]
    assert named["text"].startswith("SELECT i FROM generate_series($1, $2)")
    assert spilled["tried_bytes"] > 0


def test_without_parameters_a_percent_sign_is_not_a_placeholder(database: Target) -> None:
    session = ServerSession(lambda: connect(database, verb="test"), "test", is_local=True)
    session.open()
    try:
        assert session.fetch("SELECT '5 %', 7 % 4, 'ab' LIKE 'a%'") == [("5 %", 3, True)]
        assert session.fetch("SELECT %s::text, '%%'", ["5 %"]) == [("5 %", "%")]
    finally:
        session.close()
