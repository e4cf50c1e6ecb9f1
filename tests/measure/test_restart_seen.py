"""A server that starts again in the middle of a run: the run says when."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess

import pytest
from tests.fixtures.clusters import run_sql
from tests.fixtures.command import Command
from tests.fixtures.own_servers import MakeOwn, OwnServer

from pgdyno.observe.totals import Totals, restarted_ns

pytestmark = pytest.mark.pg


def restart(own: OwnServer) -> None:
    subprocess.run(f"{own.pg_ctl} restart -m immediate", shell=True, cwd="/", check=True)


def crash(own: OwnServer) -> None:
    [(pid,), *_] = run_sql(
        own.target,
        "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'pgdyno/bench/%'"
        " AND query LIKE '%only_here%'",
    )
    os.kill(int(str(pid)), signal.SIGKILL)


@pytest.mark.parametrize("what", [restart, crash])
def test_a_server_that_starts_again_during_a_run_is_a_doubt_with_the_moment(
    what: object, new_own_server: MakeOwn, pgdyno: Command
) -> None:
    own = new_own_server()
    run_sql(own.target, "CREATE TABLE only_here (a int)")
    script = pgdyno.store.parent / "read.sql"
    script.write_text("\\sleep 5 ms\nSELECT count(*) FROM only_here;\n")
    host, port = own.target.host, own.target.ports
    # Named twice, the load waits for the server for a minute instead of five seconds.
    server = f"host={host},{host} port={port},{port} user={own.target.user} dbname=postgres"
    load = ("-f", script, "-c", "2", "-T", "6", "--warmup", "0s", "--json")
    running = pgdyno.start("bench", server, *load)
    running.await_load(pgdyno.store)
    assert callable(what)
    what(own)
    said = running.wait()
    warnings = {warning["kind"]: warning["message"] for warning in json.loads(said.out)["warnings"]}
    assert re.search(
        r"The server started again \d+\.\d s after the beginning of the measured time, at"
        r" \d\d:\d\d:\d\d UTC; \d connections? of the load",
        warnings["restarted"],
    ), warnings


def test_a_restart_is_told_from_statistics_that_somebody_reset() -> None:
    before: Totals = {
        "server.started_ns": 5,
        "wal.stats_reset_ns": 6,
        "checkpointer.stats_reset_ns": 7,
    }
    assert restarted_ns(before, before) is None
    assert restarted_ns(before, {**before, "wal.stats_reset_ns": 9}) is None
    assert restarted_ns(before, {**before, "server.started_ns": 8}) == 8
    crashed = {**before, "wal.stats_reset_ns": 9, "checkpointer.stats_reset_ns": 10}
    assert restarted_ns(before, crashed) == 9
