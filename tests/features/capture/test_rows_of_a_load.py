"""Values that a load writes or passes together: columns of one row, parts of documents, NULL."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.features.capture.test_log_transactions import capture_of, entry
from tests.fixtures.captured_load import rebuilt
from tests.fixtures.clusters import Make, connection, scalar
from tests.fixtures.command import Command

from pgdyno.features.capture.arrays import items_in, quoted_items
from pgdyno.features.capture.model import (
    Capture,
    Cases,
    Constant,
    Drawn,
    ListOf,
    Record,
    Source,
    Taken,
)
from pgdyno.server.target import Target

LISTS = ("text[]", "bytea[]", "boolean[]")
ADD = "SELECT unnest($1::text[]), unnest($2::bytea[]), unnest($3::boolean[])"
SCHEMA = (
    "CREATE TABLE job (id bigserial PRIMARY KEY, state text NOT NULL DEFAULT 'new', ended"
    " timestamptz, note text, key bytea, CHECK ((state = 'done') = (ended IS NOT NULL)))",
    "CREATE UNIQUE INDEX job_key ON job (key) WHERE key IS NOT NULL",
    "INSERT INTO job (state) SELECT 'new' FROM generate_series(1, 20)",
    "ANALYZE",
)
INSERT = (
    "INSERT INTO job (note, key) SELECT unnest(%s::text[]), unnest(%s::bytea[])"
    " ON CONFLICT (key) WHERE key IS NOT NULL DO UPDATE SET note = excluded.note"
)
FETCH = (
    "UPDATE job SET state = 'busy' WHERE id IN (SELECT id FROM job WHERE state = 'new' ORDER BY id"
    " LIMIT 3 FOR UPDATE SKIP LOCKED) RETURNING id"
)
END = (
    "UPDATE job SET state = own.state, ended = own.ended FROM (SELECT unnest(%s::bigint[]) AS id,"
    " unnest(%s::text[]) AS state, unnest(%s::timestamptz[]) AS ended) AS own"
    " WHERE job.id = own.id"
)
FAIL = (
    "UPDATE job SET state = 'bad', note = el ->> 'why' FROM json_array_elements(%s::json) AS o(el)"
    " WHERE id = (el ->> 'job')::bigint AND state = 'busy'"
)


def sources(capture: Capture) -> tuple[Source, ...]:
    [template] = capture.templates
    return template.steps[0].parameters


@pytest.mark.parametrize(
    ("array", "items"),
    [
        ("{}", []),
        ('{1,NULL,"NULL"}', ["1", None, "NULL"]),
        (r'{"a,\"b","\\x01",""}', ['a,"b', "\\x01", ""]),
    ],
)
def test_elements_of_an_array_are_read_and_written(array: str, items: list[str | None]) -> None:
    assert items_in(array) == items
    assert items_in("{" + quoted_items(items, null="NULL") + "}") == items


def test_null_in_an_array_is_no_text_and_may_stand_there_twice(tmp_path: Path) -> None:
    said = "".join(
        entry("1.a", n, ADD, ["{a,a,a}", "{NULL,NULL,NULL}", "{t,t,t}"])
        if n % 2
        else entry("1.a", n, ADD, ["{a}", f'{{"\\\\x0{n:03}7"}}', "{t}"])
        for n in range(40)
    )
    _, keys, _ = sources(capture_of(tmp_path, said, types=LISTS))
    assert isinstance(keys, ListOf)
    assert (keys.is_distinct, keys.is_one_value) == (True, False)
    assert isinstance(keys.of, Drawn)
    assert keys.of.distribution.null_fraction == pytest.approx(0.75)


def test_an_element_depends_on_that_of_another_list_in_its_place(tmp_path: Path) -> None:
    said = "".join(
        entry("1.a", n, ADD, ["{a,b}", '{NULL,"\\\\x01"}', "{f,t}"])
        if n % 2
        else entry("1.a", n, ADD, ["{c,d}", "{NULL,NULL}", "{f,f}"])
        for n in range(40)
    )
    _, _, flags = sources(capture_of(tmp_path, said, types=LISTS))
    assert isinstance(flags, ListOf)
    cases = flags.of
    assert isinstance(cases, Cases)
    assert cases.parameter == 1
    [case] = cases.cases
    assert case.value is None
    shapes = [
        part.distribution for part in (case.source, cases.otherwise) if isinstance(part, Drawn)
    ]
    assert [[hot.value for hot in shape.hot] for shape in shapes] == [["f"], ["t"]]


def test_the_value_of_a_case_is_never_a_value_of_a_row(tmp_path: Path) -> None:
    text = "SELECT $1::text, $2::boolean"
    said = "".join(
        entry("1.a", n, text, ["secret-1" if n % 2 else "secret-2", "t" if n % 2 else "f"])
        for n in range(60)
    )
    assert "secret" not in capture_of(tmp_path, said).model_dump_json()


def load(core: Target) -> None:
    with connection(core) as session:
        for n in range(60):
            single = [None] if n % 4 else [f"key {n}".encode()]
            notes, keys = (["a"], single) if n % 3 else (["a", "b", "c"], [None] * 3)
            session.execute(INSERT, [notes, keys], prepare=True)
            ids = [row[0] for row in session.execute(FETCH, prepare=True).fetchall()]
            states = ["done" if id_ % 2 else "bad" for id_ in ids[1:]]
            ended = ["2026-11-29 10:00:00+00" if s == "done" else None for s in states]
            session.execute(END, [ids[1:], states, ended], prepare=True)
            failed = json.dumps([{"job": str(id_), "why": "it broke"} for id_ in ids[:1]])
            session.execute(FAIL, [failed], prepare=True)


@pytest.mark.pg
def test_what_a_load_writes_together_is_written_together_in_the_copy(
    pgdyno: Command, new_cluster: Make, tmp_path: Path
) -> None:
    made = rebuilt(pgdyno, new_cluster, tmp_path, SCHEMA, load, origin="log")
    document = made.mirror("3s")
    assert document["failures"] == {}
    assert scalar(made.copy, "SELECT count(*) FROM job WHERE ended IS NOT NULL") > 3
    wrong = "SELECT count(*) FROM job WHERE (state = 'done') <> (ended IS NOT NULL)"
    assert scalar(made.copy, wrong) == 0
    # What the documents say of a job has eight letters, and other notes have one.
    assert scalar(made.copy, "SELECT count(*) FROM job WHERE length(note) = 8") > 3


def test_the_keys_in_a_document_are_those_that_another_statement_fetched(tmp_path: Path) -> None:
    fetch = "UPDATE pgbench_tellers SET bid = $1 WHERE bid = 3 RETURNING tid"
    fail = (
        "UPDATE pgbench_tellers SET tbalance = (el->>'n')::int FROM"
        " json_array_elements($1::json) AS own(el) WHERE tid = (el->>'teller')::int"
    )
    said = "".join(
        entry("1.a", 2 * n, fetch, ["1"])
        + entry("1.a", 2 * n + 1, fail, [json.dumps([{"teller": str(100 + n), "n": n % 7}])])
        for n in range(40)
    )
    capture = capture_of(tmp_path, said, types=("json", "text", "text"))
    parameters = [own for t in capture.templates for s in t.steps for own in s.parameters]
    [listed] = [own for own in parameters if isinstance(own, ListOf)]
    assert listed.is_json
    record = listed.of
    assert isinstance(record, Record)
    assert (record.names, record.bare) == (("teller", "n"), (1,))
    assert isinstance(record.fields[0], Taken)
    assert {own.value for own in parameters if isinstance(own, Constant)} >= {"teller", "n"}
