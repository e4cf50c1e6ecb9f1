"""Free space before loading into a server of the user's own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.fixtures.clusters import run_sql
from tests.server.pgbench_tables import load

from pgdyno.errors import ServerError
from pgdyno.server import facts as server_facts
from pgdyno.server import space
from pgdyno.server.connect import Connection, connect
from pgdyno.server.facts import ServerFacts
from pgdyno.server.target import Target

Session = tuple[Connection, ServerFacts]


@pytest.fixture
def session(database15: Target) -> Iterator[Session]:
    """A session of a superuser on this host, and what it sees."""
    with connect(database15, verb="test") as connection:
        yield connection, server_facts.collect(connection, database15)


def test_a_scale_that_fits_is_let_pass(session: Session) -> None:
    connection, facts = session
    assert space.check_own_server(connection, facts, scale=1) == ""


def test_a_scale_that_no_disk_has_room_for_is_refused_with_both_numbers(session: Session) -> None:
    connection, facts = session
    with pytest.raises(
        ServerError, match=r"needs about [0-9.]+ GB more in .* GB are free"
    ) as caught:
        space.check_own_server(connection, facts, scale=2_000_000_000)
    assert "--skip-space-check" in caught.value.hint


def test_tables_that_are_replaced_count_as_free(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection, _ = session
    load(connection)
    target = Target(
        connection.info.host,
        str(connection.info.port),
        connection.info.user,
        connection.info.dbname,
    )
    facts = server_facts.collect(connection, target)
    monkeypatch.setattr(space, "free_bytes", lambda _path: 45 << 20)
    assert space.check_own_server(connection, facts, scale=1) == ""
    bare = replace(facts, dataset=replace(facts.dataset, size_bytes=0))
    with pytest.raises(ServerError, match="GB"):
        space.check_own_server(connection, bare, scale=1)


def test_what_cannot_be_seen_is_said(session: Session, database15: Target) -> None:
    connection, facts = session
    elsewhere = replace(facts, is_local=False)
    why_not = space.check_own_server(connection, elsewhere, scale=1)
    assert why_not == "the server is not on this host"
    run_sql(database15, "DROP ROLE IF EXISTS narrow_sighted")
    run_sql(database15, "CREATE ROLE narrow_sighted")
    connection.execute("SET ROLE narrow_sighted")
    assert "pg_read_all_settings" in space.check_own_server(connection, facts, scale=1)
    connection.execute("RESET ROLE")
    run_sql(database15, "DROP ROLE narrow_sighted")
