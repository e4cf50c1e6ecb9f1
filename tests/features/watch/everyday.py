"""Everyday incidents: each is a context with a server in trouble, while healthy traffic goes on."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress

import psycopg
from tests.features.watch.incidents import busy, session, waiting
from tests.features.watch.strangers import Worker, loop, several
from tests.fixtures.clusters import run_sql

from pgdyno.server.target import Target

Staging = Callable[[Target], AbstractContextManager[None]]
Value = Callable[[int], object]

STORE = (
    "CREATE TABLE accounts AS SELECT id, 0 AS balance FROM generate_series(1, 5000) id",
    "ALTER TABLE accounts ADD PRIMARY KEY (id)",
    "CREATE TABLE clients AS SELECT id::bigint, 'C' || id || '@example.org' AS email,"
    ' md5(id::text) COLLATE "C.utf8" AS name,'
    " 'region ' || id % 12 AS region FROM generate_series(1, 20000) id",
    "ALTER TABLE clients ADD PRIMARY KEY (id)",
    "CREATE INDEX clients_email ON clients (email)",
    "CREATE INDEX clients_name ON clients (name)",
    "CREATE TABLE purchases AS SELECT id::bigint, (id * 7919 % 20000)::bigint AS client,"
    " CASE WHEN id % 5 < 2 THEN 'open' ELSE 'closed' END AS state, id % 9999 = 0 AS flagged,"
    " timestamptz '2026-01-01' + (id * 7 % 60000) * interval '1 minute' AS placed,"
    " CASE WHEN id % 4000 <> 0 THEN now() END AS shipped, 0 AS n, repeat('x', 60) AS note"
    " FROM generate_series(1, 60000) id",
    "ALTER TABLE purchases ADD PRIMARY KEY (id)",
    "CREATE TABLE lines AS SELECT id::bigint, (id % 60000)::bigint AS purchase,"
    " (id * 31 % 500)::int AS product, id % 9 AS quantity FROM generate_series(1, 120000) id",
    "ALTER TABLE lines ADD PRIMARY KEY (id)",
    "CREATE TABLE jobs AS SELECT id, 'new' AS state, 0 AS n FROM generate_series(1, 5000) id",
    "ALTER TABLE jobs ADD PRIMARY KEY (id)",
    "VACUUM ANALYZE",
)


def make_store(target: Target) -> None:
    for statement in STORE:
        run_sql(target, statement)


def traffic(worker: Worker, turn: int) -> None:
    """Read and change accounts by their key, with pauses."""
    account = 1 + (worker.info.backend_pid * 31 + turn * 17) % 5000
    worker.execute("SELECT balance FROM accounts WHERE id = %s", [account])
    with worker.transaction():
        worker.execute("UPDATE accounts SET balance = balance + 1 WHERE id = %s", [account])
    threading.Event().wait(0.01)


@contextmanager
def healthy_traffic(target: Target) -> Iterator[None]:
    """Let healthy traffic go on."""
    with several(target, "teller", traffic, 2):
        yield


def asking(
    statement: str,
    *values: Value,
    name: str,
    prepare: tuple[str, ...] = (),
    setting: str = "",
    count: int = 2,
) -> Staging:
    """Return an incident in which some sessions send one statement."""

    @contextmanager
    def staged(target: Target) -> Iterator[None]:
        for made in prepare:
            run_sql(target, made)

        turns = itertools.count(1)

        def act(worker: Worker, turn: int) -> None:
            if turn == 1 and setting:
                worker.execute(f"SET {setting}")  # type: ignore[arg-type]
            # Two sessions never ask with the same values.
            own = next(turns)
            worker.execute(statement, [value(own) for value in values])  # type: ignore[arg-type]

        with several(target, "web", act, count):
            yield

    staged.__name__ = name
    return staged


def spread(turn: int) -> int:
    return 1 + turn * 7919 % 19000


def email(turn: int) -> str:
    return f"C{spread(turn)}@example.org"


@contextmanager
def foreign_key_no_action(target: Target) -> Iterator[None]:
    """Purchases are removed; each looks for its lines in a table without the index."""
    run_sql(target, "DELETE FROM lines WHERE purchase > 20000 OR purchase = 0")
    run_sql(target, "ALTER TABLE lines ADD FOREIGN KEY (purchase) REFERENCES purchases")
    remove = loop("DELETE FROM purchases WHERE id = %s", lambda turn: 20001 + turn)
    with busy(target, "purge", remove):
        yield


@contextmanager
def stuck_advisory_lock(target: Target) -> Iterator[None]:
    """A worker took an advisory lock and is idle; the others wait for it."""
    with session(target, "scheduler-1", autocommit=True) as holder:
        holder.execute("SELECT pg_advisory_lock(7)")
        with waiting(target, "scheduler", "SELECT pg_advisory_lock(7)", 4):
            yield


@contextmanager
def queue_without_skip_locked(target: Target) -> Iterator[None]:
    """Workers take the first free job, and all of them wait for the same one."""

    def act(worker: Worker, turn: int) -> None:
        with worker.transaction():
            taken = worker.execute(
                "SELECT id FROM jobs WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE"
            ).fetchone()
            threading.Event().wait(0.1)
            worker.execute("UPDATE jobs SET state = 'done' WHERE id = %s", taken)

    with several(target, "job-worker", act, 6):
        yield


@contextmanager
def plain_index_build(target: Target) -> Iterator[None]:
    """CREATE INDEX without CONCURRENTLY runs for long, and writers wait."""
    run_sql(
        target,
        "CREATE FUNCTION slow(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_sleep(0.02); RETURN $1; END $$",
    )
    with (
        waiting(target, "deploy", "CREATE INDEX ON jobs (slow(id))"),
        waiting(target, "job-worker", "UPDATE jobs SET n = 1 WHERE id = 4", 4),
    ):
        yield


@contextmanager
def rewriting_alter(target: Target) -> Iterator[None]:
    """ALTER TABLE rewrites a table, and readers wait."""
    run_sql(
        target,
        "CREATE FUNCTION slow(int) RETURNS bigint VOLATILE LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_sleep(0.02); RETURN $1; END $$",
    )
    alter = "ALTER TABLE jobs ALTER COLUMN n TYPE bigint USING slow(n)"
    with (
        waiting(target, "deploy", alter),
        waiting(target, "web", "SELECT n FROM jobs WHERE id = 4", 4),
    ):
        yield


@contextmanager
def locked_table(target: Target) -> Iterator[None]:
    """Somebody locked a table and went to lunch."""
    with session(target, "psql") as holder:
        holder.execute("LOCK TABLE purchases IN ACCESS EXCLUSIVE MODE")
        with waiting(target, "web", "SELECT note FROM purchases WHERE id = 4", 4):
            yield


@contextmanager
def truncate_behind_report(target: Target) -> Iterator[None]:
    """TRUNCATE waits for a report, and everybody waits behind TRUNCATE."""
    report = "SELECT count(*), pg_sleep(60) FROM purchases"
    with (
        waiting(target, "report", report),
        waiting(target, "nightly", "TRUNCATE purchases"),
        waiting(target, "web", "SELECT note FROM purchases WHERE id = 4", 4),
    ):
        yield


@contextmanager
def children_wait_for_parent(target: Target) -> Iterator[None]:
    """New lines wait for a purchase that a forgotten transaction has locked."""
    run_sql(target, "DELETE FROM lines WHERE purchase = 0")
    run_sql(target, "ALTER TABLE lines ADD FOREIGN KEY (purchase) REFERENCES purchases")
    run_sql(target, "CREATE INDEX ON lines (purchase)")
    with session(target, "back-office") as holder:
        holder.execute("SELECT * FROM purchases WHERE id = 11 FOR UPDATE")
        insert = "INSERT INTO lines SELECT max(id) + 1, 11, 1, 1 FROM lines"
        with waiting(target, "web", insert, 3):
            yield


@contextmanager
def same_key_twice(target: Target) -> Iterator[None]:
    """Sessions insert a key that an open transaction has inserted."""
    with session(target, "importer") as holder:
        holder.execute("INSERT INTO clients VALUES (77777, 'a', 'b', 'c')")
        insert = "INSERT INTO clients VALUES (77777, 'a', 'b', 'c') ON CONFLICT DO NOTHING"
        with waiting(target, "web", insert, 3):
            yield


def failing(statement: str, *values: Value, name: str, before: str = "") -> Staging:
    """Return an incident in which sessions send a statement that fails, and go on."""

    @contextmanager
    def staged(target: Target) -> Iterator[None]:
        def act(worker: Worker, turn: int) -> None:
            if turn == 1 and before:
                worker.execute(before)  # type: ignore[arg-type]
            try:
                asked = [value(turn) for value in values]
                worker.execute(statement, asked)  # type: ignore[arg-type]
            except psycopg.Error:
                threading.Event().wait(0.02)

        with several(target, "web", act, 2):
            yield

    staged.__name__ = name
    return staged


FAILURES = (
    failing("INSERT INTO accounts VALUES (%s, NULL), (NULL, 1)", lambda turn: 9000 + turn,
            name="missing_value"),
    failing("SELECT * FROM accounts WHERE id = %s::text::int", lambda _: "abc",
            name="invalid_number"),
    failing("SELECT id FROM lines ORDER BY quantity, product, id OFFSET 100000",
            name="temp_file_limit", before="SET temp_file_limit = '1MB'; SET work_mem = '64kB'"),
)  # fmt: skip


@contextmanager
def serialization_loop(target: Target) -> Iterator[None]:
    """Transactions that change the same row in REPEATABLE READ fail and are sent again."""

    def act(worker: Worker, turn: int) -> None:
        try:
            with worker.transaction():
                worker.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                worker.execute("SELECT balance FROM accounts WHERE id = 1")
                threading.Event().wait(0.01)
                worker.execute("UPDATE accounts SET balance = balance + 1 WHERE id = 1")
        except psycopg.errors.SerializationFailure:
            return

    with several(target, "ledger", act, 5):
        yield


@contextmanager
def forgotten_prepared(target: Target) -> Iterator[None]:
    """A prepared transaction is left; dead rows of a hot row pile up behind it."""
    with session(target, "xa", autocommit=True) as made:
        made.execute("BEGIN")
        made.execute("UPDATE accounts SET balance = 0 WHERE id = 4999")
        made.execute("PREPARE TRANSACTION 'xa-4711'")

    def act(worker: Worker, turn: int) -> None:
        worker.execute("UPDATE accounts SET balance = balance + 1 WHERE id = %s", [turn % 5])

    try:
        with busy(target, "web", act):
            threading.Event().wait(12)
            yield
    finally:
        with session(target, "repair", autocommit=True) as repair:
            repair.execute("ROLLBACK PREPARED 'xa-4711'")


@contextmanager
def vacuum_off_for_a_table(target: Target) -> Iterator[None]:
    """A queue has autovacuum_enabled = off; its readers pass over dead rows."""
    run_sql(target, "ALTER TABLE jobs SET (autovacuum_enabled = off)")
    for _ in range(12):
        run_sql(target, "DELETE FROM jobs")
        run_sql(target, "INSERT INTO jobs SELECT id, 'new', 0 FROM generate_series(1, 5000) id")
    run_sql(target, "DELETE FROM jobs WHERE id < 4500")
    with several(target, "job-worker", loop("SELECT id FROM jobs ORDER BY n, id LIMIT 1"), 6):
        yield


@contextmanager
def stale_statistics(target: Target) -> Iterator[None]:
    """A table was analysed when it was nearly empty, and has grown since."""
    run_sql(
        target,
        "CREATE TABLE carts (id int, client bigint, state text) WITH (autovacuum_enabled = off)",
    )
    run_sql(target, "INSERT INTO carts SELECT g, g, 'old' FROM generate_series(1, 100) g")
    run_sql(target, "CREATE INDEX ON carts (state)")
    run_sql(target, "CREATE INDEX ON carts (client)")
    run_sql(target, "ANALYZE carts")
    run_sql(target, "INSERT INTO carts SELECT g, g % 900, 'new' FROM generate_series(1, 20000) g")
    asked = (
        "SELECT count(*) FROM carts a JOIN carts b ON a.client = b.client AND b.state = 'new'"
        " WHERE a.state = 'new' AND a.id < %s"
    )
    with several(target, "web", loop(asked, lambda turn: 140 + turn % 10), 2):
        yield


@contextmanager
def foreign_server(target: Target) -> Iterator[None]:
    """Statements wait for another server behind postgres_fdw."""
    run_sql(target, "CREATE EXTENSION postgres_fdw")
    run_sql(
        target,
        "CREATE VIEW slow_view AS SELECT 1 AS id FROM pg_sleep(0.3)",
    )
    options = f"host '{target.host}', port '{target.ports}', dbname '{target.database}'"
    run_sql(target, f"CREATE SERVER remote FOREIGN DATA WRAPPER postgres_fdw OPTIONS ({options})")
    run_sql(
        target,
        f"CREATE USER MAPPING FOR CURRENT_USER SERVER remote OPTIONS (user '{target.user}')",
    )
    run_sql(
        target,
        "CREATE FOREIGN TABLE stock (id int) SERVER remote OPTIONS (table_name 'slow_view')",
    )
    with several(target, "web", loop("SELECT id FROM stock"), 3):
        yield


@contextmanager
def function_that_waits(target: Target) -> Iterator[None]:
    """A trigger asks another service, so the row stays locked for long (staged by a pause)."""
    run_sql(
        target,
        "CREATE FUNCTION call_home() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_sleep(0.2); RETURN NEW; END $$",
    )
    run_sql(
        target,
        "CREATE TRIGGER call_home BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION call_home()",
    )
    change = loop("UPDATE jobs SET n = n + 1 WHERE id = %s", lambda turn: 1 + turn % 2)
    with several(target, "web", change, 5):
        yield


@contextmanager
def counting_trigger(target: Target) -> Iterator[None]:
    """A trigger counts a table whenever a row comes."""
    run_sql(
        target,
        "CREATE FUNCTION count_them() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " NEW.n := (SELECT count(*) FROM lines WHERE product = NEW.id % 500); RETURN NEW; END $$",
    )
    run_sql(
        target,
        "CREATE TRIGGER count_them BEFORE INSERT ON jobs FOR EACH ROW"
        " EXECUTE FUNCTION count_them()",
    )

    def put(worker: Worker, turn: int) -> None:
        key = hash((worker.info.backend_pid, turn)) % 10**9
        worker.execute("INSERT INTO jobs VALUES (%s, 'new', 0)", [key])

    with several(target, "web", put, 2):
        yield


@contextmanager
def hot_upsert(target: Target) -> Iterator[None]:
    """All sessions count visits in one row by INSERT ... ON CONFLICT, in longer transactions."""

    def act(worker: Worker, turn: int) -> None:
        with worker.transaction():
            worker.execute(
                "INSERT INTO accounts VALUES (1, 1) ON CONFLICT (id)"
                " DO UPDATE SET balance = accounts.balance + 1"
            )
            threading.Event().wait(0.03)

    with several(target, "web", act, 6):
        yield


@contextmanager
def aborted_transaction(target: Target) -> Iterator[None]:
    """A client ignores an error and keeps its transaction, with a lock that others want."""
    with session(target, "etl") as holder:
        holder.execute("SAVEPOINT a")
        holder.execute("UPDATE purchases SET n = 1 WHERE id = 3")
        holder.execute("SAVEPOINT b")
        with suppress(psycopg.Error):
            holder.execute("SELECT 1 / 0")
        with waiting(target, "web", "UPDATE purchases SET n = 2 WHERE id = 3", 3):
            yield


@contextmanager
def vacuum_full(target: Target) -> Iterator[None]:
    """VACUUM FULL rewrites a table again and again while the shop reads."""
    full = loop("VACUUM FULL lines")
    read = loop("SELECT quantity FROM lines WHERE id = %s", spread)
    with busy(target, "maintenance", full), several(target, "web", read, 4):
        yield


@contextmanager
def old_backup(target: Target) -> Iterator[None]:
    """A dump whose reader stands still; a migration waits for it, and all behind it."""
    dump = session(target, "pg_dump")
    dump.execute("SELECT 1")
    dump.pgconn.send_query(b"COPY lines TO STDOUT")
    try:
        with (
            waiting(target, "migrate", "ALTER TABLE lines ADD COLUMN added int"),
            waiting(target, "web", "SELECT quantity FROM lines WHERE id = 4", 4),
        ):
            yield
    finally:
        dump.cancel_safe()
        dump.pgconn.finish()


@contextmanager
def batch_holds_rows(target: Target) -> Iterator[None]:
    """One long UPDATE of a whole table holds rows that the shop wants to change."""
    change = loop("UPDATE purchases SET n = n + 1 WHERE id = %s", lambda turn: 1 + turn % 50)
    with ExitStack() as stack:
        batch = session(target, "nightly-batch")
        stack.callback(batch.close)
        batch.execute("UPDATE purchases SET state = 'closed'")
        batch.pgconn.send_query(b"SELECT pg_sleep(60)")
        stack.callback(batch.cancel_safe)
        waiter = "UPDATE purchases SET n = n + 1 WHERE id = 9"
        stack.enter_context(waiting(target, "web", waiter, 3))
        del change
        yield


SESSIONS: tuple[Staging, ...] = (
    foreign_key_no_action, stuck_advisory_lock, queue_without_skip_locked, plain_index_build,
    rewriting_alter, locked_table, truncate_behind_report, children_wait_for_parent,
    same_key_twice, *FAILURES, serialization_loop, forgotten_prepared, vacuum_off_for_a_table,
    stale_statistics, foreign_server, function_that_waits, counting_trigger, hot_upsert,
    aborted_transaction, vacuum_full, old_backup, batch_holds_rows,
)  # fmt: skip
