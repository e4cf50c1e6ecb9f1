"""A known load is captured, its database rebuilt, the load mirrored: the copy works alike."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from psycopg import sql
from tests.fixtures.clusters import Make, run_sql, scalar
from tests.fixtures.command import Command, eventually, server_options
from tests.fixtures.engine_process import Engine, init_job, load_job

from pgdyno.features.capture import file
from pgdyno.features.capture.mirror.job import mirror_load
from pgdyno.server.target import Target
from pgdyno.spec.workload import Script

pytestmark = pytest.mark.pg
COUNTS = {"shared_preload_libraries": "pg_stat_statements", "autovacuum": "off"}
# The clients of the load are at work.
WORKING = "SELECT count(*) > 100 FROM pgbench_history"
# The server counts transactions up to a second late: in this time, less than the limit of 10 %.
CAPTURED = "12s"
WORK = (
    "SELECT blks_hit + blks_read, pg_current_wal_lsn() - '0/0'::pg_lsn FROM pg_stat_database"
    " WHERE datname = current_database()"
)
# These do not depend on the room in the pages of the tables.


def made(target: Target, name: str) -> Target:
    run_sql(target, sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    own = target.with_database(name)
    run_sql(own, "CREATE EXTENSION pg_stat_statements")
    return own


def captured(pgdyno: Command, source: Target, path: Path) -> None:
    """Write a capture of the TPC-B-like load, which runs on the source meanwhile."""
    # Our questions whether it works are sessions of another application.
    permitted = ("--allow-write", "--confirm", f"{source.database}@local")
    # What a transaction does is captured, and not how fast the machine is.
    options = ("-M", "prepared", "-c", "2", "-R", "300", "--warmup", "0s", "-q", *permitted)
    running = pgdyno.start(
        *("bench", *server_options(source), "-b", "tpcb-like", "--duration", "10min"), *options
    )
    eventually(lambda: scalar(source, WORKING), unless=lambda: running.process.poll() is not None)
    said = pgdyno("capture", *server_options(source), "-o", str(path), "--duration", CAPTURED, "-q")
    assert said.code == 0, said.err
    # It outlasts the capture, however long a busy machine takes to begin it.
    running.signal(signal.SIGINT)
    assert running.wait().code == 130


def work_of(engine: Engine, target: Target, **load: Any) -> tuple[float, float]:
    """Return blocks and WAL bytes of a transaction of one client, without those of connecting.

    Two clients would wait for each other. Each run has its seed: pages that a run with the same
    seed has changed have room for new versions.
    """
    once, often = (_spent(engine, target, count, **load) for count in (1, 1001))
    blocks, wal_bytes = ((more - few) / 1000 for few, more in zip(once, often, strict=True))
    return blocks, wal_bytes


def _spent(engine: Engine, target: Target, transactions: int, **load: Any) -> list[float]:
    # Old versions of rows, which each run leaves, cost the next one blocks.
    run_sql(target, "VACUUM")
    run_sql(target, "CHECKPOINT")
    before = run_sql(target, WORK)[0]
    job = load_job(target, clients=1, transactions=transactions, protocol="prepared", **load)
    end = engine(job)
    assert (end.summary.counts.completed, end.summary.failures) == (transactions, {})
    after = run_sql(target, WORK)[0]
    return [float(b) - float(a) for a, b in zip(before, after, strict=True)]


def test_a_captured_tpcb_does_the_work_of_the_original_on_a_fresh_copy(
    pgdyno: Command, engine: Engine, new_cluster: Make, tmp_path: Path
) -> None:
    cluster, path = new_cluster("15", settings=COUNTS), tmp_path / "core.capture"
    source, copy = made(cluster.target, "core"), made(cluster.target, "core_copy")
    engine(init_job(source))
    captured(pgdyno, source, path)
    said = pgdyno("init", str(path), *server_options(copy))
    assert said.code == 0, said.err
    # The original and the mirror change the same tables in turn, so their state is the same.
    mirror = {"builtin": "mirror"}
    load = mirror_load(Script(builtin="mirror", capture=path))
    script = {"name": "mirror", "weight": 1, "source": mirror, "mirror": load}
    loads: tuple[dict[str, Any], ...] = ({"script": "tpcb-like"}, {"scripts": [script]})
    original, mirrored = ([0.0, 0.0], [0.0, 0.0])
    for seed in (1, 2):
        work_of(engine, copy, seed=seed, **loads[0])
    for seed, place in enumerate((0, 1, 1, 0), 3):
        whole = (original, mirrored)[place]
        for number, amount in enumerate(work_of(engine, copy, seed=seed, **loads[place])):
            whole[number] += amount
    # A capture with too few looks, as on a busy machine, says that it proves too little.
    is_proved = not any("sessions and counts prove" in note for note in file.read(path).notes)
    assert mirrored == pytest.approx(original, rel=0.1) or not is_proved
    said = pgdyno(
        *("bench", *server_options(copy), "-b", str(path), "--duration", "2s", "-c", "2"),
        *("--warmup", "0s", "--json", "-q"),
    )
    assert said.code in (0, 3), said.err
    assert said.document["failures"] == {}
    likeness = said.document["likeness"]
    assert min(likeness["reproduced_calls"], likeness["reproduced_time"]) > 0.95
    least = 0.95 if is_proved else 0.5
    assert min(likeness["alike_time"], likeness["alike_calls"]) > least, likeness
