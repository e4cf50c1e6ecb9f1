"""Statements whose shape defeats an index, and calls that do more than reading, on real servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest
from tests.features.watch import latecomers
from tests.features.watch.incidents import judged, judged_until
from tests.features.watch.strangers import loop, several
from tests.features.watch.test_outsiders import named
from tests.fixtures.clusters import run_sql

from pgdyno.features.watch.incident import call_rules, shapes
from pgdyno.features.watch.incident.conditions import restricted
from pgdyno.server.target import Target

SETTINGS = {"shared_preload_libraries": "pg_stat_statements"}
Staged = Callable[[Target], AbstractContextManager[None]]
NONE_HELPS = "no plain index helps"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        " \n select*from t",
        "/* app:shop\naction:list */ SELECT 1",
        "-- a line\n-- and one\nSELECT 1",
        "(SELECT 1) UNION SELECT 2",
        "/*+ SeqScan(t) */ /**/ SELECT 1",
    ],
)
def test_the_verb_stands_behind_comments(text: str) -> None:
    assert call_rules.verb_of(text) == "SELECT"


@pytest.mark.parametrize(
    "text", ["", "-- only a comment", "/* only a comment */", "/**/" * 1000 + ";"]
)
def test_a_text_of_comments_has_no_verb(text: str) -> None:
    assert call_rules.verb_of(text) == ""


@pytest.mark.parametrize(
    ("where", "meaning", "column"),
    [
        ("id = $1::numeric", shapes.OTHER_TYPE, "id"),
        ("c.id::text = $1", shapes.CAST, "id"),
        ("profile->>$2 = $1", shapes.FIELD, "profile"),
        ("email ILIKE $1 AND id > $2", shapes.PATTERN, "email"),
        ("email ~ $1", shapes.PATTERN, "email"),
        ("id = $1 OR email = $2", shapes.EITHER, ""),
        ("$1 = ANY (tags)", shapes.MEMBER, "tags"),
        ("tags @> $1", shapes.CONTAINS, "tags"),
        ("date_trunc($2, created) BETWEEN $1 AND $3", shapes.COMPUTED, "created"),
        ("coalesce(email, $2) = $1", shapes.COMPUTED, "email"),
        ("created + $1 > $2", shapes.COMPUTED, "created"),
        ("id NOT IN (SELECT id FROM d)", shapes.NOT_IN, "id"),
        ("id = $1 AND email IN ($2, $3)", None, ""),
        ("id = ANY ($1)", None, ""),
        ("lower(email) = $1", None, ""),
        ("id = $1 OR id = $2", None, ""),
        ("id IN (SELECT id FROM d WHERE d.x::text = $1)", shapes.CAST, "x"),
        ("NOT EXISTS (SELECT 1 FROM d)", None, ""),
        ("id = (SELECT max(id) FROM d)", None, ""),
    ],
)
def test_shapes_are_read_by_the_grammar(
    where: str, meaning: shapes.ShapeMeaning | None, column: str
) -> None:
    parts = restricted(f"SELECT * FROM c WHERE {where}")
    assert parts is not None
    seen = next(iter(parts.shapes), None)
    assert (seen and seen.meaning) == meaning
    if seen is not None:
        assert seen.column == column
        assert "{" not in "".join(seen.words("c", "an_index"))


def healthy(target: Target) -> Iterator[tuple[str, AbstractContextManager]]:
    """Yield loads with the same shapes that are well."""
    latecomers.make_customers(target)
    run_sql(target, "CREATE INDEX ON customers ((profile->>'token'))")
    run_sql(target, "CREATE INDEX ON customers USING gin (tags)")
    run_sql(target, "CREATE INDEX ON customers (date_trunc('day', created))")
    run_sql(target, "VACUUM ANALYZE customers")
    columns = {
        "id = %s::bigint": lambda turn: turn,
        "profile->>'token' = %s": lambda turn: f"t{turn}",
        "tags @> ARRAY[%s]": lambda turn: f"tag{turn}",
        "date_trunc('day', created) = %s::timestamp": lambda _: "2026-03-01",
        "id = 5 OR email = %s": lambda turn: f"u{turn}@example.org",
    }
    for where, value in columns.items():
        asked = loop(f"SELECT id FROM customers WHERE {where}", value)
        yield where, several(target, "web", asked, 2)
    yield (
        "a small table that is counted",
        several(target, "web", loop("SELECT count(*) FROM items"), 2),
    )
    page = loop("SELECT * FROM orders ORDER BY id LIMIT 500")
    yield "pages of 500 rows", several(target, "web", page, 2)
    taken = loop("SELECT pg_try_advisory_lock(%s)", lambda turn: turn % 5)
    yield "advisory locks that nobody waits for", several(target, "web", taken, 3)


@pytest.mark.pg
def test_healthy_neighbours_of_these_statements_have_no_finding(shop: Target) -> None:
    for name, load in healthy(shop):
        with load:
            assert (name, judged(shop, 1.5)) == (name, [])


@pytest.mark.pg
@pytest.mark.parametrize(
    ("staged", "kind", "words"),
    [
        (latecomers.value_of_other_type, NONE_HELPS, ("type numeric", "the type of id")),
        (latecomers.column_is_cast, NONE_HELPS, ("converts id to text", "id::text")),
        (latecomers.field_of_document, NONE_HELPS, ("profile", "profile ->> 'field'")),
        (latecomers.word_anywhere, NONE_HELPS, ("pattern", "gin_trgm_ops")),
        (latecomers.random_row, NONE_HELPS, ("random()", "TABLESAMPLE")),
        (latecomers.either_column, NONE_HELPS, ("OR", "email, tags", "UNION")),
        (latecomers.member_of_array, NONE_HELPS, ("tags @> ARRAY", "USING gin (tags)")),
        (latecomers.computed_day, NONE_HELPS, ("computes with created", "stand alone")),
        (latecomers.default_of_null, NONE_HELPS, ("computes with email",)),
        (latecomers.pending_list, "much is read for few rows", ("pending list", "posts_words")),
        (latecomers.invalid_index, "index missing",
         ("orders_customer is not valid", "REINDEX INDEX CONCURRENTLY")),
        (latecomers.planning, "planning", ("part0", "prepared statement")),
        (latecomers.counting_for_a_page, "a whole table is counted", ("50,000", "reltuples")),
        (latecomers.everything_fetched, "many rows are returned", ("50,000 rows", "LIMIT")),
        (latecomers.slow_trigger, "computing", ("INSERT INTO items", "trigger score of items")),
        (latecomers.refreshed_view, "lock contention",
         ("table totals", "cron: REFRESH MATERIALIZED", "CONCURRENTLY")),
        (latecomers.advisory_convoy, "lock contention", ("advisory", "pg_try_advisory_lock")),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)  # fmt: skip
def test_the_shape_or_the_work_of_a_statement_is_named(
    staged: Staged, kind: str, words: tuple[str, ...], shop: Target
) -> None:
    with staged(shop):
        listed = judged_until(shop, kind)
    whole = named(listed, kind)
    assert not [word for word in words if word not in whole], whole


@pytest.mark.pg
def test_a_statement_that_does_not_end_is_named_with_its_shape(
    shop: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_rules, "LONG_S", 2.0)
    with latecomers.not_in(shop):
        whole = named(judged_until(shop, "long statement", 3.0), "long statement")
    assert "web" in whole
    assert "NOT EXISTS in place of NOT IN" in whole
