"""Loads from several workers on this host, over TLS: real processes, a real server."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.features.hosts.workers import children, folder_of, is_alive, workers_of
from tests.fixtures.clusters import run_sql
from tests.fixtures.command import Command, RunningCommand, eventually, server_options, under_way

from pgdyno.server.target import Target

pytestmark = pytest.mark.pg

DRAWN = "\\set x random(1, 1000000000)\nINSERT INTO drawn VALUES (':run', :client_id, :x);\n"


def test_four_hosts_do_exactly_what_one_engine_does(
    pgdyno: Command, database15: Target, tmp_path: Path
) -> None:
    run_sql(database15, "CREATE TABLE drawn (run text, client int, x bigint)")
    script = tmp_path / "drawn.sql"
    script.write_text(DRAWN)
    options = ("-f", script, "-c", "8", "-j", "4", "-t", "30", "--seed", "5", "--warmup", "0")
    server = (*server_options(database15), "--allow-write", "--reset", "none", "--json")
    documents = {}
    for run, hosts in (("one", ()), ("many", ("--hosts", "local:4"))):
        said = pgdyno("bench", *server, *options, "-D", f"run={run}", *hosts)
        assert said.code in (0, 3), said.err
        documents[run] = said.document
    by_run = [
        run_sql(database15, "SELECT client, x FROM drawn WHERE run = %s ORDER BY 1, 2", run)
        for run in documents
    ]
    assert len(by_run[0]) == 8 * 30
    assert by_run[0] == by_run[1]
    assert "hosts" not in documents["one"]
    hosts = documents["many"]["hosts"]
    assert [host["name"] for host in hosts] == [f"local-{number}" for number in range(1, 5)]
    assert [host["transactions"] for host in hosts] == [60] * 4
    assert documents["many"]["transactions"] == 240
    for host in hosts:
        # All workers read the same clock.
        assert abs(host["clock_offset_ms"]) <= host["clock_error_ms"]
        assert host["start_skew_ms"] is not None
        assert host["cpu_seconds"] > 0
        assert host["lost"] is None


def test_a_worker_killed_in_the_run_degrades_it_and_the_others_go_on(
    pgdyno: Command, database15: Target, tmp_path: Path
) -> None:
    running = _started(pgdyno, database15, tmp_path, seconds=5)
    workers = workers_of(running)
    assert len(workers) == 3
    os.kill(workers[1], signal.SIGKILL)
    said = running.wait()
    assert said.code == 3, said.err
    document = said.document
    hosts = document["hosts"]
    assert [bool(host["lost"]) for host in hosts].count(True) == 1
    (lost,) = [host for host in hosts if host["lost"]]
    assert 0 < lost["transactions"] < min(h["transactions"] for h in hosts if not h["lost"])
    assert sum(host["transactions"] for host in hosts) == document["transactions"]
    assert any("degraded" in warning["message"] for warning in document["warnings"])
    assert not document["valid"]
    assert eventually(lambda: not any(map(is_alive, workers)))


def test_a_run_that_has_lost_all_hosts_ends_with_the_reason_of_each(
    pgdyno: Command, database15: Target, tmp_path: Path
) -> None:
    running = _started(pgdyno, database15, tmp_path, seconds=60)
    workers = workers_of(running)
    for worker in workers:
        os.kill(worker, signal.SIGKILL)
    said = running.wait()
    assert said.code == 2, said.err
    words = " ".join(said.error.split())
    for number in range(1, 4):
        assert f"load host local-{number} was lost: its worker ended with code -9." in words
    assert "kept and listed as incomplete" in words


def test_engines_end_when_the_lab_is_killed(
    pgdyno: Command, database15: Target, tmp_path: Path
) -> None:
    running = _started(pgdyno, database15, tmp_path, seconds=60)
    workers = workers_of(running)
    engines = [pid for worker in workers for pid in children(worker)]
    assert len(engines) == 3
    folders = [folder_of(worker) for worker in workers]
    assert all(folder.is_dir() for folder in folders)
    running.signal(signal.SIGKILL)
    running.process.wait()
    assert eventually(lambda: not any(map(is_alive, [*workers, *engines])))
    assert not any(folder.exists() for folder in folders)


def _started(pgdyno: Command, target: Target, folder: Path, *, seconds: int) -> RunningCommand:
    """Start a load of three hosts, and wait until it is measured."""
    script = folder / "read.sql"
    script.write_text("SELECT 1;\n\\sleep 2 ms\n")
    options = ("-f", script, "-c", "3", "--hosts", "local:3", "-T", f"{seconds}s", "--warmup", "0")
    running = pgdyno.start(
        "bench", *server_options(target), *options, "--reset", "none", "--json", "-q"
    )

    def is_measuring() -> bool:
        paths = under_way(pgdyno.store, "intervals.jsonl")
        return any(path.read_bytes().count(b'"measure"') > 5 for path in paths)

    eventually(is_measuring, unless=lambda: running.process.poll() is not None)
    return running
