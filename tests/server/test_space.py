"""Free space before loading into a server of the user's own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.fixtures.clusters import run_sql
from tests.server.pgbench_tables import load

from pgdyno.errors import ServerError
from pgdyno.server import server_facts, space
from pgdyno.server.connect import Connection, connect
from pgdyno.server.server_facts import ServerFacts
from pgdyno.server.target import Target
from pgdyno.spec.dataset import PgbenchDataset

Session = tuple[Connection, ServerFacts]


@pytest.fixture
def session(database15: Target) -> Iterator[Session]:
    """A session of a superuser on this host, and what it sees."""
    with connect(database15, verb="test") as connection:
        connection.use_load_path()
        yield connection, server_facts.collect(connection, database15)


def room_for_scale(
    scale: int, connection: Connection, facts: ServerFacts, *, replaced_bytes: int = 0
) -> str:
    dataset = PgbenchDataset(scale=scale)
    return space.check_own_server(connection, facts, dataset, replaced_bytes=replaced_bytes)


def test_a_scale_that_fits_is_let_pass(session: Session) -> None:
    connection, facts = session
    assert room_for_scale(1, connection, facts) == ""


def test_a_scale_that_no_disk_has_room_for_is_refused_with_both_numbers(session: Session) -> None:
    connection, facts = session
    with pytest.raises(
        ServerError, match=r"needs about [0-9.]+ GB more in .* GB are free"
    ) as caught:
        room_for_scale(2_000_000_000, connection, facts)
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
    size_bytes = facts.dataset.size_bytes
    assert room_for_scale(1, connection, facts, replaced_bytes=size_bytes) == ""
    with pytest.raises(ServerError, match="GB"):
        room_for_scale(1, connection, facts)


def test_the_reason_for_unknown_free_space_is_given(session: Session, database15: Target) -> None:
    connection, facts = session
    elsewhere = replace(facts, is_local=False)
    why_not = room_for_scale(1, connection, elsewhere)
    assert why_not == "the server is not on this host"
    run_sql(database15, "DROP ROLE IF EXISTS narrow_sighted")
    run_sql(database15, "CREATE ROLE narrow_sighted")
    connection.execute("SET ROLE narrow_sighted")
    assert "pg_read_all_settings" in room_for_scale(1, connection, facts)
    connection.execute("RESET ROLE")
    run_sql(database15, "DROP ROLE narrow_sighted")
