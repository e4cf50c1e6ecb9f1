"""Applications that nobody here wrote, captured both ways and mirrored on a fresh database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.features.capture.applications.running import (
    APPLICATIONS,
    SETTINGS,
    Application,
    captured,
    made,
)
from tests.fixtures import needs
from tests.fixtures.clusters import make_cluster
from tests.fixtures.command import Command, server_options

from pgdyno.server.target import Target

pytestmark = pytest.mark.pg


@pytest.fixture
def source(house: Path) -> Iterator[Target]:
    """A database on a server that counts and logs every statement."""
    with make_cluster("15", settings=SETTINGS) as cluster:
        yield made(cluster.target, "core")


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
    pgdyno: Command, source: Target, application: Application, folder: Path, seconds: int
) -> None:
    needs.offered(not application.missing, application.missing)
    files = captured(pgdyno, source, application, folder, seconds)
    for kind, least in (("log", 0.95), ("statistics", 0.85)):
        check(mirrored(pgdyno, source, files[kind], seconds), least)


def test_a_job_queue_is_captured_and_mirrored(
    pgdyno: Command, source: Target, tmp_path: Path
) -> None:
    both_ways(pgdyno, source, APPLICATIONS["queue"], tmp_path, 2)


@pytest.mark.parametrize("kind", ["statistics", "log"])
def test_a_shop_is_mirrored_on_a_dump_and_its_searches_find_rows(
    kind: str, pgdyno: Command, source: Target, tmp_path: Path
) -> None:
    path = captured(pgdyno, source, APPLICATIONS["shop"], tmp_path, 4)[kind]
    dump = source.with_database("dump")
    given = ("-b", path, "-c", "2", "--warmup", "0s", "--duration", "4s", "--allow-write", "--json")
    said = pgdyno("bench", *server_options(dump), *given, "-q")
    assert said.code in (0, 3), said.err
    likeness = said.document["likeness"]
    assert said.document["failures"] == {}
    assert likeness["alike_time"] > 0.8, likeness["sentence"]
    [search] = [row for row in likeness["statements"] if "ts_rank" in row["text"]]
    assert search["copy"]["rows"] > 1, search


def test_a_ledger_with_partitions_is_mirrored_from_its_log(
    pgdyno: Command, source: Target, tmp_path: Path
) -> None:
    ledger = APPLICATIONS["ledger"]
    needs.importable(ledger.needs)
    result = mirrored(pgdyno, source, captured(pgdyno, source, ledger, tmp_path, 2)["log"], 3)
    check(result, 0.9)
    rows = result["likeness"]["statements"]
    written = [row["copy"]["calls"] for row in rows if row["text"].startswith("INSERT INTO entry")]
    assert min(written) > 0, result["likeness"]["sentence"]


@pytest.mark.slow
@pytest.mark.parametrize("name", APPLICATIONS)
def test_applications_are_captured_and_mirrored(
    pgdyno: Command, source: Target, tmp_path: Path, name: str
) -> None:
    both_ways(pgdyno, source, APPLICATIONS[name], tmp_path, 20)
