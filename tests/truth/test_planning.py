"""A load that plans for nearly all of its time: the server's own count lacks it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from tests.fixtures.command import Command, server_options

from pgdyno.server.target import Target

TABLES = 8


@pytest.mark.pg
@pytest.mark.parametrize("protocol", ["simple", "extended"])
def test_the_time_of_planning_is_time_in_the_server(
    pgdyno: Command, database: Target, tmp_path: Path, protocol: str
) -> None:
    """One client waits for the plan of a join, whose execution is a fiftieth of it."""
    names = [f"c{number}" for number in range(TABLES)]
    joins = " AND ".join(f"{a}.oid = {b}.oid" for a, b in pairwise(names))
    tables = ", ".join(f"pg_class {name}" for name in names)
    script = tmp_path / "plans.sql"
    script.write_text(f"SELECT count(*) FROM {tables} WHERE {joins} AND c0.oid = 1259;\n")
    said = pgdyno(
        *("bench", *server_options(database), "-f", str(script), "-M", protocol, "-c", "1"),
        *("-T", "5s", "--warmup", "0s", "--json"),
    )
    assert said.code in (0, 3), said.err
    where = said.document["where_the_time_goes"]
    assert where is not None, said.document["where_the_time_goes_not_computed_because"]
    # The client and a busy machine have the rest of the latency.
    cores_ms = sum(row["ms"] for row in where["parts"] if row["name"] == "waiting for a core")
    half_ms = (where["latency_ms"] - cores_ms) / 2
    assert where["server_ms"] > half_ms, where
    assert sum(row["ms"] for row in where["statements"]) > half_ms, where
