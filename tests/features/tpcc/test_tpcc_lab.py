"""The designs of the lab with the TPC-C-like load: levels are terminals, answers are in NOPM."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.fixtures import needs
from tests.fixtures.clusters import Make, run_sql
from tests.fixtures.command import Command, server_options
from tests.fixtures.prove import Proved
from tests.fixtures.tpcc import ALL_HOLD

from pgdyno.server.target import Target

pytestmark = pytest.mark.pg
RAN = (0, 3)  # A run of seconds is too short to be valid, and pgdyno says so.
SHORT = ("-b", "tpcc-like", "-T", "500ms", "--warmup", "0s", "--reset", "none", "--no-check")
# Loaded orders have numbers up to 3,000.
NEW_ORDERS = "SELECT o_w_id, count(*) FROM orders WHERE o_id > 3000 GROUP BY 1 ORDER BY 1"


def test_a_sweep_counts_terminals_answers_in_nopm_and_finds_the_most_that_keep_a_target(
    pgdyno: Command, warehouse: Target
) -> None:
    levels = ("-c", "1,2", "--rounds", "1", "--knee-duration", "500ms")
    said = pgdyno(
        *("sweep", *server_options(warehouse), *SHORT, *levels),
        *("--slo", "new-order.p90=5min", "--check", "new-order.p90<1us"),
        *("--check", "payment.tps>1000000", "--json"),
    )
    assert said.code == 4, said.err
    assert "CHECK FAILED new-order.p90<1us (new-order.p90 " in said.err
    assert "CHECK FAILED payment.tps>1000000 (payment.tps " in said.err
    [curve] = said.document["curves"]
    assert all(level["nopm"]["unit"] == "NOPM" for level in curve["levels"])
    assert curve["peak"]["nopm"]["value"] > 0
    # Every level keeps a target of minutes: their runs are enough, and no more are made.
    assert curve["capacity"]["end"] == "above"
    assert curve["capacity"]["terminals"]["value"] == 2
    assert [trial["offered_terminals"] for trial in curve["capacity"]["trials"]] in ([1, 2], [2, 1])
    shown = " ".join(pgdyno("show", "-v", "last").out.split())
    assert "NOPM" in shown.split(" valid ")[0]
    assert "keeps the target at 2 terminals or more" in shown
    page = next(pgdyno.store.glob("*/report.html")).read_text()
    assert "<th>NOPM</th>" in page


def test_a_comparison_is_decided_by_nopm(pgdyno: Command, warehouse: Target) -> None:
    variants = ("--variant", "less: work_mem=1MB", "--variant", "more: work_mem=8MB")
    words = (*SHORT, "-c", "2", *variants, "--rounds", "3", "--json")
    said = pgdyno("compare", *server_options(warehouse), *words)
    assert said.code in RAN, said.err
    assert said.document["metric"] == "nopm"
    deciding = [line for line in pgdyno("show", "-v", "last").out.splitlines() if "decides" in line]
    assert len(deciding) == 1
    assert deciding[0].split()[0] == "NOPM"


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "version",
    [
        pytest.param("15", marks=needs.POSTGRESQL_15),
        pytest.param("18", marks=pytest.mark.slow),
    ],
)
@pytest.mark.usefixtures("short_runs")
def test_a_tuning_of_tpcc_like_is_decided_by_nopm_and_proved_within_a_target_of_a_type(
    pgdyno: Command, tmp_path: Path, version: str
) -> None:
    spec = tmp_path / "tune.toml"
    spec.write_text(
        f"""
[experiment]
name = "nopm"
reset = "none"
check = false
[server]
scratch = {{ version = "{version}" }}
settings = {{ commit_delay = "50000", commit_siblings = "0" }}
[dataset]
kind = "tpcc"
warehouses = 1
[workload]
scripts = [{{ builtin = "tpcc-like" }}]
clients = 2
duration = "300ms"
warmup = "0s"
[design]
kind = "tune"
budget = "40s"
slo = "new-order.p90=5min"
settings = ["commit_delay=50000,0"]
"""
    )
    said = pgdyno("run", str(spec), "--json", timeout_s=280)
    assert said.code in RAN, said.err
    document = said.document
    assert (document["format"], document["metric"]) == ("pgdyno.tune/1", "nopm")
    # Each commit waited for 50 ms, which is far longer than a transaction.
    assert document["verdict"] == "better", document["sentence"]
    assert [(row["name"], row["new"]) for row in document["settings"]] == [("commit_delay", "0")]
    shown = " ".join(pgdyno("show", "-v", "last").out.split())
    # A gain of more than ten times has no plus.
    assert re.search(r"proved better: NOPM (\+|[\d,]+ times)", shown)
    assert "new-order.p90=5min" in shown
    assert pgdyno("report", "last", "-o", tmp_path / "page.html").code == 0


@pytest.mark.slow
def test_ten_thousand_terminals_share_128_connections_and_use_every_warehouse(
    pgdyno: Command, new_cluster: Make, proved: Proved
) -> None:
    cluster = new_cluster("15", clients=140)
    where = server_options(cluster.target)
    assert pgdyno("init", "tpcc", *where, "--warehouses", "4", timeout_s=300).code == 0
    said = pgdyno(
        *("bench", *where, "-b", "tpcc-like", "--terminals", "10000", "--connections", "128"),
        *("--think-factor", "1", "-T", "30s", "--warmup", "10s", "--reset", "none", "--json"),
        timeout_s=300,
    )
    assert said.code in RAN, said.err
    document = said.document
    assert (document["clients"], document["connections"]["opened_count"]) == (10_000, 128)
    assert document["check"]["violations"] == ALL_HOLD
    assert not any(script["failures"] for script in document["scripts"])
    used = run_sql(cluster.target, NEW_ORDERS)
    assert [warehouse for warehouse, _ in used] == [1, 2, 3, 4]
    # Each warehouse has as many terminals: their orders differ by chance alone.
    counts = [count for _, count in used]
    assert max(counts) - min(counts) < 10 * max(counts) ** 0.5
    seen = f"held; New-Orders by warehouse {', '.join(map(str, counts))}"
    proved("10,000 terminals on 128 connections", required="every warehouse used", seen=seen)
