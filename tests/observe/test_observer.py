"""The observer: watches from start to stop, and is never the cause of a failure."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.fixtures.clusters import run_sql, scalar
from tests.fixtures.command import eventually
from tests.observe.sinks import KeepingSink

from pgdyno import clock
from pgdyno.observe.collector import SECOND_NS
from pgdyno.observe.collector_thread import LATE_NS
from pgdyno.observe.observer import ObservedServer, Observer
from pgdyno.observe.session import ServerSession
from pgdyno.server.connect import connect
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target

SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE %s"


def observed(target: Target, **changes: Any) -> ObservedServer:
    return ObservedServer(
        connect=lambda: connect(target, verb="observe"),
        database=target.database,
        load_application_name="pgdyno/bench/1",
        is_local=True,
        **changes,
    )


def observer(sink: KeepingSink, server: ObservedServer | None, run: str = "1") -> Observer:
    return Observer(
        clock=clock.read_pair(), sink=sink, run=run, server=server, folders={"store": Path("/")}
    )


def test_every_collector_samples_and_nothing_is_left_behind(any_server: ScratchCluster) -> None:
    sink = KeepingSink()
    watching = observer(sink, observed(any_server.target), run="whole")
    watching.start()
    assert scalar(any_server.target, SESSIONS, "pgdyno/observe/whole") == 2
    wanted = {"database", "wal", "checkpointer", "backends", "waits", "cpu", "memory", "disk"}
    sink.wait_for(lambda: wanted <= sink.rows.keys() and len(sink.rows["waits"]) > 10)
    sink.wait_for(lambda: len(sink.rows["wal"]) > 2)
    assert watching.stop()
    eventually(lambda: scalar(any_server.target, SESSIONS, "pgdyno/observe/whole") == 0)
    assert not {"collector_failed", "observer_lost_server"} & set(sink.kinds())
    intervals = [row["interval_ns"] for row in sink.rows["wal"]]
    assert intervals[0] == 0
    assert all(interval > 0 for interval in intervals[1:])


def test_a_server_that_goes_away_and_returns_leaves_a_reported_gap(
    new_cluster: Callable[..., ScratchCluster],
) -> None:
    # On a socket alone its port stays the same when it is started again.
    cluster, sink = new_cluster("15", listens_tcp=False), KeepingSink()
    watching = observer(sink, observed(cluster.target))
    watching.start()
    cluster.stop(is_immediate=True)
    sink.wait_for(lambda: "observer_lost_server" in sink.kinds())
    count = len(sink.rows["wal"])
    cluster.start()
    sink.wait_for(lambda: len(sink.rows["wal"]) > count + 1)
    sink.wait_for(lambda: "observer_found_server" in sink.kinds())
    assert watching.stop()
    after = [row["interval_ns"] for row in sink.rows["wal"][count:]]
    assert 0 in after[:2]
    assert sink.kinds().count("observer_lost_server") <= 2


def test_a_server_that_hangs_does_not_hold_up_the_end(pg15: ScratchCluster) -> None:
    sink = KeepingSink()
    watching = observer(sink, observed(pg15.target), run="hangs")
    watching.start()
    find = "SELECT pid FROM pg_stat_activity WHERE application_name = 'pgdyno/observe/hangs'"
    backends = [pid for (pid,) in run_sql(pg15.target, find)]
    assert len(backends) == 2
    for pid in backends:
        os.kill(pid, signal.SIGSTOP)
    try:
        count = len(sink.rows["cpu"])
        sink.wait_for(lambda: len(sink.rows["cpu"]) > count + 6)
        # Its threads end while the server still says nothing.
        eventually(watching.stop)
    finally:
        for pid in backends:
            os.kill(pid, signal.SIGCONT)


def test_a_server_with_thousands_of_busy_sessions_may_answer_late(pg15: ScratchCluster) -> None:
    sink = KeepingSink()
    watching = observer(sink, observed(pg15.target, load_sessions=8000), run="late")
    watching.start()
    find = "SELECT pid FROM pg_stat_activity WHERE application_name = 'pgdyno/observe/late'"
    backends = [pid for (pid,) in run_sql(pg15.target, find)]
    for pid in backends:
        os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(LATE_NS / SECOND_NS + 0.5)
    finally:
        for pid in backends:
            os.kill(pid, signal.SIGCONT)
    sink.wait_for(lambda: "observer_answered_late" in sink.kinds())
    assert watching.stop()
    assert "observer_lost_server" not in sink.kinds()
    assert sink.kinds().count("observer_answered_late") == 1


@pytest.mark.parametrize(("load_sessions", "silence_s"), [(10, 5), (199, 5), (200, 6), (8000, 45)])
def test_the_more_sessions_a_load_has_the_longer_an_answer_may_take(
    pg15: ScratchCluster, load_sessions: int, silence_s: int
) -> None:
    with connect(pg15.target, verb="observe") as connection:
        session = ServerSession(
            lambda: connection, "pgdyno/observe/1", is_local=True, busy_sessions=load_sessions
        )
        session.open()
        assert connection.silence_s_max == silence_s
        [(timeout,)] = session.fetch("SHOW statement_timeout")
    assert timeout == f"{silence_s - 3}s"


def test_an_unreachable_server_gives_one_notice_and_the_host_is_sampled(
    pg15: ScratchCluster,
) -> None:
    def refuse() -> psycopg.Connection:
        return psycopg.connect("host=/nowhere dbname=x user=y")

    server = ObservedServer(refuse, "x", "pgdyno/bench/1")
    sink = KeepingSink()
    watching = observer(sink, server)
    watching.start()
    sink.wait_for(lambda: len(sink.rows.get("load_cpu", [])) > 4)
    assert watching.stop()
    assert sink.kinds().count("observer_lost_server") == 1
    (notice,) = [n for n in sink.notices if n["kind"] == "observer_lost_server"]
    assert "/nowhere" in notice["message"]


def test_an_error_names_the_grant_of_pg_monitor(pg15: ScratchCluster) -> None:
    run_sql(pg15.target, "CREATE ROLE plain LOGIN")
    target = pg15.target
    sink = KeepingSink()
    server = ObservedServer(
        lambda: connect(replace(target, user="plain"), verb="observe"),
        "postgres",
        "pgdyno/bench/1",
    )
    watching = observer(sink, server)
    watching.start()
    assert watching.stop()
    run_sql(pg15.target, "DROP ROLE plain")
    (notice,) = [n for n in watching.notices if n.kind == "observer_without_pg_monitor"]
    assert notice.hint == "GRANT pg_monitor TO plain;"


@pytest.mark.parametrize("is_scratch", [True, False])
def test_only_on_a_scratch_server_samples_of_waits_have_priority(
    pg15: ScratchCluster, is_scratch: bool
) -> None:
    sink = KeepingSink()
    watching = observer(sink, observed(pg15.target, is_scratch=is_scratch), run="urgent")
    watching.start()
    find = "SELECT pid FROM pg_stat_activity WHERE application_name = 'pgdyno/observe/urgent'"
    policies = {os.sched_getscheduler(pid) for (pid,) in run_sql(pg15.target, find)}
    had_priority = watching.samples_with_priority
    assert watching.stop()
    assert had_priority == any(policy & os.SCHED_FIFO for policy in policies)
    if not is_scratch:
        assert policies == {os.SCHED_OTHER}
    elif had_priority:
        assert len(policies) == 2
