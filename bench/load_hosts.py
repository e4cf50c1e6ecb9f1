"""Rows about load from several load hosts: four workers on this host against one engine."""

from __future__ import annotations

import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

from bench import loads
from bench.contest import Contest, Question
from bench.figures import cpu_per_transaction, duration, start_skew, throughput
from bench.loads import SECOND_NS, Load, Measured
from bench.yardsticks import NullServer
from pgdyno.analysis.compare import shuffled
from pgdyno.clock import monotonic_ns, read_pair
from pgdyno.engine.stream import EngineRun
from pgdyno.measure.fleet import opened_fleet
from pgdyno.measure.run_progress import Progress
from pgdyno.process import child

if TYPE_CHECKING:
    from bench.rows import Bench
    from pgdyno.features.hosts.fleet import Fleet
    from pgdyno.features.hosts.run import HostsRun
    from pgdyno.server.target import Target

HOSTS = 4
CLIENTS = 8
# Probes and certificates cost the same in a run of any length.
_LONG_S, _SHORT_S = 10.0, 1.0
_SKEW_MAX_NS = 5_000_000
_ADDED_TO_RUN_S, _ADDED_TO_EXPERIMENT_S = 1.0, 3.0
_WIDE = 0.3
_SLACK_S = 120.0


def load_hosts(bench: Bench) -> Iterator[Contest]:
    """Four workers with one thread each against one engine with four, on the null server.

    CPU time is that of all processes here: engines, workers and the lab, probes of the clocks
    included.
    """
    null = bench.stack.enter_context(NullServer())
    load, short = (Load(null.target, CLIENTS, seconds, HOSTS) for seconds in (_LONG_S, _SHORT_S))
    with opened_fleet(f"local:{HOSTS}", Progress()) as fleet:
        assert fleet is not None
        yield Contest(
            f"{HOSTS} load hosts on one host vs one engine with {HOSTS} threads",
            partial(one_engine, load),
            partial(on_hosts, fleet, load),
            (
                Question("client CPU per transaction", cpu_per_transaction, 1.05, "at most"),
                Question("tps", throughput, 0.97, "at least"),
            ),
        )
        yield Contest(
            f"skew of the start of {HOSTS} load hosts vs 5 ms",
            lambda: Measured("limit", 1, 1.0, 1, 1, 0, start_skew_ns=_SKEW_MAX_NS),
            partial(on_hosts, fleet, short),
            (Question("", start_skew, 1.0, "at most"),),
            half_width_ratio=math.inf,
            pairs_in_one=2,
        )
        in_turn = _InTurn(partial(one_engine, short), partial(on_hosts, fleet, short))
        yield Contest(
            f"seconds that {HOSTS} load hosts add to a run vs {_ADDED_TO_RUN_S:g} s",
            partial(loads.limit, _ADDED_TO_RUN_S),
            in_turn.added,
            (Question("", duration, 1.0, "at most"),),
            half_width_ratio=_WIDE,
        )


def opening(bench: Bench) -> Iterator[Contest]:
    """The seconds that load hosts add to `pgdyno bench` with one run, its start included."""
    in_turn = _InTurn(
        partial(command, bench.server.target),
        partial(command, bench.server.target, "--hosts", f"local:{HOSTS}"),
    )
    yield Contest(
        f"seconds that {HOSTS} load hosts add to an experiment vs {_ADDED_TO_EXPERIMENT_S:g} s",
        partial(loads.limit, _ADDED_TO_EXPERIMENT_S),
        in_turn.added,
        (Question("", duration, 1.0, "at most"),),
        half_width_ratio=_WIDE,
    )


class _InTurn:
    """Runs one load without load hosts and with them, and says how much longer the latter took."""

    def __init__(self, without: partial[Measured], with_hosts: partial[Measured]) -> None:
        self._sides = (without, with_hosts)
        self._pair_count = 0

    def added(self) -> Measured:
        """Return a run that took as long as load hosts add; at least 1 ms, for its logarithm."""
        self._pair_count += 1
        order = shuffled((0, 1), 1, self._pair_count)
        took_ns = {side: self._sides[side]().wall_ns for side in order}
        added_ns = max(1_000_000, took_ns[1] - took_ns[0])
        return Measured("load hosts", 1, 0.0, 0, added_ns, 0)


def one_engine(load: Load) -> Measured:
    """Run the load as the lab does without load hosts."""
    with tempfile.TemporaryFile() as log:
        return _measured(lambda: EngineRun(loads.job_of(load), log=log))


def on_hosts(fleet: Fleet, load: Load) -> Measured:
    """Run the load on all hosts of a fleet."""
    with tempfile.TemporaryFile() as log:
        return _measured(lambda: _hosts_run(fleet, load, log))


def _hosts_run(fleet: Fleet, load: Load, log: IO[bytes]) -> HostsRun:
    clock = read_pair()
    job = loads.job_of(replace(load, threads=fleet.threads_for(load.clients, load.threads)))
    return fleet.load(job, clock, log=log)


def _measured(make: Callable[[], EngineRun | HostsRun]) -> Measured:
    """Return the run with the CPU time of the engines, of the workers and of the lab."""
    lab_s = sum(os.times()[:2])
    began_ns = monotonic_ns()
    with make() as engine:
        outcome = engine.run(lambda _line, _record: None)
    wall_ns = monotonic_ns() - began_ns
    lab_ns = round((sum(os.times()[:2]) - lab_s) * SECOND_NS)
    summary = outcome.raise_if_nothing_was_measured()
    span = summary.span("measure")
    assert span is not None, "nothing was measured"
    engine_ns = summary.engine.cpu_user_ns + summary.engine.cpu_system_ns
    workers_ns = sum(host.worker_cpu_ns or 0 for host in engine.hosts)
    skews_ns = [host.start_skew_ns or 0 for host in engine.hosts]
    return Measured(
        "load hosts" if engine.hosts else "engine",
        summary.transactions_committed_all_phases,
        summary.counts.completed * SECOND_NS / (span.ended_ns - span.began_ns),
        engine_ns + workers_ns + lab_ns,
        wall_ns,
        0,
        start_skew_ns=max(skews_ns, default=0),
    )


def command(target: Target, *options: str) -> Measured:
    """Run `pgdyno bench` with a load of one second on a server."""
    with tempfile.TemporaryDirectory(prefix="bench-of-pgdyno-") as store:
        argv: list[str | Path] = [sys.executable, "-m", "pgdyno.cli.main", "bench", "-S", "-q"]
        argv += ["-h", target.host, "-p", target.ports, "-U", target.user, "-d", target.database]
        argv += ["-c", str(CLIENTS), "-T", f"{_SHORT_S:g}s", "--warmup", "0", "--reset", "none"]
        argv += ["--json", "--store", store, *options]
        done = child.run(argv, timeout_s=_SLACK_S)
    # A run of one second is too short to be valid: exit code 3.
    if done.returncode not in (0, 3):
        raise RuntimeError(f"pgdyno bench ended with {done.returncode}: {done.stderr[-300:]}")
    return Measured("bench", 1, 0.0, 0, done.duration_ns, 0)
