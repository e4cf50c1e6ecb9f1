"""Measures the cost of telemetry: with a load, with idle sessions, and on busy cores."""

from __future__ import annotations

import itertools
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from bench import loads, scheduling
from bench.disturbance import taken
from bench.loads import APPLICATION_NAME, Load, Measured
from bench.steady import SteadyLoad
from pgdyno.clock import monotonic_ns, read_pair
from pgdyno.features.watch.incident.sampled import asked_too
from pgdyno.observe.observer import ObservedServer, Observer
from pgdyno.observe.sql.waits import OWN_PREFIX
from pgdyno.process import signals
from pgdyno.server.connect import connect
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.store.run_writer import RunWriter

# The share of one core that all collectors and their backends may take together.
REACH_CORE_RATIO = 0.02
_numbers = itertools.count(1)
# The work that an observer does only once, at its start, is not in the stretch.
_BEGUN_S = 1.0
_SETTLED_S = 5.0


@dataclass(slots=True)
class Watched:
    """The cost of an observer after its first samples."""

    core_ratio: float = 0.0
    notices: tuple[str, ...] = ()


def engine_watched(load: Load, server: ScratchCluster, settle_s: float = 0.0) -> Measured:
    """Run the load with telemetry on: samples each second, waits ten times a second, stored.

    Args: settle_s, the time after which cost counts: slow collectors lower their rate after 10 s.
    """
    with watching(server, settle_s) as watched:
        run = loads.engine(load)
    return replace(run, watch_core_ratio=watched.core_ratio)


def stretch_watched(load: SteadyLoad, seconds: float, server: ScratchCluster) -> Measured:
    """Measure some seconds of a continuing load, with telemetry on."""
    with watching(server, 0.0) as watched:
        signals.sleep(_BEGUN_S)
        run = load.stretch(seconds)
    return replace(run, watch_core_ratio=watched.core_ratio)


def stretch_unwatched(load: SteadyLoad, seconds: float) -> Measured:
    """Measure some seconds of a continuing load, with telemetry off."""
    signals.sleep(_BEGUN_S)
    return load.stretch(seconds)


def allowed() -> Measured:
    """Return what telemetry may cost."""
    return replace(Measured("limit", 1, 0.0, 0, 1, 0), watch_core_ratio=REACH_CORE_RATIO)


def taken_from(load: SteadyLoad, server: ScratchCluster, seconds: float) -> Measured:
    """Return what telemetry takes from a continuing load, according to the kernel's scheduler.

    Raises: RuntimeError if `perf` cannot record, or if the load has ended.
    """
    before = _threads_here()
    with watching(server, 0.0):
        signals.sleep(_SETTLED_S)
        sessions = _sessions(server)
        slices = scheduling.record(seconds)
        observing = _threads_here() - before
    load.raise_if_over()
    took = taken(
        slices,
        load={pid for pid, name in sessions.items() if name.startswith(APPLICATION_NAME)},
        telemetry=observing
        | {pid for pid, name in sessions.items() if name.startswith(OWN_PREFIX)},
    )
    measured = Measured("telemetry", took.statements, 0.0, 0, round(seconds * 1e9), 0)
    return replace(
        measured,
        watch_core_ratio=took.own_ratio + took.lost_ratio,
        watch_own_core_ratio=took.own_ratio,
        idle_core_ratio=took.idle_ratio,
    )


def _threads_here() -> set[int]:
    return {int(thread.name) for thread in Path("/proc/self/task").iterdir()}


def _sessions(server: ScratchCluster) -> dict[int, str]:
    """Return application_name by process."""
    with server.connect() as session:
        rows = session.execute(
            "SELECT pid, application_name FROM pg_stat_activity"
            " WHERE backend_type = 'client backend'"
        )
        return {int(pid): str(name) for pid, name in rows}


def engine_unwatched(load: Load) -> Measured:
    """Run the load without telemetry; the allowed cost replaces a measured one."""
    return replace(loads.engine(load), watch_core_ratio=REACH_CORE_RATIO)


@contextmanager
def watching(server: ScratchCluster, settle_s: float) -> Iterator[Watched]:
    """Observe a server with all collectors of a watch; the value has the cost after the block."""
    clock, number, watched = read_pair(), next(_numbers), Watched()
    with (
        tempfile.TemporaryDirectory(prefix="bench-of-pgdyno-") as folder,
        RunWriter(Path(folder) / f"{number:04}.partial", number, "watching", {}) as sink,
    ):
        observer = Observer(
            clock=clock,
            sink=sink,
            run=f"bench.{number}",
            server=ObservedServer(
                connect=lambda: connect(server.target, verb="observe", run="bench"),
                database=server.target.database,
                load_application_name=APPLICATION_NAME,
                is_local=True,
                ask_too=asked_too,
            ),
        )
        observer.start()
        begin = _Reading(observer)
        settled = threading.Timer(settle_s, begin.take)
        settled.start()
        try:
            yield watched
        finally:
            settled.cancel()
            settled.join()
            observer.stop()
        watched.core_ratio = begin.core_ratio_since()
        watched.notices = tuple(notice.kind for notice in observer.notices)


class _Reading:
    """The cost of an observer until one instant."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self.take()

    def take(self) -> None:
        """Replace the reading by the present one."""
        self._at_ns, self._spent_ns = monotonic_ns(), _spent_ns(self._observer)

    def core_ratio_since(self) -> float:
        """Return the share of a core from the reading until now."""
        return (_spent_ns(self._observer) - self._spent_ns) / (monotonic_ns() - self._at_ns)


def _spent_ns(observer: Observer) -> int:
    rows = observer.cost.sample(0)
    return sum(int(row["cpu_ns"] or 0) + int(row["backend_cpu_ns"] or 0) for row in rows)
