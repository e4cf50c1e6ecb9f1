"""Incidents of further public reports on real servers, and healthy neighbours of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest
from tests.features.watch import newcomers
from tests.features.watch.incidents import judged, judged_until
from tests.features.watch.strangers import loop, several
from tests.features.watch.test_outsiders import named
from tests.fixtures.clusters import run_sql
from tests.fixtures.slow_flush import SlowFlush

from pgdyno.server.target import Target

pytestmark = pytest.mark.pg
SETTINGS = {
    "shared_preload_libraries": "pg_stat_statements",
    "log_line_prefix": "%m [%p] %e %u %a ",
    "autovacuum_naptime": "1s",
    "autovacuum_freeze_max_age": "100000",
}
Staged = Callable[..., AbstractContextManager[None]]


def healthy(target: Target) -> Iterator[tuple[str, AbstractContextManager]]:
    """Yield loads that look like the incidents, and are well."""
    run_sql(
        target,
        "CREATE TABLE shipments AS SELECT id, id % 20 AS state FROM generate_series(1, 60000) id",
    )
    run_sql(target, "CREATE INDEX ON shipments (state)")
    run_sql(target, "VACUUM ANALYZE shipments")
    asked = loop("SELECT count(*) FROM shipments WHERE state = %s", lambda turn: turn % 20)
    yield "an index-only scan that needs no table", several(target, "shop", asked, 2)
    ordinary = loop("SELECT min(id) FROM shipments WHERE state = %s", lambda turn: turn % 20)
    yield "an ordinary index scan", several(target, "shop", ordinary, 2)
    put = loop("INSERT INTO items VALUES (0, 0)")
    yield "a table that grows slowly", several(target, "logger", put, 3)
    own = loop("SELECT note FROM orders WHERE id = %s", lambda turn: 1 + turn % 50000)
    yield "one row at a time", several(target, "web", own, 4)


def test_healthy_neighbours_of_these_incidents_have_no_finding(shop: Target) -> None:
    for name, load in healthy(shop):
        with load:
            assert (name, judged(shop, 1.5)) == (name, [])


@pytest.mark.parametrize(
    ("staged", "kind", "words"),
    [
        (newcomers.generic_plan, "index not used",
         ("payments", "payments_state_idx", "one plan for all values", "force_custom_plan")),
        (newcomers.changed_result_type, "errors",
         ("prepared statements", "cached plan", "by web (role")),
        (newcomers.lost_prepared_statements, "errors", ("PgBouncer", "by web (role")),
        (newcomers.heap_fetches, "index-only scan reads its table", ("shipments", "VACUUM")),
        (newcomers.parallel_scans, "contention inside the server",
         ("parallel workers", "FROM chunks", "max_parallel_workers_per_gather")),
        (newcomers.sleepers, "sessions sleep", ("pg_sleep", "SQL injection")),
        (newcomers.growing_table, "contention inside the server",
         ("one table larger", "Lock:extend", "INSERT INTO metrics", "COPY")),
        (newcomers.pinned_page, "contention inside the server", ("cursor", "BufferPin")),
        (newcomers.vacuum_against_wraparound, "lock queue behind DDL",
         ("public.objects (to prevent wraparound)", "ALTER TABLE", "begins again")),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)  # fmt: skip
def test_an_incident_of_a_public_report_is_named(
    staged: Staged, kind: str, words: tuple[str, ...], shop: Target
) -> None:
    with staged(shop):
        listed = judged_until(shop, kind)
    whole = named(listed, kind)
    assert not [word for word in words if word not in whole], whole


def test_commits_that_wait_for_a_slow_disk_are_named(slow_flush: SlowFlush) -> None:
    target = slow_flush.cluster.target
    run_sql(target, "CREATE TABLE items AS SELECT id, 0 AS n FROM generate_series(1, 1000) id")
    try:
        with newcomers.flushes(target):
            whole = named(judged_until(target, "waits for WAL"), "waits for WAL")
    finally:
        run_sql(target, "DROP TABLE items")
    assert "ms in each transaction" in whole
    assert "credit of the volume" in whole
