"""A table that was never analyzed has its rows in the copy, too."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fixtures.captured_load import capture_statistics
from tests.fixtures.clusters import connection, run_sql, scalar
from tests.fixtures.command import Command, server_options

from pgdyno.server.scratch.cluster import ScratchCluster

SCHEMA = (
    "CREATE TABLE owner (id int PRIMARY KEY, name text NOT NULL) WITH (autovacuum_enabled = off)",
    "INSERT INTO owner SELECT g, 'owner ' || g FROM generate_series(1, 300) g",
    "CREATE TABLE dog (id bigserial PRIMARY KEY, owner int NOT NULL REFERENCES owner, born date,"
    " weight numeric, words jsonb) WITH (autovacuum_enabled = off)",
    "INSERT INTO dog (owner, born, weight, words) SELECT 1 + g % 300, '2020-01-01', g / 7.0, '{}'"
    " FROM generate_series(1, 2000) g",
    "CREATE TABLE cat (id int PRIMARY KEY) WITH (autovacuum_enabled = off)",
)


@pytest.mark.pg
@pytest.mark.parametrize("has_counters", [True, False])
def test_a_table_that_was_never_analyzed_keeps_its_rows(
    pgdyno: Command, either_server: ScratchCluster, tmp_path: Path, has_counters: bool
) -> None:
    path, server = tmp_path / "a.capture", either_server.target
    core, copy = (server.with_database(f"{name}_{has_counters}") for name in ("new", "new_copy"))
    for own in (core, copy):
        run_sql(server, f'CREATE DATABASE "{own.database}"')
    with connection(core) as session:
        for statement in SCHEMA:
            session.execute(statement)
    if not has_counters:
        run_sql(core, "SELECT pg_stat_reset()")
    capture_statistics(pgdyno, core, path, lambda: None, seconds=2)
    shown = pgdyno("capture", "show", path).out
    how = "from the counters of its rows" if has_counters else "from its size"
    assert f"estimated {how}" in " ".join(shown.split())
    said = pgdyno("init", path, *server_options(copy))
    assert said.code == 0, said.err
    rows = [scalar(copy, f"SELECT count(*) FROM {table}") for table in ("owner", "dog", "cat")]
    assert rows[2] == 0
    if has_counters:
        assert rows[:2] == [300, 2000]
    else:
        assert [150 <= rows[0] <= 900, 1000 <= rows[1] <= 4000] == [True, True]
