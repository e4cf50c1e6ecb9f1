"""A database is copied anew from its template before every run."""

from __future__ import annotations

from tests.fixtures.clusters import connection, run_sql, scalar

from pgdyno.server.connect import connect
from pgdyno.server.dataset.inspection import inspect
from pgdyno.server.reset import no_reset, restore_database
from pgdyno.server.target import Target


def test_rows_of_a_run_are_gone_after_a_restore(database: Target) -> None:
    run_sql(database, "CREATE TABLE t AS SELECT 1 AS x")
    elsewhere = database.with_database("postgres")
    with connect(elsewhere, verb="test") as control:
        assert restore_database(control, database.database).name == "make template"
        run_sql(database, "INSERT INTO t SELECT generate_series(1, 1000)")
        for _ in range(2):
            assert restore_database(control, database.database).name == "restore"
            assert scalar(database, "SELECT count(*) FROM t") == 1
        control.execute(f"ALTER DATABASE {database.database}_template IS_TEMPLATE false")
        control.execute(f"DROP DATABASE {database.database}_template")


def test_a_session_left_in_the_database_does_not_stop_a_restore(database15: Target) -> None:
    with connect(database15.with_database("postgres"), verb="test") as control:
        restore_database(control, database15.database)
        idle = connection(database15)
        restore_database(control, database15.database)
        idle.close()
        control.execute(f"ALTER DATABASE {database15.database}_template IS_TEMPLATE false")
        control.execute(f"DROP DATABASE {database15.database}_template")


def test_without_a_reset_nothing_changes_and_a_note_says_so(database15: Target) -> None:
    with connect(database15, verb="test") as control:
        done = no_reset(control, inspect(control))
    assert [(step.name, bool(step.skipped)) for step in done.steps] == [("reset", True)]
