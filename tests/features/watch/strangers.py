"""Incidents after public post-mortems, staged small: each is a context with a server in trouble."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import psycopg
from tests.features.watch.incidents import busy, session, waiting
from tests.fixtures.clusters import run_sql

from pgdyno.server.target import Target

Worker = psycopg.Connection


def loop(statement: str, *values: Callable[[int], object]) -> Callable[[Worker, int], object]:
    """Return an action that runs a statement with values made from the number of the turn."""
    return lambda worker, turn: worker.execute(statement, [value(turn) for value in values])


@contextmanager
def several(
    target: Target, name: str, act: Callable[[Worker, int], object], count: int
) -> Iterator:
    """Let several sessions act until the block ends."""
    with ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(busy(target, name, act))
        yield


@contextmanager
def foreign_key_without_index(target: Target) -> Iterator[None]:
    """Deletes from a small table read a large one that refers to it (Dust, Hackers' Pub)."""
    run_sql(target, "CREATE TABLE vaults AS SELECT id FROM generate_series(1, 20000) id")
    run_sql(target, "ALTER TABLE vaults ADD PRIMARY KEY (id)")
    run_sql(
        target,
        "CREATE TABLE conversations AS SELECT id, 1 + id % 1000 AS vault, repeat('x', 40) AS note"
        " FROM generate_series(1, 100000) id",
    )
    run_sql(
        target,
        "ALTER TABLE conversations ADD FOREIGN KEY (vault) REFERENCES vaults ON DELETE CASCADE",
    )
    run_sql(target, "ANALYZE")
    delete = loop("DELETE FROM vaults WHERE id = %s", lambda turn: 1000 + turn)
    with busy(target, "cleanup", delete):
        yield


@contextmanager
def queue_of_dead_rows(target: Target) -> Iterator[None]:
    """A long transaction lets a queue's readers pass over dead rows (Heroku, River)."""
    run_sql(target, "CREATE TABLE jobs AS SELECT id, 0 AS n FROM generate_series(1, 60000) id")
    run_sql(target, "ALTER TABLE jobs ADD PRIMARY KEY (id)")
    run_sql(target, "ANALYZE jobs")
    with session(target, "analytics") as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT count(*) FROM jobs")
        run_sql(target, "DELETE FROM jobs WHERE id < 55000")
        take = loop("SELECT id FROM jobs ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED")
        with several(target, "worker", take, 2):
            yield


@contextmanager
def subtransactions(target: Target) -> Iterator[None]:
    """A transaction with many savepoints makes every reader look up its parts (GitLab)."""
    run_sql(target, "CREATE TABLE builds (id int)")
    with session(target, "importer") as writer:
        writer.execute(
            "DO $$ BEGIN FOR i IN 1..120000 LOOP BEGIN INSERT INTO builds VALUES (i);"
            " EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END $$"
        )
        # Only ids before the newest transaction that ended are looked up.
        run_sql(target, "SELECT txid_current()")
        with several(target, "runner", loop("SELECT count(*) FROM builds"), 5):
            yield


@contextmanager
def timeouts(target: Target) -> Iterator[None]:
    """Statements are cancelled by statement_timeout and sent again (GitLab, Lemmy)."""

    def act(worker: Worker, turn: int) -> None:
        if turn == 1:
            worker.execute("SET statement_timeout = '100ms'")
        try:
            worker.execute("SELECT count(*) FROM generate_series(1, 100000000)")
        except psycopg.errors.QueryCanceled:
            return

    with several(target, "web", act, 2):
        yield


@contextmanager
def sequence_at_its_end(target: Target) -> Iterator[None]:
    """A serial has no number left: each insert fails (Basecamp)."""
    run_sql(target, "CREATE TABLE events (id serial PRIMARY KEY, n int)")
    run_sql(target, "SELECT setval('events_id_seq', 2147483647)")

    def act(worker: Worker, turn: int) -> None:
        try:
            worker.execute("INSERT INTO events (n) VALUES (1)")
        except psycopg.Error:
            threading.Event().wait(0.01)

    with several(target, "web", act, 2):
        yield


@contextmanager
def connection_storm(target: Target) -> Iterator[None]:
    """Each statement has another connection."""
    stopping = threading.Event()

    def work() -> None:
        while not stopping.is_set():
            with session(target, "lambda", autocommit=True) as made:
                made.execute("SELECT 1")

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopping.set()
        for thread in threads:
            thread.join()


@contextmanager
def long_lists(target: Target) -> Iterator[None]:
    """Lists of literals of many lengths: before 18, each is another statement."""

    def act(worker: Worker, turn: int) -> None:
        numbers = ",".join(str(number) for number in range(10 + turn % 25))
        asked = f"SELECT * FROM orders WHERE customer IN ({numbers})"
        worker.execute(asked)  # type: ignore[arg-type]

    with session(target, "orm", autocommit=True) as before:
        for turn in range(25):
            act(before, turn)
    with several(target, "orm", act, 2):
        yield


@contextmanager
def hidden_in_a_function(target: Target) -> Iterator[None]:
    """The statement that the client sends names no table: a function reads it."""
    run_sql(
        target,
        "CREATE FUNCTION balance(int) RETURNS bigint LANGUAGE plpgsql AS"
        " $$ BEGIN RETURN (SELECT sum(n) FROM orders WHERE customer = $1); END $$",
    )
    with several(target, "web", loop("SELECT balance(%s)", lambda turn: turn % 1000), 2):
        yield


@contextmanager
def no_statistics(target: Target) -> Iterator[None]:
    """After an upgrade the planner knows nothing of the tables."""
    run_sql(target, "CREATE INDEX ON orders (customer)")
    run_sql(
        target,
        "CREATE TABLE lines WITH (autovacuum_enabled = off) AS SELECT id, id % 10000 AS o"
        " FROM generate_series(1, 100000) id",
    )
    run_sql(target, "CREATE INDEX ON lines (o)")
    run_sql(target, "ALTER TABLE orders SET (autovacuum_enabled = off)")
    tables = "('orders'::regclass, 'lines'::regclass)"
    run_sql(target, f"DELETE FROM pg_statistic WHERE starelid IN {tables}")
    unknown = "reltuples = -1, relpages = 0, relallvisible = 0"
    run_sql(target, f"UPDATE pg_class SET {unknown} WHERE oid IN {tables}")
    joined = "SELECT count(*) FROM orders o JOIN lines l ON l.o = o.id WHERE o.customer < %s"
    ask = loop(joined, lambda _: 200)
    with several(target, "web", ask, 2):
        yield


@contextmanager
def deadlocks(target: Target) -> Iterator[None]:
    """Two sessions take the same rows in opposite order."""

    def act(worker: Worker, turn: int) -> None:
        first = 1 + (worker.info.backend_pid + turn) % 2
        if turn == 1:
            worker.execute("SET deadlock_timeout = '50ms'")
        try:
            with worker.transaction():
                worker.execute("UPDATE items SET n = n + 1 WHERE id = %s", [first])
                threading.Event().wait(0.05)
                worker.execute("UPDATE items SET n = n + 1 WHERE id = %s", [3 - first])
        except psycopg.errors.DeadlockDetected:
            return

    with several(target, "cart", act, 3):
        yield


@contextmanager
def hot_row(target: Target) -> Iterator[None]:
    """Everybody updates one counter."""

    def act(worker: Worker, turn: int) -> None:
        with worker.transaction():
            worker.execute("UPDATE items SET n = n + 1 WHERE id = 1")
            threading.Event().wait(0.02)

    with several(target, "counter", act, 6):
        yield


@contextmanager
def many_partitions(target: Target) -> Iterator[None]:
    """Plans that read all partitions take more locks than a session's own places."""
    run_sql(target, "CREATE TABLE ev (id int, k int) PARTITION BY HASH (id)")
    for part in range(60):
        run_sql(
            target,
            f"CREATE TABLE ev{part} PARTITION OF ev FOR VALUES WITH (MODULUS 60, REMAINDER {part})",
        )
    run_sql(target, "CREATE INDEX ON ev (k)")
    run_sql(target, "CREATE INDEX ON ev (id)")
    with several(target, "web", loop("SELECT count(*) FROM ev WHERE k = %s", lambda turn: turn), 8):
        yield


@contextmanager
def slow_client(target: Target) -> Iterator[None]:
    """A client does not read what it asked for."""
    connection = session(target, "laptop", autocommit=True)
    connection.pgconn.send_query(b"SELECT repeat('x', 1000) FROM generate_series(1, 1000000)")
    try:
        yield
    finally:
        connection.cancel_safe()
        connection.close()


@contextmanager
def catalogue_bloat(target: Target) -> Iterator[None]:
    """Temporary tables for each request, while a transaction keeps their catalogue rows."""

    def act(worker: Worker, turn: int) -> None:
        with worker.transaction():
            worker.execute(
                "CREATE TEMP TABLE scratch ON COMMIT DROP AS SELECT * FROM items LIMIT 5"
            )

    with session(target, "notebook") as idle:
        idle.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        idle.execute("SELECT 1 FROM items LIMIT 1")
        with several(target, "web", act, 2):
            yield


@contextmanager
def exclusive_maintenance(target: Target) -> Iterator[None]:
    """CLUSTER, in a transaction, while the shop reads."""
    with session(target, "maintenance") as held:
        held.execute("CLUSTER orders USING orders_pkey")
        with waiting(target, "web", "SELECT * FROM orders WHERE id = 4", 4):
            yield


@contextmanager
def full_pool(target: Target) -> Iterator[None]:
    """A constraint waits for a report; the shop's sessions pile up (Flagsmith)."""
    with session(target, "report") as reader:
        reader.execute("SELECT count(*) FROM orders")
        add = "ALTER TABLE orders ADD CONSTRAINT positive CHECK (n >= 0)"
        with (
            waiting(target, "migrate", add),
            waiting(target, "web", "SELECT * FROM orders WHERE id = 5", 10),
        ):
            yield
