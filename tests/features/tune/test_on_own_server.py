"""A tuning on a server of the user's own: changed for a candidate, put back, applied on demand."""

from __future__ import annotations

import json
import re
import signal
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fixtures.clusters import Make, make_cluster, run_sql, scalar
from tests.fixtures.command import Command, RunningCommand, eventually
from tests.fixtures.own_servers import MakeOwn
from tests.fixtures.prove import Proved

from pgdyno.features.tune.design import Tune
from pgdyno.measure.changes import apply_for_good
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.system_settings import SystemSettings
from pgdyno.server.target import Target
from pgdyno.spec.experiment import Experiment
from pgdyno.store.experiment import Store

ENTRIES = (
    "SELECT name, setting FROM pg_file_settings WHERE sourcefile LIKE '%postgresql.auto.conf'"
    " ORDER BY seqno"
)
INTERRUPTED = 130
pytestmark = pytest.mark.pg


@pytest.fixture(scope="module")
def theirs(house: Path) -> Iterator[ScratchCluster]:
    """A server that somebody tuned: one of the settings to search has an entry already.

    The last test stops it.
    """
    assert house.is_dir()
    with make_cluster("15") as cluster:
        run_sql(cluster.target, "ALTER SYSTEM SET checkpoint_timeout = '17min'")
        run_sql(cluster.target, "SELECT pg_reload_conf()")
        yield cluster


def conninfo(target: Target, user: str | None = None) -> str:
    return f"host={target.host} port={target.ports} user={user or target.user} dbname=postgres"


def spec_of(target: Target, tmp_path: Path, *, budget: str, duration: str) -> Path:
    (tmp_path / "one.sql").write_text("SELECT pg_sleep(0.005);\n")
    path = tmp_path / "tune.toml"
    path.write_text(
        f"""
[experiment]
name = "theirs"
reset = "none"
[server]
dsn = "{conninfo(target)}"
admin = "{conninfo(target)}"
[dataset]
kind = "existing"
[workload]
scripts = [{{ file = "{tmp_path}/one.sql" }}]
duration = "{duration}"
warmup = "0s"
[design]
kind = "tune"
metric = "tps"
budget = "{budget}"
settings = ["checkpoint_timeout=5min..30min", "bgwriter_delay=10ms..1s"]
now = {{ checkpoint_timeout = "17min" }}
"""
    )
    return path


# A load whose speed is a matter of the setting, not of the machine: with 17min it sleeps longer.
SLEEPS = "SELECT pg_sleep(CASE current_setting('checkpoint_timeout') WHEN '17min' THEN 0.03"
SLEEPS += " ELSE 0.003 END);"


def one_setting(
    target: Target, tmp_path: Path, *, server: str = "", workload: str = "", duration: str = "200ms"
) -> Path:
    """Return a spec in which one value is surely better: a pair ends soon, and the proof follows.

    Args: server, workload, further lines of these tables.
    """
    path = spec_of(target, tmp_path, budget="60s", duration=duration)
    text = path.read_text().replace("[design]", f"{workload}\n[design]")
    text = text.replace('"checkpoint_timeout=5min..30min", "bgwriter_delay=10ms..1s"', "SEARCHED")
    text = text.replace("SEARCHED", '"checkpoint_timeout=17min,5min"')
    path.write_text(text.replace("[dataset]", f"{server}\n[dataset]"))
    (tmp_path / "one.sql").write_text(SLEEPS + "\n")
    return path


def await_rounds(running: RunningCommand, store: Path) -> None:
    """Wait until two rounds of one setting are done."""
    await_runs(running, store, 4)


def runs_of(store: Path) -> int:
    """Return how many runs are done."""
    return sum(
        json.loads(line)["decision"] == "done"
        for plan in store.glob("[!.]*/plan.jsonl")
        for line in plan.read_text().splitlines()
    )


def await_runs(running: RunningCommand, store: Path, count: int) -> None:
    eventually(lambda: runs_of(store) >= count, unless=lambda: running.process.poll() is not None)


@pytest.mark.usefixtures("short_runs")
def test_a_killed_tuning_is_undone_and_goes_on(
    theirs: ScratchCluster, pgdyno: Command, tmp_path: Path
) -> None:
    before = run_sql(theirs.target, ENTRIES)
    running = pgdyno.start("run", spec_of(theirs.target, tmp_path, budget="30s", duration="500ms"))
    # Candidates are created while the tuning runs: their settings are included in the journal.
    # Not asked before a run is done: a session of somebody else's is a reason to refuse.
    await_runs(running, pgdyno.store, 1)
    eventually(
        lambda: scalar(theirs.target, "SHOW checkpoint_timeout") != "17min",
        unless=lambda: running.process.poll() is not None,
    )
    running.process.kill()
    running.wait()
    done = pgdyno("undo")
    assert done.code == 0, done.err
    assert "checkpoint_timeout = 17min" in done.out
    assert run_sql(theirs.target, ENTRIES) == before
    ran = runs_of(pgdyno.store)
    resumed = pgdyno("run", "--resume", "1", "--json")
    document = resumed.document
    assert document["verdict"] in ("better", "no better", "not known")
    assert document["runs"] >= ran
    assert run_sql(theirs.target, ENTRIES) == before
    assert pgdyno("undo").out == f"nothing to undo in {pgdyno.store}\n"


@pytest.mark.slow
@pytest.mark.usefixtures("short_runs_are_tried")
def test_an_interrupt_keeps_what_is_known_and_puts_everything_back(
    theirs: ScratchCluster, pgdyno: Command, tmp_path: Path
) -> None:
    before = run_sql(theirs.target, ENTRIES)
    running = pgdyno.start("run", one_setting(theirs.target, tmp_path))
    await_rounds(running, pgdyno.store)
    running.signal(signal.SIGINT)
    said = running.wait()
    assert said.code == INTERRUPTED, said.err
    text = " ".join(said.out.split())
    assert "checkpoint_timeout=5min" in text, "its row"
    assert run_sql(theirs.target, ENTRIES) == before
    assert pgdyno("undo").out == f"nothing to undo in {pgdyno.store}\n"


@pytest.mark.slow
@pytest.mark.usefixtures("short_runs")
def test_a_tuning_that_was_killed_is_undone_and_proved_later(
    theirs: ScratchCluster, pgdyno: Command, tmp_path: Path
) -> None:
    before = run_sql(theirs.target, ENTRIES)
    running = pgdyno.start("run", one_setting(theirs.target, tmp_path))
    await_rounds(running, pgdyno.store)
    eventually(
        lambda: scalar(theirs.target, "SHOW checkpoint_timeout") == "5min",
        unless=lambda: running.process.poll() is not None,
    )
    running.process.kill()
    running.wait()
    done = pgdyno("undo")
    assert done.code == 0, done.err
    assert "checkpoint_timeout = 17min" in done.out
    assert run_sql(theirs.target, ENTRIES) == before
    document = pgdyno("run", "--resume", "1", "--json").document
    assert document["verdict"] == "better", document["sentence"]
    [setting] = document["settings"]
    assert (setting["name"], setting["old"], setting["new"]) == (
        *("checkpoint_timeout", "17min", "5min"),
    )
    assert run_sql(theirs.target, ENTRIES) == before


@pytest.mark.slow
@pytest.mark.usefixtures("short_runs")
def test_under_a_rate_the_runs_that_met_the_latency_target_are_counted(
    theirs: ScratchCluster, pgdyno: Command, tmp_path: Path
) -> None:
    path = one_setting(theirs.target, tmp_path, workload="rate = 5\nclients = 16", duration="1s")
    text = path.read_text().replace('metric = "tps"', 'slo = "p99=700ms"')
    path.write_text(text)
    # The times are so far from the target that only a stop of 0.6 s changes which side they are on.
    (tmp_path / "one.sql").write_text(SLEEPS.replace("0.03", "1.2").replace("0.003", "0.02"))
    document = pgdyno("run", path, "--json").document
    assert (document["metric"], document["verdict"]) == ("p99", "better"), document["sentence"]
    slo = document["slo"]
    assert slo["target"] == "p99=700ms"
    assert slo["before_count"] == 0, "yours sleeps for 1.2 s"
    assert slo["before_runs"] == slo["after_runs"] >= 6
    assert 0 < slo["after_count"] <= slo["after_runs"]
    assert "p99=700ms was met in" in document["sentence"]


@pytest.mark.usefixtures("short_runs")
def test_a_value_that_the_server_refuses_has_a_row_and_the_rest_goes_on(
    theirs: ScratchCluster, pgdyno: Command, tmp_path: Path
) -> None:
    change = tmp_path / "change.py"
    change.write_text(
        f"""
import json, psycopg, sys
wanted = json.load(sys.stdin)
if wanted.get("checkpoint_timeout") == "6min":
    sys.exit("this server takes no 6 minutes")
with psycopg.connect("{conninfo(theirs.target)}", autocommit=True) as connection:
    for name, value in wanted.items():
        change = f"SET {{name}} = '{{value}}'" if value else f"RESET {{name}}"
        connection.execute(f"ALTER SYSTEM {{change}}")
    connection.execute("SELECT pg_reload_conf()")
"""
    )
    command = f'apply_command = "{sys.executable} {change}"'
    path = one_setting(theirs.target, tmp_path, server=command)
    path.write_text(path.read_text().replace("17min,5min", "17min,6min,5min"))
    document = pgdyno("run", path, "--json").document
    assert document["verdict"] == "better", document["sentence"]
    rows = {row["candidate"]: row for row in document["tried"]}
    assert rows["checkpoint_timeout=5min"]["decision"] == "better"
    assert rows["checkpoint_timeout=6min"]["decision"] == "failed"
    assert "refused by the server" in rows["checkpoint_timeout=6min"]["failure"]
    assert "this server takes no 6 minutes" in rows["checkpoint_timeout=6min"]["failure"]
    assert scalar(theirs.target, "SHOW checkpoint_timeout") == "17min"


@pytest.mark.usefixtures("short_runs")
def test_a_value_that_the_host_has_no_memory_for_is_named_and_the_others_are_measured(
    new_own_server: MakeOwn, pgdyno: Command, tmp_path: Path
) -> None:
    own = new_own_server()
    before = scalar(own.target, "SHOW shared_buffers")
    restarts = tmp_path / "restarts"
    command = own.restart_command(tmp_path / "restart.sh", f"echo one >>{restarts}")
    (tmp_path / "one.sql").write_text("SELECT pg_sleep(0.005);\n")
    said = pgdyno(
        *("tune", own.conninfo, "--admin", own.conninfo, "--json", "-f", tmp_path / "one.sql"),
        *("--restart-command", command, "--setting", f"shared_buffers={before},48MB,7000GB"),
        *("--setting", "work_mem=4MB,8MB", "-T", "200ms", "--warmup", "0s", "--budget", "40s"),
        *("--reset", "none", "--recover-command", "false"),
        timeout_s=200,
    )
    assert "tried" in said.document, said.err
    rows = {row["candidate"]: row for row in said.document["tried"]}
    refused = rows["shared_buffers=7000GB"]
    assert refused["decision"] == "failed"
    assert "exceeds the memory" in refused["failure"]
    assert rows["shared_buffers=48MB"]["pair_count"] >= 1
    assert rows["work_mem=8MB"]["pair_count"] >= 1
    assert scalar(own.target, "SHOW shared_buffers") == before
    count = len(restarts.read_text().split())
    assert count < said.document["runs"] + 2, "rounds of work_mem alone need no restart"


@pytest.mark.slow
@pytest.mark.usefixtures("short_runs")
def test_settings_that_were_proved_are_applied_and_undone(
    theirs: ScratchCluster, pgdyno: Command, tmp_path: Path
) -> None:
    before = run_sql(theirs.target, ENTRIES)
    script = tmp_path / "sleeps.sql"
    script.write_text(SLEEPS + "\n")
    said = pgdyno(
        *("tune", conninfo(theirs.target), "--admin", conninfo(theirs.target), "--json"),
        *("--setting", "checkpoint_timeout=17min,5min", "--goal", "tps", "--apply"),
        *("-f", script, "-T", "200ms", "--warmup", "0s", "--budget", "40s", "--reset", "none"),
        timeout_s=400,
    )
    assert said.document["verdict"] == "better", said.err
    assert "applied checkpoint_timeout = 5min; pgdyno undo 1 restores the old values" in said.err
    assert scalar(theirs.target, "SHOW checkpoint_timeout") == "5min"
    assert pgdyno("undo").out == f"nothing to undo in {pgdyno.store}\n", "they were asked for"
    done = pgdyno("undo", "1")
    assert done.code == 0, done.err
    eventually(lambda: scalar(theirs.target, "SHOW checkpoint_timeout") == "17min")
    assert run_sql(theirs.target, ENTRIES) == before


def test_a_spec_whose_runs_cannot_be_valid_is_refused_as_the_verb_refuses(
    theirs: ScratchCluster, pgdyno: Command, tmp_path: Path
) -> None:
    said = pgdyno("run", one_setting(theirs.target, tmp_path))
    assert said.code == 1
    assert "With a duration of 200 ms no run is valid: at least 5 s" in " ".join(said.error.split())
    assert not list(pgdyno.store.glob("*")), "nothing was measured"


@pytest.mark.slow
@pytest.mark.usefixtures("short_runs_are_tried")
def test_runs_that_are_not_valid_prove_nothing(
    theirs: ScratchCluster, pgdyno: Command, tmp_path: Path
) -> None:
    said = pgdyno("run", one_setting(theirs.target, tmp_path), "--json")
    assert said.code == 3, said.err
    document = said.document
    assert (document["verdict"], document["proved"]) == ("not known", None), document["sentence"]
    assert re.search(r"no run of the best settings is valid \(\d+ runs\)", document["sentence"])
    assert document["settings"] == []
    assert "ALTER SYSTEM" not in document["apply"]
    shown = pgdyno("show", "-v", "last").out
    assert "ALTER SYSTEM" not in shown
    assert "proved better" not in shown


def test_applied_settings_stay_until_their_result_is_undone(
    theirs: ScratchCluster, pgdyno: Command
) -> None:
    before = run_sql(theirs.target, ENTRIES)
    folder = Store(pgdyno.store).create("tuned", "tune")
    system = SystemSettings(theirs.target, "tune")
    wanted = {"checkpoint_timeout": "30min", "work_mem": "64MB"}
    apply_for_good(folder, system, wanted, restarts=False)
    eventually(lambda: scalar(theirs.target, "SHOW checkpoint_timeout") == "30min")
    assert pgdyno("undo").out == f"nothing to undo in {pgdyno.store}\n", "they were asked for"
    done = pgdyno("undo", "1")
    assert done.code == 0, done.err
    assert "put back: checkpoint_timeout = 17min; no entry for work_mem" in done.out
    assert run_sql(theirs.target, ENTRIES) == before
    assert "nothing to undo" in pgdyno("undo", "1").out


def test_settings_that_the_role_may_not_change_are_refused_before_anything_runs(
    theirs: ScratchCluster, pgdyno: Command
) -> None:
    run_sql(theirs.target, "CREATE ROLE tuner LOGIN")
    run_sql(theirs.target, "GRANT pg_monitor TO tuner")
    run_sql(theirs.target, "GRANT ALTER SYSTEM ON PARAMETER checkpoint_timeout TO tuner")
    asked = ["tune", conninfo(theirs.target), "--admin", conninfo(theirs.target, "tuner")]
    asked += ["--setting", "checkpoint_timeout", "--setting", "max_wal_size", "-S"]
    said = pgdyno(*asked)
    assert said.code == 1
    assert "tuner may not change max_wal_size on" in " ".join(said.error.split())
    assert "GRANT ALTER SYSTEM ON PARAMETER max_wal_size TO tuner" in " ".join(said.error.split())
    assert not list(pgdyno.store.glob("*")), "nothing was measured"


def test_rules_change_only_the_named_settings_and_old_values_are_the_servers(
    theirs: ScratchCluster, pgdyno: Command
) -> None:
    planted = {"random_page_cost": "80", "effective_cache_size": "1MB", "temp_buffers": "1600kB"}
    asked = ["tune", conninfo(theirs.target), "--admin", conninfo(theirs.target)]
    searched = ("work_mem", "random_page_cost", "effective_cache_size")
    asked += [word for name in searched for word in ("--setting", name)]
    asked += ["-S", "--print-spec"]
    try:
        for name, value in planted.items():
            run_sql(theirs.target, f"ALTER SYSTEM SET {name} = '{value}'")
        run_sql(theirs.target, "SELECT pg_reload_conf()")
        eventually(lambda: scalar(theirs.target, "SHOW random_page_cost") == "80")
        said = pgdyno(*asked)
    finally:
        for name in planted:
            run_sql(theirs.target, f"ALTER SYSTEM RESET {name}")
        run_sql(theirs.target, "SELECT pg_reload_conf()")
    assert said.code == 0, said.err
    design = Tune(Experiment.model_validate(tomllib.loads(said.out)))
    known = design.whole_now
    assert {name: known[name] for name in planted} == planted, "temp_buffers is in --keep memory"
    assert set(design.asked.rules) <= set(searched)


@pytest.mark.usefixtures("short_runs_are_tried")
def test_a_search_ends_with_its_server_and_continues_when_it_is_back(
    theirs: ScratchCluster, pgdyno: Command, tmp_path: Path
) -> None:
    running = pgdyno.start("run", spec_of(theirs.target, tmp_path, budget="5min", duration="1s"))
    await_runs(running, pgdyno.store, 3)
    theirs.stop(is_immediate=True)
    said = running.wait()
    assert said.code in (2, 3), said.err
    errors = " ".join(said.err.split())
    assert "Traceback" not in errors
    assert "The server was lost" in errors
    assert "pgdyno run --resume last" in errors
    assert "pgdyno undo" in errors, "its settings were not put back"
    answer = " ".join(said.out.split())
    assert "answer not known: " in answer
    assert "the tuning was interrupted" in answer
    [plan] = pgdyno.store.glob("[!.]*/plan.jsonl")
    assert '"excluded"' not in plan.read_text(), "no candidate is to blame"
    theirs.restart()
    assert pgdyno("undo").code == 0
    measured = runs_of(pgdyno.store)
    again = pgdyno.start("run", "--resume", "last")
    await_runs(again, pgdyno.store, measured + 2)
    again.process.send_signal(signal.SIGINT)
    assert again.wait().code == INTERRUPTED


# The planner reads the whole table where random_page_cost is 80.
LOOKS = "SELECT sum(length(filler)) FROM looked_at WHERE key BETWEEN :key AND :key + 300;"


@pytest.mark.slow
@pytest.mark.usefixtures("short_runs")
def test_the_gain_of_a_planted_cost_is_credited_to_it_with_its_old_value(
    new_cluster: Make, pgdyno: Command, tmp_path: Path, proved: Proved
) -> None:
    target = new_cluster("15").target
    run_sql(
        target,
        "CREATE TABLE looked_at AS SELECT (i * 7919) % 100000 AS key, repeat('x', 100) AS filler"
        " FROM generate_series(1, 100000) i",
    )
    run_sql(target, "CREATE INDEX ON looked_at (key)")
    run_sql(target, "VACUUM ANALYZE looked_at")
    planted = {"random_page_cost": "80", "effective_cache_size": "1MB"}
    for name, value in planted.items():
        run_sql(target, f"ALTER SYSTEM SET {name} = '{value}'")
    run_sql(target, "SELECT pg_reload_conf()")
    script = tmp_path / "looks.sql"
    script.write_text(f"\\set key random(1, 90000)\n{LOOKS}\n")
    searched = ("random_page_cost=1.1,4,80", "effective_cache_size=1MB,4GB", "work_mem=4MB,64MB")
    said = pgdyno(
        *("tune", conninfo(target), "--admin", conninfo(target), "--json", "-f", script),
        *(word for setting in searched for word in ("--setting", setting)),
        *("-c", "1", "-T", "500ms", "--warmup", "0s", "--budget", "8min", "--reset", "none"),
        timeout_s=900,
    )
    document = said.document
    assert document.get("verdict") == "better", said.out + said.err
    changed = {row["name"]: (row["old"], row["new"]) for row in document["settings"]}
    assert "work_mem" not in changed
    cost = changed["random_page_cost"]
    assert cost[0] == "80"
    assert float(cost[1]) < 80
    assert all(row["old"] == planted[row["name"]] for row in document["settings"])
    required = "credited, with its old value"
    proved("planted random_page_cost = 80", required=required, seen=f"80 -> {cost[1]}")
