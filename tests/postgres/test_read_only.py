"""A read-only load ends before a transaction that could write, on real servers."""

from __future__ import annotations

import pytest
from tests.fixtures.clusters import run_sql, scalar
from tests.fixtures.engine_process import Engine, load_job

from pgdyno.server.target import Target

SWITCH = "set_config('default_transaction_read_only', 'off', false)"
WAYS = {
    "set_config": f"SELECT {SWITCH}; SELECT writes();",
    "a function": "SELECT switches(); SELECT writes();",
    "a function in a block": "BEGIN; SELECT switches(); SELECT 1; COMMIT; SELECT writes();",
    "SET": "SET default_transaction_read_only = off; SELECT writes();",
    "SET SESSION CHARACTERISTICS": (
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE; SELECT writes();"
    ),
    "a DO block": "DO 'BEGIN PERFORM switches(); END'; SELECT writes();",
    "EXECUTE": "PREPARE p AS SELECT switches(); EXECUTE p; SELECT writes();",
    "several statements in one message": r"SELECT 1 \; SELECT switches(); SELECT writes();",
    "a value": rf"SELECT {SWITCH} AS a \gset" + "\nSELECT writes();",
    "the next transaction of the script": "SELECT writes_or_switches();",
    "other ends of strings": "SET standard_conforming_strings = off; SELECT writes();",
    "another encoding": "SELECT set_config('client_encoding', 'SJIS', false); SELECT writes();",
}
# The extended protocol refuses several statements in one message.
TRIES = [
    (way, protocol)
    for way in WAYS
    for protocol in ("simple", "extended", "prepared")
    if protocol == "simple" or way != "several statements in one message"
]
PIPELINES = {
    "a sync": ["\\syncpipeline"],
    "COMMIT": ["COMMIT;"],
    "a block": ["BEGIN;", "SELECT 1;", "END;"],
}


@pytest.fixture
def watched(database: Target) -> Target:
    run_sql(database, "CREATE TABLE written (a int)")
    run_sql(
        database, f"CREATE FUNCTION switches() RETURNS text LANGUAGE sql AS $$SELECT {SWITCH}$$"
    )
    run_sql(
        database,
        "CREATE FUNCTION writes() RETURNS void LANGUAGE sql AS 'INSERT INTO written VALUES (1)'",
    )
    run_sql(
        database,
        "CREATE FUNCTION writes_or_switches() RETURNS void LANGUAGE plpgsql AS $$BEGIN"
        " IF current_setting('transaction_read_only') = 'off' THEN PERFORM writes();"
        " ELSE PERFORM switches(); END IF; END$$",
    )
    return database


@pytest.mark.parametrize(("way", "protocol"), TRIES)
def test_a_read_only_load_ends_before_it_can_write(
    way: str, protocol: str, watched: Target, engine: Engine
) -> None:
    script = WAYS[way].replace("; ", ";\n")
    end = engine(load_job(watched, script, protocol=protocol, read_only=True))
    assert [failure.kind for failure in end.failures] == ["read_only_lost"]
    assert end.failures[0].script == "test"
    assert "--allow-write" in end.failures[0].hint
    assert end.summary.ending == "aborted"
    assert scalar(watched, "SELECT count(*) FROM written") == 0


@pytest.mark.parametrize("way", PIPELINES)
def test_a_pipeline_of_a_read_only_load_ends_before_it_can_write(
    way: str, watched: Target, engine: Engine
) -> None:
    lines = ["\\startpipeline", "SELECT switches();", *PIPELINES[way]]
    script = "\n".join([*lines, "SELECT writes();", "\\endpipeline"])
    end = engine(load_job(watched, script, protocol="extended", read_only=True))
    assert [failure.kind for failure in end.failures] == ["read_only_lost"]
    assert scalar(watched, "SELECT count(*) FROM written") == 0


@pytest.mark.parametrize(
    "value", ["1; COMMIT; BEGIN READ WRITE; SELECT writes(); COMMIT", "t", "", "-", "1--1"]
)
def test_a_value_of_a_query_that_is_not_a_number_is_not_pasted(
    value: str, watched: Target, engine: Engine
) -> None:
    script = f"SELECT '{value}' AS x \\gset\nSELECT ':x', :x;"
    end = engine(load_job(watched, script, protocol="simple", read_only=True))
    assert [failure.kind for failure in end.failures] == ["evaluation"]
    assert "-M extended" in end.failures[0].message
    assert scalar(watched, "SELECT count(*) FROM written") == 0


@pytest.mark.parametrize("protocol", ["simple", "extended"])
def test_a_number_of_a_query_is_pasted_and_any_value_is_a_parameter(
    protocol: str, watched: Target, engine: Engine
) -> None:
    value = "-1.5e3" if protocol == "simple" else "1; SELECT writes()"
    script = f"SELECT '{value}' AS x \\gset\nSELECT (:x)::text;"
    end = engine(load_job(watched, script, protocol=protocol, transactions=2, read_only=True))
    assert (end.failures, end.summary.counts.completed) == ([], 4)


def test_a_read_only_load_that_stays_read_only_is_done(watched: Target, engine: Engine) -> None:
    script = "BEGIN;\nSELECT set_config('work_mem', '1MB', false);\nEND;"
    end = engine(load_job(watched, script, transactions=20, read_only=True))
    assert (end.failures, end.summary.counts.completed) == ([], 40)
