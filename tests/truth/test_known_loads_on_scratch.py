"""Known loads on scratch servers, where pgdyno's sampler may have priority, on 15 and 18.

The load's functions are made in a kept cluster. After the run the same cluster is started again,
and the server tells how long its calls of these functions took.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import tomli_w
from tests.fixtures.clusters import QUICK, make_cluster, run_sql
from tests.fixtures.command import Command
from tests.fixtures.prove import Proved
from tests.fixtures.stillness import Document, on_a_machine_that_runs
from tests.truth.known_loads import (
    DONE,
    LOADS,
    NOT_EXPLAINED_RATIO_MAX,
    Compared,
    KnownLoad,
    compared,
    doubts_of,
    prepare,
    split_of,
)

from pgdyno.measure.under_test import LOAD_DATABASE
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target

SETTINGS = {**QUICK, "shared_buffers": "16MB"}
ON_SCRATCH = {
    load.name: load
    for load in LOADS
    if load.name in ("spilling sort", "cold reads", "6 clients on 2 cores")
}
SHORT = [("spilling sort", "15"), ("cold reads", "18"), ("6 clients on 2 cores", "15")]
PROVED_RUNS = 4


@pytest.mark.pg
@pytest.mark.parametrize(("name", "version"), SHORT)
def test_the_parts_of_a_known_load_on_a_scratch_server_are_right(
    name: str, version: str, pgdyno: Command, house: Path, tmp_path: Path
) -> None:
    load = ON_SCRATCH[name]
    with kept(house / f"known-{version}-{len(name)}", version) as cluster:
        document, proofs = measured(load, cluster, pgdyno, tmp_path, seconds=3)
    assert_right(load, document, proofs)


@pytest.mark.slow
@pytest.mark.pg
@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", ["15", "18"])
def test_known_loads_on_scratch_servers_are_split_as_they_are(
    version: str, pgdyno: Command, house: Path, tmp_path: Path, proved: Proved
) -> None:
    for load in ON_SCRATCH.values():
        seen, doubted_count = [], 0
        with kept(house / f"proved-{version}-{len(load.name)}", version) as cluster:
            for _ in range(PROVED_RUNS):
                document, proofs = measured(load, cluster, pgdyno, tmp_path, seconds=10)
                assert_right(load, document, proofs)
                doubted_count += "not_explained" in doubts_of(document)
                seen += [f"{proof.found_ms / proof.truth_ms - 1:+.1%}" for proof in proofs]
        claim = f"{load.name} on a scratch server, PostgreSQL {version}: time in the server"
        said = f"{', '.join(seen)}; {doubted_count} of {PROVED_RUNS} runs doubted themselves"
        proved(claim, required="within 5 % of the latency", seen=said)


def assert_right(load: KnownLoad, document: Document, proofs: list[Compared]) -> None:
    """Fail if a part is wrong and the run does not doubt itself."""
    where = split_of(document)
    print(f"{load.name}: latency {where['latency_ms']:.3f}")
    for part in where["parts"]:
        print(f"    {part['ms']:9.4f}  {part['low']} {part['high']} {part['name']}")
    print(f"    {where['residual_ms']:9.4f}  not explained; {doubts_of(document)}")
    for proof in proofs:
        print(f"  {', '.join(proof.names)}: truth {proof.truth_ms:.4f} found {proof.found_ms:.4f}")
    is_doubted = "not_explained" in doubts_of(document)
    assert all(proof.is_right for proof in proofs) or is_doubted, proofs
    assert abs(where["residual_ratio"]) <= NOT_EXPLAINED_RATIO_MAX or is_doubted


@contextmanager
def kept(folder: Path, version: str) -> Iterator[Path]:
    """Yield the folder of a stopped cluster that the next command uses; remove it at the end."""
    folder.mkdir()
    folder.chmod(0o777)
    made = make_cluster(version, data_dir=folder, keep=True, settings=SETTINGS, listens_tcp=False)
    made.close()
    try:
        yield made.path
    finally:
        ScratchCluster.adopt(made.path, keep=False).close()


def measured(
    load: KnownLoad, cluster: Path, pgdyno: Command, folder: Path, *, seconds: int
) -> tuple[Document, list[Compared]]:
    """Run a load on a kept cluster; return its document, and each truth with what it says."""
    script = folder / "known.sql"
    script.write_text(load.script)
    spec = folder / "known.toml"
    spec.write_text(
        tomli_w.dumps(
            {
                "experiment": {"name": load.name, "reset": "none"},
                "server": {
                    "scratch": {
                        "version": _version_of(cluster),
                        "data_dir": str(cluster.parent),
                        "keep": True,
                    },
                    "settings": SETTINGS,
                },
                "dataset": {"kind": "existing"},
                "workload": {
                    "scripts": [{"file": str(script)}],
                    "clients": load.clients,
                    "duration": f"{seconds}s",
                    "warmup": "0s",
                },
                "design": {"kind": "bench"},
            }
        )
    )

    def measure() -> Document:
        with started(cluster) as database:
            run_sql(database.with_database("postgres"), _DROPPED)
            run_sql(database.with_database("postgres"), f"CREATE DATABASE {LOAD_DATABASE}")
            prepare(load, database)
        said = pgdyno("run", spec, "--json")
        assert said.code in DONE, said
        return said.document

    document = on_a_machine_that_runs(measure)
    with started(cluster) as database:
        return document, compared(load, database, document)


_DROPPED = f"DROP DATABASE IF EXISTS {LOAD_DATABASE} WITH (FORCE)"


def _version_of(cluster: Path) -> str:
    return (cluster / "data" / "PG_VERSION").read_text().strip()


@contextmanager
def started(cluster: Path) -> Iterator[Target]:
    """Start a kept cluster and stop it again."""
    with ScratchCluster.adopt(cluster) as server:
        yield server.target.with_database(LOAD_DATABASE)
