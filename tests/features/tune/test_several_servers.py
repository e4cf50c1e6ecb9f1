"""A tuning on several equal servers of the user's own: checks, undo, a lost server, a kill."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.clusters import make_cluster, run_sql, scalar
from tests.fixtures.command import Command, RunningCommand, eventually

from pgdyno.server.scratch import ScratchCluster
from pgdyno.server.target import Target

ENTRIES = (
    "SELECT name, setting FROM pg_file_settings WHERE sourcefile LIKE '%postgresql.auto.conf'"
    " ORDER BY seqno"
)
# A load whose speed is a matter of the setting, not of the machine. With 17min it sleeps longer.
# The server that differs in vacuum_cost_limit, which means nothing here, is a third slower.
SLEEPS = (
    "SELECT pg_sleep(CASE current_setting('checkpoint_timeout') WHEN '17min' THEN 0.03 ELSE 0.01"
    " END * CASE current_setting('vacuum_cost_limit') WHEN '201' THEN 1.5 ELSE 1 END);"
)
INTERRUPTED = 130
pytestmark = [pytest.mark.pg, pytest.mark.slow, pytest.mark.usefixtures("short_runs")]


def made(version: str, *, cost_limit: int) -> ScratchCluster:
    cluster = make_cluster(version, settings={"vacuum_cost_limit": str(cost_limit)})
    run_sql(cluster.target, "ALTER SYSTEM SET checkpoint_timeout = '17min'")
    run_sql(cluster.target, "SELECT pg_reload_conf()")
    return cluster


@pytest.fixture(scope="module", params=["15", "18"])
def pair(house: Path, request: pytest.FixtureRequest) -> Iterator[list[ScratchCluster]]:
    """Two servers with the same version and settings, one of them slower."""
    assert house.is_dir()
    with (
        made(request.param, cost_limit=200) as first,
        made(request.param, cost_limit=201) as second,
    ):
        yield [first, second]


@pytest.fixture(params=[False, True], ids=["in turn", "at once"])
def at_once(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def conninfo(target: Target) -> str:
    return f"host={target.host} port={target.ports} user={target.user} dbname=postgres"


def spec_of(
    servers: Sequence[ScratchCluster],
    tmp_path: Path,
    *,
    budget: str,
    duration: str = "200ms",
    at_once: bool = False,
) -> Path:
    places = json.dumps([conninfo(server.target) for server in servers])
    script = tmp_path / "sleeps.sql"
    script.write_text(SLEEPS + "\n")
    path = tmp_path / "tune.toml"
    path.write_text(
        f"""
[experiment]
name = "pair"
reset = "none"
[server]
dsn = {places}
admin = {places}
[dataset]
kind = "existing"
[workload]
scripts = [{{ file = "{script}" }}]
duration = "{duration}"
warmup = "0s"
[design]
kind = "tune"
metric = "tps"
budget = "{budget}"
at_once = {str(at_once).lower()}
settings = ["checkpoint_timeout=17min,5min"]
now = {{ checkpoint_timeout = "17min" }}
"""
    )
    return path


def decisions_of(store: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for plan in store.glob("[!.]*/plan.jsonl")
        for line in plan.read_text().splitlines()
    ]


def runs_done(store: Path) -> list[dict[str, Any]]:
    """Return the runs that are complete, as the journal has them."""
    decisions = decisions_of(store)
    done = {decision["number"] for decision in decisions if decision["decision"] == "done"}
    return [
        decision
        for decision in decisions
        if decision["decision"] == "run" and decision["number"] in done
    ]


def await_both(running: RunningCommand, store: Path) -> None:
    """Wait until each server had its settings changed and back: a pair on each."""

    def counts() -> list[int]:
        servers = [run["server_number"] for run in runs_done(store)]
        return [servers.count(1), servers.count(2)]

    eventually(lambda: min(counts()) >= 2, unless=lambda: running.process.poll() is not None)


def test_a_pair_stays_on_one_server_and_a_slower_server_is_in_no_ratio(
    pair: list[ScratchCluster], pgdyno: Command, tmp_path: Path, at_once: bool
) -> None:
    before = [run_sql(server.target, ENTRIES) for server in pair]
    said = pgdyno(
        "run", spec_of(pair, tmp_path, budget="1s", at_once=at_once), "--json", timeout_s=400
    )
    document = said.document
    assert document["verdict"] == "better", said.err
    # 30 ms become 10 ms on both, and a busy machine adds to both: at most three times as fast.
    assert document["proved"]["low"] <= 3
    assert document["proved"]["value"] > 1.2
    first, second = document["servers"]
    assert (first["level"], first["lost"], second["lost"]) == (None, None, None)
    assert second["level"]["value"] < 0.9
    assert first["proved"]["n"] == second["proved"]["n"] >= 3
    rounds: dict[int, set[int]] = {}
    for run in runs_done(pgdyno.store):
        if run["round"] > 100_000:
            rounds.setdefault(run["round"], set()).add(run["server_number"])
    assert all(len(servers) == 1 for servers in rounds.values())
    assert set().union(*rounds.values()) == {1, 2}
    assert [run_sql(server.target, ENTRIES) for server in pair] == before
    notes = " ".join(said.err.split())
    assert "share its cores" in notes
    assert any("share its cores" in difference for difference in document["server_differences"])
    order = "at the same time" if at_once else "one after another, in turn"
    assert document["server_differences"][0] == f"they were measured {order}"
    proof = [run for run in runs_done(pgdyno.store) if run["round"] > 100_000]
    assert {run["runs_at_once"] for run in proof} == {2 if at_once else 1}
    assert "server 2 differs in vacuum_cost_limit = 201 (server 1: 200)" in notes
    assert "were not compared" not in notes, "both admin roles may read /proc"
    text = " ".join(pgdyno("show", "-v", "1").out.split())
    assert "against server 1; in the proof, on it alone: tps +" in text


def test_a_killed_tuning_is_undone_on_each_server_and_goes_on(
    pair: list[ScratchCluster], pgdyno: Command, tmp_path: Path, at_once: bool
) -> None:
    before = [run_sql(server.target, ENTRIES) for server in pair]
    running = pgdyno.start("run", spec_of(pair, tmp_path, budget="1s", at_once=at_once))
    await_both(running, pgdyno.store)
    running.process.kill()
    running.wait()
    done = pgdyno("undo")
    assert done.code == 0, done.err
    assert done.out.count("checkpoint_timeout = 17min") == 2
    assert [run_sql(server.target, ENTRIES) for server in pair] == before
    ran = len(runs_done(pgdyno.store))
    document = pgdyno("run", "--resume", "1", "--json", timeout_s=400).document
    assert document["verdict"] == "better"
    assert document["runs"] > ran
    assert {server["number"] for server in document["servers"]} == {1, 2}
    assert [run_sql(server.target, ENTRIES) for server in pair] == before
    assert pgdyno("undo").out == f"nothing to undo in {pgdyno.store}\n"


def test_an_interrupt_in_the_proof_restores_each_server_and_marks_the_result_unproved(
    pair: list[ScratchCluster], pgdyno: Command, tmp_path: Path, at_once: bool
) -> None:
    before = [run_sql(server.target, ENTRIES) for server in pair]
    running = pgdyno.start("run", spec_of(pair, tmp_path, budget="1s", at_once=at_once))
    eventually(
        lambda: (
            {run["server_number"] for run in runs_done(pgdyno.store) if run["round"] > 100_000}
            == {1, 2}
        ),
        unless=lambda: running.process.poll() is not None,
    )
    running.signal(signal.SIGINT)
    said = running.wait()
    assert said.code == INTERRUPTED, said.err
    text = " ".join(said.out.split())
    assert "unproved: the search had promised +" in text
    assert "candidate, not proved" in text
    assert [run_sql(server.target, ENTRIES) for server in pair] == before
    for server in pair:
        assert scalar(server.target, "SHOW checkpoint_timeout") == "17min"
    assert pgdyno("undo").out == f"nothing to undo in {pgdyno.store}\n"


def test_servers_that_are_not_equal_are_refused_with_both_values(
    pair: list[ScratchCluster], pgdyno: Command, tmp_path: Path
) -> None:
    same = pgdyno("run", spec_of([pair[0], pair[0]], tmp_path, budget="1s"))
    assert same.code == 1
    assert "is the same server as server 1" in " ".join(same.error.split())
    run_sql(pair[1].target, "ALTER SYSTEM SET checkpoint_timeout = '18min'")
    run_sql(pair[1].target, "SELECT pg_reload_conf()")
    eventually(lambda: scalar(pair[1].target, "SHOW checkpoint_timeout") == "18min")
    said = pgdyno("run", spec_of(pair, tmp_path, budget="1s"))
    run_sql(pair[1].target, "ALTER SYSTEM SET checkpoint_timeout = '17min'")
    run_sql(pair[1].target, "SELECT pg_reload_conf()")
    eventually(lambda: scalar(pair[1].target, "SHOW checkpoint_timeout") == "17min")
    assert said.code == 1
    refused = " ".join(said.error.split())
    assert "Servers 1 and 2 are not equal: checkpoint_timeout is 17min and 18min." in refused
    assert not runs_done(pgdyno.store)


def test_proved_settings_are_applied_to_each_server_and_undone_on_each(
    pair: list[ScratchCluster], pgdyno: Command, tmp_path: Path
) -> None:
    before = [run_sql(server.target, ENTRIES) for server in pair]
    script = tmp_path / "sleeps.sql"
    script.write_text(SLEEPS + "\n")
    first, second = (conninfo(server.target) for server in pair)
    said = pgdyno(
        *("tune", first, "--admin", first, "--also", second, "--also-admin", second, "--apply"),
        *("--setting", "checkpoint_timeout=17min,5min", "--goal", "tps", "--json"),
        *("-f", script, "-T", "200ms", "--warmup", "0s", "--budget", "5min", "--reset", "none"),
        timeout_s=500,
    )
    assert said.document["verdict"] == "better", said.err
    for number, server in enumerate(pair, 1):
        assert f"applied checkpoint_timeout = 5min on server {number};" in said.err
        eventually(lambda at=server: scalar(at.target, "SHOW checkpoint_timeout") == "5min")
    done = pgdyno("undo", "1")
    assert done.code == 0, done.err
    assert [run_sql(server.target, ENTRIES) for server in pair] == before
    for server in pair:
        eventually(lambda at=server: scalar(at.target, "SHOW checkpoint_timeout") == "17min")


def test_a_lost_server_ends_its_pairs_and_the_other_server_continues(
    pair: list[ScratchCluster], pgdyno: Command, tmp_path: Path, at_once: bool
) -> None:
    # The last test of each pair: it stops a server. The next test needs it again.
    running = pgdyno.start("run", spec_of(pair, tmp_path, budget="1s", at_once=at_once))
    await_both(running, pgdyno.store)
    pair[1].stop(is_immediate=True)
    said = running.wait()
    text = " ".join(said.out.split())
    assert "Traceback" not in said.err
    assert "server 2 was lost after" in text, said.err
    assert "proved: tps +" in text
    notes = " ".join(said.err.split())
    assert "server 2 (local:" in notes
    assert "is left out" in notes
    assert "pgdyno undo" in notes, "the settings of the lost server were not put back"
    # Its entries are still there: they are put back when it is.
    pair[1].restart()
    done = pgdyno("undo")
    assert done.code == 0, done.err
    eventually(lambda: scalar(pair[1].target, "SHOW checkpoint_timeout") == "17min")
