"""An observer of a server on another host: its tables, its gaps, and what it says of trouble."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import pytest
from tests.fixtures.clusters import connection
from tests.fixtures.programs import BY_SSH
from tests.fixtures.ssh import SshServer, shell_like
from tests.observe.sinks import KeepingSink

from pgdyno.clock import read_pair
from pgdyno.observe.observer import ObservedServer, Observer
from pgdyno.observe.remote.host_session import shell_command, ssh_command
from pgdyno.server.connect import connect
from pgdyno.server.scratch.cluster import ScratchCluster

HOST_TABLES = {"cpu", "memory", "paging", "disk", "scheduler", "tcp", "backends", "process_usage"}


def watching(sink: KeepingSink, server: ScratchCluster, command: tuple[str, ...]) -> Observer:
    """Return an observer that takes the server for one on another host."""
    return Observer(
        clock=read_pair(),
        sink=sink,
        run="1.1",
        server=ObservedServer(
            lambda: connect(server.target, verb="observe", run="1.1"),
            database="postgres",
            load_application_name="pgdyno/bench/1",
        ),
        host=command,
        interval_ns=200_000_000,
    )


def backend_types(sink: KeepingSink) -> set[str]:
    return {str(row["backend_type"]) for row in sink.rows.get("backends", [])}


@pytest.mark.parametrize("way", ["sh", BY_SSH])
def test_a_server_elsewhere_has_the_same_tables_and_the_load_host_its_own(
    way: str, pg15: ScratchCluster, request: pytest.FixtureRequest
) -> None:
    text = "sh" if way == "sh" else request.getfixturevalue("ssh_server").shell
    sink = KeepingSink()
    observer = watching(sink, pg15, shell_command(text))
    with connection(pg15.target) as load:
        load.execute("SET application_name = 'pgdyno/bench/1.1'")
        observer.start()
        try:
            sink.wait_for(lambda: sink.rows.keys() >= HOST_TABLES | {"load_cpu", "load_tcp"})
            sink.wait_for(lambda: {"load", "postmaster", "observer"} <= backend_types(sink))
            sink.wait_for(lambda: "space" in sink.rows)
        finally:
            assert observer.stop()
    assert observer.host is not None
    assert observer.host.offset.answers > 0


def test_a_note_says_that_a_host_is_not_the_servers_and_the_run_continues(
    pg15: ScratchCluster, tmp_path: Path
) -> None:
    # No such process there: the script looks for another number.
    other = "exec sed -u 's/^\\(fast\\|slow\\) [0-9].*/\\1 1/' | exec /bin/sh"
    sink = KeepingSink()
    observer = watching(sink, pg15, shell_command(shell_like(tmp_path, other)))
    observer.start()
    try:
        sink.wait_for(lambda: any("no PostgreSQL there" in n["message"] for n in sink.notices))
        sink.wait_for(lambda: len(sink.rows.get("cpu", [])) > 4)
    finally:
        assert observer.stop()
    assert "backends" not in sink.rows


def test_a_host_that_refuses_costs_its_tables_alone(
    pg15: ScratchCluster, ssh_server: SshServer
) -> None:
    sink = KeepingSink()
    command = ssh_command(f"ssh://nobody@127.0.0.1:{ssh_server.port}")
    observer = watching(sink, pg15, command)
    observer.start()
    try:
        sink.wait_for(lambda: any("Host key" in n["message"] for n in sink.notices))
        sink.wait_for(lambda: {"database", "waits", "load_cpu"} <= sink.rows.keys())
    finally:
        assert observer.stop()
    assert "cpu" not in sink.rows


def test_an_ssh_connection_that_is_cut_leaves_a_gap_and_is_made_again(
    pg15: ScratchCluster, ssh_server: SshServer
) -> None:
    sink = KeepingSink()
    observer = watching(sink, pg15, shell_command(ssh_server.shell))
    observer.start()
    try:
        sink.wait_for(lambda: len(sink.rows.get("memory", [])) > 2)
        for pid in children_of(ssh_server.process.pid):
            os.kill(pid, signal.SIGKILL)
        sink.wait_for(lambda: "observer_lost_host" in sink.kinds())
        seen = len(sink.rows.get("database", []))
        sink.wait_for(lambda: len(sink.rows["database"]) > seen)
        sink.wait_for(lambda: "observer_found_host" in sink.kinds())
        sink.wait_for(lambda: sum(r["interval_ns"] == 0 for r in sink.rows["memory"]) > 1)
    finally:
        assert observer.stop()


def children_of(parent: int) -> list[int]:
    """Return the processes that this one has begun."""
    children: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            children += [int(folder.name)] if int(fields[1]) == parent else []
    return children


def test_a_shell_that_dies_leaves_a_gap_and_is_begun_again(
    pg15: ScratchCluster, tmp_path: Path
) -> None:
    dying = 'n=0; while read -r line; do echo "$line"; case $line in fast\\ [0-9]*) n=$((n + 1));'
    dying += " [ $n -lt 3 ] || exit;; esac; done | exec /bin/sh"
    sink = KeepingSink()
    observer = watching(sink, pg15, shell_command(shell_like(tmp_path, dying)))
    observer.start()
    try:
        sink.wait_for(lambda: "observer_found_host" in sink.kinds())
        sink.wait_for(lambda: sum(r["interval_ns"] == 0 for r in sink.rows.get("memory", [])) > 1)
    finally:
        assert observer.stop()
    assert "observer_lost_host" in sink.kinds()
