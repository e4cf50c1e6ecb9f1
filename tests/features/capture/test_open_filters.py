"""Filters that a call left out by NULL: statistics show only how many rows the calls found."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fixtures.captured_load import capture_statistics
from tests.fixtures.clusters import connection, run_sql
from tests.fixtures.command import Command, server_options

from pgdyno.features.capture import file
from pgdyno.features.capture.model import Constant
from pgdyno.server.target import Target

LIST = (
    "SELECT id, task FROM jobs WHERE (%(id)s::bigint IS NULL OR id = %(id)s)"
    " AND (%(queue)s::text IS NULL OR queue = %(queue)s)"
    " AND (%(task)s::text IS NULL OR task = %(task)s) ORDER BY id"
)
FILTERS = ("id", "queue", "task")


@pytest.mark.pg
def test_a_query_of_a_table_that_was_empty_finds_rows_in_the_mirror(
    pgdyno: Command, observed: Target, tmp_path: Path
) -> None:
    run_sql(observed, "CREATE TABLE jobs (id bigserial PRIMARY KEY, queue text, task text)")
    run_sql(observed, "ANALYZE jobs")
    summed = "SELECT queue, count(*) FROM jobs WHERE (%(queue)s::text IS NULL OR queue = %(queue)s)"

    def use() -> None:
        with connection(observed) as session:
            for number in range(40):
                new = (f"q{number % 4}", f"t{number % 30}")
                session.execute("INSERT INTO jobs (queue, task) VALUES (%s, %s)", new)
                session.execute(LIST, dict.fromkeys(FILTERS))
                session.execute(f"{summed} GROUP BY queue", {"queue": None})

    path = tmp_path / "a.capture"
    capture_statistics(pgdyno, observed, path, use, seconds=4)
    capture = file.read(path)
    queries = [s.id for s in capture.statements if s.text.startswith("SELECT") and "jobs" in s.text]
    steps = [step for template in capture.templates for step in template.steps]
    sources = [source for step in steps if step.statement in queries for source in step.parameters]
    assert len(queries) == 2
    assert sources == [Constant(value=None)] * 4


@pytest.mark.pg
@pytest.mark.parametrize("used", [(), ("queue",), ("queue", "task"), ("id",)], ids=",".join)
def test_the_filters_that_the_calls_used_find_as_many_rows_in_the_mirror(
    pgdyno: Command, observed: Target, tmp_path: Path, used: tuple[str, ...]
) -> None:
    run_sql(observed, "CREATE TABLE jobs (id bigserial PRIMARY KEY, queue text, task text)")
    # 4 queues with 150 rows each, 30 tasks with 20.
    fill = "INSERT INTO jobs (queue, task) SELECT 'q' || n % 4, 't' || n % 30"
    run_sql(observed, f"{fill} FROM generate_series(0, 599) n")
    run_sql(observed, "VACUUM ANALYZE jobs")

    def use() -> None:
        with connection(observed) as session:
            for number in range(40):
                known = {"id": number + 1, "queue": f"q{number % 4}", "task": f"t{number % 30}"}
                asked = {name: known[name] if name in used else None for name in FILTERS}
                session.execute(LIST, asked)

    path = tmp_path / "a.capture"
    capture_statistics(pgdyno, observed, path, use, seconds=4)
    options = server_options(observed)
    said = pgdyno("bench", "-b", path, *options, "-c", "1", "--duration", "1s", "--json", "-q")
    rows = said.document["likeness"]["statements"]
    assert all("rows" not in row["reason"] for row in rows if "jobs" in row["text"]), rows
