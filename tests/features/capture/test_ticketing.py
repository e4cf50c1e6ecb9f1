"""A ticketing application of many tenants, with what PostgreSQL 15 offers it."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from tests.fixtures.captured_load import rebuilt
from tests.fixtures.clusters import Make, run_sql
from tests.fixtures.command import Command

from pgdyno.server.target import Target

SCHEMA = (
    "CREATE SCHEMA app",
    "CREATE SCHEMA ids",
    "SET search_path TO app, public",
    "CREATE TABLE tenant (id uuid PRIMARY KEY DEFAULT gen_random_uuid(),"
    " name text NOT NULL UNIQUE)",
    "CREATE TABLE ticket (tenant_id uuid NOT NULL REFERENCES tenant,"
    " id bigint GENERATED ALWAYS AS IDENTITY, title text NOT NULL, state text NOT NULL,"
    " version int NOT NULL DEFAULT 0, tags text[] NOT NULL DEFAULT '{}',"
    " PRIMARY KEY (tenant_id, id))",
    "CREATE SEQUENCE ids.note_id",
    "CREATE TABLE note (tenant_id uuid NOT NULL, id bigint DEFAULT nextval('ids.note_id'),"
    " ticket_id bigint NOT NULL, body text, PRIMARY KEY (tenant_id, id),"
    " FOREIGN KEY (tenant_id, ticket_id) REFERENCES ticket)",
    "ALTER SEQUENCE ids.note_id OWNED BY NONE",
    "CREATE TABLE price (sku int NOT NULL, during tstzrange NOT NULL, amount numeric(10,2),"
    " EXCLUDE USING gist (int4range(sku, sku, '[]') WITH &&, during WITH &&))",
    "CREATE TABLE stock (sku int PRIMARY KEY, on_hand int NOT NULL)",
    "CREATE TABLE moved (sku int, delta int, at timestamptz DEFAULT now())",
    "CREATE TABLE task (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), kind text NOT NULL,"
    " state text NOT NULL DEFAULT 'new', at timestamptz NOT NULL DEFAULT now())",
    "CREATE INDEX ON task (at) WHERE state = 'new'",
    "INSERT INTO tenant (name) SELECT 'tenant ' || n FROM generate_series(1, 40) n",
    "INSERT INTO ticket (tags, tenant_id, title, state) SELECT ARRAY['tag' || n % 7, 'tag' ||"
    " n % 5], (SELECT id FROM tenant WHERE name ="
    " 'tenant ' || 1 + n % 40), 'ticket ' || n, (ARRAY['open', 'closed'])[1 + n % 2]"
    " FROM generate_series(1, 4000) n",
    "INSERT INTO note (tenant_id, ticket_id, body) SELECT tenant_id, id, md5(id::text) FROM ticket",
    "INSERT INTO price SELECT n / 3, tstzrange(timestamptz '2026-01-01' + n % 3 * interval"
    " '10 days', timestamptz '2026-01-01' + (n % 3 + 1) * interval '10 days'), n"
    " FROM generate_series(0, 599) n",
    "INSERT INTO stock SELECT n, 1000 FROM generate_series(0, 199) n",
    "INSERT INTO task (kind) SELECT 'mail' FROM generate_series(1, 500) n",
    "CREATE MATERIALIZED VIEW board AS SELECT tenant_id, count(*) AS notes"
    " FROM note GROUP BY tenant_id",
    "CREATE UNIQUE INDEX ON board (tenant_id)",
    "ALTER TABLE ticket ENABLE ROW LEVEL SECURITY",
    "ALTER TABLE ticket FORCE ROW LEVEL SECURITY",
    "CREATE POLICY own ON ticket USING (tenant_id = current_setting('app.tenant')::uuid)",
    "ANALYZE tenant, ticket, note, price, stock, task, board",
    "DROP ROLE IF EXISTS agent",
    "CREATE ROLE agent LOGIN",
    "GRANT USAGE ON SCHEMA app, ids TO agent",
    "GRANT ALL ON ALL TABLES IN SCHEMA app TO agent",
    "GRANT ALL ON ALL SEQUENCES IN SCHEMA app, ids TO agent",
    "ALTER MATERIALIZED VIEW board OWNER TO agent",
    "GRANT CREATE ON SCHEMA app TO agent",
)


def load(target: Target, count: int = 100) -> None:
    parameters = {**target.libpq_parameters(), "user": "agent"}
    tenants = [row[0] for row in run_sql(target, "SELECT id FROM app.tenant ORDER BY name")]
    known = run_sql(target, "SELECT tenant_id, id FROM app.ticket ORDER BY id")
    first = psycopg.connect(**parameters, autocommit=True)  # type: ignore[arg-type]
    second = psycopg.connect(**parameters, autocommit=True)  # type: ignore[arg-type]
    with first, second:
        for session in (first, second):
            session.execute("SET search_path TO app, public")
        second.execute("LISTEN news")
        for number in range(count):
            tenant_of(first, tenants[number % len(tenants)], number)
            alone(first, known, number)
            goods(first, number)
            tasks(first, number)
            together(first, number)
            if number % 10 == 0:
                conflict(first, second)
                first.execute("REFRESH MATERIALIZED VIEW CONCURRENTLY board")
            first.execute("SELECT pg_notify('news', %s)", [f"{number}"])
            first.execute("NOTIFY news")


def tenant_of(session: psycopg.Connection, tenant: uuid.UUID, number: int) -> None:
    with session.transaction():
        session.execute(f"SET LOCAL app.tenant = '{tenant}'")
        row = session.execute(
            "INSERT INTO ticket (tenant_id, title, state) VALUES (%s, %s, 'open') RETURNING id",
            [tenant, f"new {number}"],
        ).fetchone()
        session.execute(
            "INSERT INTO note (tenant_id, ticket_id, body) VALUES (%s, %s, %s)",
            [tenant, row[0], "hello"],
        )
    with session.transaction():
        session.execute("SELECT set_config('app.tenant', %s, true)", [str(tenant)])
        rows = session.execute(
            "SELECT id, title FROM ticket WHERE state = 'open' ORDER BY id DESC LIMIT 10"
        ).fetchall()
        changed = session.execute(
            "UPDATE ticket SET version = version + 1 WHERE tenant_id = %s AND id = %s"
            " RETURNING id, version",
            [tenant, rows[number % len(rows)][0]],
        ).fetchone()
        session.execute(
            "INSERT INTO note (tenant_id, ticket_id, body) VALUES (%s, %s, %s)",
            [tenant, changed[0], f"version {changed[1]}"],
        )


def alone(session: psycopg.Connection, known: Sequence[tuple[uuid.UUID, int]], number: int) -> None:
    """Use the whole key in one statement, as a request of a web service does."""
    tenant, ticket = known[number * 37 % len(known)]
    session.execute(f"SET app.tenant = '{tenant}'")
    session.execute(
        "UPDATE ticket SET version = version + 1 WHERE tenant_id = %s AND id = %s", [tenant, ticket]
    )
    session.execute(
        "INSERT INTO note (tenant_id, ticket_id, body) VALUES (%s, %s, %s)",
        [tenant, ticket, "alone"],
    )
    with session.transaction():
        session.execute("SELECT name FROM tenant WHERE id = %s", [tenant])
        session.execute(
            "SELECT title FROM ticket WHERE tenant_id = %s AND id = %s", [tenant, ticket]
        )
        session.execute(
            "INSERT INTO note (tenant_id, ticket_id, body) VALUES (%s, %s, 'x')", [tenant, ticket]
        )
    session.execute(
        "SELECT id FROM ticket WHERE tenant_id = %s AND %s = ANY (tags)",
        [tenant, f"tag{number % 7}"],
    )
    session.execute(
        "UPDATE ticket SET tags = array_append(tags, %s::text) WHERE tenant_id = %s AND id = %s",
        [f"tag{number % 7}", tenant, ticket],
    )


def goods(session: psycopg.Connection, number: int) -> None:
    sku, at = number % 200, datetime(2026, 3, 1, tzinfo=UTC) + timedelta(days=number)
    session.execute(
        "MERGE INTO stock s USING (VALUES (%s::int, %s::int)) AS v (sku, delta) ON s.sku = v.sku"
        " WHEN MATCHED THEN UPDATE SET on_hand = s.on_hand + v.delta"
        " WHEN NOT MATCHED THEN INSERT VALUES (v.sku, v.delta)",
        [sku, 3],
    )
    session.execute(
        "INSERT INTO moved (sku, delta) SELECT sku, on_hand FROM stock WHERE sku < %s", [sku % 9]
    )
    session.execute(
        "SELECT amount FROM price WHERE sku = %s AND during @> %s::timestamptz",
        [sku, datetime(2026, 1, 5, tzinfo=UTC)],
    )
    with session.transaction():
        session.execute(
            "INSERT INTO price VALUES (%s, tstzrange(%s, %s), %s)",
            [sku, at, at + timedelta(days=1), number],
        )
    session.execute(
        "INSERT INTO stock SELECT * FROM unnest(%s::int[], %s::int[]) ON CONFLICT (sku)"
        " DO UPDATE SET on_hand = excluded.on_hand",
        [[sku, sku + 1, sku + 2], [1, 2, 3]],
    )
    with session.cursor() as cursor, cursor.copy("COPY moved (sku, delta) FROM STDIN") as copy:
        for line in range(10):
            copy.write_row((line, number))
    with session.transaction():
        session.execute("DECLARE c CURSOR FOR SELECT * FROM moved")
        for _ in range(3):
            session.execute("FETCH 50 FROM c")
        session.execute("CLOSE c")


def tasks(session: psycopg.Connection, number: int) -> None:
    session.execute("INSERT INTO task (kind) VALUES (%s)", ["mail"])
    with session.transaction():
        row = session.execute(
            "SELECT id FROM task WHERE state = 'new' ORDER BY at FOR UPDATE SKIP LOCKED LIMIT 1"
        ).fetchone()
        session.execute("UPDATE task SET state = 'done' WHERE id = %s", [row[0]])


def together(session: psycopg.Connection, number: int) -> None:
    with session.pipeline():
        for line in range(3):
            session.execute("UPDATE stock SET on_hand = on_hand - 1 WHERE sku = %s", [line])
        session.execute("INSERT INTO moved (sku, delta) VALUES (%s, %s)", [1, number])


def conflict(first: psycopg.Connection, second: psycopg.Connection) -> None:
    """Fail in the source: a serialization failure, a unique violation and an overlap."""
    for session in (first, second):
        session.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
        session.execute("SELECT sum(on_hand) FROM stock WHERE sku < %s", [20])
    for session in (first, second):
        with contextlib.suppress(psycopg.Error):
            session.execute("UPDATE stock SET on_hand = 1 WHERE sku = %s", [3])
            session.execute("COMMIT")
        session.execute("ROLLBACK")
    with contextlib.suppress(psycopg.Error):
        first.execute("INSERT INTO price VALUES (1, tstzrange('2026-01-01', '2026-01-03'), 1)")


@pytest.mark.pg
@pytest.mark.parametrize(("origin", "version"), [("statistics", "18"), ("log", "15")])
def test_the_mirror_of_a_ticketing_application_has_no_failed_transaction(
    origin: str, version: str, pgdyno: Command, new_cluster: Make, tmp_path: Path
) -> None:
    made = rebuilt(
        pgdyno, new_cluster, tmp_path, SCHEMA, load, origin=origin, version=version, seconds=8
    )
    answer = made.mirror("6s")
    assert answer["likeness"]["reproduced_calls"] > 0.9
    # Serializable transactions that meet fail in the source, too.
    others = {code: count for code, count in answer["failures"].items() if code != "40001"}
    assert not others, others
