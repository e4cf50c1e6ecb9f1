"""Servers and schemas that make a capture difficult: what is lost is reported, nothing fails."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fixtures.captured_load import capture_new_log, capture_statistics
from tests.fixtures.clusters import Make, connection, run_sql
from tests.fixtures.command import Command, server_options
from tests.fixtures.observed import STATEMENTS, make_shop

from pgdyno.errors import ServerError
from pgdyno.features.capture import file
from pgdyno.features.capture.coverage import coverage_of
from pgdyno.features.capture.model import Capture
from pgdyno.features.capture.reading.statistics import Reading, Request
from pgdyno.server.target import Target


def captured(pgdyno: Command, target: Target, path: Path) -> Capture:
    said = pgdyno("capture", *server_options(target), "-o", path, "--duration", "2s")
    assert said.code == 0, said.err
    return file.read(path)


def test_evicted_entries_and_a_lost_text_are_reported(
    pgdyno: Command, new_cluster: Make, tmp_path: Path
) -> None:
    cluster = new_cluster("15", settings={**STATEMENTS, "pg_stat_statements.max": "100"})
    target, path = cluster.target, tmp_path / "a.capture"
    run_sql(target, "CREATE EXTENSION pg_stat_statements")
    make_shop(target)

    def use() -> None:
        with connection(target) as session:
            for turn in range(300):
                # Each number of columns is another statement.
                columns = ", ".join(["id"] * (1 + turn))
                session.execute(f"SELECT {columns} FROM customer LIMIT 1")

    capture_statistics(pgdyno, target, path, use, seconds=5)
    notes = " ".join(file.read(path).notes)
    assert "pg_stat_statements evicted entries" in notes


def test_a_lost_connection_is_opened_again_and_the_capture_goes_on(
    pgdyno: Command, observed: Target, tmp_path: Path
) -> None:
    make_shop(observed)
    path = tmp_path / "a.capture"
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE"

    def use() -> None:
        assert run_sql(observed, f"{end} 'pgdyno/capture/%'") == [(True,)]
        run_sql(observed, "SELECT id FROM orders WHERE at > now() - interval '1 day'")

    said = capture_statistics(pgdyno, observed, path, use, seconds=6)
    assert "pgdyno connects again" in said.err
    assert any("nothing was counted" in note for note in file.read(path).notes)


def test_hidden_statements_of_other_roles_are_a_part_of_the_load(
    pgdyno: Command, observed: Target, tmp_path: Path
) -> None:
    make_shop(observed)
    path = tmp_path / "a.capture"
    run_sql(observed, "CREATE ROLE guest LOGIN")
    run_sql(observed, "GRANT SELECT ON customer TO guest")
    guest = replace(observed, user="guest")

    def use() -> None:
        with connection(observed) as session, connection(guest) as own:
            for turn in range(300):
                session.execute("SELECT id FROM orders WHERE customer = 7")
                session.execute("SELECT 1 FROM item WHERE line = 7")
                if turn % 3 == 0:
                    own.execute("SELECT name FROM customer WHERE id = 7")

    try:
        capture_statistics(pgdyno, guest, path, use, seconds=5)
        coverage = coverage_of(file.read(path))
        assert 0.1 < coverage.calls_ratio < 0.2
        [hidden] = [item for item in coverage.left_out if "hides" in item.words]
        assert 0.8 < hidden.calls_ratio < 0.9
    finally:
        run_sql(observed, "DROP OWNED BY guest")
        run_sql(observed, "DROP ROLE guest")


def test_the_time_of_statements_without_a_duration_is_not_known(
    pgdyno: Command, new_cluster: Make, tmp_path: Path
) -> None:
    logs = {"logging_collector": "on", "log_destination": "csvlog", "log_directory": "log"}
    target, path = new_cluster("15", settings=logs).target, tmp_path / "a.capture"
    make_shop(target)
    run_sql(target, "ALTER DATABASE postgres SET log_statement = 'all'")

    def use() -> None:
        with connection(target) as session:
            for _ in range(50):
                session.execute("SELECT id FROM orders WHERE customer = 7")

    capture_new_log(pgdyno, target, path, use)
    said = pgdyno("capture", "show", path, "--coverage")
    assert "of the calls (their time was not logged) can be reproduced" in said.out
    assert "of time" not in said.out


def test_transactions_without_a_statement_are_told(
    pgdyno: Command, observed: Target, tmp_path: Path
) -> None:
    make_shop(observed)
    path = tmp_path / "a.capture"

    def use() -> None:
        with connection(observed) as session:
            for _ in range(300):
                session.execute("")
                session.execute("SELECT id FROM orders WHERE customer = 7")

    capture_statistics(pgdyno, observed, path, use, seconds=5)
    [note] = [note for note in file.read(path).notes if "empty query" in note]
    untold, ended = map(int, re.findall(r"\d+", note)[:2])
    assert 290 <= untold <= 320
    assert 590 <= ended <= 630


def reading_of(target: Target, seconds: float) -> Reading:
    return Reading(
        Request(
            target=target,
            seconds=seconds,
            keeps_values=False,
            moved=lambda _: None,
            checkpoint=lambda _: None,
            lost=lambda _: None,
        )
    )


def test_a_connection_lost_before_the_first_counters_is_opened_again(observed: Target) -> None:
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE"
    with reading_of(observed, 2) as reading:
        reading.read_once()
        assert run_sql(observed, f"{end} 'pgdyno/capture/%'") == [(True,)]
        assert reading.count() is None
        assert any("nothing was counted" in note for note in reading.capture().notes)
    with pytest.raises(ServerError, match="terminating connection"):
        read_after(lambda: run_sql(observed, f"{end} 'pgdyno/capture/%'"), observed)


@pytest.mark.parametrize("before", ["SELECT 1", "SELECT 'a\\', '"], ids=["statement", "backslash"])
def test_a_text_of_the_load_cannot_end_the_statement_that_prepares_it(
    new_cluster: Make, before: str
) -> None:
    # Here a backslash escapes the end of a string; for the grammar of pgdyno it does not.
    settings = {"standard_conforming_strings": "off", "backslash_quote": "on"}
    target = new_cluster("15", settings=settings).target
    write = "SET transaction_read_only = off; CREATE TABLE planted ()"
    with reading_of(target, 1) as reading:
        reading.read_once()
        reading.types_of([f"{before}; COMMIT; {write}; --'"])
    assert run_sql(target, "SELECT count(*) FROM pg_class WHERE relname = 'planted'") == [(0,)]


def read_after(loss: Callable[[], object], target: Target) -> None:
    with reading_of(target, 2) as reading:
        loss()
        reading.read_once()


def test_a_server_that_stops_before_the_first_counters_is_an_error(new_cluster: Make) -> None:
    cluster = new_cluster("15")
    with reading_of(cluster.target, 1) as reading:
        reading.read_once()
        cluster.stop()
        with pytest.raises(ServerError, match="lost before the first counters"):
            reading.count()


def test_a_schema_with_everything_difficult_is_captured(
    pgdyno: Command, database: Target, tmp_path: Path
) -> None:
    for statement in (
        'CREATE SCHEMA "Odd Name"',
        "CREATE TYPE \"Odd Name\".\"Mood\" AS ENUM ('sad', 'it''s fine')",
        "CREATE DOMAIN positive AS int DEFAULT 1 CHECK (VALUE > 0)",
        "CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS"
        " $$BEGIN NEW.at := now(); RETURN NEW; END$$",
        "CREATE FUNCTION nobody_uses() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        'CREATE TABLE a (id int PRIMARY KEY, b int, at timestamptz, mood "Odd Name"."Mood",'
        " amount positive, twice int GENERATED ALWAYS AS (b * 2) STORED)",
        'CREATE TABLE "Odd Name"."B-2" (id int PRIMARY KEY, a int REFERENCES a)',
        'ALTER TABLE a ADD FOREIGN KEY (b) REFERENCES "Odd Name"."B-2" DEFERRABLE',
        "CREATE TRIGGER stamped BEFORE INSERT ON a FOR EACH ROW EXECUTE FUNCTION stamp()",
        "ALTER TABLE a ENABLE ROW LEVEL SECURITY",
        "CREATE INDEX lower_b ON a (b) WHERE b > 10",
        "CREATE TABLE part (id int, day date, PRIMARY KEY (id, day)) PARTITION BY RANGE (day)",
        "CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM ('2026-01-01') TO ('2027-01-01')",
        "CREATE VIEW seen AS SELECT id FROM a",
        "CREATE STATISTICS both_columns ON id, b FROM a",
        "INSERT INTO a (id, at, mood) SELECT g, 'infinity', 'sad' FROM generate_series(1, 50) g",
        "INSERT INTO part SELECT g, '2026-05-05' FROM generate_series(1, 50) g",
        "ANALYZE",
    ):
        run_sql(database, statement)
    capture = captured(pgdyno, database, tmp_path / "a.capture")
    assert any("row security" in note for note in capture.notes)
    kinds = {item.kind for item in capture.objects}
    assert {"type", "domain", "function", "partition", "trigger", "statistics", "view"} <= kinds
    names = {item.name for item in capture.objects if item.kind == "function"}
    assert names == {"public.stamp"}
    copy = "copy_of_everything"
    run_sql(database, f"DROP DATABASE IF EXISTS {copy}")
    run_sql(database, f"CREATE DATABASE {copy}")
    target = database.with_database(copy)
    try:
        with connection(target) as session:
            session.execute("SET check_function_bodies = off")
            for item in capture.objects:
                session.execute(item.sql)
        theirs = captured(pgdyno, target, tmp_path / "b.capture")
        assert [item.sql for item in theirs.objects] == [item.sql for item in capture.objects]
    finally:
        run_sql(database, f"DROP DATABASE {copy} WITH (FORCE)")


def test_circular_foreign_keys_and_row_security_can_be_rebuilt(
    pgdyno: Command, observed: Target, tmp_path: Path
) -> None:
    for statement in (
        "CREATE TABLE team (id int PRIMARY KEY, captain int)",
        "CREATE TABLE player (id int PRIMARY KEY, team int REFERENCES team, mentor int"
        " REFERENCES player)",
        "INSERT INTO team SELECT g FROM generate_series(1, 50) g",
        "INSERT INTO player SELECT g, 1 + g % 50, g FROM generate_series(1, 500) g",
        "UPDATE team SET captain = id",
        "ALTER TABLE team ADD CONSTRAINT led FOREIGN KEY (captain) REFERENCES player"
        " DEFERRABLE INITIALLY DEFERRED",
        "ALTER TABLE player ENABLE ROW LEVEL SECURITY",
        "ALTER TABLE player FORCE ROW LEVEL SECURITY",
        "CREATE POLICY own ON player USING (team = 1)",
        "ANALYZE",
    ):
        run_sql(observed, statement)
    path = tmp_path / "team.capture"
    capture = captured(pgdyno, observed, path)
    assert any("row security" in note for note in capture.notes)
    copy = observed.with_database(f"{observed.database}_copy")
    run_sql(observed, f'CREATE DATABASE "{copy.database}"')
    try:
        said = pgdyno("init", str(path), *server_options(copy), "--json")
        assert said.code == 0, said.err
        counts = "SELECT (SELECT count(*) FROM team), (SELECT count(*) FROM player)"
        assert run_sql(copy, counts) == [(50, 500)]
        keys = "SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND convalidated"
        assert run_sql(copy, keys) == [(3,)]
    finally:
        run_sql(observed, f'DROP DATABASE "{copy.database}" WITH (FORCE)')


@pytest.mark.parametrize("damage", ["cut", "newer"])
def test_a_damaged_or_newer_file_is_refused_by_show(
    pgdyno: Command, tmp_path: Path, damage: str
) -> None:
    path = tmp_path / "a.capture"
    newer = file.zstd.compress(b'{"part": "header", "format": "pgdyno.capture/9"}\n')
    path.write_bytes(newer if damage == "newer" else b"\x28\xb5\x2f\xfd cut")
    said = pgdyno("capture", "show", path)
    assert said.code == 1
    words = {"cut": "is not a whole capture", "newer": "use a newer pgdyno"}
    assert words[damage] in " ".join(said.err.split())
