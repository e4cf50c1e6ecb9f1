"""Tunings of real servers on which no searched setting can matter: they claim no gain."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.clusters import make_cluster, run_sql
from tests.fixtures.command import Command
from tests.fixtures.prove import Proved

from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target

# A small table in memory. Without WAL to be flushed, a write waits for no disk either.
TABLE = """
CREATE TABLE account (id int PRIMARY KEY, balance int NOT NULL) WITH (fillfactor = 50);
INSERT INTO account SELECT number, 0 FROM generate_series(1, 10000) AS number;
ANALYZE account;
"""
READS = "\\set id random(1, 10000)\nSELECT balance FROM account WHERE id = :id;\n"
WRITES = "\\set id random(1, 10000)\nUPDATE account SET balance = balance + 1 WHERE id = :id;\n"
# A row by its key: one plan, no sort, no parallel part, no statement of maintenance. No run is so
# long that a checkpoint begins in it.
TUNINGS = (
    ("15", READS, ("checkpoint_timeout=5min..30min",)),
    ("15", READS, ("max_wal_size=1GB..8GB", "work_mem=1MB..64MB")),
    ("15", READS, ("maintenance_work_mem=16MB..256MB",)),
    ("18", READS, ("work_mem=1MB..64MB",)),
    ("18", READS, ("join_collapse_limit=2..32", "from_collapse_limit=2..32")),
    ("15", WRITES, ("work_mem=1MB..64MB",)),
    ("15", WRITES, ("default_statistics_target=50..500", "temp_buffers=1MB..64MB")),
    ("18", WRITES, ("join_collapse_limit=2..32",)),
    ("18", WRITES, ("work_mem=1MB..64MB", "maintenance_work_mem=16MB..256MB")),
    ("18", WRITES, ("checkpoint_timeout=5min..30min",)),
)
# What a budget of 70 s leaves room for on a machine that is busy with other work, too: each tuning
# compares its settings in pairs, and all of them together try several values each.
LEAST_PAIRS = 6
LEAST_VALID_RUNS = 12
LEAST_CANDIDATES_OF_ALL = 20
pytestmark = [pytest.mark.pg, pytest.mark.slow]


@pytest.fixture(scope="module")
def servers(house: Path) -> Iterator[dict[str, ScratchCluster]]:
    assert house.is_dir()
    with make_cluster("15") as older, make_cluster("18") as newer:
        for cluster in (older, newer):
            run_sql(cluster.target, TABLE)
        yield {"15": older, "18": newer}


def now(target: Target, name: str) -> str:
    [(value,)] = run_sql(target, f"SHOW {name}")
    return str(value)


def spec_of(target: Target, script: Path, settings: tuple[str, ...]) -> str:
    dsn = f"host={target.host} port={target.ports} user={target.user} dbname={target.database}"
    names = [text.partition("=")[0] for text in settings]
    present = ", ".join(f'{name} = "{now(target, name)}"' for name in names)
    return f"""
[experiment]
name = "flat"
reset = "none"
[server]
dsn = "{dsn}"
admin = "{dsn}"
[dataset]
kind = "existing"
[workload]
scripts = [{{ file = "{script}" }}]
clients = 2
duration = "300ms"
warmup = "0s"
[design]
kind = "tune"
metric = "tps"
budget = "70s"
settings = {list(settings)}
now = {{ {present} }}
"""


@pytest.mark.usefixtures("short_runs")
def test_of_ten_flat_servers_at_most_one_is_said_to_be_faster(
    servers: dict[str, ScratchCluster], pgdyno: Command, tmp_path: Path, proved: Proved
) -> None:
    answers: list[dict[str, Any]] = []
    for number, (version, text, settings) in enumerate(TUNINGS):
        script, spec = tmp_path / f"{number}.sql", tmp_path / f"{number}.toml"
        script.write_text(text)
        spec.write_text(spec_of(servers[version].target, script, settings))
        permission = ("--allow-write",) if text == WRITES else ()
        said = pgdyno("run", spec, "--json", *permission, timeout_s=300)
        assert said.out, said.err
        answer = said.document
        asked = f"tuning {number + 1}, {', '.join(settings)} on {version}: {answer['sentence']}"
        assert sum(trial["pair_count"] for trial in answer["tried"]) >= LEAST_PAIRS, asked
        assert answer["runs_valid"] >= LEAST_VALID_RUNS, asked
        answers.append(answer)
    candidates = sum(answer["trial_count"] for answer in answers)
    assert candidates >= LEAST_CANDIDATES_OF_ALL
    claims = [answer["sentence"] for answer in answers if answer["verdict"] == "better"]
    runs = sum(answer["runs_valid"] for answer in answers)
    assert len(claims) <= 1, claims
    proved(
        "tuning real servers where no setting matters: gains claimed",
        required="<= 1 of 10",
        seen=f"{len(claims)} of {len(answers)}, {candidates} candidates, {runs} valid runs",
    )
