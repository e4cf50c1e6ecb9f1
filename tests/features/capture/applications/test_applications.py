"""Applications that nobody here wrote, captured both ways and mirrored on a fresh database."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures import needs
from tests.fixtures.clusters import make_cluster, run_sql, scalar
from tests.fixtures.command import Command, eventually, server_options

from pgdyno.server.target import Target

pytestmark = pytest.mark.pg
SETTINGS = {
    "shared_preload_libraries": "pg_stat_statements",
    "logging_collector": "on",
    "log_destination": "csvlog",
    "log_directory": "log",
    "log_rotation_size": "0",
    "log_min_duration_statement": "0",
    "log_parameter_max_length": "-1",
}
# The application, the package that it needs, and a question that is true when its load goes on.
WIKI = ("django_wiki", "wiki", "SELECT count(*) > 0 FROM django_session")
SHOP = ("search_shop", "psycopg", "SELECT count(*) > 2010 FROM booking")
QUEUE = ("job_queue", "procrastinate", "SELECT count(*) > 20 FROM procrastinate_jobs")


@pytest.fixture
def source(house: Path) -> Iterator[Target]:
    """A database on a server that counts and logs every statement."""
    with make_cluster("15", settings=SETTINGS) as cluster:
        yield made(cluster.target, "core")


def made(server: Target, name: str) -> Target:
    run_sql(server, f"CREATE DATABASE {name}")
    own = server.with_database(name)
    run_sql(own, "CREATE EXTENSION pg_stat_statements")
    return own


def started(program: str, verb: str, target: Target, *arguments: str) -> subprocess.Popen[str]:
    path = Path(__file__).with_name(f"{program}.py")
    place = f"host={target.host} port={target.ports} user={target.user} dbname={target.database}"
    return subprocess.Popen(
        [sys.executable, path, verb, place, *arguments],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> None:
    """Close the standard input, which ends a load, and wait."""
    said, _ = process.communicate(timeout=240)
    assert process.returncode == 0, said


def captured(
    pgdyno: Command, source: Target, application: tuple[str, str, str], folder: Path, seconds: int
) -> dict[str, Path]:
    """Return the captures of one load: from statistics and from logs."""
    program, package, is_at_work = application
    needs.importable(package)
    ended(started(program, "prepare", source))
    run_sql(source, "ANALYZE")
    run_sql(source.with_database("postgres"), f"CREATE DATABASE dump TEMPLATE {source.database}")
    # The log of the load alone; the name of a file has its second.
    logs = Path(str(scalar(source, "SELECT current_setting('data_directory')")), "log")
    before = set(logs.glob("*.csv"))
    # In another database: the capture must not have this statement.
    other, rotate = source.with_database("postgres"), "SELECT pg_rotate_logfile()"
    eventually(lambda: scalar(other, rotate) and set(logs.glob("*.csv")) - before)
    files = {kind: folder / f"{kind}.capture" for kind in ("statistics", "log")}
    where = server_options(source)
    # However long a capture takes to begin, the load goes on until it has ended.
    with started(program, "load", source, "2") as load:
        eventually(lambda: scalar(source, is_at_work), unless=lambda: load.poll() is not None)
        said = pgdyno(
            *("capture", *where, "-o", files["statistics"], "--duration", f"{seconds}s", "-q")
        )
        ended(load)
    assert said.code == 0, said.err
    # This statement is ours: it must not be in the log.
    run_sql(source, "SET log_min_duration_statement = -1; ANALYZE")
    paths = sorted(set(logs.glob("*.csv")) - before)
    given = [word for path in paths for word in ("--log", str(path))]
    said = pgdyno("capture", *where, "-o", files["log"], *given, "-q")
    assert said.code == 0, said.err
    return files


def mirrored(pgdyno: Command, source: Target, path: Path, seconds: int) -> dict[str, Any]:
    """Return the result of a mirror on a fresh database."""
    copy = made(source, f"copy_{path.stem}")
    said = pgdyno("init", path, *server_options(copy), "-q")
    assert said.code == 0, said.err
    said = pgdyno(
        *("bench", *server_options(copy), "-b", path, "-c", "2", "--warmup", "0s", "-q"),
        *("--duration", f"{seconds}s", "--json"),
    )
    assert said.code in (0, 3), said.err
    return said.document


def check(result: dict[str, Any], least: float) -> None:
    likeness = result["likeness"]
    assert likeness["reproduced_calls"] >= least, likeness["sentence"]
    assert likeness["reproduced_time"] >= least, likeness["sentence"]
    # No transaction of the original failed.
    assert result["failures"] == {}
    assert result["transactions"] > 50


def both_ways(
    pgdyno: Command, source: Target, application: tuple[str, str, str], folder: Path, seconds: int
) -> None:
    files = captured(pgdyno, source, application, folder, seconds)
    for kind, least in (("log", 0.95), ("statistics", 0.85)):
        check(mirrored(pgdyno, source, files[kind], seconds), least)


def test_a_job_queue_is_captured_and_mirrored(
    pgdyno: Command, source: Target, tmp_path: Path
) -> None:
    both_ways(pgdyno, source, QUEUE, tmp_path, 2)


@pytest.mark.parametrize("kind", ["statistics", "log"])
def test_a_shop_is_mirrored_on_a_dump_and_its_searches_find_rows(
    kind: str, pgdyno: Command, source: Target, tmp_path: Path
) -> None:
    path = captured(pgdyno, source, SHOP, tmp_path, 4)[kind]
    dump = source.with_database("dump")
    given = ("-b", path, "-c", "2", "--warmup", "0s", "--duration", "4s", "--allow-write", "--json")
    said = pgdyno("bench", *server_options(dump), *given, "-q")
    assert said.code in (0, 3), said.err
    likeness = said.document["likeness"]
    assert said.document["failures"] == {}
    assert likeness["alike_time"] > 0.8, likeness["sentence"]
    [search] = [row for row in likeness["statements"] if "ts_rank" in row["text"]]
    assert search["copy"]["rows"] > 1, search


@pytest.mark.slow
@pytest.mark.parametrize("application", [WIKI, QUEUE, SHOP], ids=["wiki", "queue", "shop"])
def test_applications_are_captured_and_mirrored(
    pgdyno: Command, source: Target, tmp_path: Path, application: tuple[str, str, str]
) -> None:
    both_ways(pgdyno, source, application, tmp_path, 20)
