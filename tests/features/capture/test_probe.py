"""A load is probed before it is measured: what the server refuses is adapted, or left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.captures import tpcb_capture
from tests.fixtures.clusters import new_database, run_sql, scalar
from tests.fixtures.command import Command, server_options

from pgdyno.engine.distribution import Distribution, Hot, Spread
from pgdyno.features.capture.file import encoded
from pgdyno.features.capture.model import (
    Capture,
    Constant,
    Drawn,
    ListOf,
    Now,
    OfColumn,
    Source,
    Step,
    Taken,
    Template,
)
from pgdyno.features.capture.observed import Counters, Statement
from pgdyno.features.capture.reading.casts import type_in_use
from pgdyno.features.capture.schema import ColumnShape, SchemaObject
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target

SHORT = ("-c", "1", "--duration", "1s", "--warmup", "0s", "--allow-write", "--json", "-q")
SCHEMA = (
    "CREATE EXTENSION IF NOT EXISTS hstore",
    "CREATE TABLE b (id int PRIMARY KEY, during tstzrange NOT NULL, p point, doc jsonb, hs hstore,"
    " addr inet, at timestamptz, name text UNIQUE)",
    "INSERT INTO b SELECT g, tstzrange(timestamptz '2024-01-01' + g * interval '1 hour',"
    " timestamptz '2024-01-01' + (g + 1) * interval '1 hour'), point(g, g),"
    " jsonb_build_object('a', g), hstore('k', g::text), ('10.0.0.' || g % 250)::inet,"
    " timestamptz '2024-01-01' + g * interval '1 hour', 'n' || g FROM generate_series(1, 500) g",
    "ANALYZE b",
)
# Each with the values that the driver sent, as the log of the source has them.
LOGGED = (
    ("SELECT id FROM b WHERE id = $1", ("5",)),
    (
        "SELECT id FROM b WHERE during && $1",
        ('["2024-01-03 00:00:00+00","2024-01-04 00:00:00+00")',),
    ),
    ("SELECT id FROM b ORDER BY p <-> $1 LIMIT 3", ("(5,5)",)),
    ("SELECT id FROM b WHERE hs @> $1", ('"k"=>"5"',)),
    ("SELECT id FROM b WHERE doc @? $1", ("$.a ? (@ > 7)",)),
    ("SELECT id FROM b WHERE addr = ANY(SELECT unnest($1::inet[]))", ("{10.0.0.5,10.0.0.9}",)),
    (
        "SELECT count(*) FROM b WHERE at > now() - CAST(COALESCE($1, '3 days') AS interval)",
        ("2 hours",),
    ),
    (
        "SELECT count(*) FROM b WHERE to_tsvector('simple', name) @@ to_tsquery('simple', $1)",
        ("n5 & n6",),
    ),
    ("SELECT $1 + $2 AS n", ("5", "6")),
    ("SELECT set_bit($1, $2, 1)", ("\\x00", "900")),
)


@pytest.fixture(scope="module")
def shop(pg15: ScratchCluster) -> Iterator[Target]:
    for target in new_database(pg15):
        for statement in SCHEMA:
            run_sql(target, statement)
        yield target


def log_of(database: str, turns: int = 20) -> str:
    lines = []
    for turn in range(turns):
        for number, (text, values) in enumerate(LOGGED):
            head = f"2026-11-20 10:00:{turn:02}.{number:03} UTC [5001] app@{database} "
            given = ", ".join(f"${n} = '{value}'" for n, value in enumerate(values, 1))
            lines.append(f"{head}LOG:  duration: 0.1 ms  execute <unnamed>: {text}")
            lines.append(f"{head}DETAIL:  parameters: {given}")
    return "\n".join(lines) + "\n"


def benched(pgdyno: Command, target: Target, path: Path, *options: object) -> dict[str, Any]:
    said = pgdyno("bench", *server_options(target), "-b", path, *SHORT, *options)
    assert said.code in (0, 3), said.err
    return said.document


@pytest.mark.pg
def test_values_have_the_types_that_a_statement_needs(
    pgdyno: Command, shop: Target, tmp_path: Path
) -> None:
    log, path = tmp_path / "some.log", tmp_path / "some.capture"
    log.write_text(log_of(shop.database))
    said = pgdyno("capture", *server_options(shop), "-o", path, "--log", log, "-q")
    assert said.code == 0, said.err
    likeness = benched(pgdyno, shop, path)["likeness"]
    rows = {row["text"]: row for row in likeness["statements"]}
    sent = {text for text, row in rows.items() if row["copy"]["calls"] > 0}
    words = ("during &&", "p <->", "hs @>", "doc @?", "inet[]", "COALESCE", "to_tsquery", "id = $1")
    missing = [word for word in words if not any(word in text for text in sent)]
    assert not missing, {text: row["reason"] for text, row in rows.items()}
    assert likeness["failed"] == []


def statement(name: str, text: str, kind: str = "select") -> Statement:
    return Statement.model_validate(
        {"id": name, "text": text, "kind": kind, "reads_only": kind == "select"}
        | {"tables": ("public.pgbench_accounts",), "counters": {"calls": 100, "time_ms": 50}}
    )


def with_types(*given: tuple[Statement, Sequence[Source]]) -> Capture:
    """Return a capture with a transaction type for each statement."""
    capture = tpcb_capture()
    templates = tuple(
        Template(
            name=own.id, rate_tps=10, steps=(Step(statement=own.id, parameters=tuple(sources)),)
        )
        for own, sources in given
    )
    statements = (*capture.statements, *(own for own, _ in given))
    return capture.model_copy(
        update={"statements": statements, "templates": (*capture.templates, *templates)}
    )


def text_value(value: str) -> Source:
    return Constant.model_validate({"from": "constant", "value": value})


@pytest.fixture
def loaded(pgdyno: Command, database15: Target, tmp_path: Path) -> tuple[Target, Path]:
    path = tmp_path / "core.capture"
    bad = statement("missing", "SELECT 1 FROM gone WHERE id = $1")
    wrong = statement("wrong", "SELECT count(*) FROM pgbench_accounts WHERE aid = $1")
    deep = statement("deep", "SELECT 1 / (SELECT count(*) - count(*) FROM pgbench_branches)")
    some = statement("some", "SELECT 1 / (aid % 8) FROM pgbench_accounts WHERE aid = $1")
    aid = OfColumn.model_validate(
        {"from": "column", "table": "public.pgbench_accounts", "column": "aid"}
    )
    capture = with_types(
        (bad, [text_value("1")]), (wrong, [text_value("word")]), (deep, []), (some, [aid])
    )
    path.write_bytes(encoded(capture))
    plain = tmp_path / "plain.capture"
    plain.write_bytes(encoded(tpcb_capture()))
    assert pgdyno("init", plain, *server_options(database15), "-q").code == 0
    return database15, path


@pytest.mark.pg
def test_one_refused_statement_never_stops_the_others(
    pgdyno: Command, loaded: tuple[Target, Path]
) -> None:
    target, path = loaded
    branches = scalar(target, "SELECT sum(bbalance) FROM pgbench_branches")
    document = benched(pgdyno, target, path)
    likeness = document["likeness"]
    rows = {row["id"]: row for row in likeness["statements"]}
    assert "does not exist" in rows["missing"]["reason"]
    assert "division by zero" in rows["deep"]["reason"]
    assert rows["missing"]["copy"]["calls"] == rows["deep"]["copy"]["calls"] == 0
    assert rows["wrong"]["copy"]["calls"] > 0, "another value is accepted"
    assert 0.05 < rows["some"]["copy"]["failures"] / rows["some"]["copy"]["calls"] < 0.6
    assert rows["some"]["verdict"] == "not alike"
    assert document["failures"].keys() == {"22012"}
    assert "missing" not in {script["name"] for script in document["scripts"]}
    # What the probe wrote was rolled back: without the load the sums are as before.
    read = benched(pgdyno, target, path, "--read-only", "--without", "gone")
    assert {script["name"] for script in read["scripts"]} == {"wrong", "some"}
    assert branches is not None


@pytest.mark.pg
def test_an_insert_into_an_empty_table_has_values_by_the_statistics_of_the_source(
    pgdyno: Command, loaded: tuple[Target, Path]
) -> None:
    target, path = loaded
    written = statement(
        "written",
        "INSERT INTO pgbench_history (tid, bid, aid, delta) VALUES ($1, 1, 1, $2)",
        "insert",
    )
    tid, delta = (
        OfColumn.model_validate(
            {"from": "column", "table": "public.pgbench_history", "column": own}
        )
        for own in ("tid", "delta")
    )
    path.write_bytes(encoded(with_types((written, [tid, delta]))))
    run_sql(target, "DELETE FROM pgbench_history")
    document = benched(pgdyno, target, path, "--only", "VALUES ($1, 1, 1, $2)")
    [row] = [row for row in document["likeness"]["statements"] if row["id"] == "written"]
    assert row["copy"]["calls"] > 0, row["reason"]
    assert document["failures"] == {}
    assert scalar(target, "SELECT count(DISTINCT delta) > 10 FROM pgbench_history")


@pytest.mark.pg
def test_a_list_of_times_and_a_text_search_configuration_have_values_of_their_types(
    pgdyno: Command, loaded: tuple[Target, Path]
) -> None:
    target, path = loaded
    now = Now.model_validate({"from": "now", "minus_s": 5})
    word = Drawn(
        distribution=Distribution(kind="text", distinct=1, hot=(Hot(value="", fraction=1),))
    )
    times = statement("times", "SELECT unnest($1::timestamptz[]) + interval '1 s'")
    words = statement("words", "SELECT plainto_tsquery($1, 'a b') FROM pgbench_branches")
    path.write_bytes(encoded(with_types((times, [now]), (words, [word]))))
    document = benched(pgdyno, target, path, "--only", "unnest", "--only", "plainto_tsquery")
    rows = {row["id"]: row for row in document["likeness"]["statements"]}
    assert rows["times"]["copy"]["calls"] > 0, rows["times"]["reason"]
    assert rows["words"]["copy"]["calls"] > 0, rows["words"]["reason"]
    assert document["failures"] == {}


@pytest.mark.pg
def test_a_value_of_another_type_that_fails_now_and_then_is_replaced(
    pgdyno: Command, loaded: tuple[Target, Path]
) -> None:
    target, path = loaded
    # The server hides constants such as this weight. Eight of ten texts begin with a weight.
    weigh = statement("weigh", "SELECT setweight(to_tsvector('a'), $1) FROM pgbench_branches")
    weigh = weigh.model_copy(update={"tables": ("public.pgbench_accounts",)})
    texts = "CASE WHEN aid % 5 > 0 THEN 'B' ELSE 'z' END"
    run_sql(target, f"UPDATE pgbench_accounts SET filler = {texts}")
    words = OfColumn.model_validate(
        {"from": "column", "table": "public.pgbench_accounts", "column": "filler"}
    )
    path.write_bytes(encoded(with_types((weigh, [words]))))
    document = benched(pgdyno, target, path, "--only", "setweight")
    [row] = [row for row in document["likeness"]["statements"] if row["id"] == "weigh"]
    assert row["copy"]["calls"] > 0, row["reason"]
    assert document["failures"] == {}


@pytest.mark.pg
def test_a_load_runs_only_the_statements_that_are_named(
    pgdyno: Command, loaded: tuple[Target, Path]
) -> None:
    target, path = loaded
    document = benched(pgdyno, target, path, "--only", "aid % 8")
    assert [script["name"] for script in document["scripts"]] == ["some"]
    said = pgdyno("bench", *server_options(target), "-b", path, *SHORT, "--only", "no such text")
    assert said.code == 1
    assert "--only no such text" in said.err


def test_a_text_has_the_type_to_which_the_statement_casts_it() -> None:
    text = "SELECT CAST(COALESCE($1, $2) AS interval), $3::text::timestamptz, $4, CASE WHEN $5 IS"
    text += " NULL THEN $5::int ELSE $5::date END, unnest($6::inet[])"
    kinds = [type_in_use(text, number, "text") for number in range(1, 6)]
    assert kinds == ["interval", "interval", "timestamp with time zone", "text", "text"]
    assert type_in_use(text, 6, "inet[]") == "inet[]"


@pytest.mark.pg
def test_an_insert_fills_an_empty_table_although_nothing_is_known_of_some_columns(
    pgdyno: Command, either_database: Target, tmp_path: Path
) -> None:
    run_sql(
        either_database,
        "CREATE TABLE job (id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,"
        " mask bit(8), key bytea UNIQUE, code text NOT NULL UNIQUE)",
    )
    column = {"from": "column", "table": "public.job"}
    given = [OfColumn.model_validate({**column, "column": own}) for own in ("mask", "key", "code")]
    made = statement("made", "INSERT INTO job (mask, key, code) VALUES ($1, $2, $3)", "insert")
    made = made.model_copy(update={"tables": ("public.job",)})
    shapes = tuple(
        ColumnShape(
            table="public.job",
            column=name,
            type=kind,
            is_unique=name != "mask",
            is_not_null=name == "code",
            distribution=Distribution(kind="text" if kind == "text" else "bytes"),
        )
        for name, kind in (("mask", "bit(8)"), ("key", "bytea"), ("code", "text"))
    )
    capture = with_types((made, given))
    path = tmp_path / "job.capture"
    table = SchemaObject(
        kind="table",
        name="public.job",
        table="public.job",
        sql="CREATE TABLE public.job (id bigint, mask bit(8), key bytea, code text NOT NULL)",
    )
    own = {"columns": (*capture.columns, *shapes), "objects": (*capture.objects, table)}
    path.write_bytes(encoded(capture.model_copy(update=own)))
    document = benched(pgdyno, either_database, path, "--only", "INTO job")
    [row] = [row for row in document["likeness"]["statements"] if row["id"] == "made"]
    assert row["copy"]["calls"] > 0, row["reason"]
    assert document["failures"] == {}
    assert scalar(either_database, "SELECT count(*) > 10 FROM job")


@pytest.mark.pg
def test_a_queue_is_read_by_what_the_load_writes_and_no_value_that_finds_nothing_is_kept(
    pgdyno: Command, either_database: Target, tmp_path: Path
) -> None:
    types = "CREATE TYPE task_state AS ENUM ('new', 'done')"
    table = "CREATE TABLE public.task (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
    table += " queue text NOT NULL, state task_state NOT NULL, words text)"
    noted = "CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS"
    noted += " 'BEGIN INSERT INTO gone VALUES (OLD.id); RETURN OLD; END'"
    trigger = "CREATE TRIGGER noted AFTER DELETE ON task FOR EACH ROW EXECUTE FUNCTION noted()"
    for text in (types, table, "CREATE TABLE gone (id bigint)", noted, trigger):
        run_sql(either_database, text)

    def task(name: str, text: str, kind: str, rows: int) -> Statement:
        counters = {"calls": 100, "rows": rows, "time_ms": 50, "hit_blocks": 6 * rows}
        return statement(name, text, kind).model_copy(
            update={"tables": ("public.task",), "counters": Counters.model_validate(counters)}
        )

    def column(name: str) -> Source:
        return OfColumn.model_validate({"from": "column", "table": "public.task", "column": name})

    made = task("made", "INSERT INTO task (queue, state) VALUES ($1, $2)", "insert", 100)
    wanted = "SELECT id FROM task WHERE queue = $2 AND state = $3 LIMIT 3 FOR UPDATE SKIP LOCKED"
    taken = f"UPDATE task SET state = $1 WHERE id IN ({wanted}) RETURNING id"
    fetch = task("fetch", taken, "update", 300)
    gone = "DELETE FROM task WHERE id = ANY($1::bigint[]) AND $2::jsonb[] IS NOT NULL"
    finish = task("finish", gone, "delete", 100)
    ids = Taken.model_validate({"from": "taken", "statement": "fetch", "column": 0})
    unknown = Drawn(distribution=Distribution(kind="text", distinct=100, width=8))
    capture = with_types(
        (made, [column("queue"), column("state")]),
        (fetch, [text_value("done"), unknown, text_value("new")]),
        (finish, [ListOf(of=ids, length=Spread(least=1, mean=2, most=3)), text_value("no array")]),
    )
    capture = capture.model_copy(update={"templates": capture.templates[-3:]})
    labels = ("new", "done")
    shapes = tuple(
        ColumnShape(table="public.task", column=name, type=kind, is_not_null=True, distribution=own)
        for name, kind, own in (
            ("queue", "text", Distribution(kind="text")),
            ("state", "public.task_state", Distribution(kind="enum", labels=labels)),
        )
    )
    path = tmp_path / "task.capture"
    objects = (
        SchemaObject(kind="type", name="public.task_state", sql=types.replace("E t", "E public.t")),
        SchemaObject(kind="table", name="public.task", sql=table, table="public.task"),
    )
    update = {"columns": shapes, "objects": objects, "tables": ()}
    path.write_bytes(encoded(capture.model_copy(update=update)))
    document = benched(pgdyno, either_database, path)
    rows = {row["id"]: row for row in document["likeness"]["statements"]}
    assert document["failures"] == {}
    for name in ("made", "fetch", "finish"):
        assert rows[name]["copy"]["calls"] > 0, (name, rows[name]["reason"])
    assert scalar(either_database, "SELECT count(*) FROM gone")
