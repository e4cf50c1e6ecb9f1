"""Evidence for settings from real servers: one statement hides nothing of another."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fixtures.clusters import Make, run_sql
from tests.fixtures.command import Command, server_options
from tests.fixtures.prove import Proved

from pgdyno.features.tune.evidence import choose
from pgdyno.features.tune.evidence_of_run import checkpoint_every_ns, evidence_of
from pgdyno.server.find import find
from pgdyno.settings.formula import Machine
from pgdyno.store.experiment import Store

pytestmark = pytest.mark.pg
MACHINE = Machine(15, 100, ram_bytes=8 << 30, cores=4, disk="ssd")
# Each finds 2,000 rows by the index; the scan reads all 100,000 rows for one.
FINDS = "SELECT filler FROM kept WHERE key BETWEEN :key AND :key + 1999;"
SCANS = "SELECT count(*) FROM kept WHERE filler = :key::text;"


@pytest.mark.parametrize("version", ["15", "18"])
def test_a_full_scan_is_seen_behind_index_reads_and_a_reading_load_gets_no_max_wal_size(
    new_cluster: Make, pgdyno: Command, tmp_path: Path, version: str, proved: Proved
) -> None:
    has_contrib = "pg_stat_statements" not in find(version=version).lacks
    preloaded = {"shared_preload_libraries": "pg_stat_statements"} if has_contrib else {}
    settings = {**preloaded, "max_parallel_workers_per_gather": "0", "wal_log_hints": "on"}
    target = new_cluster(version, settings=settings).target
    if has_contrib:
        run_sql(target, "CREATE EXTENSION pg_stat_statements")
    run_sql(
        target,
        "CREATE TABLE kept AS SELECT i AS key, 'x' || i AS filler"
        " FROM generate_series(1, 100000) i",
    )
    run_sql(target, "CREATE INDEX ON kept (key)")
    run_sql(target, "ANALYZE kept")
    chosen: dict[str, list[str]] = {}
    for name, texts in {"both": (FINDS, SCANS), "finds": (FINDS,)}.items():
        words: list[str] = []
        for text, weight in zip(texts, (30, 1), strict=False):
            path = tmp_path / f"{name}{weight}.sql"
            path.write_text(f"\\set key random(1, 90000)\n{text}\n")
            words += ["-f", f"{path}@{weight}"]
        said = pgdyno("bench", *server_options(target), *words, "-T", "3s", "--warmup", "0s")
        assert said.code in (0, 3), said.err
        run = Store(pgdyno.store).find("last").runs()[-1]
        chosen[name] = [choice.setting for choice in choose(evidence_of(run), MACHINE)]
    assert "random_page_cost" in chosen["both"]
    assert "random_page_cost" not in chosen["finds"]
    assert not {"max_wal_size", "wal_compression", "checkpoint_timeout"} & {
        setting for settings in chosen.values() for setting in settings
    }
    proved(
        f"settings searched for reads by an index, PostgreSQL {version}",
        required="none for WAL or scans",
        seen=", ".join(chosen["finds"]) or "none",
    )


@pytest.mark.parametrize("version", ["15", "18"])
def test_the_time_between_forced_checkpoints_is_known_if_the_load_forces_them(
    new_cluster: Make, pgdyno: Command, tmp_path: Path, version: str
) -> None:
    target = new_cluster(version).target
    run_sql(target, "CREATE TABLE kept (key int)")
    script = tmp_path / "load.sql"
    seen = {}
    for words in ("", "CHECKPOINT;\nSELECT pg_sleep(0.3);\n"):
        script.write_text(f"INSERT INTO kept VALUES (1);\n{words}")
        options = ("-f", str(script), "-c", "1", "-T", "6s", "--warmup", "0s", "--allow-write")
        said = pgdyno("bench", *server_options(target), *options)
        assert said.code in (0, 3), said.err
        run = Store(pgdyno.store).find("last").runs()[-1]
        seen[words != ""] = checkpoint_every_ns(run)
    assert seen[False] is None
    # Each transaction has a checkpoint and then sleeps.
    assert seen[True] is not None
    assert seen[True] > 0.2e9
