"""A schema and a load as they are found in shops: nothing of the mirror fails."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.captured_load import rebuilt
from tests.fixtures.clusters import Make, connection, scalar
from tests.fixtures.command import Command

from pgdyno.server.target import Target

SCHEMA = (
    "CREATE SCHEMA app",
    "SET search_path TO app",
    # Rows made from statistics break these conditions.
    "CREATE DOMAIN mail AS text CHECK (VALUE ~ '^[^@]+@[^@]+$')",
    "CREATE TABLE account (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, mail mail NOT NULL,"
    " code text NOT NULL CHECK (code ~ '^[A-Z]+-[0-9]+$'), hits int NOT NULL DEFAULT 0)",
    "CREATE UNIQUE INDEX ON account (lower(mail))",
    "CREATE TABLE category (id int PRIMARY KEY, parent int REFERENCES category)",
    "CREATE TABLE event (id bigint NOT NULL, region text NOT NULL, at timestamptz NOT NULL)"
    " PARTITION BY LIST (region)",
    "CREATE TABLE event_a PARTITION OF event FOR VALUES IN ('northern', 'southern')",
    "CREATE TABLE event_b PARTITION OF event FOR VALUES IN ('eastern')",
    "CREATE TABLE visit (path text, day date, hits int NOT NULL, PRIMARY KEY (path, day))",
    # Two tables have one sequence.
    "CREATE SEQUENCE shared",
    "CREATE TABLE job (id bigint PRIMARY KEY DEFAULT nextval('shared'), kind int)",
    "CREATE TABLE other_job (id bigint PRIMARY KEY DEFAULT nextval('shared'), kind int)",
    "INSERT INTO account (mail, code) SELECT 'Person' || n || '@host', 'AB-' || n"
    " FROM generate_series(1, 1000) n",
    "INSERT INTO category SELECT n, nullif(n / 5, 0) FROM generate_series(1, 300) n",
    "INSERT INTO event SELECT n, (ARRAY['northern', 'southern', 'eastern'])[1 + n % 3],"
    " now() - n * interval '9 minutes' FROM generate_series(1, 3000) n",
    "INSERT INTO visit SELECT '/path/' || n % 50, date '2026-01-01' + n / 50, 1"
    " FROM generate_series(0, 499) n",
    "INSERT INTO other_job (kind) SELECT n FROM generate_series(1, 20) n",
    "INSERT INTO job (kind) SELECT n FROM generate_series(1, 500) n",
    # As autovacuum does: only tables with rows.
    *(f"ANALYZE {name}" for name in ("account", "category", "event_a", "event_b", "visit")),
    "ANALYZE job, other_job",
)
NOW = datetime.now(UTC)
LOAD: tuple[tuple[str, Any], ...] = (
    ("UPDATE account SET hits = hits + 1 WHERE id = %s", lambda n: (n % 1000 + 1,)),
    (
        "INSERT INTO account (mail, code) VALUES (%s, %s)",
        lambda n: (f"New{n}@host", f"CD-{n}"),
    ),
    (
        "WITH RECURSIVE t AS (SELECT id FROM category WHERE id = %s UNION ALL"
        " SELECT c.id FROM category c JOIN t ON c.parent = t.id) SELECT count(*) FROM t",
        lambda n: (n % 300 + 1,),
    ),
    (
        "INSERT INTO event VALUES (%s, %s, now())",
        lambda n: (4000 + n, ("northern", "southern", "eastern")[n % 3]),
    ),
    ("SELECT count(*) FROM event WHERE at > now() - interval '2 days'", lambda _: None),
    ("SELECT count(*) FROM event WHERE at > now() - interval '2' day", lambda _: None),
    (
        "SELECT date_trunc('hour', at), count(*) FROM event WHERE at > %s"
        " GROUP BY date_trunc('hour', at)",
        lambda n: (NOW - timedelta(hours=n % 5),),
    ),
    ("SELECT 1, region, count(*) FROM event GROUP BY ROLLUP (1, 2)", lambda _: None),
    ("SELECT extract(dow FROM at) FROM event WHERE id = %s", lambda n: (n + 1,)),
    (
        "SELECT at, id FROM event WHERE (at, id) < (%s, %s) ORDER BY at DESC, id DESC LIMIT 5",
        lambda n: (NOW - timedelta(minutes=9 * n), 20 + n),
    ),
    (
        "INSERT INTO visit VALUES (%s, %s, 1) ON CONFLICT (path, day)"
        " DO UPDATE SET hits = visit.hits + 1",
        lambda n: (f"/path/{n % 50}", date(2026, 1, 1 + n % 9)),
    ),
    ("INSERT INTO job (kind) VALUES (%s)", lambda n: (n % 9,)),
)


def load(target: Target, count: int = 120) -> None:
    with connection(target) as session:
        session.execute("SET search_path TO app")
        for number in range(count):
            for statement, values in LOAD:
                session.execute(statement, values(number))


@pytest.mark.pg
@pytest.mark.parametrize(("origin", "version"), [("statistics", "18"), ("log", "15")])
def test_the_mirror_of_a_strange_shop_has_no_failed_transaction(
    origin: str, version: str, pgdyno: Command, new_cluster: Make, tmp_path: Path
) -> None:
    made = rebuilt(pgdyno, new_cluster, tmp_path, SCHEMA, load, origin=origin, version=version)
    core, copy = made.core, made.copy
    circles = (
        "SELECT count(*) FROM app.category c JOIN app.category p ON p.id = c.parent"
        " WHERE p.id >= c.id"
    )
    assert scalar(copy, circles) == 0
    dead = "SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'category'"
    assert scalar(copy, dead) == 0
    fan_out = (
        "SELECT max(count)::int FROM (SELECT count(*) FROM app.category WHERE parent IS NOT NULL"
        " GROUP BY parent) AS rows"
    )
    assert abs(scalar(copy, fan_out) - scalar(core, fan_out)) <= 1
    roots = "SELECT count(*)::int FROM app.category WHERE parent IS NULL"
    assert abs(scalar(copy, roots) - scalar(core, roots)) <= 1
    answer = made.mirror("6s")
    assert answer["likeness"]["reproduced_calls"] > 0.9
    assert not answer["failures"], answer["failures"]
