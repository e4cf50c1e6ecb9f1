"""A long load from eight workers: the memory of the lab, the workers and the engines stays flat."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.features.hosts.workers import children, workers_of
from tests.fixtures.command import Command, server_options

from pgdyno.server.target import Target

pytestmark = [pytest.mark.pg, pytest.mark.slow]

SLACK_BYTES = 4_000_000


@pytest.mark.parametrize("seconds", [40, 600])
def test_memory_of_a_load_from_eight_workers_is_flat(
    pgdyno: Command, database15: Target, tmp_path: Path, seconds: int
) -> None:
    script = tmp_path / "read.sql"
    script.write_text("SELECT 1;\n\\sleep 20 ms\n")
    load = ("-f", script, "-c", "16", "-T", f"{seconds}s", "--warmup", "0", "--reset", "none")
    hosts = ("--hosts", "local:8", "--json", "-q")
    running = pgdyno.start("bench", *server_options(database15), *load, *hosts)
    samples: list[dict[str, int]] = []
    while running.process.poll() is None:
        workers = workers_of(running)
        engines = [pid for worker in workers for pid in children(worker)]
        if len(engines) == 8:
            kinds = {"lab": [running.process.pid], "workers": workers, "engines": engines}
            samples.append({kind: sum(map(resident_bytes, pids)) for kind, pids in kinds.items()})
        time.sleep(seconds / 80)
    said = running.wait()
    assert said.code in (0, 3), said.err
    assert [host["lost"] for host in said.document["hosts"]] == [None] * 8
    # The first quarter fills caches; at the end the first engines may have ended.
    quarter = len(samples) // 4
    assert quarter > 5, samples
    for kind in samples[0]:
        early = max(sample[kind] for sample in samples[quarter : 2 * quarter])
        late = max(sample[kind] for sample in samples[-quarter:])
        assert late <= 1.05 * early + SLACK_BYTES, f"{kind}: {early} bytes, then {late}"


def resident_bytes(pid: int) -> int:
    """Return the memory of a process, shared pages included; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096
    except OSError:
        return 0
