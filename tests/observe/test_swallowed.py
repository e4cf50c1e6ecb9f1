"""A line that swallows whatever is sent, and breaks nothing: a gap that is soon said."""

from __future__ import annotations

import signal

import psycopg
import pytest
from tests.fixtures.line import Line
from tests.fixtures.poolers import Pooler
from tests.observe.sinks import KeepingSink

from pgdyno.clock import read_pair
from pgdyno.errors import ServerError
from pgdyno.features.doctor.session import read_only
from pgdyno.observe.observer import ObservedServer, Observer
from pgdyno.observe.pooler.console import ConsoleSession
from pgdyno.observe.session import ServerSession
from pgdyno.server.connect import Connection, connect
from pgdyno.server.target import Target


class Opened:
    """Connects, and has what was connected last wait for an answer no longer than a second."""

    def __init__(self, target: Target, *, console: bool = False) -> None:
        self._target, self._console = target, console
        self._connection: Connection | None = None

    def __call__(self) -> Connection:
        self._connection = connect(self._target, verb="observe", run="1.1", console=self._console)
        return self._connection

    def be_impatient(self) -> None:
        assert self._connection is not None
        self._connection.silence_s_max = 1


def test_an_observer_reports_silence_and_continues_after_it(far_line: Line) -> None:
    sink = KeepingSink()
    observer = Observer(
        clock=read_pair(),
        sink=sink,
        run="1.1",
        server=ObservedServer(
            Opened(far_line.target),
            database="postgres",
            load_application_name="pgdyno/bench/1",
        ),
        interval_ns=200_000_000,
    )
    observer.start()
    try:
        sink.wait_for(lambda: {"database", "waits"} <= sink.rows.keys())
        far_line.swallow()
        sink.wait_for(lambda: "observer_lost_server" in sink.kinds())
        far_line.mend()
        sink.wait_for(lambda: "observer_found_server" in sink.kinds())
        seen = len(sink.rows["database"])
        sink.wait_for(lambda: len(sink.rows["database"]) > seen)
    finally:
        far_line.mend()
        assert observer.stop()
    [lost] = [
        notice["message"] for notice in sink.notices if notice["kind"] == "observer_lost_server"
    ]
    assert "nothing came back for 5 s" in lost


@pytest.mark.parametrize("way", ["fetch", "fetch_often"])
def test_a_session_does_not_wait_for_an_answer_that_never_comes(way: str, far_line: Line) -> None:
    opened = Opened(far_line.target)
    session = ServerSession(opened, "pgdyno/observe/1.1", is_local=False)
    session.open()
    assert getattr(session, way)("SELECT 1", ()) == [(1,)]
    far_line.swallow()
    opened.be_impatient()
    with pytest.raises(psycopg.OperationalError, match="nothing came back for 1 s"):
        getattr(session, way)("SELECT 1", ())
    assert not session.is_open


def test_a_console_that_says_nothing_is_lost(pooler: Pooler) -> None:
    opened = Opened(pooler.console, console=True)
    session = ConsoleSession(opened)
    session.open()
    # Stopped, it keeps its sockets and reads none of them.
    pooler.process.send_signal(signal.SIGSTOP)
    opened.be_impatient()
    try:
        with pytest.raises(psycopg.OperationalError, match="nothing came back for 1 s"):
            session.show("POOLS")
        assert not session.is_open
    finally:
        pooler.process.send_signal(signal.SIGCONT)
        session.close()


def test_a_look_at_a_server_that_falls_silent_ends_with_that_reason(far_line: Line) -> None:
    def look() -> None:
        with read_only(far_line.target, "doctor") as (session, _):
            far_line.swallow()
            session.fetch("SELECT 1")

    with pytest.raises(ServerError, match="nothing came back for 5 s") as refused:
        look()
    assert "firewall" in refused.value.hint
