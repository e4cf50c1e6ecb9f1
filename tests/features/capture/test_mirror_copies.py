"""COPY FROM STDIN in a mirror on real servers: rows, errors in the middle, memory, and roles."""

from __future__ import annotations

from typing import Any

import pytest
from tests.features.capture.test_mirror import PROTOCOLS, load_of, mirrored, template
from tests.fixtures.clusters import connection, run_sql, scalar
from tests.fixtures.engine_process import Engine

from pgdyno.server.target import Target

pytestmark = pytest.mark.pg
TABLES = (
    "CREATE TABLE place (region int, code text, PRIMARY KEY (region, code))",
    "INSERT INTO place SELECT n % 5, 'p' || n FROM generate_series(1, 50) n",
    "CREATE TABLE reading (id bigint PRIMARY KEY, region int, code text, note text, line int,"
    " FOREIGN KEY (region, code) REFERENCES place)",
    "ANALYZE",
)
COPY = "COPY public.reading (id, region, code, note, line) FROM STDIN"
_NOTE = "a\tb\\c\nd"
_LARGE_ROWS, _LARGE_BYTES, _MEMORY_MAX = 200_000, 40_000_000, 8 << 20


def of_place(column: str) -> dict[str, Any]:
    return {"from": "column", "table": "public.place", "column": column, "group": 0}


def copy(rows: float, *, note: str = _NOTE, key: dict[str, Any] | None = None) -> dict[str, Any]:
    fields = [
        key or {"from": "fresh", "table": "public.reading", "column": "id"},
        of_place("region"),
        of_place("code"),
        {"from": "constant", "value": note},
        {"from": "turn", "offset": 1},
    ]
    length = {"least": rows, "mean": rows, "most": rows}
    listed = {"from": "list", "of": {"from": "record", "fields": fields}, "length": length}
    return {"statement": 0, "parameters": [listed]}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_copy_has_its_rows_and_their_keys(
    engine: Engine, database: Target, protocol: str
) -> None:
    for statement in TABLES:
        run_sql(database, statement)
    steps = ({"statement": 1}, copy(700), copy(3), {"statement": 2})
    load = load_of(COPY, "BEGIN", "COMMIT", templates=[template(*steps, protocol=protocol)])
    end = mirrored(engine, database, load, clients=3, turns=4)
    assert (end.summary.counts.completed, end.summary.failures) == (12, {})
    assert scalar(database, "SELECT count(*) FROM reading") == 12 * 703
    assert scalar(database, "SELECT count(DISTINCT note) FROM reading") == 1
    assert scalar(database, "SELECT min(note) FROM reading") == _NOTE
    assert scalar(database, "SELECT max(line) FROM reading") == 700
    assert scalar(database, "SELECT count(*) FROM reading WHERE line = 700") == 12


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_error_in_the_middle_of_a_copy_ends_it_and_the_session_goes_on(
    engine: Engine, database: Target, protocol: str
) -> None:
    for statement in TABLES:
        run_sql(database, statement)
    twice = copy(20_000, key={"from": "constant", "value": "7"})
    load = load_of(COPY, templates=[template(twice, protocol=protocol)])
    load["templates"].append(template(copy(5), name="good", protocol=protocol))
    load["tables"] = ["public.reading"]
    end = mirrored(engine, database, load, clients=3, turns=20)
    counts = end.summary.counts
    assert set(end.summary.failures) == {"23505"}
    assert counts.failed == end.summary.failures["23505"]
    assert counts.completed + counts.failed == 60
    assert scalar(database, "SELECT count(*) FROM reading") == 5 * counts.completed
    assert scalar(database, "SELECT count(*) FROM pg_stat_activity WHERE state = 'active'") == 1


def test_a_large_copy_needs_no_more_memory_than_a_small_one(
    engine: Engine, database: Target
) -> None:
    for statement in TABLES:
        run_sql(database, statement)

    def resident_bytes(rows: int) -> int:
        load = load_of(COPY, templates=[template(copy(rows, note="x" * 200))])
        end = mirrored(engine, database, load, clients=1, turns=1)
        assert end.summary.failures == {}
        return end.summary.engine.resident_bytes_max

    small, large = resident_bytes(1), resident_bytes(_LARGE_ROWS)
    assert scalar(database, "SELECT pg_relation_size('reading')") > _LARGE_BYTES
    assert large < small + _MEMORY_MAX


def test_a_role_that_is_missing_is_named_before_the_load_and_not_taken(
    engine: Engine, database: Target
) -> None:
    run_sql(database, "CREATE TABLE taken (who text)")
    role = "role_of_mirror_copies"
    run_sql(database, f"CREATE ROLE {role}")
    run_sql(database, f"GRANT INSERT ON taken TO {role}")
    texts = (
        "BEGIN",
        f'SET LOCAL ROLE "{role}"',
        "INSERT INTO taken VALUES (current_user)",
        'SET LOCAL ROLE "nobody_of_mirror_copies"',
        "COMMIT",
    )
    load = load_of(*texts, templates=[template(*({"statement": n} for n in range(len(texts))))])
    try:
        end = mirrored(engine, database, load, clients=1, turns=3)
        assert (end.summary.counts.completed, end.summary.failures) == (3, {})
        [warning] = [record["message"] for record in end.raw if record["record"] == "warning"]
        assert "nobody_of_mirror_copies" in warning
        assert scalar(database, "SELECT count(*) FROM taken WHERE who = current_user") == 0
        assert scalar(database, "SELECT count(DISTINCT who) FROM taken") == 1
    finally:
        with connection(database) as session:
            session.execute(f"DROP OWNED BY {role}")
            session.execute(f"DROP ROLE {role}")


def test_a_failed_transaction_releases_the_locks_of_its_session(
    engine: Engine, database: Target
) -> None:
    texts = ("SELECT pg_advisory_lock(7)", "SELECT 1 / 0", "SELECT pg_advisory_unlock(7)")
    load = load_of(*texts, templates=[template(*({"statement": n} for n in range(3)))])
    end = mirrored(engine, database, load, clients=3, turns=5)
    assert end.summary.failures == {"22012": 15}
