"""A log with its values, repeated on a restored dump."""

from __future__ import annotations

import re
import stat
import threading
import time
from pathlib import Path

import psycopg
import pytest
from tests.fixtures.captured_load import SETTINGS, capture_new_log
from tests.fixtures.captures import tpcb_capture
from tests.fixtures.clusters import Make, connection, run_sql, scalar
from tests.fixtures.command import Command, server_options

from pgdyno.errors import SpecError
from pgdyno.features.capture.observed import RecordedType, Recording, Statement
from pgdyno.features.capture.safety import refuse_other_loads
from pgdyno.server.target import Target

pytestmark = pytest.mark.pg

SESSIONS, ORDERS = 3, 12
SCHEMA = (
    "CREATE TABLE customer (id int PRIMARY KEY, version int NOT NULL, orders int NOT NULL)",
    "INSERT INTO customer SELECT n, 1, 0 FROM generate_series(1, 50) AS n",
    "CREATE TABLE orders (id bigserial PRIMARY KEY, customer int REFERENCES customer,"
    " note text, tags text[], is_paid boolean NOT NULL DEFAULT false)",
    "INSERT INTO orders (customer, note) SELECT n, 'old' FROM generate_series(1, 50) AS n",
    "CREATE TABLE line (order_id bigint REFERENCES orders, place int, what text, price numeric,"
    " PRIMARY KEY (order_id, place))",
    "ANALYZE",
)
KEPT = ("--keep-values", "--i-may-store-values")
# What the load wrote, without the keys that a sequence gives.
ORDERS_WRITTEN = (
    "SELECT md5(string_agg(row::text, ',' ORDER BY row::text)) FROM (SELECT o.customer, o.note,"
    " o.tags, o.is_paid, (SELECT array_agg((place, what, price) ORDER BY place) FROM line"
    " WHERE order_id = o.id) FROM orders AS o) AS row"
)
CUSTOMERS = "SELECT md5(string_agg(c::text, ',' ORDER BY id)) FROM customer AS c"


def shop(target: Target) -> None:
    """Three clients buy at the same time, with optimistic locking, and pay afterwards."""

    def buy(number: int) -> None:
        with connection(target) as session:
            for order in range(ORDERS):
                customer = 10 * number + order % 3 + 1
                with session.transaction():
                    [version] = _row(
                        session, "SELECT version FROM customer WHERE id = %s", [customer]
                    )
                    note = None if order % 4 == 0 else f"it's {number}, {order}: " + "ä" * 300
                    given = [customer, note, ["red", 'a "b"', "x,y"]]
                    made = (
                        "INSERT INTO orders (customer, note, tags) VALUES (%s, %s, %s) RETURNING id"
                    )
                    [key] = _row(session, made, given)
                    for place in range(order % 3 + 1):
                        line = "INSERT INTO line VALUES (%s, %s, %s, %s)"
                        session.execute(line, [key, place, f"thing {place}", 1.5 * place])
                    # The log has {NULL,2.5}: the first element has no value.
                    session.execute(
                        "INSERT INTO line SELECT %s, place, 'gift', price"
                        " FROM unnest(%s::int[], %s::numeric[]) AS u (place, price)",
                        [key, [8, 9], [None, 2.5]],
                    )
                    changed = session.execute(
                        "UPDATE customer SET version = version + 1, orders = orders + 1"
                        " WHERE id = %s AND version = %s",
                        [customer, version],
                    )
                    assert changed.rowcount == 1
                session.execute("UPDATE orders SET is_paid = true WHERE id = %s", [key])
                # A cursor that outlives its transaction.
                session.execute("DECLARE held CURSOR WITH HOLD FOR SELECT id FROM customer")
                session.execute("FETCH 2 FROM held")
                session.execute("CLOSE held")
                # Constants that no parameter can replace.
                session.execute(
                    "UPDATE orders SET note = coalesce(note, '') || E'\\n' || $$it's$$ WHERE"
                    f" extract('year' from now()) > 2000 AND id IN ({key}, {key})"
                )

    clients = [threading.Thread(target=buy, args=(number,)) for number in range(SESSIONS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()


def _row(session: psycopg.Connection, sql: str, given: list[object]) -> tuple[int, ...]:
    row = session.execute(sql, given).fetchone()
    assert row is not None
    return row


@pytest.mark.parametrize("version", ["15", "18"])
@pytest.mark.parametrize("client_count", [1, SESSIONS])
def test_a_recorded_log_writes_the_same_rows_on_a_restored_dump(
    pgdyno: Command, new_cluster: Make, tmp_path: Path, version: str, client_count: int
) -> None:
    settings = {**SETTINGS, "log_min_duration_statement": "0"}
    del settings["shared_preload_libraries"]
    server = new_cluster(version, settings=settings).target
    run_sql(server, "CREATE DATABASE core")
    core, copy = server.with_database("core"), server.with_database("copy")
    with connection(core) as session:
        for statement in SCHEMA:
            session.execute(statement)
    run_sql(server, "CREATE DATABASE copy TEMPLATE core")
    # The copy gives other keys than the source did.
    run_sql(copy, "ALTER SEQUENCE orders_id_seq RESTART 70001")
    path = tmp_path / "core.with-values.capture"

    capture_new_log(pgdyno, core, path, lambda: shop(core), options=KEPT)

    recording = path.with_suffix(".recording")
    for file in (path, recording):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    bench = ("bench", "-b", path, *server_options(copy), "-c", str(client_count), "--warmup", "0s")
    said = pgdyno(*bench, "--duration", "30s", "--allow-write", "--json", timeout_s=60)
    assert said.code in (0, 3), said.err
    assert said.document["failures"] == {}, said.err
    for written in (ORDERS_WRITTEN, CUSTOMERS):
        assert scalar(copy, written) == scalar(core, written)
    assert scalar(copy, "SELECT count(*) FROM orders WHERE id > 70000") == SESSIONS * ORDERS


def test_values_are_kept_only_with_permission(pgdyno: Command, tmp_path: Path) -> None:
    given = ("capture", "-d", "shop", "--keep-values", "-o", tmp_path / "a.capture")
    refused = pgdyno(*given)
    assert refused.code == 1
    assert "--i-may-store-values" in refused.error
    assert list(tmp_path.glob("*.capture")) == []


def test_a_statement_that_only_a_recording_has_is_checked_like_every_other_one() -> None:
    capture = tpcb_capture()
    drop = Statement(
        id="dropped", text="DROP TABLE pgbench_tellers", kind="other", reads_only=False
    )
    kind = RecordedType(name="a", protocol="simple", count=1, statements=(0,))
    recording = Recording(
        file="a.recording",
        transactions=1,
        sessions=1,
        keys=0,
        left_out_count=0,
        statements=(drop.id,),
        types=(kind,),
    )
    statements = (*capture.statements, drop)
    edited = capture.model_copy(update={"statements": statements, "recording": recording})
    with pytest.raises(SpecError, match="it is not part of a load: DROP TABLE"):
        refuse_other_loads(edited, file="a.capture")


ASKED = "INSERT INTO asked (client) VALUES (%s) RETURNING id"
# Requests of both clients, and the pause before each: the third one is late.
REQUESTS, PAUSES_S = 4, (0.1, 0.1, 1.0, 0.1)


def _requests(target: Target) -> None:
    """Two clients, each with a new connection for each request; one keeps its connection."""

    def ask(client: int) -> None:
        for pause_s in PAUSES_S:
            time.sleep(pause_s)
            with connection(target) as session:
                [key] = _row(session, ASKED, [client])
                session.execute("UPDATE asked SET is_answered = true WHERE id = %s", [key])

    clients = [threading.Thread(target=ask, args=(number,)) for number in range(2)]
    with connection(target) as session:
        session.execute("SELECT count(*) FROM asked WHERE client = %s", [7])
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        session.execute("SELECT count(*) FROM asked WHERE client = %s", [8])


@pytest.mark.parametrize("version", ["15", "18"])
def test_sessions_that_an_application_opens_are_opened_again(
    pgdyno: Command, new_cluster: Make, tmp_path: Path, version: str
) -> None:
    settings = {**SETTINGS, "log_min_duration_statement": "0"}
    del settings["shared_preload_libraries"]
    server = new_cluster(version, settings=settings).target
    run_sql(server, "CREATE DATABASE core")
    core = server.with_database("core")
    run_sql(
        core,
        "CREATE TABLE asked (id bigserial PRIMARY KEY, client int, process int DEFAULT"
        " pg_backend_pid(), at timestamptz DEFAULT clock_timestamp(),"
        " is_answered boolean NOT NULL DEFAULT false)",
    )
    for copy in ("closed", "fast"):
        run_sql(server, f"CREATE DATABASE {copy} TEMPLATE core")
    path = tmp_path / "core.with-values.capture"
    capture_new_log(pgdyno, core, path, lambda: _requests(core), options=KEPT)
    [at_once] = re.findall(r"with -c (\d) each session", pgdyno("capture", "show", path).out)
    assert at_once in "23"  # The clients may have taken turns.
    seconds = "SELECT extract(epoch FROM max(at) - min(at))::float8 FROM asked"
    whole_s = float(str(scalar(core, seconds)))
    for copy, options in (("closed", ()), ("fast", ("--rate", "2x"))):
        target = server.with_database(copy)
        given = ("-b", path, *server_options(target), "-c", at_once, "--warmup", "0s", *options)
        given = given if options else (*given, "--duration", "30s")
        said = pgdyno("bench", *given, "--allow-write", "--json", timeout_s=60)
        assert said.document["failures"] == {}, said.err
        counts = "SELECT count(*), count(*) FILTER (WHERE is_answered), count(DISTINCT process)"
        with connection(target) as session:
            asked = session.execute(f"{counts} FROM asked").fetchone()
        assert asked == (2 * REQUESTS, 2 * REQUESTS, 2 * REQUESTS)
        if options:
            assert float(str(scalar(target, seconds))) == pytest.approx(whole_s / 2, abs=0.3)
