"""With permission a load writes; each server of a comparison needs a confirmation."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from tests.fixtures.clusters import Make, run_sql, scalar
from tests.fixtures.command import Command, server_options

from pgdyno.server.target import Target

pytestmark = pytest.mark.pg
QUICK = ("-c", "1", "-T", "1s", "--warmup", "0s")
WRITES = "CREATE FUNCTION writes() RETURNS void LANGUAGE sql AS 'INSERT INTO written VALUES (1)'"


def test_a_function_that_writes_needs_permission_and_then_writes(
    database: Target, pgdyno: Command, tmp_path: Path
) -> None:
    run_sql(database, "CREATE TABLE written (a int)")
    run_sql(database, WRITES)
    script = tmp_path / "writes.sql"
    script.write_text("\\sleep 5 ms\nSELECT writes();\n")
    load = ("bench", *server_options(database), "-f", str(script), *QUICK)
    refused = pgdyno(*load)
    assert refused.code == 2
    assert "--allow-write" in refused.error
    assert scalar(database, "SELECT count(*) FROM written") == 0
    allowed = pgdyno(*load, "--allow-write", "--json")
    transactions = allowed.document["transactions"]
    [(written,)] = run_sql(database, "SELECT count(*) FROM written")
    assert 0 < transactions <= written


def test_a_comparison_of_two_servers_needs_a_confirmation_for_each(
    new_cluster: Make, pgdyno: Command, tmp_path: Path
) -> None:
    targets = [new_cluster("15").target, new_cluster("18").target]
    run_sql(targets[1], "CREATE DATABASE other")
    targets[1] = targets[1].with_database("other")
    script = tmp_path / "reads.sql"
    script.write_text("SELECT pg_sleep(0.005);\n")
    words: list[str] = []
    with ExitStack() as sessions:
        for target in targets:
            shop = {**target.libpq_parameters(), "application_name": "shop"}
            sessions.enter_context(psycopg.connect(**shop))  # type: ignore[arg-type]
            place = f"host={target.host} port={target.ports} user={target.user}"
            words += ["--variant", f"{target.database}: dsn={place} dbname={target.database}"]
        compared = ("compare", *server_options(targets[0]), "-f", str(script), *QUICK, *words)
        names = "postgres@local", "other@local"
        first, second = (("--confirm", name) for name in names)
        for given, missing in (((), names[0]), (first, names[1]), (second, names[0])):
            said = pgdyno(*compared, *given)
            assert said.code == 1
            assert missing in " ".join(said.error.split())
        done = pgdyno(*compared, *first, *second, "--rounds", "3", "--json")
        assert {variant["runs"] for variant in done.document["variants"]} != {0}, done.err
