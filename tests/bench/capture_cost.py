"""Measures what a capture from statistics takes from a load on the source."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from bench.disturbance import taken
from bench.loads import APPLICATION_NAME, Measured
from bench.steady import SteadyLoad

from bench import loads, scheduling
from pgdyno.process import child, signals
from pgdyno.server.find import Binaries
from pgdyno.server.scratch.cluster import ScratchCluster, ScratchRequest

# The share of one core that a capture and its backend may take. On two cores this is 1 % of tps.
REACH_CORE_RATIO = 0.02
_STARTED_S = 120.0
_SETTLED_S = 5.0
_GRACE_S = 30.0
_SESSIONS_SQL = (
    "SELECT pid, application_name FROM pg_stat_activity WHERE backend_type = 'client backend'"
)


def taken_from(load: SteadyLoad, server: ScratchCluster, seconds: float) -> Measured:
    """Return what a capture takes from a continuing load, according to the kernel's scheduler.

    Schema and statistics are read once, at the start, which is not in the time.
    Raises: RuntimeError if `perf` cannot record, or if the load or the capture has ended.
    """
    with capturing(server, seconds) as capture:
        sessions = _sessions(server)
        own = {int(thread.name) for thread in Path(f"/proc/{capture.pid}/task").iterdir()}
        slices = scheduling.record(seconds)
        if capture.poll() is not None:
            raise RuntimeError("the capture ended before its time")
    load.raise_if_over()
    backends = {pid for pid, name in sessions.items() if name.startswith("pgdyno/capture")}
    if not backends:
        raise RuntimeError("the capture has no session")
    took = taken(
        slices,
        load={pid for pid, name in sessions.items() if name.startswith(APPLICATION_NAME)},
        telemetry=own | backends,
    )
    return replace(
        Measured("capture", took.statements, 0.0, 0, round(seconds * 1e9), 0),
        watch_core_ratio=took.own_ratio + took.lost_ratio,
        watch_own_core_ratio=took.own_ratio,
        idle_core_ratio=took.idle_ratio,
    )


@contextmanager
def counting_server(binaries: Binaries, scale: int = 10) -> Iterator[ScratchCluster]:
    """Start a server with pgbench's tables that counts statements, as a source of a capture."""
    settings = {
        "shared_buffers": "512MB",
        "max_wal_size": "4GB",
        "shared_preload_libraries": "pg_stat_statements",
    }
    request = ScratchRequest(binaries, clients=300, settings=settings)
    with ScratchCluster.create(request) as server:
        loads.pgbench_init(binaries, server.target, scale)
        with server.connect() as session:
            session.execute("CREATE EXTENSION pg_stat_statements")
        yield server


@contextmanager
def capturing(server: ScratchCluster, seconds: float) -> Iterator[child.Child]:
    """Capture the server for longer than this time within the block."""
    with tempfile.TemporaryDirectory(prefix="bench-of-pgdyno-") as folder:
        path = Path(folder, "source.capture")
        target = server.target
        length_s = round(seconds + 3 * _SETTLED_S + _GRACE_S)
        argv = [sys.executable, "-m", "pgdyno.cli.main", "capture", "-q"]
        argv += ["-h", str(target.host), "-p", str(target.ports), "-U", str(target.user)]
        argv += ["-d", str(target.database), "--duration", f"{length_s}s", "-o", str(path)]
        with child.start(argv) as capture:
            waited_s = 0.0
            while not path.with_name(f"{path.name}.partial").exists():
                if (code := capture.poll()) is not None:
                    raise RuntimeError(f"the capture ended with {code} before it began")
                if waited_s > _STARTED_S:
                    raise RuntimeError(f"the capture did not begin in {_STARTED_S:g} s")
                signals.sleep(0.1)
                waited_s += 0.1
            signals.sleep(_SETTLED_S)
            yield capture
            capture.terminate(grace_s=_GRACE_S)


def _sessions(server: ScratchCluster) -> dict[int, str]:
    with server.connect() as session:
        return {int(pid): str(name) for pid, name in session.execute(_SESSIONS_SQL)}


def allowed() -> Measured:
    """Return what a capture may cost."""
    return replace(Measured("limit", 1, 0.0, 0, 1, 0), watch_core_ratio=REACH_CORE_RATIO)
