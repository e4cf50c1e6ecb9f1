"""A copy answers as its source does: words and documents are found, keys keep their shares."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fixtures.captured_load import capture_statistics
from tests.fixtures.clusters import connection, run_sql, scalar
from tests.fixtures.command import Command, server_options

from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target

WORDS = "('{red,green,blue,round,heavy,small,wooden,cheap,quiet,modern}'::text[])"
SCHEMA = (
    "CREATE EXTENSION pg_trgm",
    "CREATE TABLE item (id int PRIMARY KEY, title text NOT NULL, body text NOT NULL, tags text[],"
    " doc jsonb, search tsvector GENERATED ALWAYS AS (to_tsvector('simple', title || ' ' || body))"
    " STORED)",
    "CREATE INDEX ON item USING gin (search)",
    "CREATE INDEX ON item USING gin (title gin_trgm_ops)",
    # Each word is rarer than the one before it; a body has eight.
    "INSERT INTO item SELECT g, 'Product ' || g || ' for home ' || g % 7, (SELECT string_agg("
    f" {WORDS}[1 + least(9, floor(-ln(random()) * 2 + (g + n) * 0))::int], ' ')"
    " FROM generate_series(1, 8) n), ARRAY['t' || g % 4, 'all'],"
    " jsonb_build_object('state', (ARRAY['open','paid','paid','sent'])[1 + g % 4], 'total', g)"
    " FROM generate_series(1, 3000) g",
    # A tenant with 51 % of the rows, whose orders have one to four lines.
    "CREATE TABLE orders (tenant int, number int, note text, PRIMARY KEY (tenant, number))",
    "INSERT INTO orders SELECT CASE WHEN g % 100 < 51 THEN 1 ELSE 2 + g % 30 END, g"
    " FROM generate_series(1, 6000) g",
    "CREATE TABLE lines (tenant int, number int, line int, PRIMARY KEY (tenant, number, line),"
    " FOREIGN KEY (tenant, number) REFERENCES orders)",
    "INSERT INTO lines SELECT tenant, number, n FROM orders, generate_series(1, 4) n"
    " WHERE n <= 1 + number % 4",
    "CREATE TABLE simple_orders (id int PRIMARY KEY)",
    "INSERT INTO simple_orders SELECT g FROM generate_series(1, 4000) g",
    "CREATE TABLE simple_lines (order_id int REFERENCES simple_orders, line int,"
    " PRIMARY KEY (order_id, line))",
    "INSERT INTO simple_lines SELECT id, n FROM simple_orders, generate_series(1, 4) n"
    " WHERE n <= 1 + id % 4",
    "ANALYZE",
)
TENANT = "SELECT max(count)::float8 / sum(count)::float8 FROM (SELECT count(*) FROM {} GROUP BY"
TENANT += " tenant) AS rows"
LINES = "SELECT array_agg(count ORDER BY n) FROM (SELECT n, count(*) FROM (SELECT count(*) AS n"
LINES += " FROM {} GROUP BY {}) AS o GROUP BY n) AS c"


@pytest.mark.pg
def test_a_copy_is_searched_as_its_source_and_keeps_the_shares_of_its_keys(
    pgdyno: Command, either_server: ScratchCluster, tmp_path: Path
) -> None:
    path = tmp_path / "a.capture"
    for name in ("searched", "searched_copy"):
        run_sql(either_server.target, f"CREATE DATABASE {name}")
    core = either_server.target.with_database("searched")
    copy = either_server.target.with_database("searched_copy")
    with connection(core) as session:
        for statement in SCHEMA:
            session.execute(statement)
    capture_statistics(pgdyno, core, path, lambda: None, seconds=2)
    said = pgdyno("init", path, *server_options(copy))
    assert said.code == 0, said.err
    _compare_words(core, copy)
    _compare_keys(core, copy)


def _compare_words(core: Target, copy: Target) -> None:
    frequent = (
        "SELECT {} FROM (SELECT word, ndoc FROM ts_stat('SELECT search FROM item')"
        " ORDER BY ndoc DESC LIMIT 4) AS w"
    )
    shares = frequent.format("array_agg(ndoc ORDER BY ndoc DESC)")
    for share, wanted in zip(scalar(copy, shares), scalar(core, shares), strict=True):
        assert 0.6 * wanted < share < 1.5 * wanted
    words = "SELECT avg(array_length(regexp_split_to_array(body, ' '), 1))::float8 FROM item"
    assert scalar(copy, words) == pytest.approx(scalar(core, words), rel=0.25)
    # The words of the copy are found by all kinds of search.
    like = "SELECT count(*)::int FROM item WHERE body ILIKE '%' || (SELECT word FROM ts_stat("
    like += "'SELECT search FROM item') ORDER BY ndoc DESC OFFSET 2 LIMIT 1) || '%'"
    assert scalar(copy, like) > 300
    searched = "SELECT count(*)::int FROM item WHERE search @@ (SELECT word FROM ts_stat("
    searched += "'SELECT search FROM item') ORDER BY ndoc DESC OFFSET 2 LIMIT 1)::tsquery"
    assert scalar(copy, searched) > 300
    state = "SELECT max(count)::float8 FROM (SELECT count(*) FROM item GROUP BY doc->'state') AS s"
    assert scalar(copy, state) == pytest.approx(scalar(core, state), rel=0.25)
    contained = "SELECT count(*)::int FROM item WHERE doc @> (SELECT jsonb_build_object('state',"
    contained += " doc->'state') FROM item GROUP BY doc->'state' ORDER BY count(*) DESC LIMIT 1)"
    assert scalar(copy, contained) > 1000
    tags = "SELECT max(count)::int FROM (SELECT count(*) FROM item, unnest(tags) t GROUP BY t) AS c"
    assert scalar(copy, tags) == pytest.approx(scalar(core, tags), rel=0.25)


def _compare_keys(core: Target, copy: Target) -> None:
    for table in ("orders", "lines"):
        share = scalar(copy, TENANT.format(table))
        assert share == pytest.approx(scalar(core, TENANT.format(table)), abs=0.04), table
    for table, key in (("lines", "tenant, number"), ("simple_lines", "order_id")):
        counts = scalar(copy, LINES.format(table, key))
        assert len(counts) == 4, (table, counts)
        assert min(counts) > 0.6 * max(counts), (table, counts)
