"""What pg_checksums finds in a stopped cluster, and what of it is damage."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.fixtures.clusters import Make, run_sql, scalar

from pgdyno.features.crash.checks import checksum_check, files_without_relation
from pgdyno.server.scratch.cluster import ScratchCluster

pytestmark = pytest.mark.pg


def torn(path: Path) -> None:
    """Change bytes in the middle of the first page."""
    with path.open("r+b") as file:
        file.seek(4000)
        file.write(b"torn" * 8)


@pytest.fixture
def cluster(new_cluster: Make) -> ScratchCluster:
    made = new_cluster("15", checksums=True)
    run_sql(made.target, "CREATE TABLE kept AS SELECT generate_series(1, 1000)")
    run_sql(made.target, "CHECKPOINT")
    return made


def test_a_torn_page_outside_all_relations_is_not_damage(cluster: ScratchCluster) -> None:
    path = cluster.data_dir / str(scalar(cluster.target, "SELECT pg_relation_filepath('kept')"))
    left = path.with_name("99999")  # CREATE INDEX leaves such a file if a crash ends it.
    left.write_bytes(path.read_bytes())
    shutil.chown(left, cluster.user.name)
    torn(left)
    with cluster.connect() as connection:
        orphans = files_without_relation(connection, cluster.data_dir)
    assert orphans == [left]
    cluster.stop()
    seen = checksum_check(cluster.binaries, cluster.user, cluster.data_dir, orphans)
    assert seen.verdict == "note"
    assert seen.seen.startswith("only in files without a relation: ")
    torn(path)
    seen = checksum_check(cluster.binaries, cluster.user, cluster.data_dir, orphans)
    assert seen.verdict == "bad"
    assert path.name in seen.seen
