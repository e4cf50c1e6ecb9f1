"""The state a run starts from: cold, prewarmed, loaded anew; and how big the data are."""

from __future__ import annotations

import ctypes
import mmap
from pathlib import Path

import pytest
from tests.fixtures.clusters import Make, run_sql, scalar
from tests.measure.test_servers import Open, asked, open_servers

from pgdyno.measure.before_load import prepare_server
from pgdyno.measure.under_test import UnderTest
from pgdyno.server import server_facts
from pgdyno.server.connect import connect
from pgdyno.server.reset import forget_files
from pgdyno.spec.experiment import Experiment, PgbenchDataset, Server
from pgdyno.spec.units import scale_for

__all__ = ["open_servers"]
PAGE = mmap.PAGESIZE


def cached_pages(path: Path) -> int:
    """Return how many pages of the file are in memory, as the kernel says."""
    size = path.stat().st_size
    with path.open("r+b") as stream, mmap.mmap(stream.fileno(), size) as memory:
        view = (ctypes.c_char * size).from_buffer(memory)
        residency = (ctypes.c_ubyte * ((size + PAGE - 1) // PAGE))()
        libc = ctypes.CDLL(None, use_errno=True)
        address = ctypes.c_void_p(ctypes.addressof(view))
        assert libc.mincore(address, ctypes.c_size_t(size), residency) == 0
        del view
        return sum(page & 1 for page in residency)


def test_the_kernel_forgets_the_files_of_a_folder(house: Path) -> None:
    folder = house / "forgotten" / "deep"
    folder.mkdir(parents=True)
    path = folder / "data"
    path.write_bytes(b"x" * 64 * PAGE)
    assert cached_pages(path) == 64
    assert forget_files([house / "forgotten"]) == 64 * PAGE
    assert cached_pages(path) == 0


def changed(**changes: object) -> Experiment:
    return asked("a", "b").model_copy(update=changes)


def server_of(make: Make, major: str = "15", **request: object) -> UnderTest:
    cluster = make(major, **request)
    run_sql(cluster.target, "CREATE TABLE pgbench_big AS SELECT generate_series(1, 200000) AS a")
    with connect(cluster.target, verb="test") as session:
        facts = server_facts.collect(session, cluster.target)
    return UnderTest(cluster.target, cluster.target, cluster, facts, "test")


def test_a_cold_server_was_started_again_on_files_that_are_not_in_memory(
    new_cluster: Make, house: Path
) -> None:
    server = server_of(new_cluster, data_dir=house)
    assert server.cluster is not None
    name = scalar(server.target, "SELECT pg_relation_filepath('pgbench_big')")
    path = server.cluster.data_dir / str(name)
    assert cached_pages(path) > 0
    cold, state = prepare_server(changed(cache="cold", reset="none"), server, "1.1")
    assert state.steps[-1].name == "drop page cache"
    assert cold.facts.postmaster_pid != server.facts.postmaster_pid
    assert cached_pages(path) == 0
    assert scalar(cold.target, "SELECT count(*) FROM pgbench_big") == 200000


def test_a_prewarmed_server_reads_nothing_from_disk(new_cluster: Make) -> None:
    server = server_of(new_cluster)
    assert server.cluster is not None
    server.cluster.restart()
    warm, state = prepare_server(changed(cache="prewarm", reset="none"), server, "1.1")
    assert (state.steps[-1].name, state.steps[-1].skipped) == ("prewarm", "")
    plan = run_sql(
        warm.target, "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) SELECT count(*) FROM pgbench_big"
    )
    buffers = " ".join(line for [line] in plan)
    assert "shared hit=" in buffers
    assert "read=" not in buffers.split("Planning")[0]


SHARE = (
    "SELECT count(*) FILTER (WHERE c.relname = 'pgbench_small')::float8"
    " / (pg_relation_size('pgbench_small') / 8192), count(*)"
    " FROM pg_buffercache b LEFT JOIN pg_class c ON c.relfilenode = b.relfilenode"
    " WHERE b.relfilenode IS NOT NULL"
)


@pytest.mark.parametrize("major", ["15", "18"])
def test_a_warm_cache_is_filled_after_a_start_and_left_alone_later(
    new_cluster: Make, major: str
) -> None:
    server = server_of(new_cluster, major)
    assert server.cluster is not None
    # The large table does not fit next to the small one.
    run_sql(server.target, "CREATE EXTENSION pg_buffercache")
    run_sql(server.target, "CREATE TABLE pgbench_small AS SELECT generate_series(1, 20000) AS a")
    server.cluster.restart({"shared_buffers": "4MB"})
    _, state = prepare_server(changed(reset="none"), server, "1.1")
    assert (state.steps[-1].name, state.steps[-1].skipped) == ("prewarm", "")
    [[small_ratio, pages]] = run_sql(server.target, SHARE)
    assert small_ratio > 0.9, "the small table is in memory"
    assert pages > 450, "the rest of the memory has the large table"
    _, state = prepare_server(changed(reset="none"), server, "1.2")
    assert "prewarm" not in [step.name for step in state.steps]
    server.cluster.restart()
    _, state = prepare_server(changed(reset="none"), server, "1.3")
    assert state.steps[-1].name == "prewarm"


def test_the_state_at_the_begin_of_a_run_is_measured(new_cluster: Make) -> None:
    _, state = prepare_server(changed(reset="none"), server_of(new_cluster), "1.1")
    assert state.database_bytes_before is not None
    assert state.database_bytes_before > 7 * 2**20


@pytest.mark.pg
def test_every_round_has_data_loaded_anew_where_that_is_asked_for(open_servers: Open) -> None:
    servers = open_servers(changed(reload="round"))
    oid = "SELECT oid FROM pg_database WHERE datname = current_database()"
    first = scalar(servers.ready(0, 1).target, oid)
    assert scalar(servers.ready(1, 1).target, oid) == first, "both run on the same data in a round"
    second = servers.ready(1, 2)
    assert scalar(second.target, oid) != first
    assert scalar(second.target, "SELECT count(*) FROM pgbench_branches") == 1
    assert scalar(servers.ready(0, 2).target, oid) == scalar(second.target, oid)


@pytest.mark.parametrize(
    ("size", "scale"),
    [("15690kB", 2), ("750MB", 51), ("1GB", 69), ("2xRAM", 1095)],
)
def test_a_size_is_the_scale_that_takes_as_much(size: str, scale: int) -> None:
    assert scale_for(size, ram_bytes=8 * 2**30) == scale


def test_size_stands_for_scale_in_a_spec() -> None:
    assert PgbenchDataset(size="1GB").scale == 69
    with pytest.raises(ValueError, match="either scale or size"):
        PgbenchDataset(size="1GB", scale=2)
    with pytest.raises(ValueError, match="not a size"):
        PgbenchDataset(size="large")


@pytest.mark.parametrize(
    ("change", "rule"), [({"cache": "cold"}, "stops the server"), ({"reload": "round"}, "scratch")]
)
def test_options_for_scratch_servers_are_refused_elsewhere(change: dict, rule: str) -> None:
    fields = asked("a", "b", server=Server(dsn="service=x")).model_dump(by_alias=True)
    with pytest.raises(ValueError, match=rule):
        Experiment.model_validate({**fields, **change})
