"""What each collector says to a role that may log in and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest
from tests.fixtures.clusters import run_sql

from pgdyno.observe.collector import NotMeasurable
from pgdyno.observe.session import ServerSession
from pgdyno.observe.sql.collectors import of_scope
from pgdyno.observe.sql.sql_collector import ServerSource
from pgdyno.server.connect import connect
from pgdyno.server.target import Target

ROLE = "without_rights"


@pytest.fixture
def session(database: Target) -> Iterator[ServerSession]:
    """A session of a role without rights, on each server."""
    run_sql(database, f"CREATE ROLE {ROLE} LOGIN")
    opened = ServerSession(
        lambda: connect(replace(database, user=ROLE), verb="observe"),
        "pgdyno/observe/1",
        is_local=True,
    )
    opened.open()
    yield opened
    opened.close()
    run_sql(database, f"DROP ROLE {ROLE}")


def test_no_collector_is_refused_what_it_asks(session: ServerSession, database: Target) -> None:
    source = ServerSource(session, database.database, [session], is_local=True)
    collectors = [*of_scope("server", source), *of_scope("database", source)]
    rows = {}
    for collector in collectors:
        with suppress(NotMeasurable):
            rows[collector.name] = collector.sample(1)
    assert {row["kind"] for row in rows["sizes"]} == {"database"}
    assert rows["database"]
    assert rows["wal"]
