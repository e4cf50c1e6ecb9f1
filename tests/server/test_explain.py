"""Plans of script statements, and SQL of several statements, on real servers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.fixtures.clusters import Make, run_sql

from pgdyno.errors import ServerError
from pgdyno.server.connect import Connection, connect
from pgdyno.server.explain import plan_of, plans_of, query_ids_of
from pgdyno.server.sql_script import run_script
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


def test_a_plan_shows_what_is_read_of_each_partition_since_16(database: Target) -> None:
    with connect(database, verb="test") as connection:
        run_script(
            connection,
            "CREATE TABLE t (id int PRIMARY KEY, x int) PARTITION BY RANGE (id);"
            "CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (5000);"
            "CREATE TABLE high PARTITION OF t FOR VALUES FROM (5000) TO (10000);"
            "INSERT INTO t SELECT i, i FROM generate_series(0, 9999) i; VACUUM ANALYZE t",
        )
        plan = plan_of(connection, "SELECT x FROM t WHERE id = :id;")
        is_generic = connection.info.server_version >= 160_000
        assert plan == (
            "Append > (Index Scan low_pkey; Index Scan high_pkey)" if is_generic else "Append"
        )
        left = connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone()
        assert left == (0,)


@pytest.mark.parametrize("text", ["BEGIN", "VACUUM t", "SELECT * FROM nowhere", "SELECT :a::int +"])
def test_statements_that_cannot_be_planned_alone_are_left_out(
    database15: Target, text: str
) -> None:
    with connect(database15, verb="test") as connection:
        assert plan_of(connection, text) is None
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_text_with_two_statements_is_not_planned_and_none_of_them_runs(database: Target) -> None:
    run_sql(database, "CREATE TABLE kept AS SELECT 1 AS a")
    two = "SELECT 1; COMMIT; DELETE FROM kept"
    with connect(database, verb="test") as connection, connect(database, verb="test") as onlooker:
        assert plan_of(connection, two) is None
        assert query_ids_of(connection, onlooker, {"a.sql": [(1, two)]}) == {"a.sql": {}}
    assert run_sql(database, "SELECT count(*) FROM kept") == [(1,)]


def test_a_function_that_the_planner_executes_cannot_write(database: Target) -> None:
    run_sql(database, "CREATE SEQUENCE drawn")
    body = "'BEGIN RETURN nextval(''drawn''); END'"
    made = f"CREATE FUNCTION takes() RETURNS int8 LANGUAGE plpgsql IMMUTABLE AS {body}"
    run_sql(database, made)
    with connect(database, verb="test") as connection:
        assert plan_of(connection, "SELECT takes()") is None
        assert plan_of(connection, "SELECT 1") is not None
    assert run_sql(database, "SELECT is_called FROM drawn") == [(False,)]


def test_planning_changes_nothing_in_the_session(database15: Target) -> None:
    with connect(database15, verb="test") as connection:
        plan_of(connection, "SELECT 1")
        [mode] = connection.execute("SHOW plan_cache_mode").fetchone() or ()
        left = connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone()
    assert (mode, left) == ("auto", (0,))


def test_explaining_leaves_nothing_of_ours_in_pg_stat_statements(new_cluster: Make) -> None:
    preloaded = {"shared_preload_libraries": "pg_stat_statements"}
    cluster = new_cluster("15", settings=preloaded)
    text = "SELECT relname FROM pg_class WHERE oid = :id AND relkind = 'r'"
    with connect(cluster.target, verb="test") as connection:
        connection.use_load_path()
        connection.execute("CREATE EXTENSION pg_stat_statements")
        connection.execute("SELECT pg_stat_statements_reset()")
        assert plan_of(connection, text) is not None
        arrays = "SELECT 1 FROM unnest($1::int[], $2::int[]) AS a (x, y)"
        query_ids_of(connection, connection, {"load.sql": [(1, text), (2, arrays), (3, "END")]})
        # The application's own call comes later, and is listed under its own text.
        connection.pgconn.exec_(b"SELECT relname FROM pg_class WHERE oid = 1 AND relkind = 'r'")
        rows = connection.execute(
            "SELECT query FROM pg_stat_statements WHERE query LIKE '%relkind%'"
            " AND query NOT LIKE '%pg_stat_statements%'"
        ).fetchall()
    texts = {str(row[0]) for row in rows}
    assert "SELECT relname FROM pg_class WHERE oid = $1 AND relkind = $2" in texts
    assert not any("pgdyno" in text or "PREPARE" in text for text in texts), texts
    assert "ERROR" not in cluster.log_path.read_text(), "a log of errors that nobody made"


def texts_of_statements(server: Target) -> dict[tuple[int, bool], str]:
    """Return query identifier and whether a client sent the statement -> its text."""
    rows = run_sql(
        server,
        "SELECT queryid, toplevel, query FROM pg_stat_statements"
        " WHERE query NOT LIKE '%pg_stat_statements%'",
    )
    return {(number, is_top): text for number, is_top, text in rows}


@pytest.mark.parametrize("is_superuser", [True, False])
@pytest.mark.parametrize("track", ["top", "all"])
def test_explaining_with_generic_plans_adds_no_statement_text(
    new_cluster: Make, track: str, is_superuser: bool
) -> None:
    script = [
        (1, "SELECT relname FROM pg_class WHERE oid = :id AND relkind = 'r';"),
        (2, "UPDATE known SET n = n + :delta WHERE n = 7;"),
        (3, "INSERT INTO known VALUES (:n);"),
        (4, "SELECT count(*) FROM known;"),
        (5, "SELECT 1 FROM unnest($1::int[], $2::int[]) AS a (x, y);"),
        (6, "END;"),
    ]
    cluster = new_cluster("18", settings={"shared_preload_libraries": "pg_stat_statements"})
    server = cluster.target
    run_sql(server, "CREATE EXTENSION pg_stat_statements")
    run_sql(server, f"ALTER SYSTEM SET pg_stat_statements.track = '{track}'")
    run_sql(server, "SELECT pg_reload_conf()")
    run_sql(server, "CREATE TABLE known (n int)")
    run_sql(server, "CREATE ROLE plain LOGIN")
    run_sql(server, "GRANT ALL ON known TO plain")
    role = server if is_superuser else replace(server, user="plain")
    with connect(role, verb="test") as connection, connect(role, verb="test") as onlooker:
        before = texts_of_statements(server)
        assert len(plans_of(connection, {"load.sql": script})["load.sql"]) == 5
        known = query_ids_of(connection, onlooker, {"load.sql": script})
        ours = texts_of_statements(server).keys() - before.keys()
        after_us = connection.execute("SHOW pg_stat_statements.track").fetchone()
        # The application's own calls come later.
        connection.use_load_path()
        connection.pgconn.exec_(b"UPDATE known SET n = n + 1 WHERE n = 7")
        connection.pgconn.exec_(b"DO $$ BEGIN UPDATE known SET n = n + 2 WHERE n = 7; END $$")
    view = texts_of_statements(server)
    of_scripts = {number for numbers in known["load.sql"].values() for number in numbers}
    shown = {text for (number, _), text in view.items() if number in of_scripts}
    assert len(of_scripts) >= len(script)
    assert "UPDATE known SET n = n + $1 WHERE n = $2" in shown
    assert {text.split()[0] for text in shown} <= {"SELECT", "UPDATE", "INSERT", "END"}, shown
    others = {text for key, text in view.items() if key in ours and key[0] not in of_scripts}
    own = ("BEGIN", "ROLLBACK", "SET LOCAL", "EXPLAIN", "SELECT", "DEALLOCATE")
    assert all(text.startswith(own) for text in others), others
    assert after_us == (track,)
    assert "ERROR" not in cluster.log_path.read_text()


def test_a_statement_that_fails_is_named_with_the_servers_own_words(
    database15: Target, tmp_path: Path
) -> None:
    with (
        connect(database15, verb="test") as connection,
        pytest.raises(ServerError, match=r'CREATE INDEX ON nowhere.*"nowhere" does not exist'),
    ):
        run_script(connection, "SELECT 1; CREATE INDEX ON nowhere (a)")


def test_a_statement_has_the_identifier_that_its_session_shows(database: Target) -> None:
    with (
        connect(database, verb="test") as connection,
        connect(database, verb="test") as onlooker,
    ):
        run_script(connection, "CREATE TABLE t (id int PRIMARY KEY, x int)")
        texts = ["BEGIN;", "UPDATE t SET x = x + :delta WHERE id = :id;", "END;"]
        identifiers = query_ids_of(connection, onlooker, {"s": list(enumerate(texts, 1))})["s"]
        assert set(identifiers) == {"1", "2", "3"}

        def shown() -> int:
            return shown_of(connection, onlooker)

        connection.execute("UPDATE t SET x = x + %s WHERE id = %s", ["1", "2"], prepare=True)
        assert shown() == identifiers["2"][0]
        connection.execute("UPDATE t SET x = x + -5 WHERE id = 7")
        assert shown() == identifiers["2"][1]
        connection.pgconn.exec_(b"END")
        assert shown() == identifiers["3"][0] != identifiers["1"][0]


def shown_of(connection: Connection, onlooker: Connection) -> int:
    row = onlooker.execute(
        "SELECT query_id FROM pg_stat_activity WHERE pid = %s", [connection.info.backend_pid]
    ).fetchone()
    assert row is not None
    return int(row[0])


def test_a_variable_used_twice_gets_two_numbers_as_when_sent(database: Target) -> None:
    text = "SELECT pg_typeof(:x::int), pg_typeof(:y::int), :x::int + 1;"
    with (
        connect(database, verb="test") as connection,
        connect(database, verb="test") as onlooker,
    ):
        [identifiers, _] = query_ids_of(connection, onlooker, {"s": [(1, text)]})["s"]["1"]
        sent = b"SELECT pg_typeof($1::int), pg_typeof($2::int), $3::int + 1"
        connection.pgconn.exec_params(sent, [b"1", b"2", b"1"])
        assert shown_of(connection, onlooker) == identifiers


def test_a_command_has_the_identifier_that_its_session_shows_and_is_not_executed_to_know_it(
    database: Target,
) -> None:
    with (
        connect(database, verb="test") as connection,
        connect(database, verb="test") as onlooker,
    ):
        run_script(connection, "CREATE TABLE calls (n int)")
        connection.execute(
            "CREATE PROCEDURE note(n int) LANGUAGE plpgsql"
            " AS $$ BEGIN INSERT INTO calls VALUES (n); END $$"
        )
        texts = ["CALL note(:n);", "CALL note(7);", "CALL missing(1);", "VACUUM calls;"]
        identifiers = query_ids_of(connection, onlooker, {"s": list(enumerate(texts, 1))})["s"]
        assert set(identifiers) == {"1", "2", "4"}
        assert connection.execute("SELECT count(*) FROM calls").fetchone() == (0,)
        connection.pgconn.exec_params(b"CALL note($1)", [b"5"])
        assert shown_of(connection, onlooker) == identifiers["1"][0]
        connection.pgconn.exec_(b"CALL note(7)")
        assert shown_of(connection, onlooker) == identifiers["2"][0]
        # Until 15 that of one value would stand for all of them.
        is_normalised = connection.info.server_version >= 160_000
        assert identifiers["1"][1:] == (identifiers["2"] if is_normalised else [])
        assert connection.execute("SELECT sum(n) FROM calls").fetchone() == (12,)


def test_without_identifiers_there_are_none(database15: Target) -> None:
    with connect(database15, verb="test") as connection:
        connection.execute("SET compute_query_id = off")
        assert query_ids_of(connection, connection, {"s": [(1, "SELECT 1")]}) == {"s": {}}
