"""Runs the programs that are compared: one function for each, which returns a `Measured`."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench import processes
from bench.processes import Ended
from bench.yardsticks import program_path
from pgdyno.clock import monotonic_ns, read_pair
from pgdyno.engine.executable import engine_path
from pgdyno.engine.job import (
    BuiltinScript,
    ClockPairModel,
    ClosedLoop,
    Connect,
    DatasetOptions,
    EngineTarget,
    HostPort,
    InitWork,
    Job,
    LoadWork,
    MeasureDuration,
    OpenLoop,
    RateStep,
    ScriptSource,
    TextScript,
)
from pgdyno.engine.records import Failure, Hello, Summary, parse_record
from pgdyno.measure.loading import Loading, load_dataset, load_scratch
from pgdyno.measure.run_progress import RunProgress
from pgdyno.server.find import Binaries
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target
from pgdyno.spec.dataset import PgbenchDataset

SECOND_NS = 1_000_000_000
APPLICATION_NAME = "pgdyno/bench/ratios"
_SLACK_S = 120.0


@dataclass(frozen=True, slots=True)
class Measured:
    """One run of one program. `tps` is without the time of connecting, `cpu_ns` is the whole.

    `steady_cpu_ratio`: share of a core that was used while all clients were connected.
    `connect_s`: time until all clients were connected. `watch_core_ratio`: share of a core that
    telemetry took with its backends, plus the load's loss if it was measured;
    `watch_own_core_ratio`: the same without this loss. `idle_core_ratio`: idle share of all cores.
    `page_bytes`: size of the report that was made.
    """

    program: str
    transactions: int
    tps: float
    cpu_ns: int
    wall_ns: int
    resident_bytes_max: int
    steady_cpu_ratio: float = 0.0
    connect_s: float = 0.0
    watch_core_ratio: float = 0.0
    page_bytes: int = 0
    watch_own_core_ratio: float = 0.0
    idle_core_ratio: float = 0.0

    @property
    def steady_cpu_ns_per_transaction(self) -> float:
        """Return the client's CPU time of a transaction while all clients are connected."""
        return self.steady_cpu_ratio * 1e9 / self.tps

    @property
    def cpu_ns_per_transaction(self) -> float:
        """Return the client's CPU time of a transaction, connecting included."""
        return self.cpu_ns / self.transactions


@dataclass(frozen=True, slots=True)
class Load:
    """The load for both programs: prepared select-only on `target`, or the text of a script.

    `mirror`: the transactions of a mirror instead, as the job has them.
    """

    target: Target
    clients: int
    seconds: float
    threads: int
    rate_tps: float | None = None
    script: str | None = None
    mirror: dict[str, Any] | None = None


def engine(load: Load) -> Measured:
    """Run the load engine, with the defaults of the lab."""
    measured, summary, ended = run_engine(load.target, _work_of(load), load.seconds)
    span, connecting = summary.span("measure"), summary.span("connect")
    assert span is not None, "the engine measured nothing"
    assert connecting is not None, "the engine never connected"
    return replace(
        measured,
        transactions=summary.transactions_committed_all_phases,
        tps=summary.counts.completed / ((span.ended_ns - span.began_ns) / 1e9),
        steady_cpu_ratio=_steady_cpu_ratio(ended, load),
        connect_s=(connecting.ended_ns - connecting.began_ns) / 1e9,
    )


def job_of(load: Load) -> Job:
    """Return the load in the form of the engine's job."""
    return job_with(load.target, _work_of(load))


def _work_of(load: Load) -> LoadWork:
    arrivals: ClosedLoop | OpenLoop = ClosedLoop(clients=load.clients)
    if load.rate_tps is not None:
        step = RateStep(duration_ns=0, from_tps=load.rate_tps, to_tps=load.rate_tps)
        arrivals = OpenLoop(clients=load.clients, process="poisson", steps=(step,))
    return LoadWork(
        threads=load.threads,
        seed=1,
        protocol="prepared",
        scripts=(_script(load),),
        arrivals=arrivals,
        connect=Connect(timeout_ns=60 * SECOND_NS),
        warm_ns=0,
        measure=MeasureDuration(duration_ns=int(load.seconds * SECOND_NS)),
    )


def limit(seconds: float, page_bytes: int = 0) -> Measured:
    """Return an invented run that took exactly this time, to compare with an absolute limit."""
    took_ns = round(seconds * 1e9)
    limits = Measured("limit", 1, 1 / seconds, took_ns, took_ns, 0)
    return replace(limits, connect_s=seconds, page_bytes=page_bytes)


def report(result: Path) -> Measured:
    """Make the page of a result, as `pgdyno report` does."""
    page = result / "report.html"
    argv: list[str | Path] = [sys.executable, "-m", "pgdyno.cli.main", "report", result, "-o", page]
    ended = processes.run(argv, timeout_s=60)
    made = Measured("report", 1, 0.0, ended.cpu_ns, ended.wall_ns, ended.resident_bytes_max)
    return replace(made, page_bytes=page.stat().st_size)


def _script(load: Load) -> ScriptSource:
    if load.mirror is not None:
        source = BuiltinScript(builtin="mirror")
        return ScriptSource(name="mirror", source=source, mirror=load.mirror)
    if load.script is None:
        return ScriptSource(name="select-only", source=BuiltinScript(builtin="select-only"))
    return ScriptSource(name="script", source=TextScript(text=load.script))


def engine_init(target: Target, scale: int) -> Measured:
    """Load the pgbench tables with the engine, as `pgdyno init` does by itself."""
    work = InitWork(dataset=DatasetOptions(kind="pgbench", scale=scale), mark="pgdyno bench")
    measured, _, _ = run_engine(target, work, 600)
    return measured


def scratch_init(server: ScratchCluster, target: Target, scale: int) -> Measured:
    """Load the pgbench tables of a scratch server as pgdyno does, restarts and sync included."""
    began_ns = monotonic_ns()
    how = {"clock": read_pair(), "verb": "bench", "progress": RunProgress()}
    load_scratch(server, PgbenchDataset(scale=scale), target, **how)
    return Measured("load of a scratch server", 0, 0.0, 0, monotonic_ns() - began_ns, 0)


def scratch_init_copied(server: ScratchCluster, target: Target, scale: int) -> Measured:
    """Do the same as `scratch_init`, but copy all rows: no page is written as a file."""
    began_ns = monotonic_ns()
    how = {"clock": read_pair(), "verb": "bench", "progress": RunProgress()}
    with server.loading():
        load_dataset(PgbenchDataset(scale=scale), target, how=Loading(drop_existing=True), **how)
    return Measured("load without own pages", 0, 0.0, 0, monotonic_ns() - began_ns, 0)


def engine_facts(target: Target) -> Hello:
    """Return the engine's version, build profile and commit, without connecting."""
    work = InitWork(dataset=DatasetOptions(kind="pgbench", scale=1), jobs=1, mark="pgdyno bench")
    ended = processes.run(
        [engine_path(), "check-job"], given=job_with(target, work).to_line(), timeout_s=30
    )
    hello = parse_record(ended.stdout.splitlines()[-1])
    assert isinstance(hello, Hello)
    return hello


def job_with(target: Target, work: LoadWork | InitWork) -> Job:
    """Return work on a server in the form of the engine's job."""
    clock = read_pair()
    return Job(
        clock=ClockPairModel(monotonic_ns=clock.monotonic_ns, unix_ns=clock.unix_ns),
        target=EngineTarget(
            hosts=(HostPort(host=target.host, port=target.port),),
            user=target.user,
            database=target.database,
            password=target.password,
            application_name=APPLICATION_NAME,
            sslmode="disable",
        ),
        work=work,
    )


def run_engine(
    target: Target, work: LoadWork | InitWork, seconds: float
) -> tuple[Measured, Summary, Ended]:
    """Run a job of the engine to its end; the caller adds the counts of its work.

    Raises: RuntimeError with the engine's first error.
    """
    argv: list[str | Path] = [engine_path(), "run"]
    try:
        ended = processes.run(
            argv, given=job_with(target, work).to_line(), timeout_s=seconds + _SLACK_S
        )
    except processes.Failed as failed:
        records = [parse_record(line) for line in failed.stdout.splitlines()]
        errors = [record.message for record in records if isinstance(record, Failure)]
        raise RuntimeError(f"engine: {errors[0]}" if errors else str(failed)) from failed
    records = [parse_record(line) for line in ended.stdout.splitlines()]
    summary = records[-1]
    assert isinstance(summary, Summary)
    measured = Measured("engine", 0, 0.0, ended.cpu_ns, ended.wall_ns, ended.resident_bytes_max)
    return measured, summary, ended


def pgbench(binaries: Binaries, load: Load) -> Measured:
    """Run the real pgbench binary, not a distribution's wrapper."""
    return _pgbench([binaries.program("pgbench")], load, "pgbench")


def drop_in(engine: Path, load: Load) -> Measured:
    """Run an engine, today's or an older one, as the drop-in for pgbench."""
    return _pgbench([engine, "pgbench"], load, "drop-in")


def with_poller(kind: str, load: Load) -> Measured:
    """Run today's engine as the drop-in, with this poller: `epoll` or `io_uring`."""
    return _pgbench(["env", f"PGDYNO_POLLER={kind}", engine_path(), "pgbench"], load, kind)


def _pgbench(program: list[str | Path], load: Load, name: str) -> Measured:
    argv = [*program, "-n", "-S", "-M", "prepared"]
    argv += ["-c", str(load.clients), "-j", str(load.threads), "-T", f"{load.seconds:.0f}"]
    if load.rate_tps is not None:
        argv += ["-R", f"{load.rate_tps:.0f}"]
    ended = processes.run([*argv, *where(load.target)], timeout_s=load.seconds + _SLACK_S)
    said = ended.stdout
    return Measured(
        name,
        int(_number(said, r"transactions actually processed: (\d+)")),
        _number(said, r"tps = ([\d.]+)"),
        ended.cpu_ns,
        ended.wall_ns,
        ended.resident_bytes_max,
        _steady_cpu_ratio(ended, load),
    )


def pgbench_init(binaries: Binaries, target: Target, scale: int) -> Measured:
    """Load the pgbench tables with `pgbench -i`."""
    argv: list[str | Path] = [binaries.program("pgbench"), "-i", "-q", "-s", str(scale)]
    ended = processes.run([*argv, *where(target)], timeout_s=600)
    return Measured("pgbench -i", 0, 0.0, ended.cpu_ns, ended.wall_ns, ended.resident_bytes_max)


def bare_loop(socket: Path, clients: int, seconds: float, rate_tps: float = 0) -> Measured:
    """Run the bare loop on a server's socket, closed or with Poisson arrivals at a rate."""
    program = program_path("pgdyno-bare-loop")
    argv: list[str | Path] = [program, socket, str(clients), f"{seconds:.0f}"]
    argv += [f"{rate_tps:.0f}"] if rate_tps else []
    ended = processes.run(argv, timeout_s=seconds + _SLACK_S)
    said = json.loads(ended.stdout)
    return Measured(
        "bare loop",
        said["transactions"],
        said["transactions"] / (said["wall_ns"] / 1e9),
        ended.cpu_ns,
        ended.wall_ns,
        ended.resident_bytes_max,
        said["cpu_ns"] / said["wall_ns"],
    )


def _steady_cpu_ratio(ended: Ended, load: Load) -> float:
    # Half of the load, until 0.5 s before the end of the program: in the last 0.5 s it closes its
    # connections, and pgbench opens them in the first half of the load.
    return ended.cpu_ratio_between(load.seconds / 2 + 0.5, 0.5)


def where(target: Target) -> list[str]:
    """Return the options by which PostgreSQL's programs find a server."""
    return ["-h", target.host, "-p", target.ports, "-U", target.user, target.database]


def _number(text: str, pattern: str) -> float:
    match = re.search(pattern, text)
    if match is None:
        raise RuntimeError(f"pgbench did not say {pattern!r}: {text[-500:]}")
    return float(match[1])
