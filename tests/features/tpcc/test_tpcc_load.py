"""A load of the TPC-C-like tables that is killed, or loses its server, ends as an undisturbed one.

The moments are random; the seed is printed.
"""

from __future__ import annotations

import signal
from functools import partial
from typing import Any

import psycopg
import pytest
from tests.fixtures.clusters import Make, connection, run_sql
from tests.fixtures.command import Command, RunningCommand, eventually, server_options
from tests.fixtures.engine_process import Engine, RunningEngine, job_for
from tests.fixtures.killed_loads import Interrupt, interrupt_and_resume, kill

from pgdyno.engine.job import Job
from pgdyno.server.dataset.inspection import MARK
from pgdyno.server.dataset.kinds import KINDS
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target

pytestmark = pytest.mark.pg
TABLES = list(KINDS["tpcc"].tables)
PLAIN: dict[str, Any] = {}
LEAVES = {"partitions": 3, "foreign_keys": True}
# Independent of the order of rows, and of the partition that has them.
ROWS = "SELECT count(*), sum(hash_record_extended(t, 0)::numeric) FROM {} AS t"
CATALOGUE = (
    "SELECT relname, relkind, relpersistence, reloptions, relhasindex,"
    " obj_description(oid, 'pg_class') FROM pg_class WHERE relnamespace = 'public'::regnamespace"
    " ORDER BY 1",
    "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1",
    "SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint"
    " WHERE connamespace = 'public'::regnamespace AND contype <> 'n' ORDER BY 1, 2",
)


def contents(target: Target) -> list[list[Any]]:
    """Return a checksum of the rows of each table, and the catalogue's view of them."""
    rows = [run_sql(target, ROWS.format(table)) for table in TABLES]
    return rows + [run_sql(target, query) for query in CATALOGUE]


def job_of(target: Target, changes: dict[str, Any], **how: bool) -> Job:
    """Return the job that loads one warehouse."""
    dataset = {"kind": "tpcc", "warehouses": 1, "seed": 7, "c_last": 100, **changes}
    mark = f"{MARK} tpcc warehouses=1 seed=7"
    work = {"kind": "init", "dataset": dataset, "mark": mark, "jobs": 2, "keep_unfinished": True}
    return job_for(target, work | how)


def test_a_load_killed_twice_without_its_server_equals_an_undisturbed_one(
    engine: Engine, new_cluster: Make
) -> None:
    cluster = new_cluster("15", listens_tcp=False)
    interrupts = (kill, _loss_of(cluster), kill)
    _interrupt(engine, cluster.target, 3, seed=3, changes=LEAVES, interrupts=interrupts)


@pytest.mark.slow
@pytest.mark.parametrize("changes", [PLAIN, LEAVES], ids=["tables", "partitions"])
def test_a_load_killed_ten_times_equals_an_undisturbed_one(
    engine: Engine, database: Target, changes: dict[str, Any]
) -> None:
    _interrupt(engine, database, 10, seed=10, changes=changes, interrupts=(kill,))


@pytest.mark.slow
@pytest.mark.parametrize("version", ["15", "18"])
def test_a_load_that_loses_its_server_ten_times_equals_an_undisturbed_one(
    engine: Engine, new_cluster: Make, version: str
) -> None:
    cluster = new_cluster(version, listens_tcp=False)
    interrupts = (_loss_of(cluster),)
    _interrupt(engine, cluster.target, 10, seed=11, changes=PLAIN, interrupts=interrupts)


def _loss_of(cluster: ScratchCluster) -> Interrupt:
    def lose_server(running: RunningEngine) -> None:
        cluster.stop(is_immediate=True)
        running.process.wait(60)
        cluster.start()

    return lose_server


def _interrupt(
    engine: Engine, target: Target, times: int, *, changes: dict[str, Any], **how: Any
) -> None:
    job, state = partial(job_of, target, changes), partial(contents, target)
    interrupt_and_resume(engine, target, job, state, kind="tpcc", times=times, **how)


def test_init_continues_after_its_server_and_itself_were_lost(
    pgdyno: Command, new_cluster: Make
) -> None:
    cluster = new_cluster("15", listens_tcp=False)
    words = ["init", "tpcc", *server_options(cluster.target), "--warehouses", "1", "-j", "1"]

    running = _half_done(pgdyno, cluster.target, words)
    cluster.stop(is_immediate=True)
    said = running.wait()
    assert said.code == 2, said.err
    assert "to continue" in " ".join(said.error.split())

    cluster.start()
    running = _half_done(pgdyno, cluster.target, words)
    running.signal(signal.SIGKILL)
    running.wait()
    resumed = pgdyno(*words, "--json")
    assert resumed.code == 0, resumed.err
    assert resumed.document["is_resumed"]
    assert "12 of 12 conditions hold" in resumed.err


def _half_done(pgdyno: Command, target: Target, words: list[str]) -> RunningCommand:
    """Start a load, and return when its first pieces are finished."""
    running = pgdyno.start(*words)
    with connection(target) as session:
        session.execute("SET application_name = 'pgdyno/test'")
        before = _finished_pieces(session)
        eventually(
            lambda: _finished_pieces(session) > before + 1,
            unless=lambda: running.process.poll() is not None,
        )
    return running


def _finished_pieces(session: psycopg.Connection) -> int:
    try:
        [[count]] = session.execute("SELECT count(*) FROM pgdyno_load").fetchall()
    except psycopg.errors.UndefinedTable:
        return 0
    return int(count)
