"""Samples of waits on cores that are never idle: as many sessions at work as the server counted."""

from __future__ import annotations

import math
import os
import random
import subprocess
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from tests.fixtures import needs
from tests.fixtures.clusters import connection, run_sql
from tests.fixtures.command import Command, server_options
from tests.fixtures.prove import Proved
from tests.fixtures.stillness import Document, on_a_machine_that_runs
from tests.observe.test_server_collectors import open_session
from tests.truth.known_loads import DONE, split_of

from pgdyno.analysis.estimate import mean_between_runs
from pgdyno.engine.executable import engine_path
from pgdyno.observe.sql.waits import WaitSampler
from pgdyno.process.processes import give_priority, stay_on
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target

WORK = "SELECT count(*) FROM generate_series(1, 5000), (SELECT n FROM one LIMIT 1) o;\n"
BIAS_RATIO_MAX = 0.03
SAMPLES = 1600
GAP_S = 0.0125
SHORT = "SELECT n FROM one;\n"
USERS_RUNS, USERS_RUN_S = 4, 60


@pytest.fixture
def may_have_priority() -> None:
    """Skip where this user has no right to priority."""
    granted: list[bool] = []
    asking = threading.Thread(
        target=lambda: granted.append(give_priority(threading.get_native_id()))
    )
    asking.start()
    asking.join()
    needs.offered(granted[0], "no right to real-time priority (CAP_SYS_NICE) here")


@pytest.mark.slow
@pytest.mark.pg
def test_samples_see_what_the_server_counts_on_saturated_cores(
    database15: Target,
    pg15: ScratchCluster,
    tmp_path: Path,
    proved: Proved,
    may_have_priority: None,
) -> None:
    run_sql(database15, "CREATE TABLE one (n int)")
    run_sql(database15, "INSERT INTO one VALUES (1)")
    script = tmp_path / "work.sql"
    script.write_text(WORK)
    cores = sorted(os.sched_getaffinity(0))
    place = ["-h", database15.host, "-p", database15.ports, "-U", database15.user]
    amount = ["-n", "-c", str(3 * len(cores)), "-T", "600", "-f", str(script)]
    load = subprocess.Popen(
        [engine_path(), "pgbench", *place, *amount, database15.database],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        time.sleep(2)
        counts: list[int] = []
        counted: list[float] = []
        sampling = threading.Thread(target=_sample, args=(pg15, database15, cores, counts, counted))
        sampling.start()
        sampling.join()
    finally:
        load.terminate()
        load.wait()
    [active] = counted
    mean = sum(counts) / len(counts)
    spread = math.sqrt(sum((n - mean) ** 2 for n in counts) / len(counts) / len(counts))
    bias = mean / active - 1
    doubt = 2.6 * spread / active
    claim = f"samples with priority, {3 * len(cores)} clients on {len(cores)} saturated cores"
    seen = f"sessions at work {mean:.3f} sampled, {active:.3f} counted: {bias:+.1%}"
    assert abs(bias) <= BIAS_RATIO_MAX + doubt, seen
    proved(claim, required=f"within 3 %, and {doubt:.1%} by chance", seen=seen)


@pytest.mark.slow
@pytest.mark.pg
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("name", "text"), [("2 ms", WORK), ("short", SHORT)])
def test_on_a_users_server_the_count_replaces_samples_that_miss_sessions(
    database15: Target, pgdyno: Command, tmp_path: Path, proved: Proved, name: str, text: str
) -> None:
    """The sampler has no priority there. Its bias is measured; no time in the server depends on it.

    Where the samples are surely a tenth apart, the run doubts them and says by how much.
    """
    run_sql(database15, "CREATE TABLE one (n int)")
    run_sql(database15, "INSERT INTO one VALUES (1)")
    script = tmp_path / "work.sql"
    script.write_text(text)
    clients = 3 * len(os.sched_getaffinity(0))
    place = (*server_options(database15), "-f", script, "-c", str(clients))
    amount = ("-T", f"{USERS_RUN_S}s", "--warmup", "0s", "--allow-write", "--json")
    ratios, doubted_count = [], 0

    def measure() -> Document:
        said = pgdyno("bench", *place, *amount)
        assert said.code in DONE, said
        return said.document

    for _ in range(USERS_RUNS):
        document = on_a_machine_that_runs(measure)
        where = split_of(document)
        assert where["server_how"] == "counted"
        ratios.append(where["sampled_server_ms"] / where["server_ms"])
        said = [w["message"] for w in document["warnings"] if w["kind"] == "samples_apart"]
        percent = round(100 * abs(ratios[-1] - 1))
        assert all(f" {percent} %" in words for words in said), (ratios[-1], said)
        doubted_count += len(said)
    mean = mean_between_runs(ratios, "1")
    low, high = (end - 1 for end in (mean.low or 0.0, mean.high or 0.0))
    claim = f"samples without priority, {clients} clients on all cores, {name} statements"
    seen = f"{mean.value - 1:+.1%} ({low:+.1%} to {high:+.1%}) in {USERS_RUNS} runs"
    seen += f", {doubted_count} doubt them"
    proved(claim, required="the server's count is used", seen=seen)


def _sample(
    cluster: ScratchCluster,
    database: Target,
    cores: list[int],
    counts: list[int],
    counted: list[float],
) -> None:
    """Sample as the observer does, more often; in a thread that ends with its priority."""
    rng = random.Random(1)
    with closing(open_session(cluster)) as session, connection(database) as asking:
        sampler = WaitSampler(session, "pgbench", database.database)
        assert give_priority(threading.get_native_id())
        assert give_priority(session.backend_pid)
        asked = "SELECT active_time FROM pg_stat_database WHERE datname = current_database()"
        before = float(asking.execute(asked).fetchone()[0])  # type: ignore[index]
        began = time.monotonic()
        for _ in range(SAMPLES):
            stay_on(rng.choice(cores), threading.get_native_id(), session.backend_pid)
            time.sleep(GAP_S * (0.5 + rng.random()))
            rows = sampler.rows(sampler.ask())
            at_work = [row for row in rows if row["state"] == "active" and row["here"]]
            counts.append(sum(int(row["count"] or 0) for row in at_work))
        after = float(asking.execute(asked).fetchone()[0])  # type: ignore[index]
        counted.append((after - before) / 1e3 / (time.monotonic() - began))
