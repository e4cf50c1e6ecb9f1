"""A long load in short: the engine's memory and descriptors stay where they were."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.fixtures.engine_process import Engine, load_job
from tests.fixtures.null_server import StartNullServer
from tests.fixtures.prove import Proved

SECOND_NS = 1_000_000_000
# make prove takes ten minutes; PGDYNO_SOAK_SECONDS shortens that for a try.
PROVE_SECONDS = int(os.environ.get("PGDYNO_SOAK_SECONDS", "600"))


@dataclass(frozen=True)
class Held:
    """What the engine's process held at one moment."""

    resident_kib: int
    descriptors: int


def _held(pid: int) -> Held:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    resident = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return Held(int(resident.split()[1]), sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir()))


def _soak(
    engine: Engine,
    null_server: StartNullServer,
    *,
    clients: int,
    rate_tps: float,
    seconds: int,
    first_at_s: float,
) -> tuple[Held, Held]:
    """Return what the engine held `first_at_s` into the load, and at its end."""
    step = {"duration_ns": 0, "from_tps": rate_tps, "to_tps": rate_tps}
    job = load_job(
        null_server().target,
        "BEGIN;\nSELECT 1;\nEND;",
        clients=clients,
        measure_s=seconds,
        protocol="prepared",
        arrivals={"loop": "open", "clients": clients, "process": "poisson", "steps": [step]},
        histogram_interval_ns=SECOND_NS,
    )
    running = engine.start(job)
    began = running.await_record(record="phase", phase="measure", event="begin")
    seen: list[Held] = []
    at_s = [first_at_s, seconds - 0.5]
    while len(seen) < len(at_s):
        # Load that passes, not time: a frozen machine is looked at when it goes on.
        interval = running.await_record(record="interval", phase="measure")
        if interval["time_ns"] - began["time_ns"] >= at_s[len(seen)] * SECOND_NS:
            assert interval["connections"] == clients
            seen.append(_held(running.process.pid))
    end = running.wait(timeout_s=120)
    counts = end.summary.counts
    assert end.exit_code == 0, end.stderr
    assert counts.failed == 0
    assert counts.scheduled == counts.started + counts.skipped + counts.not_started
    assert end.summary.connections.lost_count == 0
    assert counts.completed > 0.5 * rate_tps * seconds
    return seen[0], seen[1]


def _says(early: Held, late: Held) -> str:
    return (
        f"resident {early.resident_kib / 1024:.1f} -> {late.resident_kib / 1024:.1f} MiB, "
        f"descriptors {early.descriptors} -> {late.descriptors}"
    )


def test_memory_and_descriptors_are_flat_over_a_load(
    engine: Engine, null_server: StartNullServer
) -> None:
    early, late = _soak(engine, null_server, clients=500, rate_tps=1000, seconds=20, first_at_s=5)
    assert late.descriptors == early.descriptors, _says(early, late)
    assert late.resident_kib <= early.resident_kib + 4096, _says(early, late)


@pytest.mark.slow
def test_ten_minutes_at_eight_thousand_clients_leave_no_trace(
    engine: Engine, null_server: StartNullServer, proved: Proved
) -> None:
    early, late = _soak(
        engine,
        null_server,
        clients=8000,
        rate_tps=2000,
        seconds=PROVE_SECONDS,
        first_at_s=PROVE_SECONDS / 10,
    )
    assert late.descriptors == early.descriptors
    # A tenth of a MiB a minute would be 144 MiB a day.
    assert late.resident_kib <= early.resident_kib * 1.01 + 1024
    assert late.resident_kib <= 64 * 1024
    required = "resident + 1 % and 1 MiB at most, 64 MiB in all; descriptors as they were"
    proved(f"soak: 8,000 clients, {PROVE_SECONDS} s", required=required, seen=_says(early, late))
