"""The console of a PgBouncer: contract, a known load, columns by version, its processes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from tests.fixtures.clusters import connection, run_sql
from tests.fixtures.poolers import Pooler
from tests.observe.contract import CollectorContract
from tests.observe.sinks import KeepingSink
from tests.observe.test_server_collectors import sample_until

from pgdyno.clock import read_pair
from pgdyno.observe.collector import Collector, NotMeasurable
from pgdyno.observe.observer import ObservedPooler, Observer
from pgdyno.observe.pooler.console import ConsoleSession, listening_inodes, pooler_pids
from pgdyno.observe.pooler.pools import (
    PoolerCollector,
    PoolerTrafficCollector,
    pool_row,
    traffic_row,
)
from pgdyno.server.connect import connect
from pgdyno.server.scratch.cluster import ScratchCluster


@pytest.fixture
def console(pooler: Pooler) -> Iterator[ConsoleSession]:
    session = ConsoleSession(lambda: connect(pooler.console, verb="observe", console=True))
    session.open()
    yield session
    session.close()


class TestPools(CollectorContract):
    @pytest.fixture
    def collector(self, console: ConsoleSession, pooler: Pooler) -> Collector:
        run_sql(pooler.target, "SELECT 1")
        return PoolerCollector(console)

    def test_a_client_that_finds_no_free_connection_is_seen_waiting(
        self, collector: Collector, pooler: Pooler
    ) -> None:
        holders = [_client(pooler) for _ in range(4)]
        for holder in holders:
            holder.execute("BEGIN")
            holder.execute("SELECT 1")
        waiting = threading.Thread(target=run_sql, args=(pooler.target, "SELECT 1"))
        waiting.start()
        try:
            rows = sample_until(
                collector, lambda rows: any(row["clients_waiting"] == 1 for row in rows)
            )
            [pool] = [row for row in rows if row["clients_waiting"]]
            assert (pool["database"], pool["mode"]) == ("pooled", "transaction")
            assert pool["servers_active"] == 4
        finally:
            for holder in holders:
                holder.close()
            waiting.join()


class TestTraffic(CollectorContract):
    @pytest.fixture
    def collector(self, console: ConsoleSession, pooler: Pooler) -> Collector:
        run_sql(pooler.target, "SELECT 1")
        return PoolerTrafficCollector(console)

    def test_transactions_through_the_pooler_are_counted(
        self, collector: Collector, pooler: Pooler
    ) -> None:
        before = int(collector.sample(0)[0]["transactions"] or 0)
        for _ in range(10):
            run_sql(pooler.target, "SELECT 1")
        rows = sample_until(collector, lambda rows: int(rows[0]["transactions"] or 0) > before + 9)
        assert rows[0]["database"] == "pooled"


def test_an_observer_keeps_pools_traffic_and_cpu_of_the_pooler(pooler: Pooler) -> None:
    sink = KeepingSink()
    observer = Observer(
        clock=read_pair(),
        sink=sink,
        run="1.1",
        server=None,
        pooler=ObservedPooler(
            lambda: connect(pooler.console, verb="observe", console=True),
            pooler.port,
            is_local=True,
        ),
    )
    run_sql(pooler.target, "SELECT 1")
    observer.start()
    try:
        sink.wait_for(lambda: {"pooler", "pooler_traffic", "programs"} <= sink.rows.keys())
    finally:
        assert observer.stop()
    assert "pooler" in {row["program"] for row in sink.rows["programs"]}


def test_a_server_is_not_mistaken_for_a_pooler(pg15: ScratchCluster) -> None:
    session = ConsoleSession(lambda: connect(pg15.target, verb="observe"))
    with pytest.raises(NotMeasurable, match="console is not a PgBouncer: it answers as version 15"):
        session.open()
    assert not session.is_open


def test_the_processes_of_a_pooler_are_found_by_the_port_they_listen_on(pooler: Pooler) -> None:
    assert pooler_pids(pooler.port) == [pooler.process.pid]
    assert pooler_pids(1) == []


def test_listening_sockets_are_found_by_port_and_connected_ones_are_not() -> None:
    tcp = (
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid"
        "  timeout inode\n"
        "   0: 0100007F:1920 00000000:0000 0A 00000000:00000000 00:00000000 00000000   105"
        "        0 4711 1 0000\n"
        "   1: 0100007F:1920 0100007F:D2F0 01 00000000:00000000 00:00000000 00000000   105"
        "        0 4712 1 0000\n"
    )
    unix = "0000: 00000002 00000000 00010000 0001 01 4713 /tmp/.s.PGSQL.6432\n"
    assert listening_inodes(6432, tcp=tcp, unix=unix) == {"4711", "4713"}
    assert listening_inodes(6433, tcp=tcp, unix=unix) == set()


_POOL: dict[str, Any] = {
    "database": "bank", "user": "app", "cl_active": 7, "cl_waiting": 2, "sv_active": 5,
    "sv_idle": 1, "sv_used": 0, "sv_tested": 0, "sv_login": 1, "maxwait": 3, "maxwait_us": 250000,
    "pool_mode": "transaction",
}  # fmt: skip


@pytest.mark.parametrize(
    ("own_columns", "cancelling"),
    [
        ({}, None),
        ({"cl_cancel_req": 4}, 4),
        (
            {"cl_active_cancel_req": 1, "cl_waiting_cancel_req": 2, "sv_active_cancel": 0,
             "sv_being_canceled": 0},
            3,
        ),
        ({"cl_active_cancel_req": 0, "cl_waiting_cancel_req": 0, "load_balance_hosts": None}, 0),
    ],
    ids=["1.15", "1.16", "1.18", "1.24"],
)  # fmt: skip
def test_pools_of_every_version_come_under_the_same_names(
    own_columns: dict[str, Any], cancelling: int | None
) -> None:
    row = pool_row(_POOL | own_columns)
    assert row["clients_cancelling"] == cancelling
    assert row["longest_wait_ns"] == 3_250_000_000
    assert row.keys() == {column.name for column in PoolerCollector.columns}


def test_counts_that_only_newer_poolers_keep_are_absent_with_older_ones() -> None:
    old = {
        "database": "bank", "total_xact_count": 10, "total_query_count": 30, "total_received": 400,
        "total_sent": 900, "total_xact_time": 5, "total_query_time": 4, "total_wait_time": 2,
    }  # fmt: skip
    row = traffic_row(old)
    assert (row["transaction_time_ns"], row["wait_time_ns"]) == (5000, 2000)
    assert (row["assignments"], row["binds"]) == (None, None)
    new = traffic_row({**old, "total_server_assignment_count": 10, "total_bind_count": 30})
    assert (new["assignments"], new["binds"], new["server_parses"]) == (10, 30, None)


def _client(pooler: Pooler) -> psycopg.Connection:
    return connection(pooler.target)
