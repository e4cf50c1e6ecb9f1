"""Incidents of further public reports, staged small: each is a context with a server in trouble."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import psycopg
from tests.features.watch.incidents import session, waiting
from tests.features.watch.strangers import Worker, loop, several
from tests.fixtures.clusters import run_sql, scalar
from tests.fixtures.command import eventually

from pgdyno.server.target import Target

# Each block with EXCEPTION that writes takes a transaction id.
_CONSUME = (
    "DO $$ BEGIN FOR i IN 1..120000 LOOP BEGIN INSERT INTO consumed VALUES (i);"
    " EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END $$"
)


@contextmanager
def vacuum_against_wraparound(target: Target) -> Iterator[None]:
    """DDL waits for an autovacuum that does not give way, and everybody behind it (Joyent)."""
    # Otherwise an ordinary vacuum, which gives way, begins before.
    slow = "autovacuum_enabled = off"
    slow += ", autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1"
    run_sql(target, f"CREATE TABLE objects (n int) WITH ({slow})")
    run_sql(target, "INSERT INTO objects SELECT generate_series(1, 200000)")
    run_sql(target, "CREATE TABLE consumed (i int)")
    run_sql(target, _CONSUME)
    at_work = (
        "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'autovacuum worker'"
        " AND query LIKE '%objects (to prevent wraparound)%'"
    )
    eventually(lambda: scalar(target, at_work))
    with (
        waiting(target, "migration", "ALTER TABLE objects ADD COLUMN added int"),
        waiting(target, "api", "SELECT * FROM objects LIMIT 1", 4),
    ):
        yield


@contextmanager
def generic_plan(target: Target) -> Iterator[None]:
    """A prepared statement keeps the plan of its first values (Prisma, Drozd)."""
    run_sql(
        target,
        "CREATE TABLE payments AS SELECT id, 'done' AS state, repeat('x', 60) AS note"
        " FROM generate_series(1, 100000) id",
    )
    run_sql(target, "CREATE INDEX ON payments (state)")
    run_sql(target, "VACUUM ANALYZE payments")
    # The statistics do not have the rare value, as in the sample of a large table.
    run_sql(target, "INSERT INTO payments SELECT id, 'new' FROM generate_series(1, 5) id")
    asked = "SELECT id, note FROM payments WHERE state = %s"

    def act(worker: Worker, turn: int) -> None:
        state = "done" if turn <= 5 else "new"
        worker.execute(asked, [state], prepare=True)

    with several(target, "shop", act, 2):
        yield


@contextmanager
def changed_result_type(target: Target) -> Iterator[None]:
    """A migration adds a column; prepared statements with * fail from then on (SQLx, Rails)."""
    run_sql(target, "CREATE TABLE users AS SELECT id, 0 AS n FROM generate_series(1, 100) id")
    ready = threading.Barrier(3)

    def act(worker: Worker, turn: int) -> None:
        if turn == 2:
            ready.wait()
            ready.wait()
        try:
            worker.execute("SELECT * FROM users WHERE id = %s", [turn % 100], prepare=True)
        except psycopg.errors.FeatureNotSupported:
            time.sleep(0.02)

    with several(target, "web", act, 2):
        ready.wait()
        run_sql(target, "ALTER TABLE users ADD COLUMN added int")
        ready.wait()
        yield


@contextmanager
def lost_prepared_statements(target: Target) -> Iterator[None]:
    """A pooler gives a session away, and its prepared statements with it (PgBouncer)."""

    def act(worker: Worker, turn: int) -> None:
        try:
            worker.execute(b"EXECUTE s_1(1)")
        except psycopg.errors.InvalidSqlStatementName:
            time.sleep(0.02)

    with several(target, "web", act, 2):
        yield


@contextmanager
def heap_fetches(target: Target) -> Iterator[None]:
    """An index-only scan reads the table for each row, because no vacuum came (makandra)."""
    run_sql(
        target,
        "CREATE TABLE shipments WITH (autovacuum_enabled = off, fillfactor = 50) AS"
        " SELECT id, id % 20 AS state, 0 AS n, repeat('x', 200) AS note"
        " FROM generate_series(1, 60000) id",
    )
    run_sql(target, "CREATE INDEX ON shipments (state)")
    run_sql(target, "VACUUM ANALYZE shipments")
    run_sql(target, "UPDATE shipments SET n = n + 1")
    asked = loop("SELECT count(*) FROM shipments WHERE state = %s", lambda turn: turn % 20)
    with several(target, "shop", asked, 2):
        yield


@contextmanager
def parallel_scans(target: Target) -> Iterator[None]:
    """Each short report over many partitions starts workers, of which there are too few."""
    run_sql(target, "CREATE TABLE chunks (id int, k int) PARTITION BY RANGE (id)")
    for part in range(400):
        of = f"FOR VALUES FROM ({part}) TO ({part + 1})"
        run_sql(target, f"CREATE TABLE chunk{part} PARTITION OF chunks {of}")

    report = loop("SELECT count(*) FROM chunks WHERE k = 1")
    with several(target, "report", report, 10):
        yield


@contextmanager
def one_statement_a_row(target: Target) -> Iterator[None]:
    """A page asks for its rows one by one: a loop in the application (N+1)."""
    ask = loop("SELECT note FROM orders WHERE id = %s", lambda turn: 1 + turn % 50000)
    with several(target, "web", ask, 4):
        yield


@contextmanager
def sleepers(target: Target) -> Iterator[None]:
    """Somebody sends statements that only sleep, such as an attack through SQL injection."""
    with several(target, "web", loop("SELECT pg_sleep(5)"), 6):
        yield


@contextmanager
def growing_table(target: Target) -> Iterator[None]:
    """Many sessions load one table and wait for each other to extend it."""
    run_sql(target, "CREATE TABLE metrics (at timestamptz, note text)")
    fill = loop("INSERT INTO metrics SELECT now(), repeat('x', 1500) FROM generate_series(1, 300)")
    with several(target, "loader", fill, 16):
        yield


@contextmanager
def pinned_page(target: Target) -> Iterator[None]:
    """VACUUM (FREEZE) waits for a page on which a forgotten cursor stands."""
    with session(target, "notebook") as reader:
        reader.execute("DECLARE c CURSOR FOR SELECT * FROM orders")
        reader.execute("FETCH 5 FROM c")
        with waiting(target, "maintenance", "VACUUM (FREEZE, DISABLE_PAGE_SKIPPING) orders"):
            yield


@contextmanager
def hot_index_page(target: Target) -> Iterator[None]:
    """All sessions insert at the right end of one index."""
    run_sql(target, "CREATE TABLE log (at timestamptz DEFAULT clock_timestamp(), id serial, n int)")
    for columns in ("at", "id", "at, id", "id, at"):
        run_sql(target, f"CREATE INDEX ON log ({columns})")
    put = loop("INSERT INTO log (n) SELECT 1 FROM generate_series(1, 20)")
    with several(target, "logger", put, 16):
        yield


@contextmanager
def flushes(target: Target) -> Iterator[None]:
    """Each commit waits for a disk whose credit is used up (RDS burst balance)."""
    change = loop("UPDATE items SET n = n + 1 WHERE id = %s", lambda turn: 1 + turn * 7 % 1000)
    with ExitStack() as stack:
        stack.enter_context(several(target, "shop", change, 6))
        yield
