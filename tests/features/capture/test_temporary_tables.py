"""Temporary tables of an application come back in its mirror, and are gone after a transaction."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.features.capture.test_prepared_by_sql import mirror_of
from tests.features.capture.test_utilities import NAMES, SETTINGS, server, texts_of
from tests.fixtures.captured_load import capture_new_log
from tests.fixtures.clusters import Make, connection
from tests.fixtures.command import Command

from pgdyno.features.capture import file
from pgdyno.features.capture.reading.names import Names
from pgdyno.features.capture.reading.parsed import parse
from pgdyno.features.capture.reading.temporary import can_be_sent
from pgdyno.server.target import Target


def use(target: Target, turns: int) -> None:
    """Make tables in transactions, tables that are dropped later, and one that stays."""
    for begin in (0, turns):
        with connection(target) as session:
            session.execute("CREATE TEMP TABLE staying (id int)")
            for turn in range(begin, begin + turns):
                with session.transaction():
                    session.execute(
                        "CREATE TEMP TABLE picked (id int PRIMARY KEY, word varchar(40) NOT NULL)"
                        " ON COMMIT DROP"
                    )
                    added = "INSERT INTO picked VALUES (%s, %s)"
                    session.execute(added, [turn, f"word {turn}"])
                    session.execute("SELECT word FROM picked WHERE id = %s", [turn])
                session.execute(
                    "CREATE TEMPORARY TABLE found AS SELECT id, word AS name FROM entry"
                    f" WHERE id > {turn}",
                    prepare=False,
                )
                session.execute("SELECT count(*) FROM found WHERE name <> %s", [f"word {turn}"])
                session.execute("DROP TABLE found", prepare=False)
                session.execute("INSERT INTO staying VALUES (%s)", [turn])
                session.execute("SELECT word FROM entry WHERE id = %s", [1 + turn])


@pytest.mark.parametrize("version", ["15", "18"])
def test_temporary_tables_of_a_log_run_in_the_mirror(
    pgdyno: Command, new_cluster: Make, tmp_path: Path, version: str
) -> None:
    core, path = server(new_cluster, version, SETTINGS), tmp_path / "a.capture"
    capture_new_log(pgdyno, core, path, lambda: use(core, 30))
    capture = file.read(path)
    texts = texts_of(capture)
    assert {
        "CREATE TEMP TABLE IF NOT EXISTS picked (id int PRIMARY KEY, word varchar(40) NOT NULL)"
        " ON COMMIT DROP",
        "CREATE TEMP TABLE IF NOT EXISTS found AS SELECT id, word AS name FROM entry WHERE id > $1",
        "DROP TABLE IF EXISTS pg_temp.found",
    } <= texts
    assert any(text.startswith("INSERT INTO picked") for text in texts)
    left = [item for item in capture.left_out if item.reason == "temporary_table"]
    assert {item.text.split()[0] for item in left} == {"CREATE", "INSERT"}
    mirror_of(pgdyno, core, path)


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TEMP TABLE planted_8642097 (id int)",
        "CREATE TEMP TABLE a (id int, word text DEFAULT 'planted')",
        "CREATE TEMP TABLE orders (id int)",
    ],
)
def test_a_temporary_table_with_a_value_or_the_name_of_a_table_is_left_out(text: str) -> None:
    parsed = parse(text, NAMES)
    assert (parsed.text, parsed.reason) == ("CREATE TEMP TABLE", "temporary_table")


def test_a_table_that_a_load_drops_is_a_temporary_one() -> None:
    names = Names({"shop.orders": ["id"]}, ["shop"])
    assert parse("DROP TABLE orders", names).reason == "ddl"
    parse("CREATE TEMP TABLE a AS SELECT * FROM orders", names)
    assert names.columns("pg_temp.a") == ["id"]
    assert parse("DROP TABLE a", names).text == "DROP TABLE IF EXISTS pg_temp.a"


def test_a_temporary_table_is_sent_if_it_is_gone_after_the_transaction() -> None:
    made, kept = "CREATE TEMP TABLE IF NOT EXISTS a (id int)", "INSERT INTO a VALUES ($1)"
    drop, of_block = "DROP TABLE IF EXISTS pg_temp.a", f"{made} ON COMMIT DROP"
    for texts, sent in (
        (["BEGIN", of_block, kept, "COMMIT"], [True, True, True, True]),
        (["BEGIN", made, kept, "COMMIT"], [True, False, False, True]),
        ([made, kept, drop, kept], [True, True, True, False]),
        ([of_block, kept], [False, False]),
        ([kept, drop], [False, False]),
    ):
        used = [("a",) if text == kept else () for text in texts]
        assert list(can_be_sent(texts, used)) == sent, texts
