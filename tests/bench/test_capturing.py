"""What a capture takes from a load that leaves no core idle: the row `capture` in small."""

from __future__ import annotations

from statistics import median

import pytest
from bench.loads import Load
from bench.rows import _BUSY_SCRIPT
from bench.steady import SteadyLoad
from tests.bench import capture_cost as capturing
from tests.fixtures.prove import Proved

from pgdyno.process import signals
from pgdyno.server.find import find

pytestmark = pytest.mark.pg
# Few clients keep two cores busy, and leave the scheduler a short list.
CLIENTS, SECONDS = 4, 8.0


@pytest.mark.slow
def test_a_capture_takes_at_most_2_percent_of_a_core_from_a_busy_source(proved: Proved) -> None:
    with capturing.counting_server(find(version="15"), scale=2) as server:
        script = _BUSY_SCRIPT.format(first_max=1000)
        with SteadyLoad(Load(server.target, CLIENTS, 0.0, 1, script=script)) as load:
            signals.sleep(3)
            took = [capturing.taken_from(load, server, SECONDS) for _ in range(3)]
    shares = sorted(run.watch_core_ratio or 0.0 for run in took)
    own = sorted(run.watch_own_core_ratio or 0.0 for run in took)
    assert median(shares) <= capturing.REACH_CORE_RATIO, (shares, own)
    proved(
        "a capture takes little from a busy source: its time, and what the load loses",
        required="at most 2 % of a core",
        seen=", ".join(f"{share:.2%}" for share in shares),
    )
