"""A tuning of a setting that needs a restart, on several servers with their own commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.fixtures.clusters import scalar
from tests.fixtures.command import Command
from tests.fixtures.own_servers import MakeOwn

pytestmark = [pytest.mark.pg, pytest.mark.slow, pytest.mark.usefixtures("short_runs")]
# A load whose speed is a matter of the setting, not of the machine.
SLEEPS = (
    "SELECT pg_sleep(CASE current_setting('shared_buffers') WHEN '32MB' THEN 0.03 ELSE 0.01 END);"
)


def test_each_server_is_restarted_by_its_own_command_and_restored(
    new_own_server: MakeOwn, pgdyno: Command, tmp_path: Path
) -> None:
    servers = [new_own_server(), new_own_server()]
    script = tmp_path / "sleeps.sql"
    script.write_text(SLEEPS + "\n")
    places = json.dumps([server.conninfo for server in servers])
    commands = [
        server.restart_command(tmp_path / f"restart-{number}", f"echo >> {tmp_path}/did-{number}")
        for number, server in enumerate(servers, 1)
    ]
    path = tmp_path / "tune.toml"
    path.write_text(
        f"""
[experiment]
name = "restarts"
reset = "none"
[server]
dsn = {places}
admin = {places}
restart_command = {json.dumps(commands)}
[dataset]
kind = "existing"
[workload]
scripts = [{{ file = "{script}" }}]
duration = "200ms"
warmup = "0s"
[design]
kind = "tune"
metric = "tps"
budget = "1s"
settings = ["shared_buffers=32MB,16MB"]
now = {{ shared_buffers = "32MB" }}
"""
    )
    said = pgdyno("run", path, "--json", timeout_s=500)
    document = said.document
    assert document["verdict"] == "better", said.err
    [setting] = document["settings"]
    assert (setting["name"], setting["new"], setting["needs"]) == (
        *("shared_buffers", "16MB", "restart"),
    )
    for number, server in enumerate(servers, 1):
        assert document["servers"][number - 1]["proved"]["n"] >= 3
        assert (tmp_path / f"did-{number}").exists()
        assert scalar(server.target, "SHOW shared_buffers") == "32MB"
    assert pgdyno("undo").out == f"nothing to undo in {pgdyno.store}\n"
