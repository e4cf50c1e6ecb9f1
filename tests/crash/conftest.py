"""What the tests of crashes need: a disk that can lose its power."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fixtures import needs

from pgdyno.crash.power_disk import PowerDisk, why_not_here


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
