"""While a scratch cluster is loaded it has other settings; afterwards nothing shows of them."""

from __future__ import annotations

import pytest
from tests.fixtures.clusters import Make, run_sql, scalar

from pgdyno.errors import ServerError
from pgdyno.server.scratch.cluster import ScratchCluster

pytestmark = pytest.mark.pg
SHOWN = "SELECT current_setting('fsync') || ' ' || current_setting('wal_level')"


def test_a_cluster_is_loaded_without_fsync_and_measured_with_its_own_settings(
    new_cluster: Make,
) -> None:
    own = {"archive_mode": "on", "fsync": "on", "wal_level": "logical"}
    cluster = new_cluster("15", settings=own)
    before = cluster.settings
    with cluster.loading():
        assert scalar(cluster.target, SHOWN) == "off minimal"
        run_sql(cluster.target, "CREATE TABLE kept AS SELECT generate_series(1, 1000) AS a")
        run_sql(cluster.target, "CREATE UNLOGGED TABLE quick AS SELECT 1 AS a")
    assert scalar(cluster.target, SHOWN) == "on logical"
    assert cluster.settings == before
    assert (
        scalar(cluster.target, "SELECT (SELECT count(*) FROM kept) + count(*) FROM quick") == 1001
    )


def test_a_load_that_fails_leaves_the_cluster_with_its_own_settings(new_cluster: Make) -> None:
    cluster: ScratchCluster = new_cluster("15", settings={"fsync": "on"})
    with pytest.raises(ServerError, match="no room"), cluster.loading():
        raise ServerError("There is no room.", hint="make some")
    assert scalar(cluster.target, SHOWN) == "on replica"
