"""Accounts that are written as files are those that the server would have made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.fixtures.clusters import make_cluster, run_sql, scalar

from pgdyno.clock import read_pair
from pgdyno.errors import ServerError
from pgdyno.measure.loading import load_dataset, load_scratch
from pgdyno.measure.run_progress import RunProgress
from pgdyno.server.connect import connect
from pgdyno.server.dataset import inspection as datasets
from pgdyno.server.dataset.heap_pages import PAGE_BYTES, PageModel, UnknownPages, model_of
from pgdyno.server.dataset.pgbench_tables import PGBENCH
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target
from pgdyno.spec.dataset import PgbenchDataset

pytestmark = pytest.mark.pg
HOW: dict[str, Any] = {"clock": read_pair(), "verb": "test", "progress": RunProgress()}
COUNTED = (
    "SELECT format('%s pages, %s visible, %s rows, %s', relpages, relallvisible, reltuples,"
    " relfrozenxid::text::bigint > 0) FROM pg_class WHERE relname = 'pgbench_accounts'"
)
SUMS = (
    "SELECT format('%s %s %s ..%s', count(*), sum(aid), sum(bid), max(octet_length(filler)))"
    " FROM pgbench_accounts"
)
BY_KEY = "SELECT bid FROM pgbench_accounts WHERE aid = 100001"


def new_database(cluster: ScratchCluster, name: str) -> Target:
    run_sql(cluster.target, f"CREATE DATABASE {name}")
    return cluster.target.with_database(name)


def files_of(cluster: ScratchCluster, target: Target) -> tuple[np.ndarray, bytes]:
    """Return the pages of accounts, without what each has from its history, and their map."""
    path = Path(cluster.data_dir, scalar(target, "SELECT pg_relation_filepath('pgbench_accounts')"))
    pages = np.frombuffer(path.read_bytes(), dtype=np.uint8).reshape(-1, PAGE_BYTES).copy()
    pages[:, :10] = 0  # Place in the WAL, and checksum.
    row_count = (int(pages[0].view("<u2")[6]) - 24) // 4
    for item in range(row_count):
        start = pages[:, 24 + 4 * item : 28 + 4 * item].copy().view("<u4")[:, 0] & 0x7FFF
        for page, at in enumerate(start):
            if at:
                pages[page, at : at + 4] = 0  # The transaction that made it, and its command.
                pages[page, at + 8 : at + 12] = 0
    visible = np.frombuffer(Path(f"{path}_vm").read_bytes(), dtype=np.uint8)
    return pages, visible.reshape(-1, PAGE_BYTES)[:, 10:].tobytes()


@pytest.fixture(scope="module")
def clusters(house: Path) -> Iterator[Callable[[str], ScratchCluster]]:
    """One cluster of a version for all tests: 18 has checksums."""
    made: dict[str, ScratchCluster] = {}

    def cluster_of(version: str) -> ScratchCluster:
        if version not in made:
            made[version] = make_cluster(version)
        return made[version]

    yield cluster_of
    for cluster in made.values():
        cluster.remove()


@pytest.mark.parametrize(("version", "fillfactor"), [("15", None), ("18", 40)])
def test_pages_that_are_written_are_those_that_copy_makes(
    clusters: Callable[[str], ScratchCluster], version: str, fillfactor: int | None
) -> None:
    cluster = clusters(version)
    copied, written = new_database(cluster, "copied"), new_database(cluster, "written")
    dataset = PgbenchDataset(scale=2, fillfactor=fillfactor)
    load_dataset(dataset, copied, **HOW)
    load_scratch(cluster, dataset, written, **HOW)
    run_sql(cluster.target, "CHECKPOINT")
    (pages, visible), (pages_written, visible_written) = (
        files_of(cluster, target) for target in (copied, written)
    )
    assert pages.shape == pages_written.shape
    differing = np.argwhere(pages != pages_written)[:3]
    assert not differing.size, (differing, "page, byte")
    assert visible == visible_written
    for question in (COUNTED, SUMS, BY_KEY, "SELECT sum(bid) FROM pgbench_tellers"):
        assert scalar(copied, question) == scalar(written, question)
    with connect(copied, verb="test") as copy, connect(written, verb="test") as other:
        present = datasets.inspect(other, PGBENCH)
        assert present.options == datasets.inspect(copy, PGBENCH).options
    assert present.state == "complete"
    # The server goes on with them.
    run_sql(written, "UPDATE pgbench_accounts SET abalance = 1 WHERE bid = 2")
    assert scalar(written, "SELECT sum(abalance) FROM pgbench_accounts") == 100_000


@pytest.mark.parametrize("changes", [{"foreign_keys": True}, {"partitions": 2}, {"unlogged": True}])
def test_accounts_are_copied_if_pages_cannot_be_written(
    clusters: Callable[[str], ScratchCluster],
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
) -> None:
    def refuse(*_: object) -> None:
        raise UnknownPages

    monkeypatch.setattr("pgdyno.server.dataset.page_load._model", refuse)
    cluster = clusters("15")
    target = new_database(cluster, *changes)
    load_scratch(cluster, PgbenchDataset(scale=1, **changes), target, **HOW)
    assert scalar(target, SUMS) == "100000 5000050000 100000 ..84"


def test_a_disk_that_is_full_ends_the_load_with_the_reason(
    clusters: Callable[[str], ScratchCluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pgdyno.server.dataset.page_load._write_at", full)
    cluster = clusters("15")
    target = new_database(cluster, "no_room")
    with pytest.raises(ServerError, match="not written: No space left on device"):
        load_scratch(cluster, PgbenchDataset(scale=1), target, **HOW)
    assert scalar(cluster.target, "SHOW wal_level") == "replica"


def sample(*, change: int | None = None) -> PageModel:
    """Return the model of a table of two pages made by hand, of which one byte was changed."""
    rows, width = 60, 128
    pages = np.zeros((2, PAGE_BYTES), dtype=np.uint8)
    for number, page in enumerate(pages):
        count = rows if number == 0 else 31
        page[12:16] = np.array([24 + 4 * count, PAGE_BYTES - width * count], "<u2").view(np.uint8)
        for item in range(count):
            at = PAGE_BYTES - width * (item + 1)
            pointer = np.array([at | 1 << 15 | 121 << 17], dtype="<u4")
            page[24 + 4 * item : 28 + 4 * item] = pointer.view(np.uint8)
            page[at + 12 : at + 18] = np.array([0, number, item + 1], "<u2").view(np.uint8)
            page[at + 22] = 24
            page[at + 24 : at + 32] = np.array([number * rows + item + 1, 1], "<i4").view(np.uint8)
    if change is not None:
        pages[1, change] ^= 1
    return model_of(pages.tobytes(), b"", 91, aid_bytes=4, has_checksums=False)


def test_rows_branches_and_places_follow_from_the_number_of_a_page() -> None:
    model = sample()
    [page] = model.pages(70_000, 1, 10_000_000)
    at = PAGE_BYTES - 128
    assert page[at + 12 : at + 18].view("<u2").tolist() == [1, 70_000 - 65_536, 1]
    assert page[at + 24 : at + 32].view("<i4").tolist() == [4_200_001, 43]
    assert model.page_count(10_000_000) == 166_667
    last = model.pages(166_666, 1, 10_000_000)[0]
    assert int(last.view("<u2")[6]) == 24 + 4 * 40


@pytest.mark.parametrize("change", [10, 16, 30, 1000, PAGE_BYTES - 1, PAGE_BYTES - 104])
def test_a_page_that_differs_in_one_bit_is_not_imitated(change: int) -> None:
    with pytest.raises(UnknownPages):
        sample(change=change)
