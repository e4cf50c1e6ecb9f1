"""A copy keeps the CHECKs of tables that its load only reads, and names the others."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fixtures.captured_load import rebuilt
from tests.fixtures.clusters import Make, connection, scalar
from tests.fixtures.command import Command

from pgdyno.server.target import Target

SCHEMA = (
    "CREATE DOMAIN credit AS int CHECK (VALUE >= 0)",
    "CREATE TABLE item (id int PRIMARY KEY,"
    " stock int NOT NULL CONSTRAINT in_stock CHECK (stock >= 0),"
    " price int NOT NULL CONSTRAINT has_price CHECK (price > 0),"
    " credit credit NOT NULL)",
    "CREATE TABLE shop (id int PRIMARY KEY, size int CONSTRAINT has_size CHECK (size > 0),"
    " fee numeric CONSTRAINT has_fee CHECK (fee > 0))",
    "INSERT INTO shop SELECT n, n % 9 + 1, n FROM generate_series(1, 100) n",
    "INSERT INTO item SELECT n, n % 9 + 2, n % 90 + 1, n % 40 FROM generate_series(1, 1000) n",
    "ANALYZE",
)


def load(target: Target, count: int = 200) -> None:
    with connection(target) as session:
        for number in range(1, count + 1):
            session.execute("UPDATE item SET stock = stock - %s WHERE id = %s", (2, number))
            session.execute("SELECT size FROM shop WHERE id = %s", (number % 100 + 1,))
            session.execute("UPDATE item SET price = %s WHERE id = %s", (number % 90 + 1, number))
            session.execute(
                "UPDATE item SET credit = credit + %s WHERE id = %s", (number % 7, number)
            )


@pytest.mark.pg
@pytest.mark.parametrize(("origin", "version"), [("statistics", "18"), ("log", "15")])
def test_only_checks_of_tables_that_the_load_writes_are_left_out(
    origin: str, version: str, pgdyno: Command, new_cluster: Make, tmp_path: Path
) -> None:
    made = rebuilt(pgdyno, new_cluster, tmp_path, SCHEMA, load, origin=origin, version=version)
    assert "check in_stock of public.item is left out" in made.said.out + made.said.err
    kept = (
        "SELECT string_agg(conname, ' ' ORDER BY conname) FROM pg_constraint WHERE contype = 'c'"
        " AND (conrelid IN ('item'::regclass, 'shop'::regclass) OR contypid = 'credit'::regtype)"
    )
    assert scalar(made.copy, kept) == "has_fee has_size"
    failures = made.mirror("4s")["failures"]
    assert not failures, failures
