"""A shop of many tenants: text search, documents, soft deletes, versions, rows in one statement.

python search_shop.py prepare CONNINFO
python search_shop.py load CONNINFO CLIENTS

The load goes on until the standard input ends.
"""

from __future__ import annotations

import json
import random
import sys
import threading
from datetime import UTC, datetime, timedelta

import psycopg

WORDS = tuple(
    word
    for line in (
        "red blue green small large steel wood paper lamp chair table desk clock phone cable",
        "glass bottle shirt shoe hat coat ring watch book pen bag box cup plate knife fork",
    )
    for word in line.split()
)
SCHEMA = """
CREATE TABLE tenant (id int PRIMARY KEY, name text NOT NULL);
CREATE TABLE product (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id int NOT NULL REFERENCES tenant, title text NOT NULL, attrs jsonb NOT NULL,
    tags text[] NOT NULL, price numeric(10, 2) NOT NULL, version int NOT NULL DEFAULT 0,
    deleted_at timestamptz, search tsvector GENERATED ALWAYS AS
    (to_tsvector('english', title)) STORED);
CREATE INDEX ON product USING gin (search);
CREATE INDEX ON product USING gin (attrs);
CREATE INDEX ON product (tenant_id);
CREATE TABLE booking (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    product_id int NOT NULL REFERENCES product, during tstzrange NOT NULL, note text);
CREATE INDEX ON booking USING gist (during);
INSERT INTO tenant SELECT n, 'tenant ' || n FROM generate_series(1, 12) n;
"""
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def title(rng: random.Random) -> str:
    return " ".join(WORDS[int(len(WORDS) * rng.random() ** 2)] for _ in range(8))


def row(rng: random.Random) -> tuple[object, ...]:
    attrs = json.dumps({"color": rng.choice(WORDS[:3]), "size": rng.randrange(9)})
    tags = [rng.choice(WORDS[:9]), rng.choice(WORDS[9:30])]
    return 1 + int(12 * rng.random() ** 2), title(rng), attrs, tags, rng.randrange(10_000) / 100


def prepare(conninfo: str) -> None:
    rng = random.Random(1)
    with psycopg.connect(conninfo, autocommit=True) as session:
        session.execute(SCHEMA)
        with session.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO product (tenant_id, title, attrs, tags, price)"
                " VALUES (%s, %s, %s, %s, %s)",
                [row(rng) for _ in range(3000)],
            )
        session.execute(
            "INSERT INTO booking (product_id, during) SELECT 1 + n % 3000, tstzrange("
            "timestamptz '2026-01-01' + n * interval '1 hour',"
            " timestamptz '2026-01-01' + (n + 3) * interval '1 hour')"
            " FROM generate_series(1, 2000) n"
        )


def use(conninfo: str, number: int, over: threading.Event) -> None:
    rng = random.Random(number)
    with psycopg.connect(conninfo, autocommit=True, prepare_threshold=0) as session:
        while not over.is_set():
            one_request(session, rng, rng.random())


def one_request(session: psycopg.Connection, rng: random.Random, what: float) -> None:
    tenant, word = 1 + int(12 * rng.random() ** 2), WORDS[int(len(WORDS) * rng.random() ** 2)]
    if what < 0.3:
        session.execute(
            "SELECT id, ts_rank(search, q) AS rank FROM product, plainto_tsquery('english', %s) q"
            " WHERE search @@ q AND tenant_id = %s AND deleted_at IS NULL"
            " ORDER BY rank DESC LIMIT 20",
            (word, tenant),
        )
    elif what < 0.45:
        attrs = json.dumps({"color": rng.choice(WORDS[:3])})
        session.execute(
            "SELECT count(*) FROM product WHERE attrs @> %s::jsonb AND deleted_at IS NULL",
            (attrs,),
        )
    elif what < 0.55:
        session.execute(
            "SELECT id FROM product WHERE tags && %s::text[] LIMIT 10", ([rng.choice(WORDS[:9])],)
        )
    elif what < 0.7:
        begin = BEGIN + timedelta(hours=rng.randrange(2000))
        session.execute(
            "SELECT id FROM booking WHERE during && tstzrange(%s, %s)",
            (begin, begin + timedelta(hours=24)),
        )
    elif what < 0.85:
        with session.transaction():
            product = session.execute(
                "SELECT id, version, price FROM product WHERE id = %s", (1 + rng.randrange(3000),)
            ).fetchone()
            assert product is not None
            session.execute(
                "UPDATE product SET price = %s, version = version + 1"
                " WHERE id = %s AND version = %s",
                (rng.randrange(10_000) / 100, product[0], product[1]),
            )
    elif what < 0.95:
        with session.transaction():
            count = 1 + rng.randrange(4)
            values = ", ".join(["(%s, tstzrange(now(), now() + %s::text::interval), %s)"] * count)
            given = [x for _ in range(count) for x in (1 + rng.randrange(3000), "2 hours", word)]
            session.execute(
                f"INSERT INTO booking (product_id, during, note) VALUES {values}".encode(), given
            )
    else:
        session.execute(
            "UPDATE product SET deleted_at = now() WHERE id = %s AND deleted_at IS NULL",
            (1 + rng.randrange(3000),),
        )


def load(conninfo: str, clients: int) -> None:
    over = threading.Event()
    threads = [threading.Thread(target=use, args=(conninfo, n, over)) for n in range(clients)]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    over.set()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    if sys.argv[1] == "prepare":
        prepare(sys.argv[2])
    else:
        load(sys.argv[2], int(sys.argv[3]))
