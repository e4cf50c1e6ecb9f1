"""The programs that are compared: what they say is read, what they cost is counted."""

from __future__ import annotations

import sys

import pytest
from bench.loads import Load
from tests.fixtures import needs
from tests.fixtures.null_server import StartNullServer

from bench import loads, processes
from pgdyno.server.find import find

BURN = "import time\nt = time.process_time()\nwhile time.process_time() - t < 0.3: pass\nprint('x')"


def test_the_cpu_time_of_a_program_is_its_own() -> None:
    ended = processes.run([sys.executable, "-c", BURN], timeout_s=30)
    assert ended.stdout == "x\n"
    assert 3e8 <= ended.cpu_ns < 3e9
    assert ended.resident_bytes_max > 1 << 20


def test_a_program_that_fails_says_why() -> None:
    with pytest.raises(processes.Failed, match="ended with 3: out of luck"):
        processes.run(
            [sys.executable, "-c", "import sys; print('out of luck'); sys.exit(3)"], timeout_s=30
        )


@needs.POSTGRESQL_15
def test_pgbench_and_the_bare_loop_agree_with_the_server_about_what_they_did(
    null_server: StartNullServer,
) -> None:
    server = null_server()
    ours = loads.bare_loop(server.socket, 4, 1)
    theirs = loads.pgbench(find(version="15"), Load(server.target, 4, 1, 1))
    assert ours.tps > 0
    assert theirs.tps > 0
    tally = server.stop()
    # pgbench asks for the scale and the partitions before it begins.
    assert tally.commits == ours.transactions + theirs.transactions + 2


def test_the_bare_loop_at_a_rate_does_the_arrivals_of_its_time(
    null_server: StartNullServer,
) -> None:
    server = null_server()
    ours = loads.bare_loop(server.socket, 20, 1, 400)
    assert server.stop().commits == ours.transactions
    assert 300 < ours.transactions < 500  # 400 by Poisson: five standard deviations.


def test_the_engine_agrees_with_the_server_about_what_it_did(
    null_server: StartNullServer,
) -> None:
    server = null_server()
    ours = loads.engine(Load(server.target, 4, 1, 1))
    assert ours.tps > 0
    assert 0 <= server.stop().commits - ours.transactions <= 10
