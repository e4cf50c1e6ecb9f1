"""No value of a row is in the result of a captured load, though the server's messages quote it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.features.capture.test_replay import KEPT
from tests.fixtures.captured_load import SETTINGS, capture_new_log
from tests.fixtures.clusters import Make, connection, run_sql
from tests.fixtures.command import Command, server_options

from pgdyno.server.target import Target

pytestmark = pytest.mark.pg

PLANTED = "plantedsecret"
SCHEMA = (
    "CREATE TABLE person (id int PRIMARY KEY, mail text, age text)",
    f"INSERT INTO person SELECT n, '{PLANTED}' || n, '{PLANTED}' FROM generate_series(1, 9) AS n",
    "CREATE TABLE visit (place text PRIMARY KEY)",
    "ANALYZE",
)
# The copy refuses what the source did, and its messages quote values.
REFUSING = (
    "ALTER TABLE visit ALTER place TYPE int USING 1",
    "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " RAISE EXCEPTION 'wrong: % %', OLD.mail, NEW.mail USING HINT = OLD.mail,"
    " ERRCODE = 'unique_violation'; END $$",
    "CREATE TRIGGER refuse BEFORE UPDATE ON person FOR EACH ROW EXECUTE FUNCTION refuse()",
)


def visit(target: Target) -> None:
    with connection(target) as session:
        for n in range(1, 9):
            session.execute("SELECT mail FROM person WHERE id = %s", [n])
            session.execute("UPDATE person SET mail = %s WHERE id = %s", [f"{PLANTED}{n}x", n])
            session.execute("INSERT INTO visit VALUES (%s)", [f"{PLANTED} {n}"])


def said_failures(document: dict[str, Any]) -> set[str]:
    return set(document["failures"])


@pytest.mark.parametrize("version", ["15", "18"])
@pytest.mark.parametrize("options", [KEPT, ()])
def test_no_message_of_the_server_brings_a_value_into_a_result(
    options: tuple[str, ...], version: str, pgdyno: Command, new_cluster: Make, tmp_path: Path
) -> None:
    settings = {**SETTINGS, "log_min_duration_statement": "0", "logging_collector": "on"}
    server = new_cluster(version, settings=settings).target
    run_sql(server, "CREATE DATABASE core")
    core, copy = server.with_database("core"), server.with_database("copy")
    with connection(core) as session:
        for statement in SCHEMA:
            session.execute(statement)
    run_sql(server, "CREATE DATABASE copy TEMPLATE core")
    with connection(copy) as session:
        for statement in REFUSING:
            session.execute(statement)
    path = tmp_path / ("core.with-values.capture" if options else "core.capture")
    capture_new_log(pgdyno, core, path, lambda: visit(core), options=options)

    bench = ("bench", "-b", path, *server_options(copy), "-c", "2", "--warmup", "0s")
    said = pgdyno(*bench, "-T", "3s", "--allow-write", timeout_s=60)
    asked = [("show", "last"), ("show", "last", "--json"), ("list",)]
    asked += [("report", "last", "-o", str(tmp_path / f"page.{kind}")) for kind in ("html", "md")]
    shown = [said, *(pgdyno(*words) for words in asked)]
    texts = {f"output {place}": text.out + text.err for place, text in enumerate(shown)}
    print(*(text.out + text.err for text in shown))
    for file in (*pgdyno.store.rglob("*"), *tmp_path.glob("page.*")):
        if file.is_file():
            texts[str(file)] = file.read_bytes().decode("latin-1")
    assert [place for place, text in texts.items() if PLANTED in text] == []
    if options:
        # Both kinds of failures happened, and are counted by their conditions.
        assert {"23505", "22P02"} <= said_failures(shown[2].document), said.err
