"""A known load and its mirror in turns: as fast, with as much work, whatever it was captured from.

The original and the mirror run in the order original, mirror, mirror, original, each on its own
database of one server. So the speed of the machine, and what the tables have become, is the same.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from psycopg import sql
from tests.fixtures.clusters import Make, run_sql
from tests.fixtures.command import Command, server_options
from tests.fixtures.engine_process import Engine, init_job, load_job

from pgdyno.analysis.estimate import Estimate, mean_between_runs
from pgdyno.analysis.histogram import Histogram
from pgdyno.features.capture.mirror.job import mirror_load
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target
from pgdyno.spec.workload import Script

pytestmark = [pytest.mark.pg, pytest.mark.slow]
SETTINGS = {
    "shared_preload_libraries": "pg_stat_statements",
    "autovacuum": "off",
    "shared_buffers": "256MB",
    "logging_collector": "on",
    "log_destination": "csvlog",
    "log_directory": "log",
}
# Tellers of a branch, and a key that a statement returns and the next one uses.
OWN_SCRIPT = """\
\\set aid random(1, 100000 * :scale)
\\set bid random(1, :scale)
\\set delta random(-5000, 5000)
BEGIN;
SELECT tbalance, tid FROM pgbench_tellers WHERE bid = :bid ORDER BY tid LIMIT 1 \\gset
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_accounts SET abalance = abalance - :delta WHERE aid = :aid RETURNING bid AS b \\gset
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime)
VALUES (:tid, :b, :aid, :delta, CURRENT_TIMESTAMP);
COMMIT;
"""
LOADS: dict[str, dict[str, tuple[int, dict[str, str]]]] = {
    "tpcb-like": {"tpcb-like": (1, {"builtin": "tpcb-like"})},
    "four scripts": {
        "tpcb-like": (2, {"builtin": "tpcb-like"}),
        "simple-update": (3, {"builtin": "simple-update"}),
        "select-only": (10, {"builtin": "select-only"}),
        "own": (1, {"text": OWN_SCRIPT}),
    },
    "tpcc-like": {"tpcc-like": (1, {"builtin": "tpcc-like"})},
}
# A delivery that joins a queue needs no transaction, so the clients would not be equal.
OPTIONS = {"tpcc-like": {"delivery": "inline"}}
SCALE, CLIENTS, CAPTURE_S, RUN_S, PAIRS = 4, 4, 30, 4.0, 8
WORK = (
    "SELECT blks_hit + blks_read, pg_current_wal_lsn() - '0/0'::pg_lsn FROM pg_stat_database"
    " WHERE datname = current_database()"
)
LIMIT_RATIO = 0.1
QUANTITIES = ("tps", "mean latency", "p95 latency", "blocks", "WAL")


def scripts_of(load: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "weight": weight, "source": source, "options": OPTIONS.get(name, {})}
        for name, (weight, source) in LOADS[load].items()
    ]


@dataclass(frozen=True)
class Bench:
    """A server with a known load, and how to measure it."""

    pgdyno: Command
    engine: Engine
    cluster: ScratchCluster

    def database(self, name: str, template: str = "template1") -> Target:
        made = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        run_sql(self.cluster.target, made.format(sql.Identifier(name), sql.Identifier(template)))
        target = self.cluster.target.with_database(name)
        run_sql(target, "CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        return target

    def run(self, target: Target, scripts: list[dict[str, Any]], **changes: Any) -> Any:
        given = {"clients": CLIENTS, "protocol": "prepared", "scripts": scripts, **changes}
        return load_job(target, **given)

    def captured(self, source: Target, load: str, origin: str, path: Path) -> None:
        """Capture the load from statistics while it runs, or from its logs afterwards."""
        options = ("capture", *server_options(source), "-o", str(path), "-q")
        scripts = scripts_of(load)
        if origin == "statistics":
            running = self.engine.start(
                self.run(source, scripts, measure_s=CAPTURE_S + 20.0, seed=77)
            )
            running.await_record(record="phase", phase="measure")
            said = self.pgdyno(*options, "--duration", f"{CAPTURE_S}s")
            running.stop()
            running.wait()
        else:
            self._set("log_transaction_sample_rate", "1")
            self.engine(self.run(source, scripts, measure_s=float(CAPTURE_S), seed=77))
            self._set("log_transaction_sample_rate", "0")
            [[folder]] = run_sql(source, "SELECT current_setting('data_directory')")
            logs = sorted(Path(str(folder), "log").glob("*.csv"))
            said = self.pgdyno(*options, *(word for log in logs for word in ("--log", str(log))))
        assert said.code == 0, said.err

    def _set(self, name: str, value: str) -> None:
        run_sql(self.cluster.target, f"ALTER SYSTEM SET {name} = '{value}'")
        run_sql(self.cluster.target, "SELECT pg_reload_conf()")

    def figures(self, target: Target, scripts: list[dict[str, Any]], seed: int) -> dict[str, float]:
        run_sql(target, "VACUUM")
        run_sql(target, "CHECKPOINT")
        before = run_sql(target, WORK)[0]
        job = self.run(target, scripts, measure_s=RUN_S, warm_s=0.5, seed=seed)
        summary = self.engine(job).summary
        after = run_sql(target, WORK)[0]
        assert summary.failures == {}, summary.failure_messages
        seen = summary.distribution("latency")
        assert seen is not None, "a run without a transaction"
        latency = Histogram.from_buckets(
            seen.buckets, sum_ns=seen.sum_ns, min_ns=seen.min_ns, max_ns=seen.max_ns
        )
        blocks, wal_bytes = (
            float(more - few) / summary.transactions_committed_all_phases
            for few, more in zip(before, after, strict=True)
        )
        return {
            "tps": summary.counts.completed / RUN_S,
            "mean latency": latency.mean_ns,
            "p95 latency": latency.percentile_ns(95),
            "blocks": blocks,
            "WAL": wal_bytes,
        }


def ratios(pairs: list[tuple[dict[str, float], dict[str, float]]]) -> dict[str, Estimate]:
    """Return mirror / original of each quantity: the mean of the pairs, with its interval."""
    return {
        name: mean_between_runs([mirror[name] / original[name] for original, mirror in pairs], "")
        for name in QUANTITIES
    }


CASES = list(itertools.product(LOADS, ("statistics", "logs"), ("the same rows", "other rows")))


@pytest.mark.parametrize(("load", "origin", "rows"), CASES)
def test_a_mirror_is_as_fast_as_the_original_and_does_as_much(
    load: str,
    origin: str,
    rows: str,
    pgdyno: Command,
    engine: Engine,
    new_cluster: Make,
    tmp_path: Path,
) -> None:
    bench = Bench(pgdyno, engine, new_cluster("15", settings=SETTINGS))
    path = tmp_path / "core.capture"
    original = bench.database("original")
    if load == "tpcc-like":
        said = pgdyno("init", "tpcc", *server_options(original), "-W", "1", "-q")
        assert said.code == 0, said.err
    else:
        engine(init_job(original, scale=SCALE))
    run_sql(original, "VACUUM ANALYZE")
    source = bench.database("source", "original")
    bench.captured(source, load, origin, path)
    if rows == "the same rows":
        copy = bench.database("copy", "original")
    else:
        copy = bench.database("copy")
        said = pgdyno("init", str(path), *server_options(copy))
        assert said.code == 0, said.err
    mirror = mirror_load(Script(builtin="mirror", capture=path))
    source_of = {"builtin": "mirror"}
    mirrored = [{"name": "mirror", "weight": 1, "source": source_of, "mirror": mirror}]
    turns = ((original, scripts_of(load)), (copy, mirrored))
    pairs = []
    for number in range(PAIRS):
        order = (0, 1) if number % 2 == 0 else (1, 0)
        seen = {place: bench.figures(*turns[place], seed=2 * number + 3) for place in order}
        pairs.append((seen[0], seen[1]))
    by_name = ratios(pairs)
    said_ratios = {
        name: f"{ratio.value:.3f} ({ratio.low or 0:.3f} to {ratio.high or 0:.3f})"
        for name, ratio in by_name.items()
    }
    print(load, origin, rows, said_ratios)
    if (load, origin, rows) == ("tpcc-like", "logs", "the same rows"):
        said = pgdyno("check", "tpcc", *server_options(copy))
        assert "all 13 conditions hold" in said.out, said.out
    far = {name for name, ratio in by_name.items() if abs(ratio.value - 1) > LIMIT_RATIO}
    assert not far, said_ratios
