"""Load hosts in a spec file: `run` of one load, and a search of settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.fixtures.command import Command

from pgdyno.server.target import Target

pytestmark = pytest.mark.pg

# With 17min the load sleeps longer, so the better value does not depend on the machine.
SLEEPS = """SELECT pg_sleep(CASE current_setting('checkpoint_timeout') WHEN '17min' THEN 0.03
 ELSE 0.003 END);
"""


def spec(folder: Path, server: str, design: str, script: str) -> Path:
    (folder / "script.sql").write_text(script)
    path = folder / "spec.toml"
    path.write_text(
        f"""
[experiment]
name = "from a file"
reset = "none"
[server]
{server}
[dataset]
kind = "existing"
[workload]
scripts = [{{ file = "script.sql" }}]
clients = 2
duration = "300ms"
warmup = "0s"
hosts = "local:2"
[design]
{design}
"""
    )
    return path


def hosts_of_runs(store: Path) -> list[list[str]]:
    documents = [json.loads(path.read_text()) for path in store.glob("*/runs/*/hosts.json")]
    return [[host["name"] for host in document["hosts"]] for document in documents]


def test_run_measures_a_spec_from_its_load_hosts(
    pgdyno: Command, database15: Target, tmp_path: Path
) -> None:
    target = f"host={database15.host} port={database15.ports} user={database15.user}"
    server = f'dsn = "{target} dbname={database15.database}"'
    path = spec(tmp_path, server, 'kind = "bench"', "SELECT 1;\n")
    said = pgdyno("run", path, "--json")
    assert said.code in (0, 3), said.err
    assert hosts_of_runs(pgdyno.store) == [["local-1", "local-2"]]


@pytest.mark.slow
@pytest.mark.usefixtures("short_runs")
def test_tune_searches_and_proves_with_load_hosts(pgdyno: Command, tmp_path: Path) -> None:
    design = """kind = "tune"
metric = "tps"
budget = "30s"
settings = ["checkpoint_timeout=17min,5min"]
now = { checkpoint_timeout = "17min" }"""
    said = pgdyno("run", spec(tmp_path, "scratch = {}", design, SLEEPS), "--json", "-q")
    assert said.code in (0, 3), said.err
    runs = hosts_of_runs(pgdyno.store)
    assert len(runs) > 2
    assert runs == [["local-1", "local-2"]] * len(runs)
