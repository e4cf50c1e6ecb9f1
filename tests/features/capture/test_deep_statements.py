"""Statements with thousands of parts: some are left out and named, and the rest goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fixtures.captured_load import rebuilt
from tests.fixtures.clusters import Make, connection
from tests.fixtures.command import Command

from pgdyno.features.capture.file import capture_at
from pgdyno.server.target import Target

pytestmark = pytest.mark.pg

SCHEMA = (
    "CREATE TABLE part (id int PRIMARY KEY, amount int NOT NULL)",
    "INSERT INTO part SELECT n, n % 10 FROM generate_series(1, 500) AS n",
    "ANALYZE",
)
# Each depth is beyond another reader: Python's limit is a thousand calls inside of each other.
DEPTHS = (300, 1500)
SHAPES = {
    "sums": lambda n: f"SELECT {' + '.join(['amount'] * n)} FROM part WHERE id = 7",
    "unions": lambda n: " UNION ALL ".join(["SELECT id FROM part WHERE id = 3"] * n),
}
WIDE = "SELECT count(*) FROM part WHERE " + " OR ".join(["id = %s"] * 2000)


def load(target: Target) -> None:
    """Send deep and wide statements, a text of 5 MB, and ordinary ones."""
    with connection(target) as session:
        for depth in DEPTHS:
            for shape in SHAPES.values():
                session.execute(shape(depth).encode())
        session.execute(WIDE.encode(), list(range(2000)))
        long = "x" * 5_000_000
        session.execute("SELECT length(%s), amount FROM part WHERE id = %s", [long, 4])
        session.execute(f"SELECT length('{long}'), amount FROM part WHERE id = 5".encode())
        for number in range(1, 60):
            session.execute("SELECT amount FROM part WHERE id = %s", [number])
            session.execute("UPDATE part SET amount = amount + 1 WHERE id = %s", [number])


@pytest.mark.parametrize("version", ["15", "18"])
def test_deep_and_long_statements_are_named_and_the_others_are_sent(
    pgdyno: Command, new_cluster: Make, tmp_path: Path, version: str
) -> None:
    made = rebuilt(pgdyno, new_cluster, tmp_path, SCHEMA, load, origin="log", version=version)
    capture = capture_at(made.path)
    assert "deep" in {item.reason for item in capture.left_out}
    shown = pgdyno("capture", "show", made.path)
    assert shown.code == 0, shown.err
    document = made.mirror("2s")
    assert document["failures"] == {}
    rows = document["likeness"]["statements"]
    sent = {row["text"] for row in rows if row["copy"]["calls"]}
    assert "SELECT amount FROM part WHERE id = $1" in sent
