"""A copy keeps a CHECK that its load keeps, and names those that the load may break."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.capturing.test_strange_shop import SETTINGS
from tests.fixtures.captured_load import capture_new_log, capture_statistics
from tests.fixtures.clusters import Make, connection, run_sql, scalar
from tests.fixtures.command import Command, server_options

from pgdyno.server.target import Target

SCHEMA = (
    "CREATE DOMAIN credit AS int CHECK (VALUE >= 0)",
    "CREATE TABLE item (id int PRIMARY KEY,"
    " stock int NOT NULL CONSTRAINT in_stock CHECK (stock >= 0),"
    " price int NOT NULL CONSTRAINT has_price CHECK (price > 0),"
    " hits int NOT NULL CONSTRAINT seen CHECK (hits >= 0),"
    " credit credit NOT NULL)",
    "INSERT INTO item SELECT n, n % 9 + 2, n % 90 + 1, n % 50, n % 40"
    " FROM generate_series(1, 1000) n",
    "ANALYZE",
)


def load(target: Target, count: int = 200) -> None:
    with connection(target) as session:
        for number in range(1, count + 1):
            session.execute("UPDATE item SET stock = stock - %s WHERE id = %s", (2, number))
            session.execute("UPDATE item SET hits = hits + 1 WHERE id = %s", (number,))
            session.execute("UPDATE item SET price = %s WHERE id = %s", (number % 90 + 1, number))
            session.execute(
                "UPDATE item SET credit = credit + %s WHERE id = %s", (number % 7, number)
            )


@pytest.mark.pg
@pytest.mark.parametrize("origin", ["statistics", "log"])
def test_only_checks_that_the_load_may_break_are_left_out(
    origin: str, pgdyno: Command, new_cluster: Make, tmp_path: Path
) -> None:
    server, path = new_cluster("15", settings=SETTINGS).target, tmp_path / "a.capture"
    for name in ("core", "copy"):
        run_sql(server, f"CREATE DATABASE {name}")
    core, copy = server.with_database("core"), server.with_database("copy")
    with connection(core) as session:
        for statement in SCHEMA:
            session.execute(statement)
    if origin == "statistics":
        run_sql(core, "CREATE EXTENSION pg_stat_statements")
        capture_statistics(pgdyno, core, path, lambda: load(core))
    else:
        run_sql(core, "ALTER DATABASE core SET log_min_duration_statement = 0")
        capture_new_log(pgdyno, core, path, lambda: load(core))
    said = pgdyno("init", path, *server_options(copy))
    assert said.code == 0, said.err
    assert "item.in_stock is left out" in said.out + said.err
    kept = (
        "SELECT string_agg(conname, ' ' ORDER BY conname) FROM pg_constraint WHERE contype = 'c'"
        " AND (conrelid = 'item'::regclass OR contypid = 'credit'::regtype)"
    )
    assert scalar(copy, kept) == "credit_check has_price seen"
    given = ("-b", path, "-c", "2", "--warmup", "0s", "--duration", "4s", "--json")
    answer = json.loads(pgdyno("bench", *server_options(copy), *given).out)
    assert not answer["failures"], answer["failures"]
