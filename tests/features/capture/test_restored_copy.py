"""A captured load on a restored dump of the original: its keys come from the rows there."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.fixtures.clusters import run_sql, scalar
from tests.fixtures.command import Command, server_options
from tests.fixtures.observed import make_shop, shopping

from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target

pytestmark = pytest.mark.pg

SHORT = ("--duration", "2s", "--warmup", "0s", "-q", "--json")


@pytest.fixture
def restored(observed_server: ScratchCluster, observed: Target) -> Target:
    """The shop, dumped and restored. Its keys do not begin with 1."""
    make_shop(observed)
    run_sql(observed, "ALTER SEQUENCE orders_id_seq RESTART 70001")
    copy = observed.with_database(f"{observed.database}_restored")
    run_sql(observed, f'CREATE DATABASE "{copy.database}"')
    return copy


def dump(server: ScratchCluster, source: Target, copy: Target) -> None:
    """Do what a user does: pg_dump | psql."""

    def where(target: Target) -> list[str]:
        return [*map(str, server_options(target))]

    dumped = subprocess.run(
        [server.binaries.bin_dir / "pg_dump", *where(source)], capture_output=True, check=True
    )
    subprocess.run(
        [server.binaries.bin_dir / "psql", "-q", "-v", "ON_ERROR_STOP=1", *where(copy)],
        input=dumped.stdout,
        capture_output=True,
        check=True,
    )


def test_a_load_finds_its_keys_in_a_restored_dump_and_writes_with_permission(
    pgdyno: Command,
    observed_server: ScratchCluster,
    observed: Target,
    restored: Target,
    tmp_path: Path,
) -> None:
    path = tmp_path / "shop.capture"
    with shopping(observed):
        said = pgdyno("capture", *server_options(observed), "-o", path, "--duration", "4s")
    assert said.code == 0, said.err
    # Without its tables the load does not begin.
    bench = ("bench", "-b", str(path), *server_options(restored), "-c", "2", *SHORT)
    refused = pgdyno(*bench, "--allow-write")
    assert refused.code == 1
    assert "public.customer" in refused.error
    dump(observed_server, observed, restored)
    refused = pgdyno(*bench)
    assert refused.code == 1
    assert "--allow-write" in refused.error
    largest = scalar(restored, "SELECT max(id) FROM orders")
    said = pgdyno(*bench, "--allow-write")
    assert said.code in (0, 3), said.err
    document = said.document
    assert document["failures"] == {}
    rows = document["likeness"]["statements"]
    assert all("calls, not" not in row["reason"] for row in rows), rows
    new = f"SELECT count(*) FROM orders WHERE id > {largest}"
    assert scalar(restored, new) > 10
    # Each of the existing customers may buy something.
    buyers = f"SELECT count(DISTINCT customer) FROM orders WHERE id > {largest}"
    assert scalar(restored, buyers) > 5
