"""Autovacuum works in the database of a load: its transactions are not those of the load."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.fixtures.command import Command
from tests.fixtures.prove import Proved
from tests.truth.known_loads import server_half_ms

DROPS = """BEGIN;
CREATE TEMP TABLE few (a int, b text) ON COMMIT DROP;
INSERT INTO few SELECT n, 'x' FROM generate_series(1, 10) n;
SELECT count(*) FROM few;
COMMIT;
"""
# Of two clients, the transactions after the window, and statements of ours before it.
RIGHT_RATIO = 0.02


@pytest.mark.pg
@pytest.mark.parametrize("version", ["15", "18"])
def test_transactions_of_autovacuum_take_no_time_from_the_server(
    pgdyno: Command, house: Path, tmp_path: Path, version: str, proved: Proved
) -> None:
    """A table dropped in each transaction leaves dead rows in catalogs, which autovacuum removes.

    Without a warm-up the truth is the server's count around the load, after its sessions ended.
    """
    script = tmp_path / "drops.sql"
    script.write_text(DROPS)
    said = pgdyno(
        *("bench", "--pg-version", version, "--scale", "1", "-f", script, "-c", "2", "-T", "6s"),
        *("--warmup", "0s", "--set", "autovacuum_naptime=1s", "--json"),
    )
    assert said.code in (0, 3), said.err
    [stored] = pgdyno.store.glob("bench*/runs/0001/server.json")
    truth_ms = json.loads(stored.read_text())["totals"]["database.active_time_ns"] / 1e6
    where = said.document["where_the_time_goes"]
    counted_ms = where["server_ms"] * said.document["transactions"]
    allowed_ms = max(RIGHT_RATIO * truth_ms, server_half_ms(where) * said.document["transactions"])
    assert abs(counted_ms - truth_ms) <= allowed_ms, where
    waiting = [part for part in where["parts"] if part["name"] == "waiting for a core"]
    kernel = where["scheduled"]
    assert sum(part["ms"] for part in waiting) <= kernel["waiting_ms"] * (1 + 1e-9)
    assert where["residual_high"] - where["residual_low"] > 1e-3 * where["latency_ms"], where
    proved(
        f"server time with autovacuum at work, PostgreSQL {version}",
        required=f"{truth_ms:.0f} ms (the server's count)",
        seen=f"{counted_ms:.0f} ms",
    )
