"""A load that plans for nearly all of its time: the server's own count lacks it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.clusters import run_sql
from tests.fixtures.command import Command, server_options
from tests.fixtures.prove import Proved

from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target

TABLES = 8
# The counts are read every ten seconds, so a run is long: its client pauses to spare the cores.
PAUSE = "\\sleep 20 ms\n"


def where_it_goes(
    pgdyno: Command,
    target: Target,
    folder: Path,
    protocol: str,
    *,
    length: str = "3s",
    pause: str = "",
) -> dict[str, Any]:
    """Return where the time of a load goes that plans a join of many tables."""
    names = [f"c{number}" for number in range(TABLES)]
    joins = " AND ".join(f"{a}.oid = {b}.oid" for a, b in pairwise(names))
    tables = ", ".join(f"pg_class {name}" for name in names)
    script = folder / "plans.sql"
    script.write_text(f"{pause}SELECT count(*) FROM {tables} WHERE {joins} AND c0.oid = 1259;\n")
    said = pgdyno(
        *("bench", *server_options(target), "-f", str(script), "-M", protocol, "-c", "1"),
        *("-T", length, "--warmup", "0s", "--json"),
    )
    assert said.code in (0, 3), said.err
    where = said.document["where_the_time_goes"]
    assert where is not None, said.document["where_the_time_goes_not_computed_because"]
    return dict(where)


@pytest.mark.pg
@pytest.mark.parametrize("protocol", ["simple", "extended"])
def test_the_time_of_planning_is_time_in_the_server(
    pgdyno: Command, database: Target, tmp_path: Path, protocol: str
) -> None:
    """One client waits for the plan of a join, whose execution is a fiftieth of it."""
    where = where_it_goes(pgdyno, database, tmp_path, protocol)
    # The client and a busy machine have the rest of the latency.
    cores_ms = sum(row["ms"] for row in where["parts"] if row["name"] == "waiting for a core")
    half_ms = (where["latency_ms"] - cores_ms) / 2
    assert where["server_ms"] > half_ms, where
    assert sum(row["ms"] for row in where["statements"]) > half_ms, where
    # Planning runs under the statement's identifier, in both protocols and all versions.
    without = sum(row["ms"] for row in where["statements"] if "parsing" in row["text"])
    assert without < where["server_ms"] / 2, where
    assert where["planning_ms"] is None


@pytest.mark.pg
@pytest.mark.parametrize("protocol", ["simple", "extended"])
def test_planning_is_known_where_the_server_counts_it(
    pgdyno: Command,
    new_cluster: Callable[..., ScratchCluster],
    tmp_path: Path,
    protocol: str,
    proved: Proved,
) -> None:
    settings = {
        "shared_preload_libraries": "pg_stat_statements",
        "pg_stat_statements.track_planning": "on",
    }
    cluster = new_cluster("15", settings=settings)
    run_sql(cluster.target, "CREATE EXTENSION pg_stat_statements")
    where = where_it_goes(pgdyno, cluster.target, tmp_path, protocol, length="25s", pause=PAUSE)
    [(truth_ms,)] = run_sql(
        cluster.target,
        "SELECT total_plan_time / calls FROM pg_stat_statements WHERE query LIKE '%%c0.oid = $1%%'"
        " ORDER BY calls DESC LIMIT 1",
    )
    assert where["server_ms"] / 3 < where["planning_ms"] < where["latency_ms"], where
    # A part is never more than its whole, which is measured in other windows.
    assert where["planning_ms"] == pytest.approx(min(truth_ms, where["server_ms"]), rel=0.1)
    proved(
        f"time of planning, {protocol} protocol",
        required=f"{truth_ms:.3f} ms (the server's count)",
        seen=f"{where['planning_ms']:.3f} ms",
    )
