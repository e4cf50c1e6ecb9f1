"""`pgdyno work-mem` ends by a signal, and never executes a statement without a limit."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.fixtures.clusters import run_sql
from tests.fixtures.command import Command, eventually, server_options

from pgdyno.server.target import Target

AT_WORK = (
    "SELECT count(*) FROM pg_stat_activity WHERE state = 'active'"
    " AND query LIKE 'EXPLAIN (ANALYZE%pg_sleep%' AND pid <> pg_backend_pid()"
)


def is_at_work(target: Target) -> bool:
    return run_sql(target, AT_WORK) != [(0,)]


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["SIGINT", "SIGTERM"]
)
def test_a_signal_ends_the_statement_that_is_tried_on_the_server_too(
    database: Target, pgdyno: Command, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    path = tmp_path / "long.sql"
    path.write_text("SELECT pg_sleep(3000)")
    running = pgdyno.start(
        *("work-mem", *server_options(database), "-f", str(path)),
        *("--allow-explain-analyze", "--timeout", "1h"),
    )
    eventually(lambda: is_at_work(database), unless=lambda: running.process.poll() is not None)
    running.signal(number)
    said = running.wait()
    assert said.code == code, said.err
    assert said.err.endswith(f"pgdyno: Interrupted by {number.name}.\n")
    eventually(lambda: not is_at_work(database))


@pytest.mark.parametrize("given", ["0", "0s", "900us"])
def test_a_limit_of_0_would_be_no_limit_and_is_refused(
    pgdyno: Command, tmp_path: Path, given: str
) -> None:
    path = tmp_path / "q.sql"
    path.write_text("SELECT 1")
    said = pgdyno("work-mem", "--scratch", "-f", str(path), "--timeout", given)
    assert said.code == 1
    assert f"--timeout {given}: the longest execution" in " ".join(said.error.split())
