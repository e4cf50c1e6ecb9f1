"""Plans of script statements, and SQL of several statements, on real servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgdyno.errors import ServerError
from pgdyno.server.connect import connect
from pgdyno.server.explain import plan_of, plans_of
from pgdyno.server.sql_script import run_script, statements_of
from pgdyno.server.target import Target


def test_a_plan_names_its_nodes_and_what_they_read(database: Target) -> None:
    with connect(database, verb="test") as connection:
        run_script(
            connection,
            "CREATE TABLE t (id int PRIMARY KEY, x int);"
            "INSERT INTO t SELECT i, i FROM generate_series(1, 10000) i; VACUUM ANALYZE t",
        )
        assert plan_of(connection, "SELECT x FROM t WHERE id = :id;") == "Index Scan t_pkey"
        assert plan_of(connection, "SELECT x FROM t WHERE x = :x") == "Seq Scan t"
        update = "UPDATE t SET x = x + :delta WHERE id = :id"
        assert plan_of(connection, update) == "Update t > Index Scan t_pkey"


def test_a_plan_changes_with_an_index(database: Target) -> None:
    with connect(database, verb="test") as connection:
        run_script(
            connection,
            "CREATE TABLE t AS SELECT i AS x FROM generate_series(1, 10000) i; ANALYZE t",
        )
        question = {"load.sql": [(3, "SELECT 1 FROM t WHERE x = :x AND 'a:b' <> '::c'")]}
        assert plans_of(connection, question) == {"load.sql": {"3": "Seq Scan t"}}
        run_script(connection, "CREATE INDEX i ON t (x)")
        assert "i" in plans_of(connection, question)["load.sql"]["3"].split()


@pytest.mark.parametrize("text", ["BEGIN", "VACUUM t", "SELECT * FROM nowhere", "SELECT :a::int +"])
def test_what_cannot_be_planned_alone_is_left_out(database15: Target, text: str) -> None:
    with connect(database15, verb="test") as connection:
        assert plan_of(connection, text) is None
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_planning_changes_nothing_in_the_session(database15: Target) -> None:
    with connect(database15, verb="test") as connection:
        plan_of(connection, "SELECT 1")
        [mode] = connection.execute("SHOW plan_cache_mode").fetchone() or ()
        left = connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone()
    assert (mode, left) == ("auto", (0,))


def test_statements_are_cut_at_the_semicolons_that_end_them() -> None:
    text = (
        "SELECT ';' , \"a;b\"; -- no; this is a remark\n"
        "DO $x$ BEGIN PERFORM 1; END $x$;/* ; */ SELECT 4/2 - 1; ;"
    )
    assert list(statements_of(text)) == [
        "SELECT ';' , \"a;b\"",
        "DO $x$ BEGIN PERFORM 1; END $x$",
        "SELECT 4/2 - 1",
    ]


def test_a_statement_that_fails_is_named_with_the_servers_own_words(
    database15: Target, tmp_path: Path
) -> None:
    with (
        connect(database15, verb="test") as connection,
        pytest.raises(ServerError, match=r'CREATE INDEX ON nowhere.*"nowhere" does not exist'),
    ):
        run_script(connection, "SELECT 1; CREATE INDEX ON nowhere (a)")
