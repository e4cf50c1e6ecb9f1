"""Real servers for the tests of this folder: the installed PostgreSQL 15 and the embedded 18."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures import needs

from pgdyno.process import cleanup
from pgdyno.server.connect import Connection
from pgdyno.server.find import Binaries, find
from pgdyno.server.scratch.cluster import ScratchCluster, ScratchRequest

MAJORS = ("15", "18")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        needed = {"binaries", "cluster", "connection"} & set(getattr(item, "fixturenames", ()))
        if needed and here in item.path.parents:
            item.add_marker(pytest.mark.pg)


@pytest.fixture(scope="module", params=MAJORS)
def binaries(request: pytest.FixtureRequest) -> Binaries:
    needs.postgresql(request.param)
    return find(version=request.param)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder on a disk that the server's user can enter, unlike the folders of pytest."""
    folder = Path(tempfile.mkdtemp(prefix="pgdyno-test-", dir="/var/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def cluster(binaries: Binaries) -> Iterator[ScratchCluster]:
    """One running cluster for each module and version, which listens on TCP, too."""
    request = ScratchRequest(binaries, clients=10, listens_tcp=True)
    with ScratchCluster.create(request) as running:
        yield running


@pytest.fixture
def connection(cluster: ScratchCluster) -> Iterator[Connection]:
    with cluster.connect(verb="test") as opened:
        # Tests make tables in it, too.
        opened.use_load_path()
        yield opened


@pytest.fixture
def nothing_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Check that the test left no registration and no temporary folder of pgdyno."""
    made: list[Path] = []
    real = os.mkdir

    def recorded(path: Any, *args: Any, **options: Any) -> None:
        real(path, *args, **options)
        made.append(Path(path))

    monkeypatch.setattr(os, "mkdir", recorded)
    before = cleanup.pending()
    yield
    assert cleanup.pending() == before
    ours = [path for path in made if path.name.startswith("pgdyno-")]
    assert ours
    assert [path for path in ours if path.exists() and "scratch" not in path.name] == []
