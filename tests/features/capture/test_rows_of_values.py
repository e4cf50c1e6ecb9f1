"""INSERTs of many rows are one statement, whatever the number of rows is."""

from __future__ import annotations

import random
from pathlib import Path

import psycopg
import pytest
from tests.fixtures.captured_load import rebuilt
from tests.fixtures.clusters import Make, connection, run_sql, scalar
from tests.fixtures.command import Command

from pgdyno.features.capture.file import capture_at
from pgdyno.features.capture.model import ListOf
from pgdyno.features.capture.reading.means import form_of
from pgdyno.features.capture.reading.names import Names
from pgdyno.features.capture.reading.parsed import parse
from pgdyno.features.capture.reading.rows_of_values import FoldedRows, folded
from pgdyno.server.target import Target

TYPES = {"id": "bigint", "a": "integer", "b": "character varying(20)", "tags": "text[]"}
NAMES = Names(
    {"public.t": list(TYPES)},
    ["public"],
    types={("public.t", name): own for name, own in TYPES.items()},
)
ARRAYS = "unnest($1::integer[], $2::character varying[]) AS pgdyno_rows (c1, c2)"


def many(beginning: str, row: str, count: int, end: str = "") -> str:
    """Return an INSERT of rows in which `?` are parameters."""
    parts = ", ".join([row] * count).split("?")
    numbered = "".join(f"{part}${n}" for n, part in enumerate(parts[:-1], 1)) + parts[-1]
    return f"{beginning} VALUES {numbered}{end}"


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        (
            many("INSERT INTO t (a, b)", "(?, ?)", 9, " ON CONFLICT (a) DO UPDATE SET b = $19"),
            f"INSERT INTO t (a, b) SELECT c1, c2 FROM {ARRAYS} ON CONFLICT (a)"
            " DO UPDATE SET b = $3",
        ),
        (
            many(
                'INSERT INTO "public"."t"("id", "a", "b")', "(DEFAULT, ?, ?)", 300, " RETURNING id"
            ),
            f'INSERT INTO "public"."t"("a", "b") SELECT c1, c2 FROM {ARRAYS} RETURNING id',
        ),
        (
            many("insert into t (a, id, b)", "(?,now(),?)", 20),
            f"insert into t (a, id, b) SELECT c1, now(), c2 FROM {ARRAYS}",
        ),
    ],
)
def test_rows_become_arrays_and_keep_their_counters(sql: str, text: str) -> None:
    made = folded(sql, NAMES)
    assert made is not None
    assert made[0] == text
    assert not parse(text, NAMES).reason
    single = sql.replace(sql[sql.index(" VALUES ") + 8 : sql.rindex("), (") + 3], "")
    assert form_of(text) == form_of(single) == form_of(sql)


@pytest.mark.parametrize(
    "sql",
    [
        many("INSERT INTO t (a, b)", "(?, ?)", 1),
        many("INSERT INTO t (a, tags)", "(?, ?)", 20),  # unnest takes arrays apart.
        many("INSERT INTO t (a, b)", "(?, lower(?))", 20),
        many("INSERT INTO other (a, b)", "(?, ?)", 20),
        many("INSERT INTO t (a, b)", "(?, ?)", 20).replace("$7", "$5"),
        many("INSERT INTO t (a, b)", "(?, ?)", 20).replace("$7", "DEFAULT"),
    ],
)
def test_other_rows_stay_as_they_are(sql: str) -> None:
    assert folded(sql, NAMES) is None


def test_values_of_rows_are_those_of_their_columns() -> None:
    rows = FoldedRows(first_place=1, count=2, width=2, of_constants=False)
    assert rows.folded(["x", "1", "a", "2", None, "y"], ["c"]) == (
        ["x", ["1", "2"], ["a", None], "y"],
        ["c"],
    )
    own = FoldedRows(first_place=0, count=2, width=2, of_constants=True)
    assert own.folded(["x"], ["1", "a", "2", "b", "c"]) == (["x", ["1", "2"], ["a", "b"]], ["c"])
    # The log has cut the values.
    assert rows.folded(["x", "1", "a"], [])[0] == ["x", False, False]


def test_rows_that_the_server_has_shortened_are_any_number() -> None:
    parsed = parse("INSERT INTO t (a, b) VALUES ($1, $2), ($3, $4) /*, ... */ RETURNING id", NAMES)
    assert parsed.text == f"INSERT INTO t (a, b) SELECT c1, c2 FROM {ARRAYS} RETURNING id"
    assert {own.column for own in parsed.parameters.values()} == {"a", "b"}
    assert parsed.as_long_as == {2: 1}


SCHEMA = (
    "CREATE TABLE shop (id int PRIMARY KEY, name text NOT NULL)",
    "INSERT INTO shop SELECT n, 'shop ' || n FROM generate_series(1, 40) AS n",
    "CREATE TABLE sale (id bigserial PRIMARY KEY, shop int NOT NULL REFERENCES shop,"
    " what varchar(30), amount numeric(9, 2) NOT NULL, at timestamptz NOT NULL)",
    "INSERT INTO sale (shop, what, amount, at) SELECT n % 40 + 1, 'old', n, now()"
    " FROM generate_series(1, 200) AS n",
    "ANALYZE",
)
LENGTHS, CALLS = range(10, 50), 60


def load(target: Target) -> None:
    """Send rows as parameters, and as constants."""
    rng = random.Random(3)
    with connection(target) as session, psycopg.ClientCursor(session) as plain:
        for _ in range(CALLS):
            count = rng.choice(LENGTHS)
            row = [rng.randint(1, 40), rng.choice(["tea", "it's", "a,b"]), rng.random() * 100]
            values = [*row] * count
            own = ", ".join(["(%s, %s, %s, now())"] * count)
            session.execute(
                f"INSERT INTO sale (shop, what, amount, at) VALUES {own}".encode(), values
            )
            rest = ", ".join(["(DEFAULT, %s, %s, %s, '2026-05-05')"] * count)
            plain.execute(
                f"INSERT INTO sale (id, shop, what, amount, at) VALUES {rest}".encode(), values
            )


@pytest.mark.pg
@pytest.mark.parametrize("version", ["15", "18"])
def test_a_load_of_many_rows_has_two_statements_with_lengths(
    pgdyno: Command, new_cluster: Make, tmp_path: Path, version: str
) -> None:
    made = rebuilt(pgdyno, new_cluster, tmp_path, SCHEMA, load, origin="log", version=version)
    capture = capture_at(made.path)
    inserts = {own.id for own in capture.statements if own.kind == "insert"}
    assert len(inserts) == 2
    lists = [
        source
        for template in capture.templates
        for step in template.steps
        for source in step.parameters
        if step.statement in inserts and isinstance(source, ListOf)
    ]
    assert {(own.length.least >= 10, own.length.most < 50) for own in lists} == {(True, True)}
    if version == "15":
        run_sql(made.copy, "CREATE EXTENSION pg_stat_statements")
    before = int(str(scalar(made.copy, "SELECT count(*) FROM sale")))
    document = made.mirror("3s")
    assert document["failures"] == {}
    rows = int(str(scalar(made.copy, "SELECT count(*) FROM sale"))) - before
    calls = sum(own["copy"]["calls"] for own in document["likeness"]["statements"])
    assert 20 < rows / calls < 40
    assert scalar(made.copy, "SELECT count(*) FROM sale WHERE what IS NULL") == 0
    if version == "15":
        others = [own for own in document["likeness"]["statements"] if own["verdict"] != "alike"]
        assert others == []


def both_types(target: Target) -> None:
    """Send one text with parameters of two types, and rows whose number differs."""
    rng = random.Random(5)
    with connection(target) as session, psycopg.ClientCursor(session) as plain:
        for number in range(CALLS):
            session.execute("SELECT name FROM shop WHERE id = %s", [number % 40 + 1])
            plain.execute("SELECT name FROM shop WHERE id = %s", [number % 40 + 1])
            count = rng.choice(LENGTHS)
            own = ", ".join(["(%s, %s, %s, now())"] * count)
            put = f"INSERT INTO sale (shop, what, amount, at) VALUES {own}"
            session.execute(put.encode(), [rng.randint(1, 40), "tea", 2] * count)


@pytest.mark.pg
@pytest.mark.parametrize("version", ["15", "18"])
def test_statistics_of_one_text_are_added_up(
    pgdyno: Command, new_cluster: Make, tmp_path: Path, version: str
) -> None:
    made = rebuilt(
        pgdyno, new_cluster, tmp_path, SCHEMA, both_types, origin="statistics", version=version
    )
    capture = capture_at(made.path)
    counted = {own.kind: own.counters for own in capture.statements if own.counters.calls}
    assert (counted["select"].calls, counted["insert"].calls) == (2 * CALLS, CALLS)
    assert len([own for own in capture.statements if own.kind == "insert"]) == 1
    mean = counted["insert"].rows / CALLS
    before = int(str(scalar(made.copy, "SELECT count(*) FROM sale")))
    document = made.mirror("3s")
    assert document["failures"] == {}
    rows = int(str(scalar(made.copy, "SELECT count(*) FROM sale"))) - before
    texts = document["likeness"]["statements"]
    [calls] = [own["copy"]["calls"] for own in texts if own["text"].startswith("INSERT")]
    assert rows / calls == pytest.approx(mean, rel=0.25)
