"""Thousands of idle connections, together with a few that work."""

from __future__ import annotations

import pytest
from tests.fixtures.engine_process import SECOND_NS, Engine, load_job
from tests.fixtures.null_server import StartNullServer

MIB = 2**20


@pytest.mark.slow
def test_8000_idle_and_ten_working_connections_need_little_memory(
    null_server: StartNullServer, engine: Engine
) -> None:
    server = null_server()
    connect = {"timeout_ns": 300 * SECOND_NS, "idle_connections": 8000}
    end = engine(load_job(server.target, "SELECT 1;", clients=10, measure_s=1, connect=connect))
    assert end.exit_code == 0, end
    facts = end.summary.connections.idle
    assert facts is not None
    assert (facts.opened_count, facts.alive_count) == (8000, 8000)
    assert end.summary.counts.completed > 0
    assert end.summary.engine.resident_bytes_max < 64 * MIB
    tally = server.stop()
    assert tally.connections == tally.terminated == 8010
