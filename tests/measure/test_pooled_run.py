"""A load through somebody's PgBouncer that nothing leads past: it runs, or says exactly why not."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.fixtures.command import Command, Said, server_options
from tests.fixtures.poolers import Pooler
from tests.measure.test_watched_run import last_run

from pgdyno.errors import SpecError
from pgdyno.measure.pooler_found import ReachedPooler
from pgdyno.server.target import Target

CONFIRMED = ("--confirm", "pooled@127.0.0.1")  # The pooler's sessions, or another test's.


def bench(pgdyno: Command, pooler: Pooler, tmp_path: Path, *more: str, **env: str) -> Said:
    script = tmp_path / "one.sql"
    script.write_text("SELECT pg_sleep(0.005);\n")
    return pgdyno(
        *("bench", *server_options(pooler.target)),
        *("-f", str(script), "-c", "6", "-T", "1", "--warmup", "0s", "--json", *CONFIRMED),
        *("--store", str(tmp_path / "store"), "--allow-write", *more),
        env=env,
    )


def test_a_load_runs_through_a_pooler_that_ignores_no_setting(
    pgdyno: Command, strict_pooler: Pooler, tmp_path: Path
) -> None:
    said = bench(pgdyno, strict_pooler, tmp_path)
    assert said.code in (0, 3), said.err
    assert last_run(tmp_path / "store").summary["counts"]["failed"] == 0
    assert "is a pooler: to observe the server" in said.err
    assert "--pooler CONNINFO names it" in said.err
    assert {"observer_behind_pooler"} <= {warning["kind"] for warning in said.document["warnings"]}


def test_the_console_of_the_pooler_in_the_path_is_found(
    pgdyno: Command, pooler: Pooler, tmp_path: Path
) -> None:
    said = bench(pgdyno, pooler, tmp_path)
    assert said.code in (0, 3), said.err
    assert "--pooler" not in said.err
    assert {"pooler", "pooler_traffic"} <= set(last_run(tmp_path / "store").collectors())


def test_a_start_up_parameter_that_the_pooler_refuses_is_named(
    pgdyno: Command, strict_pooler: Pooler, tmp_path: Path
) -> None:
    said = bench(pgdyno, strict_pooler, tmp_path, PGOPTIONS="-c work_mem=1MB")
    assert said.code in (1, 2)
    assert "unsupported startup parameter: options" in said.error
    assert "ignore_startup_parameters" in said.error


def test_statements_that_the_pooler_forgets_are_refused_before_the_load(
    pgdyno: Command, pooler: Pooler, tmp_path: Path
) -> None:
    said = bench(pgdyno, pooler, tmp_path, "-M", "prepared")
    if said.code in (0, 3):  # 1.21 and newer, with room for them.
        assert last_run(tmp_path / "store").summary["counts"]["failed"] == 0
        return
    assert said.code == 1
    assert "in transaction mode, which does not support" in said.error


@pytest.mark.parametrize(
    ("mode", "version", "prepared_count", "is_refused"),
    [
        ("transaction", "1.18.0", None, True),
        ("statement", "1.20.1", None, True),
        ("transaction", "1.21.0", 0, True),
        ("transaction", "1.21.0", 200, False),
        ("session", "1.15.0", None, False),
        ("", "", None, False),
    ],
)
def test_which_poolers_forget_prepared_statements(
    mode: str, version: str, prepared_count: int | None, is_refused: bool
) -> None:
    pooler = ReachedPooler(Target("db", "6432", "u", "d"), None, mode, version, prepared_count)
    pooler.refuse({"simple", "extended"})
    if not is_refused:
        pooler.refuse({"prepared"})
        return
    with pytest.raises(SpecError, match="does not support prepared statements"):
        pooler.refuse({"prepared"})


def test_a_pooler_of_ours_is_not_reached_through_tcp(pgdyno: Command) -> None:
    said = pgdyno("compare", "--variant", "a: clients=1", "--variant", "b: pooler=20; path=tcp")
    assert said.code == 1
    assert "path = tcp and pooler exclude each other" in " ".join(said.error.split())


@pytest.mark.pg
@pytest.mark.parametrize("version", ["15", "18"])
def test_a_comparison_says_what_a_pooler_costs_and_what_it_saves(
    pgdyno: Command, pgbouncer: Path, tmp_path: Path, version: str
) -> None:
    said = pgdyno(
        *("compare", "--scratch", "--pg-version", version, "-s", "1", "-S", "-c", "20"),
        *("--variant", "direct: path=unix", "--variant", "pooled: pooler=transaction:4"),
        *("--rounds", "3", "-T", "6s", "--warmup", "0s", "--json", str(tmp_path / "said.json")),
        *("--allow-tmpfs", "--store", str(tmp_path / "store")),
    )
    assert said.code in (0, 3, 5), said.err
    direct, pooled = json.loads((tmp_path / "said.json").read_text())["variants"]
    assert direct["served"]["server_sessions_max"] == 20
    assert direct["served"]["pooler_cpu_ms"] is None
    served = pooled["served"]
    assert served["server_sessions_max"] == 4
    assert served["failed"]["value"] == 0
    both = served["pooler_cpu_ms"]["value"] + pooled["metrics"]["cpu_per_tx"]["value"]
    assert served["pooler_cpu_ms"]["value"] > 0
    assert served["server_and_pooler_cpu_ms"]["value"] == pytest.approx(both)
    words = " ".join(said.out.split())
    lines = [line for line in said.out.splitlines() if line.startswith("costs ")]
    assert "direct: 20 server sessions" in lines[0]
    assert "pooled: 4 server sessions; CPU a transaction:" in words
    [sizes] = re.findall(r"of the server's sessions: direct ([\d.]+) MB, pooled ([\d.]+) MB", words)
    for count, size in zip((20, 4), sizes, strict=True):
        # A session that has done little takes 1 to 5 MB.
        assert count <= float(size) <= 5 * count
    assert re.search(r"ms \(.*\) pooler, ", words)
