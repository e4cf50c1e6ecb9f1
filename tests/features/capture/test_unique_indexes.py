"""A unique index of an expression or with a predicate is unique in a copy, too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.fixtures.clusters import connection, make_cluster, run_sql, scalar
from tests.fixtures.command import Command, server_options

from pgdyno.features.capture.repeats import Changeable, without_repeats
from pgdyno.server.target import Target

TABLES = (
    "CREATE TABLE job (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, queue text NOT NULL,"
    " key text, state text NOT NULL, at timestamptz NOT NULL DEFAULT now())",
    "CREATE UNIQUE INDEX job_key ON job (queue, key) WHERE state <> 'done' AND key IS NOT NULL",
    "INSERT INTO job (queue, key, state) SELECT 'q' || g % 3, CASE WHEN g % 3 > 0 THEN 'k' ||"
    " g % 350 END, CASE WHEN g > 350 THEN 'done' ELSE 'open' END FROM generate_series(1, 1000) g",
    "CREATE TABLE person (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, email text NOT NULL,"
    " gone timestamptz)",
    "CREATE UNIQUE INDEX person_email ON person (lower(email)) WHERE gone IS NULL",
    "INSERT INTO person (email, gone) SELECT 'U' || g % 600 || '@x.example',"
    " CASE WHEN g > 600 THEN now() - g * interval '1 min' END FROM generate_series(1, 900) g",
    "CREATE TABLE soft (id int PRIMARY KEY, slug text NOT NULL, deleted_at timestamptz)",
    "CREATE UNIQUE INDEX soft_slug ON soft (slug) WHERE deleted_at IS NULL",
    "INSERT INTO soft SELECT g, 'slug-' || g % 400, CASE WHEN g > 400 THEN now() END"
    " FROM generate_series(1, 600) g",
    # Neighbours: a date of a range, a tenant, equal nulls, and numbers of a part of the rows.
    "CREATE TABLE price (item int NOT NULL, valid daterange NOT NULL, cents int NOT NULL,"
    " is_open boolean NOT NULL)",
    "CREATE UNIQUE INDEX price_open ON price (item, lower(valid)) WHERE is_open",
    "CREATE UNIQUE INDEX price_cents ON price ((cents / 2)) WHERE cents > 100",
    "INSERT INTO price SELECT g % 40, daterange(date '2024-01-01' + g, date '2024-02-01' + g),"
    " CASE WHEN g % 2 = 0 THEN 100 + 2 * g ELSE g % 90 END, g % 3 > 0"
    " FROM generate_series(1, 400) g",
    "CREATE TABLE member (tenant int REFERENCES person, login uuid, seen inet)",
    "CREATE UNIQUE INDEX member_login ON member (tenant, md5(login::text)) WHERE seen IS NOT NULL",
    "INSERT INTO member SELECT 1 + g % 20, md5((g % 100)::text)::uuid,"
    " CASE WHEN g <= 100 THEN '10.0.0.1'::inet + g END FROM generate_series(1, 400) g",
    "ANALYZE",
)
INDEXES = ("job_key", "person_email", "soft_slug", "price_open", "price_cents", "member_login")
ROWS = {"job": 1000, "person": 900, "soft": 600, "price": 400, "member": 400}
LOGGED = (
    (
        "INSERT INTO job (queue, key, state) VALUES ($1, $2, $3) ON CONFLICT (queue, key)"
        " WHERE state <> 'done' AND key IS NOT NULL DO NOTHING",
        "q1 k{} open",
    ),
    (
        "INSERT INTO person (email) VALUES ($1) ON CONFLICT (lower(email)) WHERE gone IS NULL"
        " DO UPDATE SET gone = NULL",
        "U{}@x.example",
    ),
    # Without ON CONFLICT only new values are taken.
    ("INSERT INTO person (email) VALUES ($1) RETURNING id", "new{}@y.example"),
)


@dataclass(frozen=True)
class Copied:
    """A copy, the file from which it was made, and what `init` said."""

    copy: Target
    path: Path
    said: str


def log_of(database: str) -> str:
    lines = []
    for number in range(60):
        text, values = LOGGED[number % len(LOGGED)]
        head = f"2026-11-20 10:00:{number:02}.100 UTC [5001] app@{database} "
        given = enumerate(values.format(number).split(), 1)
        lines.append(f"{head}LOG:  duration: 0.1 ms  execute <unnamed>: {text}")
        lines.append(f"{head}DETAIL:  parameters: {', '.join(f'${n} = {v!r}' for n, v in given)}")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module", params=["15", "18"])
def copied(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Copied]:
    folder = tmp_path_factory.mktemp("unique")
    path, log, pgdyno = folder / "a.capture", folder / "a.log", Command(folder / "store")
    with make_cluster(request.param) as cluster:
        for name in ("core", "copy"):
            run_sql(cluster.target, f"CREATE DATABASE {name}")
        core, copy = cluster.target.with_database("core"), cluster.target.with_database("copy")
        for statement in TABLES:
            run_sql(core, statement)
        log.write_text(log_of("core"))
        captured = pgdyno("capture", *server_options(core), "-o", path, "--log", log)
        assert captured.code == 0, captured.err
        said = pgdyno("init", path, *server_options(copy))
        assert said.code == 0, said.err
        yield Copied(copy, path, said.out)
        pgdyno.close()


@pytest.mark.pg
def test_an_index_that_is_unique_in_the_source_is_unique_in_the_copy(copied: Copied) -> None:
    query = "SELECT indisunique FROM pg_index WHERE indexrelid = to_regclass('{}')"
    unique = {name: scalar(copied.copy, query.format(name)) for name in INDEXES}
    assert unique == dict.fromkeys(INDEXES, True), copied.said
    for table, count in ROWS.items():
        assert scalar(copied.copy, f"SELECT count(*)::int FROM {table}") == count
    assert f"alike  {len(INDEXES) + 3} of {len(INDEXES) + 3} indexes" in copied.said
    # The rows keep their share in the predicate.
    share = scalar(copied.copy, "SELECT avg((gone IS NULL)::int)::float8 FROM person")
    assert share == pytest.approx(2 / 3, abs=0.05)
    assert scalar(copied.copy, "SELECT count(DISTINCT queue)::int FROM job") == 3
    assert scalar(copied.copy, "SELECT to_regclass('pgdyno_left_out') IS NULL") is True


@pytest.mark.pg
def test_the_load_finds_the_index_of_its_on_conflict(copied: Copied, pgdyno: Command) -> None:
    given = ("-c", "1", "--duration", "1s", "--warmup", "0s", "--allow-write", "--json", "-q")
    said = pgdyno("bench", *server_options(copied.copy), "-b", copied.path, *given)
    assert said.code in (0, 3), said.err
    likeness = said.document["likeness"]
    assert likeness["failed"] == []
    sent = [row["text"] for row in likeness["statements"] if row["copy"]["calls"] > 0]
    assert any("ON CONFLICT (lower(email))" in text for text in sent)
    assert len(sent) == len(LOGGED), likeness["statements"]
    # The index has this constant, so the statement keeps it.
    assert any("'done'" in text for text in sent)


@pytest.mark.pg
def test_the_server_takes_the_index_for_on_conflict_with_its_predicate(copied: Copied) -> None:
    of_slugs = (
        "INSERT INTO soft (id, slug) VALUES (-1, $1) ON CONFLICT (slug) WHERE deleted_at IS NULL"
        " DO UPDATE SET slug = excluded.slug",
        "s",
    )
    for text, values in (*LOGGED, of_slugs):
        number = len(values.split())
        types = ", ".join(["text"] * number)
        given = ", ".join(["'a'"] * number)
        with connection(copied.copy) as session:
            session.execute(f"PREPARE own ({types}) AS {text}")
            session.execute(f"EXPLAIN EXECUTE own ({given})")


@pytest.mark.pg
@pytest.mark.parametrize(("repeated", "left"), [(9, 991), (11, 1000)])
def test_at_most_one_of_a_hundred_rows_is_deleted_for_a_unique_index(
    database: Target, repeated: int, left: int
) -> None:
    # No column may change, so only a deletion makes the keys unique.
    run_sql(database, "CREATE TABLE entry (a int)")
    run_sql(
        database,
        f"INSERT INTO entry SELECT greatest(g - {repeated}, 0) FROM generate_series(0, 999) g",
    )
    plain = "CREATE INDEX ON entry (a)"
    run_sql(database, without_repeats("entry", plain, Changeable()))
    assert scalar(database, "SELECT count(*)::int FROM entry") == 1000
    run_sql(database, without_repeats("entry", plain, Changeable(), deletes=True))
    assert scalar(database, "SELECT count(*)::int FROM entry") == left
    assert scalar(database, "SELECT count(DISTINCT a)::int FROM entry") == 1000 - repeated
    assert scalar(database, "SELECT count(*)::int FROM pg_indexes") == scalar(
        database, "SELECT count(*)::int FROM pg_indexes WHERE schemaname LIKE 'pg%'"
    )
