"""The rows of `make bench`: one function for each row, which yields its contests."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from psycopg import sql

from bench import loads, tpcc
from bench import watching as telemetry
from bench.contest import Contest, Question
from bench.figures import (
    connecting,
    cpu,
    cpu_per_transaction,
    duration,
    page_size,
    peak_memory,
    steady_cpu_per_transaction,
    throughput,
    watch_cost,
)
from bench.hour import generate_hour
from bench.loads import Load, Measured
from bench.steady import SteadyLoad
from bench.yardsticks import NullServer
from pgdyno.engine.executable import engine_path
from pgdyno.process import signals
from pgdyno.server.scratch.cluster import ScratchCluster, ScratchRequest
from pgdyno.server.target import Target
from pgdyno.store.experiment import Store

CLIENTS = (8, 64, 250)
MIB = 1 << 20
TPCC_WAREHOUSES = 10
_QUICK_SECONDS = 3
# The largest first row of a statement, by the size of all rows that statements read. 0.8 MB fit
# into the cache of a core. 12 MB need the cache that other machines on this hardware use, too.
_BUSY_ROWS = {"0.8 MB": 1000, "12 MB": 90_000}
_BUSY_SCRIPT = r"""
\set aid random(1, {first_max})
SELECT sum(abalance) FROM pgbench_accounts WHERE aid BETWEEN :aid AND :aid + 5000;
"""
_database_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Bench:
    """What a row may use: a server with loaded pgbench tables, and the length of a run.

    `threads`: the number that the lab chooses, for both programs; on two cores this is 1, as
    pgbench's default. `engine_before`: an older engine to compare today's with.
    """

    server: ScratchCluster
    seconds: float
    init_scale: int
    threads: int
    stack: ExitStack
    engine_before: Path | None = None


def select_only(bench: Bench) -> Iterator[Contest]:
    """Prepared select-only on a real server, against pgbench."""
    for clients in CLIENTS:
        load = Load(bench.server.target, clients, bench.seconds, min(bench.threads, clients))
        yield Contest(
            f"-S prepared, {clients} clients",
            partial(loads.pgbench, bench.server.binaries, load),
            partial(loads.engine, load),
            (
                Question("client CPU per transaction", cpu_per_transaction, 0.7, "at most"),
                Question("tps", throughput, 1.15, "at least"),
            ),
        )


def engine_before(bench: Bench) -> Iterator[Contest]:
    """Prepared select-only by today's engine, against an older one (`--engine-before`)."""
    if bench.engine_before is None:
        raise RuntimeError("no older engine was named: give --engine-before PATH")
    for clients in CLIENTS:
        load = Load(bench.server.target, clients, bench.seconds, min(bench.threads, clients))
        yield Contest(
            f"engine before, {clients} clients",
            partial(loads.drop_in, bench.engine_before, load),
            partial(loads.drop_in, engine_path(), load),
            (Question("client CPU per transaction", cpu_per_transaction, 1.01, "at most"),),
            half_width_ratio=0.005,
        )


def bare_loop(bench: Bench) -> Iterator[Contest]:
    """What the engine costs beyond the system calls that every client needs."""
    for clients in (8, 64):
        null = bench.stack.enter_context(NullServer())
        load = Load(null.target, clients, bench.seconds, 1)
        yield Contest(
            f"null server, {clients} clients, vs bare loop",
            partial(loads.bare_loop, null.socket, clients, bench.seconds),
            partial(loads.engine, load),
            (Question("client CPU per transaction", cpu_per_transaction, 1.25, "at most"),),
        )


def many_connections(bench: Bench) -> Iterator[Contest]:
    """8,000 connections that share 2,000 transactions a second, against pgbench."""
    null = bench.stack.enter_context(NullServer())
    # One thread each, as pgbench takes by itself.
    load = Load(null.target, 8000, 2 * bench.seconds, 1, rate_tps=2000)
    yield Contest(
        "8,000 connections, 2,000 tx/s",
        partial(loads.pgbench, bench.server.binaries, load),
        partial(loads.engine, load),
        (
            Question("client CPU per transaction", steady_cpu_per_transaction, 0.1, "at most"),
            # pgbench needs 107 MiB for these; 64 MiB is 0.6 of that.
            Question("resident memory", peak_memory, 64 / 107, "at most"),
        ),
    )
    yield Contest(
        "8,000 connections, 2,000 tx/s, vs bare loop",
        partial(loads.bare_loop, null.socket, 8000, 2 * bench.seconds, 2000),
        partial(loads.engine, load),
        (Question("client CPU per transaction", steady_cpu_per_transaction, 1.25, "at most"),),
    )
    short = Load(null.target, 8000, 1, bench.threads, rate_tps=2000)
    yield Contest(
        "8,000 connections opened, vs one second",
        partial(loads.limit, 1.0),
        partial(loads.engine, short),
        (Question("", connecting, 1.0, "at most"),),
    )


def init(bench: Bench) -> Iterator[Contest]:
    """Loading the pgbench tables, against `pgbench -i`."""

    def theirs() -> Measured:
        with_database = _fresh_database(bench.server)
        return loads.pgbench_init(bench.server.binaries, with_database, bench.init_scale)

    def ours() -> Measured:
        with_database = _fresh_database(bench.server)
        return loads.engine_init(with_database, bench.init_scale)

    yield Contest(
        f"init, scale {bench.init_scale}",
        theirs,
        ours,
        (Question("duration", duration, 1 / 1.5, "at most"),),
    )


def init_of_scratch_server(bench: Bench) -> Iterator[Contest]:
    """Loading a scratch server as pgdyno does: restarts and sync are part of it."""
    request = ScratchRequest(bench.server.binaries, clients=20)
    server = bench.stack.enter_context(ScratchCluster.create(request))

    def theirs() -> Measured:
        return loads.pgbench_init(server.binaries, _fresh_database(server), bench.init_scale)

    def ours() -> Measured:
        return loads.scratch_init(server, _fresh_database(server), bench.init_scale)

    yield Contest(
        f"init of a scratch server, scale {bench.init_scale}",
        theirs,
        ours,
        (Question("duration", duration, 1 / 1.5, "at most"),),
    )


def heap_pages(bench: Bench) -> Iterator[Contest]:
    """Tables of scale 100 on a scratch server: pages written as files, against copied rows."""
    request = ScratchRequest(bench.server.binaries, clients=20)
    server = bench.stack.enter_context(ScratchCluster.create(request))
    scale = 2 * bench.init_scale

    def copied() -> Measured:
        return loads.scratch_init_copied(server, _fresh_database(server), scale)

    def written() -> Measured:
        return loads.scratch_init(server, _fresh_database(server), scale)

    yield Contest(
        f"own pages, scale {scale}, vs copied rows",
        copied,
        written,
        (Question("duration", duration, 1 / 1.25, "at most"),),
    )


def io_uring(bench: Bench) -> Iterator[Contest]:
    """Prepared select-only on a real server: io_uring against epoll."""
    for clients in CLIENTS:
        load = Load(bench.server.target, clients, bench.seconds, min(bench.threads, clients))
        yield Contest(
            f"io_uring vs epoll, {clients} clients",
            partial(loads.with_poller, "epoll", load),
            partial(loads.with_poller, "io_uring", load),
            (Question("client CPU per transaction", cpu_per_transaction, 0.9, "at most"),),
        )


def watching(bench: Bench) -> Iterator[Contest]:
    """Telemetry at its usual intervals: the cost of collectors and backends against its limit."""
    load = Load(bench.server.target, 250, 2 * bench.seconds, bench.threads)
    yield Contest(
        "telemetry on vs off, 250 clients",
        partial(telemetry.engine_unwatched, load),
        partial(telemetry.engine_watched, load, bench.server),
        (Question("collectors vs 2 % of a core", watch_cost, 1.0, "at most"),),
    )
    # Almost no load, so that only the number of sessions costs. The sampler of waits lowers its
    # rate after 10 s.
    settings = {"shared_buffers": "128MB", "max_connections": "2100"}
    server = bench.stack.enter_context(
        ScratchCluster.create(
            ScratchRequest(bench.server.binaries, clients=2000, settings=settings)
        )
    )
    idle = Load(server.target, 2000, 8 * bench.seconds, 1, rate_tps=20, script="SELECT 1;")
    yield Contest(
        "telemetry on vs off, 2,000 sessions",
        partial(telemetry.engine_unwatched, idle),
        partial(telemetry.engine_watched, idle, server, 15.0),
        (Question("collectors vs 2 % of a core", watch_cost, 1.0, "at most"),),
    )


def busy_load(bench: Bench, size: str) -> Load:
    """Return a load that leaves no core idle: every microsecond taken from it is lost.

    Statements last half a millisecond. With shorter statements the load varies by 8 % from second
    to second, because replies arrive in groups.
    """
    script = _BUSY_SCRIPT.format(first_max=_BUSY_ROWS[size])
    return Load(bench.server.target, 250, 0.0, bench.threads, script=script)


def busy_cores(bench: Bench) -> Iterator[Contest]:
    """Telemetry on against off, in stretches of one load that leaves no core idle."""
    # One pair of 20 s scatters by 1.2 % with 0.8 MB of rows, by 2.2 % with 12 MB.
    stretch_s = 4 * bench.seconds
    for size in _BUSY_ROWS:
        with SteadyLoad(busy_load(bench, size)) as going_on:
            # The first seconds are slower, so they belong to neither side.
            telemetry.stretch_unwatched(going_on, stretch_s)
            yield Contest(
                f"telemetry on vs off, 250 clients on busy cores, {size} of rows",
                partial(telemetry.stretch_unwatched, going_on, stretch_s),
                partial(telemetry.stretch_watched, going_on, stretch_s, bench.server),
                (Question("tps", throughput, 0.99, "at least"),),
                half_width_ratio=0.0025,
            )


def taken(bench: Bench) -> Iterator[Contest]:
    """Telemetry with 250 clients on busy cores: its time, and what else the load loses.

    The limit of 2 % of one core is 1 % of two cores.
    """
    for size in _BUSY_ROWS:
        load = busy_load(bench, size)
        with SteadyLoad(load) as going_on:
            signals.sleep(2 * bench.seconds)
            yield Contest(
                f"telemetry and what a load loses to it on busy cores, {size} of rows",
                telemetry.allowed,
                partial(telemetry.taken_from, going_on, bench.server, 8 * bench.seconds),
                (Question("vs 2 % of a core", watch_cost, 1.0, "at most"),),
                half_width_ratio=0.08,
            )


def report(bench: Bench) -> Iterator[Contest]:
    """The page of an hour: the whole process, for which a user waits."""
    place = bench.stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-of-pgdyno-"))
    folder = generate_hour(Store(Path(place)))
    yield Contest(
        "report of an hour vs 2 s and 2.5 MB",
        partial(loads.limit, 2.0, page_bytes=2_500_000),
        partial(loads.report, folder.folder),
        (
            Question("duration", duration, 1.0, "at most"),
            Question("CPU", cpu, 1.0, "at most"),
            Question("page", page_size, 1.0, "at most"),
        ),
    )


def tpcc_statements(bench: Bench) -> Iterator[Contest]:
    """Client CPU a round trip of the TPC-C-like program, against the bare loop.

    Both use the same null server, which lists the results of the program's statements: once as fast
    as it can answer, and once at the pace of the real server. At that pace a client wakes up for
    fewer answers at a time.
    """
    target = _fresh_database(bench.server)
    tpcc.load(target, tpcc.NULL_SERVER_WAREHOUSES)
    for clients in (8, 16):
        service_us = round(clients * 1e6 / tpcc.statements(target, clients, bench.seconds).tps)
        for pace, microseconds in (("", 0), (" at a real pace", service_us)):
            options = ("--service-us", str(microseconds), "--canned", str(tpcc.RESULTS))
            null = bench.stack.enter_context(NullServer(options))
            yield Contest(
                f"tpcc-like statements, {clients} clients{pace}, vs bare loop",
                partial(loads.bare_loop, null.socket, clients, bench.seconds),
                partial(tpcc.statements, null.target, clients, bench.seconds),
                (
                    Question(
                        "client CPU per round trip", steady_cpu_per_transaction, 1.3, "at most"
                    ),
                ),
            )


def tpcc_load(bench: Bench) -> Iterator[Contest]:
    """Bytes of tables a second: all nine tables with their keys, against \\copy of stock alone."""
    warehouses = TPCC_WAREHOUSES if bench.seconds > _QUICK_SECONDS else 2
    with bench.server.connect() as session:
        session.execute("DROP DATABASE IF EXISTS tpcc_stock")
        session.execute("CREATE DATABASE tpcc_stock")
    donor = bench.server.target.with_database("tpcc_stock")
    tpcc.load(donor, warehouses)
    folder = bench.stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-of-pgdyno-"))
    path = Path(folder) / "stock"
    tpcc.export_stock(bench.server.binaries, donor, path)
    yield Contest(
        f"init tpcc, {warehouses} warehouses, vs \\copy of stock",
        partial(tpcc.copy_stock, bench.server.binaries, donor, path),
        lambda: tpcc.load(_fresh_database(bench.server), warehouses),
        (Question("table bytes per second", throughput, 0.5, "at least"),),
    )


def _fresh_database(server: ScratchCluster) -> Target:
    """Replace the database of the last run by an empty one, after a checkpoint."""
    number = next(_database_numbers)
    with server.connect() as session:
        for name, verb in (
            (number - 1, "DROP DATABASE IF EXISTS {}"),
            (number, "CREATE DATABASE {}"),
        ):
            session.execute(sql.SQL(verb).format(sql.Identifier(f"init_{name}")))
        session.execute("CHECKPOINT")
    return server.target.with_database(f"init_{number}")


ROWS: dict[str, Callable[[Bench], Iterator[Contest]]] = {
    "select-only": select_only,
    "bare-loop": bare_loop,
    "many-connections": many_connections,
    "init": init,
    "init-scratch": init_of_scratch_server,
    "watching": watching,
    "busy-cores": busy_cores,
    "taken": taken,
    "report": report,
    "tpcc-statements": tpcc_statements,
    "tpcc-load": tpcc_load,
}
# Rows that run only if they are named: they need a file that a fresh clone does not have, or decide
# whether a part of the product stays.
BY_NAME: dict[str, Callable[[Bench], Iterator[Contest]]] = {
    "engine-before": engine_before,
    "heap-pages": heap_pages,
    "io-uring": io_uring,
}
