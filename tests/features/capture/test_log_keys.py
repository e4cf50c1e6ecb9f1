"""Keys in logs written by hand: rows that a step returned, keys that are used once, savepoints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.features.capture.test_log_transactions import capture_of, entry, texts

from pgdyno.features.capture.model import Equal, ListOf, Returned, Taken
from pgdyno.features.capture.reading.functions import Argument, functions_of
from pgdyno.features.capture.reading.names import Names
from pgdyno.features.capture.reading.parameter_uses import Parameter
from pgdyno.features.capture.reading.parsed import parse
from pgdyno.features.capture.schema import SchemaObject

HIRE = "INSERT INTO pgbench_tellers (bid, tbalance) VALUES ($1, $2) RETURNING tid"
FIRE = "DELETE FROM pgbench_tellers WHERE tid = $1"
OF_BRANCH = "SELECT tid FROM pgbench_tellers WHERE bid = $1"
JOBS = Names(
    {"public.jobs": ["id", "queue", "state"]},
    ["public"],
    functions_of(
        [
            SchemaObject(
                kind="function",
                name="public.finish",
                sql="CREATE FUNCTION finish(job bigint, label text) RETURNS void LANGUAGE plpgsql"
                " AS $$ BEGIN IF label NOT IN ('done', 'failed') THEN RAISE 'no'; END IF;"
                " UPDATE jobs SET state = label WHERE id = job AND state = 'doing'; END $$",
            ),
            SchemaObject(
                kind="function",
                name="public.fetch_job",
                sql="CREATE FUNCTION fetch_job(queues text[]) RETURNS jobs LANGUAGE sql AS"
                " $$ SELECT * FROM jobs WHERE queues IS NULL OR queue = ANY (queues) $$",
            ),
        ]
    ),
)


def test_a_deleted_key_comes_from_another_transaction(
    tmp_path: Path,
) -> None:
    said = "".join(
        entry("1.a", 2 * number, HIRE, ["1", "0"])
        + entry("1.a", 2 * number + 1, FIRE, [str(100 + number)])
        for number in range(20)
    )
    capture = capture_of(tmp_path, said)
    [hire] = [s for s in capture.statements if s.kind == "insert"]
    [fire] = [t for t in capture.templates if texts(capture, t) == [FIRE]]
    assert fire.steps[0].parameters == (Taken(statement=hire.id, column=0),)


def test_a_key_of_a_kind_that_was_seen_once_is_taken_too(tmp_path: Path) -> None:
    said = "".join(entry("1.a", number, HIRE, ["1", "0"]) for number in range(20))
    capture = capture_of(tmp_path, said + entry("1.a", 30, FIRE, ["107"]))
    [fire] = [t for t in capture.templates if texts(capture, t) == [FIRE]]
    assert isinstance(fire.steps[0].parameters[0], Taken)


def test_a_key_that_is_deleted_again_and_again_is_an_existing_one(tmp_path: Path) -> None:
    said = entry("1.a", 0, HIRE, ["1", "0"])
    said += "".join(entry("1.a", number, FIRE, [str(number % 3)]) for number in range(1, 20))
    capture = capture_of(tmp_path, said)
    [fire] = [t for t in capture.templates if texts(capture, t) == [FIRE]]
    assert not isinstance(fire.steps[0].parameters[0], Taken)


def test_a_list_of_keys_is_that_of_the_rows_before_it(tmp_path: Path) -> None:
    said = ""
    for number in range(5):
        listed = ", ".join(str(10 * number + place) for place in range(number + 1))
        for place, (text, values) in enumerate(
            [
                ("BEGIN", []),
                (OF_BRANCH, [str(number)]),
                (f"DELETE FROM pgbench_tellers WHERE tid IN ({listed})", []),
                (f"DELETE FROM pgbench_branches WHERE bid IN ({number})", []),
                ("COMMIT", []),
            ]
        ):
            said += entry("1.a", 10 * number + place, text, values)
    capture = capture_of(tmp_path, said)
    [template] = capture.templates
    assert template.steps[2].parameters == (Returned(step=1, column=0, pick="all"),)
    [branches] = template.steps[3].parameters
    assert isinstance(branches, ListOf)
    assert branches.of == Equal(step=1, parameter=0)


@pytest.mark.parametrize("key", [lambda number: "3", lambda number: str(number % 10)])
def test_a_key_that_is_always_the_same_is_not_that_of_a_row(
    tmp_path: Path, key: Callable[[int], str]
) -> None:
    said = ""
    for number in range(12):
        for place, (text, values) in enumerate(
            [
                ("BEGIN", []),
                ("SELECT tid FROM pgbench_history WHERE aid = $1", [str(number)]),
                ("SELECT tbalance FROM pgbench_tellers WHERE tid = $1", [key(number)]),
                ("COMMIT", []),
            ]
        ):
            said += entry("1.a", 10 * number + place, text, values)
    [template] = capture_of(tmp_path, said).templates
    is_of_row = isinstance(template.steps[2].parameters[0], Returned)
    assert is_of_row == (key(0) != key(1))


def test_steps_that_repeat_together_are_one_loop(tmp_path: Path) -> None:
    said = ""
    for number in range(20):
        body = [(OF_BRANCH, ["5"]), (FIRE, ["7"])] * (1 + number % 3)
        for place, (text, values) in enumerate([("BEGIN", []), *body, ("COMMIT", [])]):
            said += entry("1.a", number + place / 100, text, values)
    [template] = capture_of(tmp_path, said).templates
    assert [step.loops_with_before for step in template.steps] == [False, False, True, False]


def test_what_a_savepoint_takes_back_is_not_in_the_transaction(tmp_path: Path) -> None:
    said, prefix = "", "2026-11-24 10:00:02.000 UTC [7] me@core 1.a "
    said += entry("1.a", 0, "BEGIN") + entry("1.a", 1, 'SAVEPOINT "s12_x3"')
    said += f"{prefix}ERROR:  duplicate key\n{prefix}STATEMENT:  {HIRE}\n"
    said += entry("1.a", 3, 'ROLLBACK TO SAVEPOINT "s12_x3"')
    said += entry("1.a", 4, 'RELEASE SAVEPOINT "s12_x3"') + entry("1.a", 5, FIRE, ["7"])
    said += entry("1.a", 6, "COMMIT")
    capture = capture_of(tmp_path, said)
    [template] = capture.templates
    expected = ["BEGIN", "SAVEPOINT s", "RELEASE SAVEPOINT s", FIRE, "COMMIT"]
    assert texts(capture, template) == expected


def test_an_empty_statement_is_not_part_of_the_load(tmp_path: Path) -> None:
    said = entry("1.a", 0, "") + entry("1.a", 1, FIRE, ["7"])
    capture = capture_of(tmp_path, said)
    assert [texts(capture, template) for template in capture.templates] == [[FIRE]]


def test_arguments_of_a_function_are_columns_of_its_tables() -> None:
    finish = parse("SELECT finish($1, $2)", JOBS)
    assert not finish.reads_only
    assert finish.tables == ("public.jobs",)
    assert finish.parameters == {
        1: Parameter(
            "equal", "public.jobs", "id", "=", Argument("job", "equal", "id", type="bigint")
        ),
        2: Parameter(
            "set",
            "public.jobs",
            "state",
            "=",
            Argument("label", "set", "state", values=("done", "failed"), type="text"),
        ),
    }
    fetch = parse("SELECT id, queue FROM fetch_job($1)", JOBS)
    assert fetch.outputs == (("public.jobs", "id"), ("public.jobs", "queue"))
    argument = fetch.parameters[1].argument
    assert argument is not None
    assert argument.is_optional


def test_arrays_of_unnest_are_columns_and_have_one_length() -> None:
    insert = parse("INSERT INTO jobs (id, queue) SELECT * FROM unnest($1::int[], $2::text[])", JOBS)
    assert [(use.use, use.column) for use in insert.parameters.values()] == [
        ("list", "id"),
        ("list", "queue"),
    ]
    assert insert.as_long_as == {2: 1}
