"""What the tests of crashes need: a disk that can lose its power, and a place for servers."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.fixtures import needs
from tests.fixtures.clusters import Make
from tests.fixtures.house import fast_folder, new_folder
from tests.fixtures.own_files import IN_MEMORY

from pgdyno.features.crash.power_disk import PowerDisk, why_not_here

# Three copies of the data with their WAL. Containers often offer 64 MB.
_NEEDED_BYTES = 1 << 30


@pytest.fixture(scope="module")
def crash_dir(house: Path) -> Iterator[Path]:
    """A folder for servers that crash, empty again afterwards; in memory, where there is space.

    A real disk would let these tests wait for each sync and prove no more: a killed server loses
    nothing that the kernel has, and the disk that loses power keeps its files in its own memory.
    """
    folder = fast_folder(new_folder(house), _NEEDED_BYTES)
    servers = folder / "data"
    servers.mkdir()
    yield servers
    assert list(servers.iterdir()) == []
    shutil.rmtree(folder)


@pytest.fixture
def elsewhere(house: Path, crash_dir: Path) -> Iterator[Path]:
    """A folder that is on another file system than the servers that crash."""
    parent = IN_MEMORY if crash_dir.is_relative_to(house) else house
    folder = new_folder(parent)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def crashing(crash_dir: Path, new_cluster: Make) -> Make:
    """Make clusters in the folder for servers that crash."""
    return partial(new_cluster, data_dir=crash_dir, allow_tmpfs=True)


@pytest.fixture
def can_lose_power() -> None:
    """Skip the test where no such disk can be mounted."""
    why = why_not_here()
    needs.offered(not why, f"no disk that loses power: {why}")


@pytest.fixture
def disk(can_lose_power: None, tmp_path: Path) -> Iterator[PowerDisk]:
    """A mounted disk without files."""
    place = tmp_path / "disk"
    place.mkdir()
    with PowerDisk(place) as mounted:
        yield mounted
    assert not place.is_mount()
