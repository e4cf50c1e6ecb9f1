from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.fixtures import needs
from tests.server.pgbench_tables import load

from pgdyno.errors import ServerError, SpecError
from pgdyno.process.child import UserIds
from pgdyno.server.dataset.kinds import needed_bytes
from pgdyno.server.dataset.pgbench_tables import PGBENCH
from pgdyno.server.scratch import placement
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.spec.dataset import PgbenchDataset

needs_root = needs.ROOT


@pytest.mark.parametrize(("scale", "fillfactor"), [(2, 100), (3, 80)])
def test_the_predicted_size_is_that_of_a_real_load(
    cluster: ScratchCluster, scale: int, fillfactor: int
) -> None:
    with cluster.connect(verb="test") as connection:
        connection.use_load_path()
        load(connection, scale=scale, fillfactor=fillfactor)
        row = connection.execute(
            "SELECT sum(pg_total_relation_size(c.oid))::float8 FROM pg_class c"
            " WHERE c.relname LIKE 'pgbench%' AND c.relkind = 'r'"
        ).fetchone()
        connection.execute(
            "DROP TABLE pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers"
        )
    assert row is not None
    predicted = PGBENCH.tables_bytes(PgbenchDataset(scale=scale, fillfactor=fillfactor))
    assert predicted == pytest.approx(row[0], rel=0.03)


def test_a_scale_is_about_fifteen_mebibytes() -> None:
    # pgbench's manual: scale 1 has 100,000 accounts; Debian's pgbench -i -s 100 makes 1,496 MB.
    assert PGBENCH.tables_bytes(PgbenchDataset(scale=100)) == pytest.approx(1496 * 2**20, rel=0.02)


def test_more_is_needed_than_the_tables_and_the_wal_apart() -> None:
    dataset = PgbenchDataset(scale=10)
    needed = needed_bytes(dataset)
    assert needed["data"] > PGBENCH.tables_bytes(dataset) * 1.1
    assert needed["wal"] == 1 << 30


def test_a_cluster_is_in_the_store_by_default(open_folder: Path) -> None:
    spot = placement.place(
        user=UserIds.of("nobody") if os.geteuid() == 0 else UserIds.current(),
        data_dir=None,
        store_dir=open_folder / "pgdyno-runs",
        allow_tmpfs=False,
        environ={"PGDYNO_DATA": "/nowhere"},
    )
    assert spot == placement.Placement(open_folder / "pgdyno-runs")


@needs_root
def test_a_store_closed_to_the_servers_user_is_skipped_with_a_message(
    open_folder: Path,
) -> None:
    store, data = open_folder / "store", open_folder / "data"
    store.mkdir(mode=0o700)
    data.mkdir(mode=0o755)
    nobody = UserIds.of("nobody")
    for environ, expected in (({"PGDYNO_DATA": str(data)}, data), ({}, placement.LAST_PLACE)):
        spot = placement.place(
            user=nobody, data_dir=None, store_dir=store, allow_tmpfs=False, environ=environ
        )
        assert spot.parent == expected
        assert "user nobody has no access" in spot.notes[0]


@needs_root
def test_a_folder_that_was_named_must_do(open_folder: Path) -> None:
    closed = open_folder / "closed"
    closed.mkdir(mode=0o700)
    nobody = UserIds.of("nobody")
    with pytest.raises(SpecError, match=r"--data-dir .*user nobody has no access"):
        placement.place(user=nobody, data_dir=closed, store_dir=None, allow_tmpfs=False)
    with pytest.raises(SpecError, match=r"\$PGDYNO_DATA .*user nobody has no access"):
        placement.place(
            user=nobody,
            data_dir=None,
            store_dir=None,
            allow_tmpfs=False,
            environ={"PGDYNO_DATA": str(closed)},
        )


def test_a_file_is_refused_where_a_folder_is_needed(open_folder: Path) -> None:
    (open_folder / "file").touch()
    with pytest.raises(SpecError, match="is not a folder"):
        placement.check_folder(
            open_folder / "file",
            user=UserIds.current(),
            option="--data-dir",
            allow_tmpfs=False,
        )


def test_wal_and_data_on_one_disk_need_the_sum(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "free_bytes", lambda folder: 10_000_000_000)
    placement.check_space({"data": 9_000_000_000, "wal": 1_000_000_000}, open_folder, None)
    with pytest.raises(ServerError, match=r"with its WAL needs about 11\.0 GB"):
        placement.check_space(
            {"data": 9_000_000_000, "wal": 2_000_000_000}, open_folder, open_folder / "wal"
        )


def test_a_folder_without_a_parent_is_refused_and_not_created(tmp_path: Path) -> None:
    typo = tmp_path / "nvme" / "data"
    with pytest.raises(SpecError, match=r"nvme/data cannot be created: .*nvme does not exist"):
        placement.place(
            user=UserIds("me", os.geteuid(), os.getegid(), (), "/"),
            data_dir=typo,
            store_dir=None,
            allow_tmpfs=True,
        )
    assert not typo.parent.exists()
