"""Rows and blocks of logged statements come from what the server counted before."""

from __future__ import annotations

from pgdyno.features.capture.observed import Counters, Statement
from pgdyno.features.capture.reading.means import MeansOfStatements, form_of


def test_a_log_and_the_counters_name_one_statement_alike() -> None:
    logged = "SELECT * FROM t WHERE a = ANY ($1) AND b = $2::integer"
    assert form_of(logged) == form_of("SELECT *  FROM t WHERE a IN ($1, $2,$3) AND b = $4")
    many = "INSERT INTO t (a, b) VALUES ($1, $2), ($3, $4), ($5, $6)"
    assert form_of(many) == form_of("INSERT INTO t (a, b) VALUES ($1, $2)")
    flags = "UPDATE t SET a = null, b = true WHERE c IS NULL AND at > interval $1"
    assert form_of(flags) == form_of("UPDATE t SET a = $1, b = $2 WHERE c IS NULL AND at > $3")
    # A log gives a number the type that it has; the statement casts it again.
    assert form_of("VALUES ($1::integer::BIGINT)") == form_of("VALUES ($1::BIGINT)")
    setting = "SELECT pg_catalog.set_config('app.tenant', $1, true)"
    assert form_of(setting) == form_of("SELECT set_config($2, $1, $3)")
    assert form_of("SELECT a FROM t") != form_of("SELECT b FROM t")


def test_logged_calls_have_the_rows_of_as_many_mean_calls() -> None:
    counted = Counters(calls=10, rows=30, time_ms=5, hit_blocks=200)
    means = MeansOfStatements([("SELECT $1", counted), ("SELECT $1", counted)])
    own = means.of("SELECT $1", Counters(calls=4, time_ms=7))
    assert (own.calls, own.rows, own.time_ms, own.hit_blocks) == (4, 12, 7, 80)
    other = Counters(calls=4, time_ms=7)
    assert means.of("SELECT $1 + $2", other) == other


def test_a_statement_knows_how_many_of_its_calls_the_server_counted() -> None:
    text, put = "SELECT a FROM t WHERE b = $1", "INSERT INTO t (a) VALUES ($1)"
    means = MeansOfStatements([(text, Counters(calls=30)), (put, Counters(calls=30))])

    def logged(text: str, role: str, calls: int) -> Statement:
        kind = "insert" if text == put else "select"
        own = Statement(id=text + role, text=text, kind=kind, reads_only=False, role=role)
        return means.counted(own.model_copy(update={"counters": Counters(calls=calls)}))

    # Two roles have one statement of the server's.
    given = [logged(text, "a", 10), logged(text, "b", 5), logged(put, "a", 10)]
    assert [own.counted_ratio for own in means.with_ratios(given)] == [2, 2, 1]


def test_an_insert_of_four_rows_has_its_own_counters_if_the_server_counts_it_apart() -> None:
    single, four = "INSERT INTO t VALUES ($1)", "INSERT INTO t VALUES ($1), ($2), ($3), ($4)"
    means = MeansOfStatements(
        [(single, Counters(calls=10, rows=10)), (four, Counters(calls=10, rows=40))]
    )
    calls = Counters(calls=2)
    assert [means.of(text, calls).rows for text in (single, four)] == [2, 8]
    # A length that the server did not count has the mean of the others.
    assert means.of("INSERT INTO t VALUES ($1), ($2)", calls).rows == 5


def test_a_list_has_the_counters_of_its_length_if_the_server_counts_it_apart() -> None:
    single, two = "SELECT a FROM t WHERE k IN ($1)", "SELECT a FROM t WHERE k IN ($1, $2)"
    means = MeansOfStatements(
        [(single, Counters(calls=10, rows=10)), (two, Counters(calls=10, rows=20))]
    )
    assert [means.of(text, Counters(calls=1)).rows for text in (single, two)] == [1, 2]


def test_a_comment_of_a_generator_does_not_hide_the_counters() -> None:
    counted = "-- name: Next :one\nSELECT a\nFROM /* TEMPLATE: schema */t WHERE k = $1"
    means = MeansOfStatements([(counted, Counters(calls=10, rows=20))])
    assert means.of("SELECT a FROM t WHERE k = $1", Counters(calls=1)).rows == 2


def test_types_lists_and_fields_do_not_separate_a_statement_from_its_counters() -> None:
    logged = (
        "SELECT CASE WHEN a THEN $2::interval WHEN b THEN $3::interval END, extract(epoch FROM c)"
        " FROM t WHERE d <> ALL ($1)"
    )
    counted = (
        "SELECT CASE WHEN a THEN interval $1 WHEN b THEN interval $2 END, extract($3 FROM c)"
        " FROM t WHERE d NOT IN ($4, $5)"
    )
    assert form_of(logged) == form_of(counted)


def test_spaces_and_constants_that_the_server_keeps_do_not_hide_the_counters() -> None:
    # The server keeps the 0 of ORDER BY, because it is a column of the result.
    logged = (
        "SELECT a, coalesce(n, $1::integer) FROM t WHERE extract (epoch from b) > $2"
        " ORDER BY coalesce(n, $1::integer) DESC"
    )
    counted = (
        "SELECT a, coalesce(n,$1) FROM t WHERE extract ($2 from b)>$3 ORDER BY coalesce(n, 0) DESC"
    )
    assert form_of(logged) == form_of(counted)
    cast = "SELECT CAST($1 AS timestamp(6) without time zone), b::timestamp(3) FROM t1"
    assert form_of(cast) == form_of(cast.replace("$1", "'2026-01-01'"))
    assert form_of("SELECT a1 FROM t2") != form_of("SELECT a2 FROM t2")


def test_a_statement_that_did_nothing_is_counted_all_the_same() -> None:
    means = MeansOfStatements([("DELETE FROM t WHERE a = $1", Counters(calls=9))])

    def is_counted(text: str) -> bool:
        own = Statement(id="1", text=text, kind="delete", reads_only=False)
        return means.counted(own).is_counted

    assert is_counted("DELETE FROM t  WHERE a=$1")
    assert not is_counted("DELETE FROM t WHERE b = $1")
