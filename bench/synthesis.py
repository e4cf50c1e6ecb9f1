"""Rows made from distributions, against COPY of the same rows from a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from psycopg import sql

from bench import loads
from bench.loads import Measured
from pgdyno.clock import monotonic_ns
from pgdyno.engine.distribution import Distribution, Hot
from pgdyno.engine.job import CapturedColumn, CapturedOptions, CapturedTable, InitWork
from pgdyno.server.connect import connect
from pgdyno.server.target import Target

ROWS = 1_000_000
_TABLE = (
    "CREATE TABLE orders (id bigint, customer bigint, state text, made timestamptz, total"
    " numeric(10,2), mail text, paid boolean, note text)"
)
_CHUNK_BYTES = 1 << 20


def _column(name: str, correlation: float = 0.0, **distribution: object) -> CapturedColumn:
    made = Distribution.model_validate(distribution)
    return CapturedColumn(name=name, distribution=made, correlation=correlation)


def _work() -> InitWork:
    states = tuple(Hot(value=v, fraction=f) for v, f in (("sent", 0.8), ("new", 0.15)))
    columns = (
        _column("id", 1.0, kind="integer", distinct=ROWS, bounds=("1", str(ROWS)), is_dense=True),
        _column("customer", kind="integer", distinct=ROWS / 10, bounds=("1", "5000", "100000")),
        _column("state", kind="text", distinct=9, hot=states, bounds=("a", "z"), width=4),
        _column(
            "made",
            0.95,
            kind="timestamptz",
            distinct=ROWS,
            bounds=("2024-01-01 00:00:00+00", "2026-01-01 00:00:00+00"),
        ),
        _column("total", kind="numeric", distinct=90_000, bounds=("0.99", "20.00", "990.00")),
        _column("mail", kind="text", distinct=ROWS / 10, bounds=("aa@x", "zz@x"), width=22),
        _column("paid", kind="boolean", distinct=2),
        _column("note", kind="text", null_fraction=0.5, distinct=ROWS / 2, width=120),
    )
    table = CapturedTable(name="orders", rows=ROWS, columns=columns)
    dataset = CapturedOptions(creation=(_TABLE,), marked=(), removal=(), tables=(table,))
    return InitWork(dataset=dataset, jobs=1, mark="pgdyno bench")


def made(target: Target) -> Measured:
    """Make the rows from their distributions. The last step, VACUUM ANALYZE, is not counted."""
    measured, summary, _ = loads.run_engine(target, _work(), 600)
    assert summary.init is not None, "the job loads a dataset"
    load = next(step for step in summary.init.steps if step.phase == "load")
    return replace(measured, wall_ns=load.ended_ns - load.began_ns)


def copied(target: Target, rows: Path) -> Measured:
    """COPY the same rows from a file, frozen as the engine does it.

    Args: rows, the file; it is made first if it does not exist.
    """
    if not rows.exists():
        loads.run_engine(target, _work(), 600)
        with connect(target, verb="bench") as connection, rows.open("wb") as stream:
            with connection.cursor().copy("COPY orders TO STDOUT") as copy:
                for block in copy:
                    stream.write(block)
            connection.execute("DROP TABLE orders")
    with connect(target, verb="bench") as connection:
        connection.execute("SET statement_timeout = 0")
        began_ns = monotonic_ns()
        with connection.transaction():
            connection.execute(sql.SQL(_TABLE))
            with (
                rows.open("rb") as stream,
                connection.cursor().copy("COPY orders FROM STDIN WITH (FREEZE)") as copy,
            ):
                while block := stream.read(_CHUNK_BYTES):
                    copy.write(block)
        return Measured("COPY", 0, 0.0, 0, monotonic_ns() - began_ns, 0)
