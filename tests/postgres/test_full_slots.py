"""A server that takes no more sessions in the middle of a run is full, neither lost nor down."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.fixtures.clusters import Make, scalar
from tests.fixtures.command import Command, eventually, server_options

from pgdyno.server.target import Target

pytestmark = pytest.mark.pg

SLEEPS = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"


@contextlib.contextmanager
def full(target: Target) -> Iterator[None]:
    """Take every connection that the server has left, and each one that another session leaves."""
    is_over = threading.Event()

    def take() -> None:
        with contextlib.ExitStack() as taken:
            while not is_over.wait(0.001):
                with contextlib.suppress(psycopg.OperationalError):
                    given = target.libpq_parameters()
                    taken.enter_context(psycopg.connect(**given))  # type: ignore[arg-type]

    taking = threading.Thread(target=take)
    taking.start()
    try:
        yield
    finally:
        is_over.set()
        taking.join()


@pytest.mark.parametrize("version", ["15", "18"])
@pytest.mark.parametrize("options", [(), ("--connect",)])
def test_a_full_server_is_not_called_lost(
    version: str, options: tuple[str, ...], pgdyno: Command, new_cluster: Make, tmp_path: Path
) -> None:
    target = new_cluster(version, clients=1).target
    script = tmp_path / "reads.sql"
    script.write_text("SELECT pg_sleep(0.05);\n")
    load = ("-f", script, *server_options(target), "-T", "10s", "--warmup", "0s", *options)
    confirmed = ("--confirm", f"{target.database}@local")
    running = pgdyno.start("bench", *load, *confirmed)
    eventually(lambda: scalar(target, SLEEPS), unless=lambda: running.process.poll() is not None)
    with full(target):
        said = running.wait(60)
    words = " ".join(said.err.split())
    assert "Traceback" not in words
    assert "server was lost" not in words
    if not options:
        assert said.code in (0, 3), words
        return
    assert "crashed or been stopped" not in words
    assert "SQLSTATE 53300" in words
    assert "raise max_connections" in words
