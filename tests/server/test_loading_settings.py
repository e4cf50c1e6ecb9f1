"""While a scratch cluster is loaded it has other settings; afterwards nothing shows of them.

On a server of the user the settings of its database hold, as for pgbench.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fixtures.clusters import Make, run_sql, scalar
from tests.fixtures.command import Command, server_options

from pgdyno.errors import ServerError
from pgdyno.server.find import find
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target

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


# Whose the tables are, and where; whether a constraint of the load saw its rows.
MADE = (
    "SELECT relname, relowner::regrole::text, coalesce(spcname, ''), convalidated"
    " FROM pg_class c LEFT JOIN pg_tablespace s ON s.oid = reltablespace"
    " LEFT JOIN pg_constraint ON conrelid = c.oid AND contype = 'p'"
    " WHERE relname ~ '^pgbench_' AND relkind IN ('r', 'i') ORDER BY relname"
)
# What an owner of a database may set, and what a superuser may.
SET_FOR_ALL = {
    "role": "lodger",
    "default_tablespace": "elsewhere",
    "session_replication_role": "replica",
    "session_authorization": "lodger",
}


@pytest.fixture
def lodgings(any_server: ScratchCluster, house: Path) -> Iterator[Target]:
    """A database in which the role lodger may do everything, and a tablespace for it."""
    folder = Path(tempfile.mkdtemp(dir=house))
    shutil.chown(folder, any_server.user.name)
    run_sql(any_server.target, "CREATE ROLE lodger LOGIN")
    run_sql(any_server.target, f"CREATE TABLESPACE elsewhere OWNER lodger LOCATION '{folder}'")
    run_sql(any_server.target, "CREATE DATABASE lodgings OWNER lodger")
    yield any_server.target.with_database("lodgings")
    run_sql(any_server.target, "DROP DATABASE lodgings WITH (FORCE)")
    run_sql(any_server.target, "DROP TABLESPACE elsewhere")
    run_sql(any_server.target, "DROP ROLE lodger")


@pytest.mark.parametrize("setting", SET_FOR_ALL)
def test_init_makes_its_tables_as_whom_and_where_pgbench_makes_them(
    setting: str, lodgings: Target, pgdyno: Command
) -> None:
    run_sql(lodgings, f"ALTER DATABASE lodgings SET {setting} = {SET_FOR_ALL[setting]}")
    here = server_options(lodgings)
    pgbench = find(version="15").program("pgbench")
    subprocess.run([pgbench, "-i", "-q", *here[:-2], here[-1]], check=True, capture_output=True)
    made = run_sql(lodgings, MADE)
    tables = ", ".join(name for name, *_ in made if not name.endswith("_pkey"))
    run_sql(lodgings, f"DROP TABLE {tables}")
    trusted = ("--confirm", "lodgings@local")
    said = pgdyno("init", *here, "-s", "1", *trusted)
    assert said.code == 0, said.err
    assert run_sql(lodgings, MADE) == made
    # The sessions of the load have the same settings, so they may use the tables.
    load = ("bench", *here, "-b", "tpcb-like", "-T", "1s", "--warmup", "0s", *trusted)
    said = pgdyno(*load)
    assert said.code == 3, said.err
    assert pgdyno("drop", "pgbench", *here).code == 0
    assert run_sql(lodgings, MADE) == []
