"""A watch whose server crashes, or whose network is cut: gaps in the live view, file and page."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.features.watch.test_watch import FOUND, LOST, Steps, once, seen_for, watched
from tests.fixtures.clusters import Make, run_sql
from tests.fixtures.command import Command, RunningCommand, eventually, server_options, under_way
from tests.fixtures.line import Line

from pgdyno.errors import ServerError
from pgdyno.server.connect import connect
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.store.experiment import Store

OURS = "SELECT pid FROM pg_stat_activity WHERE application_name ~ '^pgdyno/(watch|observe)/'"


def crash_and_start(cluster: ScratchCluster) -> None:
    """Kill the postmaster alone, as a crash does, and start the server again."""
    assert cluster.pid is not None
    os.kill(cluster.pid, signal.SIGKILL)

    def is_up() -> bool:
        # Backends that have not noticed yet keep the shared memory.
        try:
            cluster.restart()
        except ServerError:
            return False
        return True

    eventually(is_up)


def test_a_crashed_server_leaves_a_gap_and_is_found_again(
    new_cluster: Make, tmp_path: Path
) -> None:
    cluster, store = new_cluster("15"), Store(tmp_path / "store")
    crash = once(lambda: crash_and_start(cluster))
    show = Steps()
    show.then(seen_for(0.5), crash, show.found_again, seen_for(1))
    document = watched(cluster.target, store, show).document
    assert document["gap_count"] >= 1
    assert document["seconds_seen"] < document["seconds"]
    assert {LOST, FOUND} <= set(show.kinds)


def rows(store: Path, table: str) -> list[dict[str, Any]]:
    """Return what a watch that goes on has kept of one table, whole lines only."""
    gaps: list[dict[str, Any]] = []
    for path in under_way(store, f"telemetry/{table}.jsonl"):
        whole, _, _ = path.read_bytes().rpartition(b"\n")
        gaps += [json.loads(line) for line in whole.splitlines()]
    return gaps


def began_again(store: Path) -> bool:
    """Both connections have samples after a beginning that is not their first."""
    tables = (rows(store, "database"), rows(store, "wal"))
    return all(sum(row["interval_ns"] == 0 for row in table) > 1 for table in tables) and all(
        table[-1]["interval_ns"] > 0 for table in tables
    )


def until(running: RunningCommand, look: Any) -> None:
    eventually(look, unless=lambda: running.process.poll() is not None)


def test_a_network_that_is_cut_and_comes_back_is_a_gap_everywhere(
    pgdyno: Command, line: Line
) -> None:
    running = pgdyno.start("watch", *server_options(line.target), "--interval", "200ms")
    until(running, lambda: len(rows(pgdyno.store, "database")) > 5)
    line.cut()
    # Their thread reads the host's files whatever becomes of the server.
    seen = len(rows(pgdyno.store, "cpu"))
    until(running, lambda: len(rows(pgdyno.store, "cpu")) > seen + 5)
    line.mend()
    until(running, lambda: began_again(pgdyno.store))
    running.signal(signal.SIGINT)
    said = running.wait()
    assert said.code == 130, said.err
    assert "the server is observed again" in said.err.lower()
    assert re.search(r" gap of \d+\.\d s: no samples$", said.err, re.M)
    assert re.search(r"^gaps        \d+: \d+ s", said.out, re.M)
    document = pgdyno("show", "1", "--json").document
    assert document["gap_count"] >= 1
    assert document["seconds_seen"] < document["seconds"]
    (page,) = pgdyno.store.rglob("report.html")
    assert "no samples for" in page.read_text()


@pytest.mark.usefixtures("hangups_heard")
@pytest.mark.parametrize(
    ("moment", "number"),
    [
        ("connected", signal.SIGINT),
        ("begun", signal.SIGHUP),
        ("first sample", signal.SIGTERM),
        ("line cut", signal.SIGINT),
    ],
)
def test_a_signal_at_any_moment_leaves_a_readable_store_and_nothing_behind(
    moment: str, number: signal.Signals, pgdyno: Command, line: Line
) -> None:
    given = (*server_options(line.target), "--interval", "100ms")
    running = pgdyno.start("watch", *given, is_new=True)
    until(running, lambda: run_sql(line.target, OURS) or _is_kept(pgdyno.store))
    if moment != "connected":
        until(running, lambda: _is_kept(pgdyno.store))
    if moment in ("first sample", "line cut"):
        until(running, lambda: rows(pgdyno.store, "database"))
    if moment == "line cut":
        line.cut()
    running.signal(number)
    said = running.wait()
    assert said.code == (130 if number is signal.SIGINT else 143), said.err
    assert "Traceback" not in said.err
    if moment == "line cut":
        line.mend()
    eventually(lambda: run_sql(line.target, OURS) == [])
    assert not list(pgdyno.store.rglob("*.partial"))
    listed = pgdyno("list", "--json")
    assert listed.code == 0, listed.err
    if _is_kept(pgdyno.store):
        assert pgdyno("show", "1", "--json").document["is_complete"] is False


def _is_kept(store: Path) -> bool:
    return store.exists() and any(store.iterdir())


def test_control_connections_notice_a_silent_line(pg15: ScratchCluster) -> None:
    with connect(pg15.target, verb="watch") as connection:
        known = connection.info.get_parameters()
    assert int(known["tcp_user_timeout"]) <= 15_000
    assert int(known["keepalives_idle"]) <= 15
