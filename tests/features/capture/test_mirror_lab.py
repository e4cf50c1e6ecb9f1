"""A capture run by the lab: `bench -b FILE` with its likeness, reading only, refusals."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.fixtures import needs
from tests.fixtures.captures import tpcb_capture
from tests.fixtures.clusters import run_sql, scalar
from tests.fixtures.command import Command, eventually, server_options
from tests.fixtures.engine_process import Engine, init_job

from pgdyno.features.capture.file import encoded
from pgdyno.features.capture.model import Capture, Template
from pgdyno.server.target import Target

pytestmark = pytest.mark.pg
SHORT = ("--duration", "1s", "--warmup", "0s", "-q")


def written(path: Path, capture: Capture) -> str:
    path.write_bytes(encoded(capture))
    return str(path)


def with_reading(capture: Capture) -> Capture:
    """Add a transaction that only reads, as frequent as the other."""
    [writing] = capture.templates
    [look] = [step for step in writing.steps if step.statement == "select_account"]
    key = writing.steps[1].parameters[1]
    reading = Template(
        name="look", rate_tps=10, steps=(look.model_copy(update={"parameters": (key,)}),)
    )
    return capture.model_copy(update={"templates": (writing, reading)})


@pytest.fixture
def loaded(engine: Engine, database: Target) -> Target:
    engine(init_job(database))
    run_sql(database, "CREATE EXTENSION IF NOT EXISTS pg_stat_statements") if _has_extension(
        database
    ) else None
    return database


def _has_extension(target: Target) -> bool:
    known = "SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_stat_statements'"
    loaded = "SELECT current_setting('shared_preload_libraries') LIKE '%pg_stat_statements%'"
    return scalar(target, known) == 1 and scalar(target, loaded) is True


def test_a_bench_of_a_capture_says_how_alike_the_load_was(
    pgdyno: Command, loaded: Target, tmp_path: Path
) -> None:
    path = written(tmp_path / "core.capture", with_reading(tpcb_capture()))
    said = pgdyno(
        *("bench", *server_options(loaded), "-b", path, "-c", "2", "--allow-write", "--json"),
        *SHORT,
    )
    assert said.code in (0, 3), said.err
    document = said.document
    likeness = document["likeness"]
    assert likeness["reproduced_calls"] == pytest.approx(4200 / 4203)
    assert likeness["file"] == "core.capture"
    rows = {row["text"].split()[0]: row for row in likeness["statements"]}
    assert [row["number"] for row in likeness["statements"]] == [1, 2, 3, 4, 5, 6]
    # In the source no look was counted.
    assert rows["SELECT"]["verdict"] == "not alike"
    assert "calls, not" in rows["SELECT"]["reason"]
    assert document["failures"] == {}
    counts = {script["name"]: script["transactions"] for script in document["scripts"]}
    whole = sum(counts.values())
    assert counts["look"] / whole == pytest.approx(0.5, abs=0.1)
    if _has_extension(loaded):
        assert rows["INSERT"]["copy"]["wal_bytes"] > 50
        assert rows["INSERT"]["copy"]["rows"] == pytest.approx(1.0)
    shown = pgdyno("show", "-v", "last")
    assert "alike       " in shown.out
    assert "not         " in shown.out
    page = pgdyno("report", "last", "--output", str(tmp_path / "page.html"))
    assert page.code == 0, page.err
    assert "Likeness to the source" in (tmp_path / "page.html").read_text()


def test_a_comparison_and_a_sweep_say_how_alike_each_variant_and_load_was(
    pgdyno: Command, database15: Target, tmp_path: Path
) -> None:
    path, where = written(tmp_path / "core.capture", tpcb_capture()), server_options(database15)
    assert pgdyno("init", path, *where).code == 0
    short = ("--duration", "300ms", "--warmup", "0s", "-q")
    variants = ("--variant", "a:", "--variant", "b: work_mem=8MB")
    said = pgdyno("compare", *where, "-b", path, *variants, "--rounds", "3", "--json", *short)
    assert said.code in (0, 3), said.err
    likeness = said.document["likeness"]
    assert [cell["name"] for cell in likeness["cells"]] == ["a", "b"]
    assert likeness["sentence"].startswith("least alike is ")
    levels = ("--clients", "1,2", "--rounds", "1", "--knee-duration", "300ms")
    said = pgdyno("sweep", *where, "-b", path, *levels, *short, "-v")
    assert said.code in (0, 3), said.err
    rows = [line.split("  ")[0] for line in said.out.splitlines()]
    assert {"1 client", "2 clients", "alike"} <= set(rows)
    for name, words in ("answer.html", 'id="alike"'), ("answer.md", "**Likeness of each**"):
        made = tmp_path / name
        page = pgdyno("report", "last", "--output", str(made))
        assert page.code == 0, page.err
        text = made.read_text()
        assert words in text
        assert text.count(">Likeness</a>") == (name == "answer.html"), "one entry in the menu"
    assert pgdyno("drop", *where).code == 0


@pytest.mark.usefixtures("short_runs")
def test_a_tuning_of_a_capture_ends_and_says_how_alike_the_load_was(
    pgdyno: Command, tmp_path: Path
) -> None:
    needs.postgresql("15")
    path = written(tmp_path / "core.capture", tpcb_capture())
    said = pgdyno(
        *("tune", "-b", path, "--pg-version", "15", "--setting", "work_mem=4MB,8MB"),
        *("-T", "200ms", "--warmup", "0s", "--reset", "none", "--budget", "1min", "--print-spec"),
    )
    assert said.code == 0, said.err
    spec = tmp_path / "tune.toml"
    spec.write_text(said.out)
    said = pgdyno("run", spec, "--budget", "30s", "--json", "-q")
    assert said.code in (0, 3, 5), said.err
    document = said.document
    assert document["format"] == "pgdyno.tune/1"
    assert document["is_complete"]
    # Without a proof nothing is compared, and the load is still a mirror.
    cells = document["likeness"]["cells"]
    assert cells[0]["name"] == "yours"
    assert {"text", "source", "copy", "verdict"} <= cells[0]["statements"][0].keys()
    shown = pgdyno("show", "-v", "last").out
    assert "alike       " in shown
    page = pgdyno("report", "last", "--output", str(tmp_path / "page.html"))
    assert page.code == 0, page.err
    assert "Likeness to the source" in (tmp_path / "page.html").read_text()


def test_a_spec_names_a_capture_beside_it_and_an_interrupted_run_goes_on(
    pgdyno: Command, database15: Target, tmp_path: Path
) -> None:
    path, where = written(tmp_path / "core.capture", tpcb_capture()), server_options(database15)
    assert pgdyno("init", path, *where).code == 0
    options = dict(zip(("host", "port", "user", "dbname"), where[1::2], strict=True))
    (tmp_path / "mine.toml").write_text(
        f"""
        experiment = {{ name = "mine" }}
        server = {{ dsn = "{" ".join(f"{name}={value}" for name, value in options.items())}" }}
        dataset = {{ kind = "capture", file = "core.capture" }}
        [workload]
        scripts = [{{ builtin = "mirror", capture = "core.capture" }}]
        duration = "1s"
        warmup = "0s"
        [design]
        kind = "sweep"
        levels = [1, 2]
        rounds = 1
        knee = "1s"
        """
    )
    running = pgdyno.start("run", str(tmp_path / "mine.toml"))
    eventually(
        lambda: list(pgdyno.store.glob("*/runs/*[0-9]")),
        unless=lambda: running.process.poll() is not None,
    )
    running.process.send_signal(signal.SIGINT)
    said = running.wait()
    assert said.code == 130, said.err
    said = pgdyno("run", "--resume", "last", "--json", "-q")
    assert said.code in (0, 3), said.err
    assert said.document["is_complete"]
    assert [cell["name"] for cell in said.document["likeness"]["cells"]] == [
        "1 client",
        "2 clients",
    ]
    assert pgdyno("drop", *where).code == 0


def test_without_permission_only_what_reads_may_run(
    pgdyno: Command, loaded: Target, tmp_path: Path
) -> None:
    path = written(tmp_path / "core.capture", with_reading(tpcb_capture()))
    options = ("bench", *server_options(loaded), "-b", path, *SHORT)
    refused = pgdyno(*options)
    assert refused.code == 1
    assert "update pgbench_accounts" in refused.error
    before = scalar(loaded, "SELECT count(*) FROM pgbench_history")
    said = pgdyno(*options, "--read-only", "--json")
    assert said.code in (0, 3), said.err
    likeness = said.document["likeness"]
    assert likeness["reads_only"] is True
    assert likeness["reproduced_calls"] == pytest.approx(600 / 4203)
    assert "without statements that write" in likeness["sentence"]
    assert scalar(loaded, "SELECT count(*) FROM pgbench_history") == before


def test_only_the_capture_of_the_tables_writes_without_permission(
    pgdyno: Command, database15: Target, tmp_path: Path
) -> None:
    capture = tpcb_capture()
    path = written(tmp_path / "core.capture", capture)
    where = server_options(database15)
    assert pgdyno("init", path, *where).code == 0
    said = pgdyno("bench", *where, "-b", path, *SHORT, "--json")
    assert said.code in (0, 3), said.err
    assert said.document["transactions"] > 0
    run_sql(database15, "CREATE TABLE mine AS SELECT 1 AS a")
    changed = [
        own.model_copy(update={"text": "DELETE FROM mine", "parameter_types": ()})
        if own.kind == "insert"
        else own
        for own in capture.statements
    ]
    other = written(
        tmp_path / "other.capture", capture.model_copy(update={"statements": tuple(changed)})
    )
    refused = pgdyno("bench", *where, "-b", other, *SHORT)
    assert refused.code == 1
    assert "--allow-write" in refused.error
    assert scalar(database15, "SELECT count(*) FROM mine") == 1
    assert pgdyno("drop", *where).code == 0


def test_a_wrong_database_or_file_or_option_is_refused(
    pgdyno: Command, database: Target, tmp_path: Path
) -> None:
    path = written(tmp_path / "core.capture", tpcb_capture())
    options = ("bench", *server_options(database), *SHORT)
    said = pgdyno(*options, "-b", path, "--allow-write")
    assert said.code == 2 or said.code == 1
    assert "lacks 4 of the 4 tables of the capture: public.pgbench_accounts" in said.err
    (tmp_path / "other").write_text("not a capture")
    said = pgdyno(*options, "-b", str(tmp_path / "other")).error
    assert "is not a" in " ".join(said.split())
    assert "no file has this name" in pgdyno(*options, "-b", "gone.capture").error
    assert "needs the file of a capture" in pgdyno(*options, "-b", "mirror").error
    assert "no script of this load is a capture" in pgdyno(*options, "-S", "--read-only").error
    assert "needs one capture" in pgdyno(*options, "-S", "--rate", "2x").error
    reading = pgdyno(*options, "-b", path, "--read-only")
    assert "no transaction that only reads" in " ".join(reading.error.split())


def test_recorded_arrivals_are_offered_as_phases(
    pgdyno: Command, loaded: Target, tmp_path: Path
) -> None:
    path = written(tmp_path / "core.capture", tpcb_capture())
    said = pgdyno(
        *("bench", *server_options(loaded), "-b", path, "-c", "4", "--allow-write", "--json"),
        *("--rate", "4x", *SHORT),
    )
    assert said.code in (0, 3), said.err
    assert said.document["loop"] == "open"
    assert said.document["offered_tps"] == pytest.approx(40.0)


@pytest.mark.parametrize("version", ["15", "18"])
def test_a_scratch_server_counts_statements_if_it_has_the_library(
    version: str, pgdyno: Command, tmp_path: Path
) -> None:
    path = written(tmp_path / "core.capture", tpcb_capture())
    library = ("--set", "shared_preload_libraries=pg_stat_statements")
    said = pgdyno("bench", "--pg-version", version, *library, "-b", path, *SHORT, "--json")
    assert said.code in (0, 3), said.err
    rows = {row["text"].split()[0]: row for row in said.document["likeness"]["statements"]}
    assert rows["UPDATE"]["copy"]["blocks"] > 0
    assert rows["INSERT"]["copy"]["wal_bytes"] > 0
