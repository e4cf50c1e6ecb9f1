"""Incidents of a third round of public reports: shapes of statements that defeat an index."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

import psycopg
from tests.features.watch.incidents import busy
from tests.features.watch.strangers import Worker, loop, several
from tests.fixtures.clusters import run_sql

from pgdyno.server.target import Target

Staging = Callable[[Target], AbstractContextManager[None]]


def make_customers(target: Target) -> None:
    run_sql(
        target,
        "CREATE TABLE customers AS SELECT id, 'u' || id || '@example.org' AS email,"
        " jsonb_build_object('token', 't' || id) AS profile, ARRAY['tag' || id] AS tags,"
        " timestamp '2026-01-01' + id * interval '1 hour' AS created"
        " FROM generate_series(1, 40000) id",
    )
    run_sql(target, "ALTER TABLE customers ADD PRIMARY KEY (id)")
    run_sql(target, "CREATE INDEX ON customers (email)")
    run_sql(target, "CREATE INDEX ON customers (created)")
    run_sql(target, "VACUUM ANALYZE customers")


def asking(statement: str, *values: Callable[[int], object]) -> Staging:
    """Return an incident in which two sessions send a statement about customers."""

    @contextmanager
    def staged(target: Target) -> Iterator[None]:
        make_customers(target)
        with several(target, "web", loop(statement, *values), 2):
            yield

    return staged


value_of_other_type = asking(
    "SELECT email FROM customers WHERE id = %s::numeric", lambda turn: turn
)

column_is_cast = asking("SELECT email FROM customers WHERE id::text = %s", str)

field_of_document = asking(
    "SELECT id FROM customers WHERE profile->>'token' = %s", lambda turn: f"t{turn}"
)

word_anywhere = asking("SELECT id FROM customers WHERE email ILIKE %s", lambda turn: f"%u{turn}@%")

random_row = asking("SELECT email FROM customers ORDER BY random() LIMIT 1")

either_column = asking(
    "SELECT id FROM customers WHERE email = %s OR tags = ARRAY[%s]",
    lambda turn: f"u{turn}@example.org",
    str,
)

member_of_array = asking(
    "SELECT id FROM customers WHERE %s = ANY (tags)", lambda turn: f"tag{turn}"
)

computed_day = asking(
    "SELECT id FROM customers WHERE date_trunc('day', created) = %s::timestamp",
    lambda turn: "2026-03-01",
)

default_of_null = asking(
    "SELECT id FROM customers WHERE coalesce(email, '') = %s", lambda turn: f"u{turn}@example.org"
)


@contextmanager
def invalid_index(target: Target) -> Iterator[None]:
    """CREATE INDEX CONCURRENTLY failed, and nobody looked."""
    make_customers(target)
    run_sql(target, "CREATE INDEX customers_token ON customers ((profile->>'token'))")
    run_sql(target, "CREATE INDEX orders_customer ON orders (customer)")
    run_sql(
        target,
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'orders_customer'::regclass",
    )
    asked = loop("SELECT note FROM orders WHERE customer = %s", lambda turn: turn % 1000)
    with several(target, "web", asked, 2):
        yield


@contextmanager
def pending_list(target: Target) -> Iterator[None]:
    """A search reads the pending list of a GIN index, which no vacuum has merged."""
    run_sql(
        target,
        "CREATE TABLE posts (id int, words tsvector) WITH (autovacuum_enabled = off)",
    )
    run_sql(
        target,
        "CREATE INDEX posts_words ON posts USING gin (words)"
        " WITH (fastupdate = on, gin_pending_list_limit = 200000)",
    )
    run_sql(
        target,
        "INSERT INTO posts SELECT i, to_tsvector('simple', 'w' || i || ' x' || i % 5000)"
        " FROM generate_series(1, 60000) i",
    )
    run_sql(target, "ANALYZE posts")
    asked = "SELECT id FROM posts WHERE words @@ to_tsquery('simple', %s)"

    def act(worker: Worker, turn: int) -> None:
        if turn == 1:
            worker.execute("SET enable_seqscan = off")
        worker.execute(asked, [f"w{turn}"])

    with several(target, "search", act, 2):
        yield


@contextmanager
def planning(target: Target) -> Iterator[None]:
    """A join of many tables is planned again for each call."""
    for number in range(10):
        run_sql(target, f"CREATE TABLE part{number} (id int PRIMARY KEY, n int)")
    run_sql(target, "ANALYZE")
    joins = " ".join(f"JOIN part{number} USING (id)" for number in range(1, 10))
    asked = f"SELECT count(*) FROM part0 {joins} WHERE id = %s"

    def act(worker: Worker, turn: int) -> None:
        if turn == 1:
            worker.execute("SET join_collapse_limit = 10; SET geqo = off")
        worker.execute(asked, [turn], prepare=False)  # type: ignore[arg-type]

    with several(target, "web", act, 2):
        yield


@contextmanager
def counting_for_a_page(target: Target) -> Iterator[None]:
    """A dashboard counts a whole table again and again."""
    with several(target, "dashboard", loop("SELECT count(*) FROM orders"), 4):
        yield


@contextmanager
def refreshed_view(target: Target) -> Iterator[None]:
    """Readers of a materialized view wait while it is computed again."""
    run_sql(
        target,
        "CREATE MATERIALIZED VIEW totals AS SELECT a.customer, count(*) FROM orders a"
        " JOIN orders b USING (customer) WHERE a.customer < 200 GROUP BY 1",
    )
    refresh = loop("REFRESH MATERIALIZED VIEW totals")
    read = loop("SELECT * FROM totals WHERE customer = %s", lambda turn: turn % 1000)
    with busy(target, "cron", refresh), several(target, "web", read, 4):
        yield


@contextmanager
def advisory_convoy(target: Target) -> Iterator[None]:
    """Workers take turns at one advisory lock."""

    def act(worker: Worker, turn: int) -> None:
        worker.execute("SELECT pg_advisory_lock(42)")
        threading.Event().wait(0.2)
        worker.execute("SELECT pg_advisory_unlock(42)")

    with several(target, "worker", act, 6):
        yield


@contextmanager
def everything_fetched(target: Target) -> Iterator[None]:
    """The application fetches the whole table and filters there."""
    with several(target, "app", loop("/* app:shop */ SELECT * FROM orders"), 2):
        yield


@contextmanager
def not_in(target: Target) -> Iterator[None]:
    """NOT IN with a list that does not fit into work_mem reads the list for each row."""
    run_sql(target, "CREATE TABLE shipped AS SELECT id FROM generate_series(1, 49000) id")
    run_sql(target, "ANALYZE shipped")

    def act(worker: Worker, turn: int) -> None:
        if turn == 1:
            worker.execute("SET work_mem = '64kB'; SET statement_timeout = '60s'")
        with suppress(psycopg.errors.QueryCanceled):
            worker.execute("SELECT id FROM orders WHERE id NOT IN (SELECT id FROM shipped)")

    with busy(target, "web", act):
        try:
            yield
        finally:
            run_sql(
                target,
                "SELECT pg_cancel_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'web'",
            )


@contextmanager
def slow_trigger(target: Target) -> Iterator[None]:
    """A trigger computes for long; the statement that the client sends is a plain INSERT."""
    run_sql(
        target,
        "CREATE FUNCTION score() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE s int := 0;"
        " BEGIN FOR i IN 1..500000 LOOP s := s + i % 7; END LOOP; NEW.n := s; RETURN NEW; END $$",
    )
    run_sql(
        target,
        "CREATE TRIGGER score BEFORE INSERT ON items FOR EACH ROW EXECUTE FUNCTION score()",
    )
    with several(target, "web", loop("INSERT INTO items VALUES (%s, 0)", lambda turn: turn), 2):
        yield
