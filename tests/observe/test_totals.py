"""Exact totals around a load, on real servers."""

from __future__ import annotations

import threading

from tests.observe.test_server_collectors import LOAD, load_connection

from pgdyno.observe.totals import Totals, read_totals, totals_between
from pgdyno.server.connect import connect
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target


def _read(cluster: ScratchCluster, database: Target) -> Totals:
    # From another database: what reading costs is not the load's.
    with connect(cluster.target, verb="observe") as control:
        return read_totals(control, database=database.database, load_application_name=LOAD)


def test_totals_count_every_transaction_and_all_active_time_of_a_load(
    any_server: ScratchCluster, database: Target
) -> None:
    before = _read(any_server, database)
    loads = [load_connection(database) for _ in range(3)]
    for load in loads:
        for _ in range(200):
            load.execute("SELECT 1")
        load.execute("SELECT pg_sleep(0.2)")
    closing = [threading.Timer(0.2, load.close) for load in loads]
    for timer in closing:
        timer.start()
    after = _read(any_server, database)
    for timer in closing:
        timer.join()
    grown = totals_between(before, after)
    assert grown["is_exact"] == 1
    assert grown["database.sessions"] == 3
    # Connecting is a transaction of its own on some versions, and a vacuum worker that looks in
    # meanwhile has a handful.
    assert 603 <= (grown["database.xact_commit"] or 0) <= 630
    assert (grown["database.active_time_ns"] or 0) >= 600_000_000


def test_the_reading_session_is_not_counted_as_load(
    pg15: ScratchCluster, database15: Target
) -> None:
    with connect(pg15.target, verb="bench", run="1") as control:
        totals = read_totals(
            control, database=database15.database, load_application_name=LOAD, timeout_s=0.05
        )
    assert totals["is_exact"] == 1


def test_sessions_that_do_not_end_make_totals_inexact(
    pg15: ScratchCluster, database15: Target
) -> None:
    with load_connection(database15), connect(pg15.target, verb="observe") as control:
        totals = read_totals(
            control, database=database15.database, load_application_name=LOAD, timeout_s=0.05
        )
    assert totals["is_exact"] == 0


def test_a_counter_that_was_reset_gives_no_rate() -> None:
    before: Totals = {"is_exact": 1, "wal.bytes": 5, "wal.stats_reset_ns": 1, "database.a": 9}
    after: Totals = {"is_exact": 1, "wal.bytes": 8, "wal.stats_reset_ns": 2, "database.a": 7}
    assert totals_between(before, after) == {"is_exact": 1, "wal.bytes": None, "database.a": None}
    after["wal.stats_reset_ns"] = 1
    assert totals_between(before, after)["wal.bytes"] == 3
