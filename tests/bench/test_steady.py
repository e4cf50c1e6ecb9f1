"""A load that goes on: stretches are counted as they happen, and it ends when it is left."""

from __future__ import annotations

import pytest
from bench.loads import Load
from bench.steady import SteadyLoad
from tests.fixtures.null_server import StartNullServer


def test_each_stretch_of_a_continued_load_is_counted(null_server: StartNullServer) -> None:
    server = null_server()
    with SteadyLoad(Load(server.target, 4, 1, 1)) as load:
        stretches = [load.stretch(0.5) for _ in range(2)]
    done = [stretch.transactions for stretch in stretches]
    assert min(done) > 0
    assert all(
        stretch.tps == pytest.approx(stretch.transactions * 1e9 / stretch.wall_ns)
        for stretch in stretches
    )
    # What was done around the stretches is counted by the server alone.
    assert server.stop().commits > sum(done)


def test_a_load_that_cannot_begin_says_why(null_server: StartNullServer) -> None:
    server = null_server()
    server.stop()
    with pytest.raises(RuntimeError, match="engine: "), SteadyLoad(Load(server.target, 1, 1, 1)):
        pass
