"""What functions do in a read-only session, on real servers, by roles of little and much privilege.

The server refuses it, or docs/safety.md names it: both follow from one table.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from tests.fixtures.clusters import connection, run_sql
from tests.fixtures.ways_to_write import PERMITTED, REFUSED, SETUP, actions, as_statement

from pgdyno.errors import RefusedError
from pgdyno.server.permission import refuse_unpermitted
from pgdyno.server.target import Target


@contextmanager
def functions(database: Target) -> Iterator[str]:
    """Make a function of each action; yield a role that may only read."""
    role = f"little_{database.database}"
    with connection(database) as owner:
        for statement in (*SETUP, f"CREATE ROLE {role} LOGIN"):
            owner.execute(statement)
        for number, action in enumerate(actions()):
            made = f"CREATE FUNCTION way_{number}() RETURNS void LANGUAGE plpgsql"
            owner.execute(f"{made} AS $way$ BEGIN {action}; END $way$")
        owner.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")
    yield role
    run_sql(database, f"DROP OWNED BY {role}")
    run_sql(database, f"DROP ROLE {role}")


def permitted(session: psycopg.Connection, number: int) -> bool:
    try:
        session.execute(f"SELECT way_{number}()")
    except psycopg.Error:
        return False
    return True


@pytest.mark.parametrize("role", ["of little privilege", "superuser"])
def test_what_a_read_only_transaction_permits_is_documented(database: Target, role: str) -> None:
    with functions(database) as little:
        is_little = role != "superuser"
        user = little if is_little else database.user
        asked = {**database.libpq_parameters(), "user": user}
        with psycopg.connect(**asked, autocommit=True) as session:  # type: ignore[arg-type]
            major = session.info.server_version // 10_000
            session.execute("CREATE TEMP TABLE existing (a int)")
            session.execute("SET default_transaction_read_only = on")
            seen = {}
            for number, action in enumerate(actions()):
                seen[action] = permitted(session, number)
                # A function may have switched it, which ends a load.
                session.execute("SET default_transaction_read_only = on")
    expected = dict.fromkeys(REFUSED, False)
    for row in PERMITTED:
        is_there = not row.until or major <= int(row.until)
        is_allowed = row.roles == "any role" or not is_little
        expected |= dict.fromkeys(row.actions, is_there and is_allowed)
    assert {a: (seen[a], expected[a]) for a in seen if seen[a] != expected[a]} == {}


@pytest.mark.parametrize(
    "action",
    [*REFUSED, *(action for row in PERMITTED if row.direct_is_refused for action in row.actions)],
)
def test_a_script_with_this_statement_is_refused_by_its_text(action: str) -> None:
    for is_simple in (True, False):
        with pytest.raises(RefusedError, match=r"a\.sql "):
            refuse_unpermitted("a.sql", [as_statement(action)], {}, is_simple=is_simple)


def test_what_waits_for_writers_in_extensions_that_look_at_tables_is_refused(
    database: Target,
) -> None:
    names = ("amcheck", "pgrowlocks", "pgstattuple", "pg_visibility", "pg_freespacemap")
    with connection(database) as writer, connection(database) as reader:
        for statement in (*SETUP, *(f"CREATE EXTENSION IF NOT EXISTS {name}" for name in names)):
            writer.execute(statement)
        functions = reader.execute(
            "SELECT DISTINCT f.proname FROM pg_proc f JOIN pg_depend d ON d.objid = f.oid"
            " JOIN pg_extension e ON e.oid = d.refobjid AND d.deptype = 'e' WHERE e.extname ="
            " ANY (%s) AND f.proargtypes[0] IN ('regclass'::regtype, 'text'::regtype)"
            " AND f.pronargs - f.pronargdefaults = 1 ORDER BY 1",
            [list(names)],
        ).fetchall()
        reader.execute("SET default_transaction_read_only = on")
        reader.execute("SET lock_timeout = '50ms'")
        waiting = set()
        with writer.transaction():
            writer.execute("INSERT INTO kept VALUES (2)")
            for (name,) in functions:
                for relation in ("kept", "kept_btree", "kept_gin", "kept_brin"):
                    try:
                        reader.execute(f"SELECT * FROM {name}('{relation}')")
                    except psycopg.errors.LockNotAvailable:
                        waiting.add(name)
                    except psycopg.Error:
                        continue  # It is for another kind of relation.
    assert "bt_index_parent_check" in waiting
    assert len(functions) > 10
    for name in waiting:
        for is_simple in (True, False):
            text = f"SELECT {name}('kept')"
            with pytest.raises(RefusedError, match=r"a\.sql "):
                refuse_unpermitted("a.sql", [text], {}, is_simple=is_simple)


def test_the_table_has_at_least_60_ways() -> None:
    assert len(set(actions())) >= 60
