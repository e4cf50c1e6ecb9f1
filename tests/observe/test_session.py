"""The observing connection: harmless, named, and never through a pooler."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import psycopg
import pytest
from tests.fixtures.clusters import run_sql
from tests.observe.test_server_collectors import open_session

from pgdyno.observe.session import PoolerInThePath, ServerSession
from pgdyno.server.connect import connect
from pgdyno.server.scratch.cluster import ScratchCluster


def test_an_observing_session_cannot_write_and_is_bounded_in_time(
    any_server: ScratchCluster,
) -> None:
    session = open_session(any_server)
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        session.fetch("CREATE TABLE observed (a int)")
    names = ("statement_timeout", "lock_timeout", "jit", "application_name")
    (row,) = session.fetch(f"SELECT {', '.join(f'current_setting({n!r})' for n in names)}")
    assert row == ("2s", "100ms", "off", "pgdyno/observe/1")
    assert session.is_open
    session.close()


def test_a_lost_connection_is_seen_and_a_new_one_can_be_opened(
    any_server: ScratchCluster,
) -> None:
    session = open_session(any_server)
    run_sql(any_server.target, "SELECT pg_terminate_backend(%s, 5000)", session.backend_pid)
    with pytest.raises(psycopg.Error):
        session.fetch("SELECT 1")
    assert not session.is_open
    session.open()
    assert session.fetch("SELECT 1") == [(1,)]
    session.close()


def test_the_cpu_time_of_a_local_backend_is_seen(any_server: ScratchCluster) -> None:
    session = open_session(any_server)
    before_ns = session.backend_cpu_ns()
    session.fetch("SELECT count(*) FROM generate_series(1, 100000)")
    assert 0 < before_ns < session.backend_cpu_ns()
    session.close()


def test_a_pooler_is_recognised_before_any_setting_is_made() -> None:
    asked: list[str] = []

    def execute(sql: str, *_: object) -> SimpleNamespace:
        asked.append(sql)
        return SimpleNamespace(fetchone=lambda: (4711,))

    closed: list[bool] = []
    pooled = SimpleNamespace(
        is_pooled=True,
        execute=execute,
        info=SimpleNamespace(backend_pid=1),
        close=lambda: closed.append(True),
    )
    session = ServerSession(lambda: pooled, "pgdyno/observe/1", is_local=False)  # type: ignore
    with pytest.raises(PoolerInThePath):
        session.open()
    assert asked == ["SELECT pg_backend_pid()"]
    assert closed == [True]


@pytest.mark.parametrize("ask", [ServerSession.fetch, ServerSession.fetch_often])
def test_statements_forgotten_on_the_way_are_sent_unprepared(
    pg15: ScratchCluster, ask: Callable[[ServerSession, str], list[tuple[int]]]
) -> None:
    opened = []

    def remember() -> psycopg.Connection:
        opened.append(connect(pg15.target, verb="observe"))
        return opened[-1]

    session = ServerSession(remember, "pgdyno/observe/1", is_local=False)
    session.open()
    assert ask(session, "SELECT 5") == [(5,)]
    opened[-1].execute("DEALLOCATE ALL", prepare=False)
    assert ask(session, "SELECT 5") == [(5,)]
    assert ask(session, "SELECT 5") == [(5,)]
    session.close()
