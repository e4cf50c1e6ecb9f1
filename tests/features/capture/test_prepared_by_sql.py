"""PREPARE and EXECUTE as statements of SQL: statistics count them, a log does not show them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.features.capture.test_utilities import SETTINGS, server, texts_of
from tests.fixtures.captured_load import capture_new_log, capture_statistics
from tests.fixtures.clusters import Make, connection, run_sql
from tests.fixtures.command import Command, server_options
from tests.fixtures.observed import STATEMENTS

from pgdyno.features.capture import file
from pgdyno.features.capture.reading.names import Names
from pgdyno.features.capture.reading.parsed import parse
from pgdyno.server.target import Target

READ = "SELECT word FROM entry WHERE id = $1"
WRITE = "UPDATE entry SET word = $2 WHERE id = $1"
LONGER = "SELECT count(*) FROM entry WHERE id > $1 AND length(word) > $2::integer"


def use(target: Target, turns: int) -> None:
    """Prepare two statements in each of two sessions, and execute them."""
    for begin in (0, turns):
        with connection(target) as session:
            session.execute(f"PREPARE reading(int) AS {READ}", prepare=False)
            session.execute(f'PREPARE "my writing" (int, text) AS {WRITE}', prepare=False)
            longer = LONGER.replace("$2::integer", "3")
            session.execute(f"PREPARE longer AS {longer}", prepare=False)
            for turn in range(begin, begin + turns):
                session.execute(f"EXECUTE reading({1 + turn})", prepare=False)
                session.execute(f"EXECUTE longer({turn})", prepare=False)
                with session.transaction():
                    session.execute(f"EXECUTE reading({2 + turn})", prepare=False)
                    written = f"EXECUTE \"my writing\"({2 + turn}, 'it''s {turn}'::text);"
                    session.execute(written, prepare=False)
            session.execute("DEALLOCATE ALL", prepare=False)


def mirror_of(pgdyno: Command, core: Target, path: Path) -> None:
    """Run a mirror of the capture on a copy; nothing fails in it."""
    run_sql(core, "CREATE DATABASE copy")
    copy = server_options(core.with_database("copy"))
    assert pgdyno("init", path, *copy, "-q").code == 0
    said = pgdyno("bench", *copy, "-b", path, "-c", "3", "--duration", "1s", "-q", "--json")
    assert said.code in (0, 3), said.err
    assert said.document["failures"] == {}, said.document["warnings"]
    assert said.document["transactions"] > 20


@pytest.mark.parametrize("version", ["15", "18"])
def test_prepare_and_execute_of_a_log_are_left_out_and_named(
    pgdyno: Command, new_cluster: Make, tmp_path: Path, version: str
) -> None:
    core, path = server(new_cluster, version, SETTINGS), tmp_path / "a.capture"

    def both() -> None:
        use(core, 3)
        run_sql(core, "SELECT count(*) FROM entry")

    capture_new_log(pgdyno, core, path, both)
    capture = file.read(path)
    assert not {READ, WRITE, LONGER} & texts_of(capture)
    left_out = [item for item in capture.left_out if item.reason == "prepared_by_sql"]
    assert sum(item.calls for item in left_out) == 2 * (3 + 4 * 3 + 1)
    assert not any("it''s" in item.text for item in left_out)


@pytest.mark.parametrize("version", ["15", "18"])
def test_statistics_count_an_execute_under_the_statement_that_was_prepared(
    pgdyno: Command, new_cluster: Make, tmp_path: Path, version: str
) -> None:
    core, path = server(new_cluster, version, STATEMENTS), tmp_path / "a.capture"
    run_sql(core, "CREATE EXTENSION pg_stat_statements")
    capture_statistics(pgdyno, core, path, lambda: use(core, 40), seconds=3)
    capture = file.read(path)
    assert {READ, WRITE} <= texts_of(capture)
    calls = {statement.text: statement.counters.calls for statement in capture.statements}
    assert (calls[READ], calls[WRITE]) == (160, 80)
    mirror_of(pgdyno, core, path)


@pytest.mark.parametrize(
    "beginning",
    ["PREPARE p AS ", 'prepare "a b"(int, numeric(5, 2)) as ', "PREPARE p (text[])\nAS\n"],
)
def test_a_prepare_is_the_statement_that_it_prepares(beginning: str) -> None:
    parsed = parse(beginning + READ, Names({"public.entry": ["id", "word"]}, ["public"]))
    assert (parsed.text, parsed.kind, parsed.reason) == (READ, "select", "")
