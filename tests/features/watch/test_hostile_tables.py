"""Tables of a tenant who waits for the plans and the advice of a watch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from tests.fixtures.clusters import connection, run_sql

from pgdyno.features.watch.incident import table_facts
from pgdyno.features.watch.incident.conditions import ColumnCondition, restricted
from pgdyno.features.watch.incident.statement_rules import _why
from pgdyno.features.watch.incident.table_facts import ColumnFacts, TableFacts
from pgdyno.server.grammar import sql_name, statements_of
from pgdyno.server.target import Target

ODD = ("x; DROP TABLE y", 'a"b', "line\nend", "esc\x1b[2J", "bidi\u202e", "order", "a  b\\")


@pytest.fixture
def tenant(database: Target) -> Iterator[Target]:
    role, name = "watched_tenant", database.database
    run_sql(database, f"CREATE ROLE {role} LOGIN")
    run_sql(database, f'ALTER DATABASE "{name}" OWNER TO {role}')
    yield database
    run_sql(database, f'ALTER DATABASE "{name}" OWNER TO postgres')
    run_sql(database, f"DROP OWNED BY {role} CASCADE")
    run_sql(database, f"DROP ROLE {role}")


class _Between:
    """A session in which the tenant acts before each statement."""

    def __init__(self, session: psycopg.Connection, act: Any) -> None:
        self.session, self.act, self.refusals = session, act, list[str]()

    def fetch(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple]:
        if sql.startswith("EXPLAIN"):
            self.act()
        text: Any = sql
        try:
            return self.session.execute(text, parameters or None).fetchall()
        except psycopg.Error as error:
            self.refusals.append(str(error))
            raise


@contextmanager
def _as_tenant(target: Target) -> Iterator[psycopg.Connection]:
    with connection(target) as session:
        session.execute("SET ROLE watched_tenant")
        yield session


def test_no_plan_calls_a_function_that_a_tenant_adds_between_two_questions(tenant: Target) -> None:
    with _as_tenant(tenant) as session:
        session.execute("CREATE TABLE orders (customer int)")
        session.execute("INSERT INTO orders SELECT n % 100 FROM generate_series(1, 1000) n")
        session.execute("ANALYZE orders")
        session.execute(
            "CREATE FUNCTION trap() RETURNS bool IMMUTABLE LANGUAGE plpgsql AS $$BEGIN"
            " IF current_user <> 'watched_tenant' THEN RAISE 'trap called'; END IF;"
            " RETURN true; END$$"
        )

    def add() -> None:
        with _as_tenant(tenant) as session:
            session.execute("CREATE INDEX ON orders (customer) WHERE trap()")

    parts = restricted("SELECT * FROM public.orders WHERE customer = $1")
    assert parts is not None
    with connection(tenant) as session:
        between = _Between(session, add)
        made = table_facts._table(between, "public", "orders", parts)  # type: ignore[arg-type]
    assert between.refusals == []
    assert made is not None
    assert made.columns[0].how == "statistics"
    assert made.columns[0].expected_ratio == pytest.approx(0.01)


@pytest.mark.parametrize("name", ODD)
def test_advice_about_a_table_with_a_hostile_name_is_one_statement_about_this_table(
    name: str,
) -> None:
    table = TableFacts(name, name, 1000.0, 10, ())
    column = ColumnFacts(ColumnCondition("", "", name, "="), "")
    _, step = _why(table, column, 1.0)
    assert step.isprintable()
    assert "  " not in step
    [statement] = statements_of(step.removesuffix(", on a copy first"), where="the advice")
    assert statement.kind == "IndexStmt"


@pytest.mark.parametrize("name", ODD)
def test_the_server_reads_a_name_as_it_was(name: str, either_database: Target) -> None:
    text: Any = f"SELECT 1 AS {sql_name(name)}"
    with connection(either_database) as session:
        described = session.execute(text).description
    assert described is not None
    assert described[0].name == name
