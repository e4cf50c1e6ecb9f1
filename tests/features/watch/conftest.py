"""Servers on which incidents are staged. A module's SETTINGS are those of its servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.features.watch.incidents import make_shop
from tests.fixtures.clusters import make_cluster, new_database

from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target


@pytest.fixture(scope="module", params=["15", "18"])
def counting(request: pytest.FixtureRequest, house: Path) -> Iterator[ScratchCluster]:
    """A server that counts statements."""
    with make_cluster(request.param, settings=request.module.SETTINGS, clients=25) as cluster:
        make_shop(cluster.target)
        yield cluster


@pytest.fixture
def shop(counting: ScratchCluster) -> Iterator[Target]:
    """Each incident has a new shop."""
    yield from new_database(counting, "shop")
