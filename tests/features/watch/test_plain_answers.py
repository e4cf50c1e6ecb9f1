"""Sentences of a watch that a reader must not misunderstand, on real servers."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.features.watch.examples import text_of
from tests.features.watch.incidents import busy, findings, judged, of_kind, session, waiting
from tests.features.watch.strangers import Worker, loop, several
from tests.fixtures.clusters import run_sql

from pgdyno.server.target import Target

pytestmark = pytest.mark.pg
SETTINGS = {"shared_preload_libraries": "pg_stat_statements", "fsync": "off"}
UPDATE = "UPDATE orders SET n = n + 1 WHERE id = "


def short_update(worker: Worker, turn: int) -> None:
    worker.execute(f"{UPDATE}{100 + turn % 1000}")
    time.sleep(0.01)


def test_a_healthy_server_is_called_healthy_without_a_word_of_the_doctor(
    shop: Target, tmp_path: Path
) -> None:
    with busy(shop, "shop", short_update):
        listed, document = findings(shop, tmp_path, 4)
    assert listed == []
    assert re.match(r"nothing found that is wrong: [\d,.]+ tps, ", document["sentence"])
    # What the doctor says is about measuring, and not about the health of the server.
    assert "doctor" not in text_of(document, 200)


def test_a_role_without_the_right_to_read_a_table_still_sees_that_an_index_is_missing(
    shop: Target, tmp_path: Path
) -> None:
    """The planner's statistics are not shown to pg_monitor, so the rows needed are not known."""
    run_sql(shop, "DROP ROLE IF EXISTS mon")
    run_sql(shop, "CREATE ROLE mon LOGIN")
    run_sql(shop, "GRANT pg_monitor TO mon")
    total = loop("SELECT sum(n), count(*) FROM orders WHERE customer = %s", lambda turn: turn)
    with several(shop, "web", total, 3):
        [finding] = judged(replace(shop, user="mon"), 3)
    assert finding.kind == "index missing"
    assert "reads 50,000 rows of orders for those with one value of customer" in finding.said
    assert "no index begins with orders(customer)" in finding.lines[0]
    assert "CREATE INDEX CONCURRENTLY ON orders (customer)" in finding.next_step
    assert "GRANT SELECT ON orders" in finding.lines[0]
    run_sql(shop, "CREATE INDEX ON orders (customer)")
    with several(shop, "web", total, 3):
        listed, document = findings(replace(shop, user="mon"), tmp_path, 4)
    assert listed == []
    assert "of DB time is one statement: SELECT sum(n), count(*) FROM" in document["sentence"]


def test_a_statement_that_an_application_sends_in_a_loop_is_named_on_a_healthy_server(
    shop: Target, tmp_path: Path
) -> None:
    def page(worker: Worker, turn: int) -> None:
        with worker.transaction():
            for row in range(60):
                worker.execute("SELECT n FROM orders WHERE id = %s", [60 * turn + row])
            time.sleep(0.05)

    with busy(shop, "shop", page):
        listed, document = findings(shop, tmp_path, 5)
    assert listed == []
    said = re.search(
        r"; one statement runs ([\d.]+) times in a transaction, on average: SELECT n FROM orders",
        document["sentence"],
    )
    assert said is not None, document["sentence"]
    assert 45 < float(said[1]) < 75


def test_an_incident_has_no_line_of_the_doctor_and_the_time_of_its_begin(
    shop: Target, tmp_path: Path
) -> None:
    statement = f"{UPDATE}1"
    with session(shop, "billing") as holder:
        holder.execute(statement)
        began = time.gmtime()
        with (
            waiting(shop, "deploy-42", statement),
            waiting(shop, "web-1", statement, 2),
            waiting(shop, "web-2", statement),
            busy(shop, "shop", short_update),
        ):
            listed, document = findings(shop, tmp_path, 5)
    text = " ".join(text_of(document, 100).split())
    assert "pgdyno doctor" not in text
    clocks = [time.strftime("since %H:%M:%S UTC", began)]
    clocks += [
        time.strftime("since %H:%M:%S UTC", time.gmtime(time.time() - ago)) for ago in range(60)
    ]
    assert any(clock in text for clock in clocks), text
    # Names of one application are whole; those of a pool have a sign.
    tree = " ".join(listed[0]["lines"])
    assert re.search(r"pid \d+ deploy-42 waits", tree), tree
    assert "3 sessions of web-* wait" in tree
    # Calls that wait for ever are not in the mean of those that ended.
    [update] = [made for made in document["statements"] if made["text"].startswith("UPDATE orders")]
    assert update["unfinished_calls"] == 4
    assert update["db_ms_per_call"] is None
    assert update["ms_per_call"] < 100
    assert "; 4 not ended" in text


def test_commands_that_ask_for_checkpoints_are_found_with_their_sender(shop: Target) -> None:
    def checkpoint(worker: Worker, turn: int) -> None:
        worker.execute("CHECKPOINT")
        time.sleep(0.3)

    with busy(shop, "nightly-copy", checkpoint), busy(shop, "shop", short_update):
        listed = [made.as_document() for made in judged(shop, 5)]
    finding = of_kind(listed, "manual checkpoints")
    assert "a minute, sent by nightly-copy (role " in finding["said"]
    assert "they wrote" in finding["cost"]
    assert finding["answer"].startswith("commands ask for checkpoints again and again")


def test_waits_of_a_statement_that_has_a_finding_are_a_part_of_it(shop: Target) -> None:
    """Parallel workers of a scan without an index: the index ends both."""
    run_sql(shop, "INSERT INTO orders SELECT id, id, 0, '' FROM generate_series(50001, 400000) id")
    run_sql(shop, "VACUUM ANALYZE orders")
    read = loop("SELECT * FROM orders WHERE customer = %s", lambda turn: 60000 + turn)

    def parallel(worker: Worker, turn: int) -> None:
        if turn == 1:
            worker.execute(
                "SET parallel_setup_cost = 0; SET min_parallel_table_scan_size = 0;"
                " SET parallel_leader_participation = off"
            )
        read(worker, turn)

    with busy(shop, "web", parallel), busy(shop, "shop", parallel):
        listed = judged(shop, 6)
    [scan] = [made for made in listed if made.kind == "index missing"]
    assert not [made for made in listed if "parallel workers" in made.said]
    assert any("so sessions wait for their parallel workers" in line for line in scan.lines), scan
