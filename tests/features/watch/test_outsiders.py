"""More incidents of public reports on real servers, and healthy neighbours of each."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import psycopg
import pytest
from tests.features.watch import outsiders
from tests.features.watch.incidents import busy, judged, judged_until, make_shop, session
from tests.features.watch.strangers import Worker, loop, several
from tests.fixtures.clusters import make_cluster, run_sql, scalar
from tests.fixtures.command import eventually
from tests.fixtures.poolers import Pooler
from tests.fixtures.standby import Standby

from pgdyno.errors import ServerError
from pgdyno.features.watch.incident.evidence import IncidentEvidence
from pgdyno.features.watch.incident.finding import IncidentFinding
from pgdyno.features.watch.incident.rules import all_findings
from pgdyno.features.watch.tally import Tally
from pgdyno.observe.pooler.console import ConsoleSession
from pgdyno.observe.pooler.pools import PoolerCollector
from pgdyno.server.connect import connect
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target

pytestmark = pytest.mark.pg
SETTINGS = {
    "shared_preload_libraries": "pg_stat_statements",
    "log_line_prefix": "%m [%p] %e ",
    "autovacuum_multixact_freeze_max_age": "10000",
    "max_wal_size": "32MB",
    "min_wal_size": "32MB",
    "wal_level": "logical",
}
SECOND_NS = 1_000_000_000
Staged = Callable[..., AbstractContextManager[Target | None]]


@pytest.fixture(scope="module", params=["15", "18"])
def counting(request: pytest.FixtureRequest, house: Path) -> Iterator[ScratchCluster]:
    """A server that counts statements, with small limits."""
    with make_cluster(request.param, settings=SETTINGS, clients=25) as cluster:
        make_shop(cluster.target)
        for name in ("max_connections", "max_prepared_transactions"):
            # A standby has these from the base backup.
            set_to = scalar(cluster.target, f"SHOW {name}")
            run_sql(cluster.target, f"ALTER SYSTEM SET {name} = {set_to}")
        yield cluster


def named(listed: list[IncidentFinding], kind: str) -> str:
    """Return all words of the first finding of a kind."""
    finding = next((made for made in listed if made.kind == kind), None)
    assert finding is not None, [made.said for made in listed]
    assert "began before " in finding.cost or finding.since_s
    return f"{finding.said} {finding.cost} {' '.join(finding.lines)} {finding.next_step}"


def healthy(target: Target) -> Iterator[tuple[str, AbstractContextManager]]:
    """Yield loads that look like the incidents, and are well."""

    def zero(_turn: int) -> int:
        return 0

    page = loop("SELECT * FROM orders WHERE id > %s ORDER BY id LIMIT 20", lambda turn: turn * 20)
    yield "pages by their key", several(target, "crawler", page, 2)
    total = loop("SELECT sum(n), count(*) FROM orders WHERE n >= %s", zero)
    yield "a report that sums", busy(target, "report", total)
    within = loop("WITH s AS (SELECT sum(n) AS n FROM orders WHERE n >= %s) SELECT n FROM s", zero)
    yield "a report that sums in a part of it", busy(target, "report", within)

    places: dict[int, int] = {}

    def buy(worker: Worker, turn: int) -> None:
        place = places.setdefault(worker.info.backend_pid, len(places))
        with worker.transaction():
            for step in range(5):
                own = 1 + 100 * place + (turn + step) % 100
                worker.execute("UPDATE items SET n = n + 1 WHERE id = %s", [own])

    yield "short transactions of several statements", several(target, "web", buy, 6)

    def ring(worker: Worker, turn: int) -> None:
        worker.execute("SELECT pg_notify('calls', 'x')")
        worker.execute("SELECT n FROM items WHERE id = %s", [turn % 1000])

    yield "a notification now and then", busy(target, "web", ring)
    take = loop("SELECT id FROM items ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED")
    yield "a queue whose rows are free", several(target, "worker", take, 3)


def test_healthy_neighbours_of_these_incidents_have_no_finding(shop: Target) -> None:
    run_sql(shop, "CREATE INDEX ON items (id)")
    run_sql(shop, "VACUUM ANALYZE items")
    for name, load in healthy(shop):
        with load:
            assert (name, judged(shop, 1.5)) == (name, [])


@pytest.mark.parametrize(
    ("staged", "kind", "words"),
    [
        (outsiders.integers_run_out, "errors", ("numeric value out of range", "rolled back")),
        (outsiders.integers_run_out, "sequence near its end", ("public.numbers", "bigint")),
        (outsiders.queue_of_locked_rows, "much is read for few rows",
         ("for 1 row", "locked", "stuck-worker")),
        (outsiders.limit_plan, "much is read for few rows", ("for 5 rows", "LIMIT", "EXPLAIN")),
        (outsiders.deep_pages, "much is read for few rows", ("OFFSET", "WHERE key >")),
        (outsiders.large_values, "much is read for few rows", ("for 1 row", "TOAST")),
        (outsiders.calls_inside_transactions, "transactions wait for their clients",
         ("web", "COMMIT", "pool")),
        (outsiders.notifications, "lock contention", ("NOTIFY", "listeners")),
        (outsiders.index_behind_a_transaction, "lock queue", ("notebook", "CONCURRENTLY")),
        # Ages stay for the rest of the tests.
        (outsiders.multixacts, "contention inside the server", ("multixacts", "FOR SHARE")),
        (outsiders.multixacts_run_out, "wraparound", ("multixacts old", "cart (role", "FREEZE")),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)  # fmt: skip
def test_an_incident_of_a_public_report_is_named(
    staged: Staged, kind: str, words: tuple[str, ...], shop: Target
) -> None:
    with staged(shop):
        whole = named(judged_until(shop, kind), kind)
    assert not [word for word in words if word not in whole], whole


def test_a_receiver_that_stands_still_is_named(counting: ScratchCluster, shop: Target) -> None:
    with outsiders.stuck_receiver(counting, shop):
        whole = named(judged(shop, 2), "slot keeps WAL")
    assert "cdc (active)" in whole
    assert "receiver is slow" in whole


def test_trouble_between_a_server_and_its_standby_is_named(
    counting: ScratchCluster, shop: Target
) -> None:
    listed: list[IncidentFinding] = []
    with Standby(counting) as standby:
        try:
            with outsiders.cancelled_reports(standby, shop) as there:
                # Replay may cancel a question of the watch, too: then the next look has the answer.
                for _ in range(5):
                    with suppress(psycopg.Error, ServerError):
                        listed = judged(there, 2)
                        if any(made.kind == "conflicts with recovery" for made in listed):
                            break
            with outsiders.slow_standby(standby, shop):
                slow = named(judged(shop, 2), "synchronous standby is slow")
        finally:
            run_sql(shop, "ALTER SYSTEM RESET synchronous_standby_names")
            run_sql(shop, "SELECT pg_reload_conf()")
    whole = named(listed, "conflicts with recovery")
    assert "snapshot" in whole
    assert "max_standby_streaming_delay" in whole
    # Recovery cancels with the SQLSTATE of serialization failures.
    assert "serialized" not in str([made.said for made in listed])
    assert "walreceiver" in slow
    assert "replay" in slow


def test_compiling_is_named_on_a_server_that_compiles(shop: Target) -> None:
    compiles = bool(scalar(shop, "SELECT pg_jit_available()"))
    with outsiders.compiled_again_and_again(shop):
        # On a busy machine a call that compiles takes seconds.
        listed = judged_until(shop, "compiling", 3) if compiles else judged(shop, 2)
    assert ("compiling" in {made.kind for made in listed}) == compiles
    if compiles:
        whole = named(listed, "compiling")
        assert "SELECT area, sum(n)" in whole
        assert "jit_above_cost" in whole


def test_clients_that_wait_for_a_pool_are_named(pooler: Pooler) -> None:
    evidence, seen = IncidentEvidence(Tally(SECOND_NS)), list[IncidentFinding]()
    console = ConsoleSession(lambda: connect(pooler.console, verb="observe", run="1", console=True))
    console.open()
    times_ns = itertools.count(SECOND_NS, SECOND_NS)

    def look() -> bool:
        stamp = {"time_ns": next(times_ns), "interval_ns": SECOND_NS}
        rows = PoolerCollector(console).sample(0)
        evidence.take("pooler", [{**stamp, **row} for row in rows])
        seen[:] = all_findings(evidence)
        return bool(seen)

    try:
        with session(pooler.target, "web", autocommit=True) as quiet:
            quiet.execute("SELECT 1")
            assert not look()
        with outsiders.clients_behind_a_pool(pooler):
            eventually(look)
    finally:
        console.close()
    whole = named(seen, "pool exhausted")
    assert "3 clients of pool pooled/" in whole
    assert "SHOW SERVERS" in whole
