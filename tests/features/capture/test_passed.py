"""Parameters that inner queries pass on: their columns are known, and so are the keys of queues."""

from __future__ import annotations

import pytest
from tests.fixtures.captures import column, key

from pgdyno.engine.distribution import Distribution, Spread
from pgdyno.features.capture.model import ListOf, OfColumn, Step, Taken
from pgdyno.features.capture.reading.inner_values import is_inside
from pgdyno.features.capture.reading.key_sources import KeySources, givers_of
from pgdyno.features.capture.reading.names import Names
from pgdyno.features.capture.reading.parameter_uses import Parameter
from pgdyno.features.capture.reading.parsed import parse

JOBS = "public.jobs"
NAMES = Names({JOBS: ["id", "state", "queue", "tags"]}, ["public"])
FETCH = (
    "WITH ready AS (SELECT id FROM jobs WHERE state = $1 LIMIT $2 FOR UPDATE SKIP LOCKED)"
    " UPDATE jobs SET state = $3 FROM ready WHERE jobs.id = ready.id RETURNING jobs.id, jobs.queue"
)
FINISH = (
    "WITH done AS (SELECT unnest($1::bigint[]) AS id, unnest($2::text[]) AS state)"
    " UPDATE jobs SET state = CASE WHEN jobs.queue = $3 THEN done.state ELSE jobs.state END"
    " FROM done WHERE jobs.id = done.id"
)

MERGE = (
    "MERGE INTO jobs j USING (VALUES ($1::bigint, $2::text)) AS s (id, state) ON j.id = s.id"
    " WHEN MATCHED THEN UPDATE SET state = s.state"
    " WHEN NOT MATCHED THEN INSERT (id, queue) VALUES (s.id, $3)"
)


@pytest.mark.parametrize(
    ("text", "place", "wanted"),
    [
        (FINISH, 1, Parameter("list", JOBS, "id", "=")),
        (FINISH, 2, Parameter("list", JOBS, "state", "passed")),
        (
            "INSERT INTO jobs (id, queue) SELECT coalesce(nullif(n.id, 0), 7), n.q"
            " FROM (SELECT unnest($1::int[]) AS id, unnest($2::text[]) AS q) AS n",
            2,
            Parameter("list", JOBS, "queue", "passed"),
        ),
        (
            "UPDATE jobs SET state = $2 WHERE id IN (SELECT unnest($1::bigint[]))",
            1,
            Parameter("list", JOBS, "id", "="),
        ),
        (
            "DELETE FROM jobs USING unnest($1::bigint[]) n(key) WHERE id = n.key",
            1,
            Parameter("list", JOBS, "id", "="),
        ),
        ("UPDATE jobs SET queue = coalesce($1, queue)", 1, Parameter("set", JOBS, "queue")),
        (
            "WITH new (id, q) AS (VALUES ($1::bigint, $2::text), ($3::bigint, $4::text))"
            " UPDATE jobs AS j SET queue = new.q FROM new WHERE j.id = new.id",
            4,
            Parameter("set", JOBS, "queue"),
        ),
        (
            "INSERT INTO jobs (id, queue) SELECT p0::bigint, p1::text"
            " FROM (VALUES ($1, $2, $3)) AS given (p0, p1, place) ORDER BY place",
            2,
            Parameter("insert", JOBS, "queue"),
        ),
        (
            "SELECT queue FROM jobs JOIN (VALUES ($1::bigint)) AS v ON v.column1 = jobs.id",
            1,
            Parameter("equal", JOBS, "id", "="),
        ),
        (MERGE, 1, Parameter("equal", JOBS, "id", "=")),
        (MERGE, 2, Parameter("set", JOBS, "state")),
        (MERGE, 3, Parameter("insert", JOBS, "queue")),
    ],
)
def test_a_parameter_of_an_inner_query_belongs_to_the_column_that_gets_it(
    text: str, place: int, wanted: Parameter
) -> None:
    assert parse(text, NAMES).parameters[place] == wanted


def test_a_batch_of_finished_jobs_takes_the_keys_that_were_fetched() -> None:
    columns = {(JOBS, "id"): key(f"{JOBS}.id", 1000)}
    make = "INSERT INTO jobs (queue) VALUES ($1) RETURNING id"
    rows = {make: 130.0, FETCH: 120.0}
    known = [(text, parse(text, NAMES), count) for text, count in rows.items()]
    keys = KeySources(columns, {}, givers_of(known, columns), {}, queues={FETCH})
    listed = ListOf(of=OfColumn(table=JOBS, column="id"), length=Spread(least=1, mean=15, most=30))
    step = Step(statement=FINISH, parameters=(listed,), optional=(0,))
    [finish] = keys.changed([step], [parse(FINISH, NAMES)], calls=8)
    [source] = finish.parameters
    assert isinstance(source, ListOf)
    assert source.of == Taken(statement=FETCH, column=0)
    # A worker that has fetched nothing sends nothing.
    assert finish.optional == ()


def test_a_key_that_was_just_made_is_taken_from_its_insert_and_an_old_one_is_not() -> None:
    columns = {(JOBS, "id"): key(f"{JOBS}.id", 1000)}
    make, cancel = "INSERT INTO jobs (queue) VALUES ($1) RETURNING id", "UPDATE jobs SET state = $1"
    cancel += " WHERE id = $2"
    givers = givers_of([(make, parse(make, NAMES), 100.0)], columns)
    old = OfColumn(table=JOBS, column="id")
    state = OfColumn(table=JOBS, column="state")
    for is_new, wanted in ((True, Taken(statement=make, column=0)), (False, old)):
        step = Step(statement=cancel, parameters=(state, old))
        keys = KeySources(columns, {}, givers, {})
        [changed] = keys.changed(
            [step], [parse(cancel, NAMES)], are_new=lambda *_, it=is_new: it, calls=50
        )
        assert changed.parameters[1] == wanted


def test_a_number_beside_an_array_of_texts_is_none_of_its_elements() -> None:
    tags = column(f"{JOBS}.tags", "text[]", Distribution(kind="array"))
    assert is_inside(tags, "text")
    assert not is_inside(tags, "integer")
    assert not is_inside(tags, "text[]")
