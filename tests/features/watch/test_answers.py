"""What the findings and the tables of a watch say, on servers in trouble."""

from __future__ import annotations

import math
import time
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from tests.features.watch.examples import text_of
from tests.features.watch.incidents import (
    busy,
    findings,
    judged,
    judged_until,
    of_kind,
    session,
    waiting,
)

from pgdyno.server.target import Target

pytestmark = pytest.mark.pg
SETTINGS = {
    "shared_preload_libraries": "pg_stat_statements",
    "max_wal_size": "32MB",
    "min_wal_size": "32MB",
}


def test_forced_checkpoints_name_the_writer_and_a_size_and_no_time_of_other_waits(
    shop: Target,
) -> None:
    def write(worker: psycopg.Connection, _turn: int) -> None:
        worker.execute("UPDATE orders SET n = n + 1")

    with busy(shop, "price-import", write):
        listed = [made.as_document() for made in judged_until(shop, "forced checkpoints", 5)]
    finding = of_kind(listed, "forced checkpoints")
    assert finding["lost_s"] == 0
    assert "session-seconds" not in finding["cost"]
    assert "is full-page images" in finding["cost"]
    said = " ".join(finding["lines"])
    assert "UPDATE orders SET n = n +" in said
    assert "price-import" in said
    assert "ALTER SYSTEM SET max_wal_size = '" in finding["next_step"]
    assert "pg_reload_conf()" in finding["next_step"]


def test_statements_that_wait_before_they_are_planned_are_in_the_table(
    shop: Target, tmp_path: Path
) -> None:
    """A queue behind DDL: its SELECTs have no query id yet, and most of the DB time."""
    select = "SELECT n FROM orders WHERE id = 7"
    with ExitStack() as opened:
        holder = opened.enter_context(session(shop, "report"))
        holder.execute("SELECT count(*) FROM orders")
        opened.enter_context(waiting(shop, "migration", "ALTER TABLE orders ADD COLUMN c int"))
        opened.enter_context(waiting(shop, "web", select, 6))
        listed, document = findings(shop, tmp_path, 3)
    queue = of_kind(listed, "lock queue behind DDL")
    assert "it holds: table orders (it read orders)" in queue["said"]
    first, *_ = document["statements"]
    assert first["text"] == "SELECT n FROM orders WHERE id = $1"
    assert first["share_ratio"] > 0.7
    assert math.fsum(row["share_ratio"] for row in document["statements"]) > 0.9
    lines = text_of(document).splitlines()
    [head] = [place for place, line in enumerate(lines) if line.startswith("share ")]
    shares = [float(line.split()[0]) for line in lines[head + 1 :] if " % " in line]
    assert sum(shares) == pytest.approx(100, abs=2)
    assert "SELECT n FROM orders" in lines[head + 1]


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [("42", "an advisory lock 42"), ("-7", "an advisory lock -7"), ("1, -2", "lock (1, -2)")],
)
def test_an_advisory_lock_has_its_key(shop: Target, arguments: str, shown: str) -> None:
    take = f"SELECT pg_advisory_lock({arguments})"
    with session(shop, "leader", autocommit=True) as holder:
        holder.execute(take)
        with waiting(shop, "follower", take):
            time.sleep(1)
            listed = [made.as_document() for made in judged(shop, 2)]
    assert shown in of_kind(listed, "lock queue")["said"]


def test_a_holder_says_which_table_it_changed(shop: Target) -> None:
    """The last statement of a holder is often not the statement that took the lock."""
    with session(shop, "importer") as holder:
        holder.execute("INSERT INTO orders (id) VALUES (-1)")
        holder.execute("SELECT 1")
        with waiting(shop, "web", "INSERT INTO orders (id) VALUES (-1)"):
            time.sleep(1)
            listed = [made.as_document() for made in judged(shop, 2)]
        holder.rollback()
    queue = of_kind(listed, "lock queue")
    assert "it changed rows of orders" in queue["said"]
    assert "its last statement: SELECT $1" in queue["lines"]
