"""Texts of statements as results keep them: no constants, no secrets, one line."""

from __future__ import annotations

import pytest
from tests.fixtures.clusters import Make, run_sql

from pgdyno.features.capture.reading.counted import texts_sql
from pgdyno.features.watch.statements import Calls, grown
from pgdyno.measure.statement_texts import OWN, TEXTS_SQL, shown_texts, without_constants
from pgdyno.server.session_start import MARK


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("UPDATE a SET b = b + $1\n WHERE c = $2", "UPDATE a SET b = b + $1 WHERE c = $2"),
        ("select 'O''Hara', 'x' from t", "select $1, $2 from t"),
        ("SELECT $q$secret$q$ || $$other$$", "SELECT $1 || $2"),
        ("SELECT 1 -- for 4711\n", "SELECT $1"),
        ("/* user=bob */ SELECT 1", "SELECT $1"),
        ("COMMIT", "COMMIT"),
        ("ALTER ROLE bob PASSWORD 'secret'", "ALTER ROLE ..."),
        ("CREATE USER'x'", "CREATE USER"),
        ("COPY t FROM STDIN;", "COPY t ..."),
        ("PREPARE p (int) AS\nUPDATE a SET b = $1", "UPDATE a SET b = $1"),
        ("PREPARE p AS DELETE FROM a WHERE b = 'x'", "DELETE FROM a WHERE b = ?"),
        # Only the beginning of a long text is read.
        ("SELECT 'a', 'it''s sec", "SELECT ?, ?"),
        ("SELECT $q$secr", "SELECT ?"),
        ("SELECT 1 /* for bo", "SELECT ?"),
        # The first call of a prepared statement after a reset, and types, which are no values.
        ("UPDATE a SET b = b + 17 WHERE c = $1", "UPDATE a SET b = b + $2 WHERE c = $1"),
        ("SELECT a1::numeric(10,2) FROM t2 LIMIT 7", "SELECT a1::numeric(10,2) FROM t2 LIMIT $1"),
        ("SELECT a1 FROM t2 WHERE b = 17.5 AND", "SELECT a1 FROM t2 WHERE b = ? AND"),
    ],
)
def test_a_shown_statement_contains_no_data(text: str, kept: str) -> None:
    assert without_constants(text) == kept


@pytest.mark.parametrize("version", ["15", "18"])
def test_long_texts_of_the_server_are_not_read_whole(version: str, new_cluster: Make) -> None:
    preloaded = {"shared_preload_libraries": "pg_stat_statements"}
    target = new_cluster(version, settings=preloaded).target
    run_sql(target, "CREATE EXTENSION pg_stat_statements")
    run_sql(target, "CREATE TABLE noted (a int)")
    for size in (20_000, 2_000_000):
        run_sql(target, f"COMMENT ON TABLE noted IS '{'x' * size}'")
    ids = [query for (query,) in run_sql(target, "SELECT queryid FROM pg_stat_statements")]
    beginnings = run_sql(target, TEXTS_SQL.format(schema="public"), ids)
    assert max(len(text) for _, text in beginnings) == 10_000
    texts = [text for _, _, text, _ in run_sql(target, texts_sql(int(version), "public"))]
    assert None in texts
    assert 20_000 < max(len(text) for text in texts if text) < 1_000_000


def test_a_long_text_is_cut() -> None:
    assert len(without_constants("SELECT " + "a, " * 500)) == 300


def test_a_statement_of_the_observer_is_known_as_our_own() -> None:
    own = (
        "SELECT pg_catalog.pg_stat_force_next_flush() FROM pg_catalog.pg_am\n LIMIT $1",
        f"SELECT pg_backend_pid(){MARK}",
        "SELECT archived_count, failed_count, coalesce((extract($1 FROM last_archived_time) * $2)"
        "::int8 * $3, $4), coalesce((extract($5 FROM last_failed_time) * $6)::int8 * $7, $8),"
        " coalesce((extract($9 FROM stats_reset) * $10)::int8 * $11, $12)"
        " FROM pg_catalog.pg_stat_archiver",
    )
    theirs = "SELECT pg_catalog.pg_stat_force_next_flush() FROM pg_catalog.pg_class LIMIT $1"
    rows = [(number, text) for number, text in enumerate((*own, theirs))]
    assert shown_texts(rows) == {0: OWN, 1: OWN, 2: OWN, 3: theirs}


def test_calls_between_two_readings_are_counted_with_their_time() -> None:
    before, after = Calls({1: (10, 50.0), 3: (5, 5.0)}), Calls({1: (30, 150.0), 2: (4, 8.0)})
    assert grown(before, after, 1) == (20, 5.0)
    assert grown(before, after, 2) == (4, 2.0)
    assert grown(before, after, 3) is None


def test_calls_that_were_reset_are_not_known() -> None:
    assert grown(Calls({1: (10, 50.0)}), Calls({1: (3, 1.0)}), 1) is None
