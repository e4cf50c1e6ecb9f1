"""Runs of the TPC-C-like program, loads of its tables, and a COPY to compare with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bench import loads, processes
from bench.loads import SECOND_NS, Measured
from pgdyno.engine.job import (
    BuiltinScript,
    ClosedLoop,
    Connect,
    DatasetOptions,
    InitWork,
    LoadWork,
    MeasureDuration,
    ScriptSource,
)
from pgdyno.server.connect import connect
from pgdyno.server.dataset.kinds import KINDS
from pgdyno.server.find import Binaries
from pgdyno.server.target import Target

# NURand's constant of last names in the loaded rows; a run uses a constant that fits it.
_C_LAST = 157
_COPY_TIMEOUT_S = 600
RESULTS = Path(__file__).with_name("tpcc_results.tsv")
"""Answers of the null server to the program's statements."""
NULL_SERVER_WAREHOUSES = 2
"""The number in the dataset mark of RESULTS."""
_FILLFACTOR = 90
"""The fill factor that the loader uses for stock, so that both write equally many pages."""


def load(target: Target, warehouses: int) -> Measured:
    """Load the nine tables with their keys; the throughput is bytes of tables a second."""
    work = InitWork(
        dataset=DatasetOptions(kind="tpcc", warehouses=warehouses, seed=1, c_last=_C_LAST),
        mark=f"pgdyno dataset tpcc c_last={_C_LAST} seed=1 warehouses={warehouses}",
    )
    measured, _, _ = loads.run_engine(target, work, _COPY_TIMEOUT_S)
    return replace(measured, tps=_tables_bytes(target) / (measured.wall_ns / 1e9))


def export_stock(binaries: Binaries, target: Target, path: Path) -> None:
    """Write the table stock to a file that psql can read."""
    _psql(binaries, target, f"\\copy stock to '{path}'")


def copy_stock(binaries: Binaries, target: Target, path: Path) -> Measured:
    """Copy the file into a new table; the throughput is bytes of the table a second."""
    create = f"CREATE TABLE copied (LIKE stock) WITH (fillfactor = {_FILLFACTOR})"
    with connect(target, verb="bench") as session:
        session.execute("DROP TABLE IF EXISTS copied")
        session.execute("CHECKPOINT")
    commands = ("BEGIN", create, f"\\copy copied from '{path}' with (freeze)", "COMMIT")
    ended = _psql(binaries, target, *commands)
    with connect(target, verb="bench") as session:
        [[size_bytes]] = session.execute("SELECT pg_table_size('copied')").fetchall()
        session.execute("DROP TABLE copied")
    rate = size_bytes / (ended.wall_ns / 1e9)
    return Measured("psql copy", 0, rate, ended.cpu_ns, ended.wall_ns, ended.resident_bytes_max)


def statements(target: Target, clients: int, seconds: float) -> Measured:
    """Run the program with one thread, a round trip a statement; a transaction is a round trip."""
    script = ScriptSource(
        name="tpcc-like",
        source=BuiltinScript(builtin="tpcc-like"),
        options={"mode": "statements"},
    )
    work = LoadWork(
        threads=1,
        seed=1,
        protocol="prepared",
        scripts=(script,),
        arrivals=ClosedLoop(clients=clients),
        connect=Connect(timeout_ns=60 * SECOND_NS, background_terminals=-(-clients // 5)),
        warm_ns=0,
        measure=MeasureDuration(duration_ns=int(seconds * SECOND_NS)),
    )
    measured, summary, ended = loads.run_engine(target, work, seconds)
    span = summary.span("measure")
    assert span is not None, "the engine measured nothing"
    return replace(
        measured,
        transactions=summary.traffic.round_trips,
        tps=summary.traffic.round_trips / ((span.ended_ns - span.began_ns) / 1e9),
        steady_cpu_ratio=ended.cpu_ratio_between(seconds / 2 + 0.5, 0.5),
    )


def _tables_bytes(target: Target) -> int:
    with connect(target, verb="bench") as session:
        [[size_bytes]] = session.execute(
            "SELECT sum(pg_table_size(name::regclass))::int8 FROM unnest(%s::text[]) AS name",
            [list(KINDS["tpcc"].tables)],
        ).fetchall()
    return int(size_bytes)


def _psql(binaries: Binaries, target: Target, *commands: str) -> processes.Ended:
    argv: list[str | Path] = [binaries.program("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1"]
    for command in commands:
        argv += ["-c", command]
    return processes.run([*argv, *loads.where(target)], timeout_s=_COPY_TIMEOUT_S)
