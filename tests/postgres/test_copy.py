"""The tables of a capture, made again from their statistics, against the original."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from psycopg import sql
from tests.fixtures import shapes
from tests.fixtures.captures import column, evenly, header, shop_capture, table
from tests.fixtures.clusters import connection, run_sql, scalar
from tests.fixtures.command import Command, server_options
from tests.fixtures.prove import Proved

from pgdyno.features.capture import file
from pgdyno.features.capture.file import encoded
from pgdyno.features.capture.model import Capture
from pgdyno.features.capture.schema import SchemaObject
from pgdyno.server.connect import connect
from pgdyno.server.dataset import inspection as datasets
from pgdyno.server.reset import reset
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target

SMALL_ROWS = 4000
ALL_ROWS = 60_000


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    path = tmp_path / "shop.capture"
    path.write_bytes(encoded(shop_capture()))
    return path


def test_a_copy_of_a_shop_has_its_rows_keys_and_skew(
    pgdyno: Command, database: Target, shop: Path
) -> None:
    said = pgdyno("init", str(shop), *server_options(database), "--json")
    assert said.code == 0, said.err
    assert (said.document["state"], said.document["scale"]) == ("complete", 12_000)
    assert scalar(database, "SELECT count(*) FROM shop.customer") == 2000
    assert scalar(database, "SELECT count(DISTINCT mail) FROM shop.customer") == 2000
    orphans = (
        "SELECT count(*) FROM shop.orders WHERE customer NOT IN (SELECT id FROM shop.customer)"
    )
    assert scalar(database, orphans) == 0
    assert scalar(database, "SELECT count(*) FROM shop.orders WHERE customer = 17") == 200
    assert scalar(database, "SELECT count(DISTINCT customer) FROM shop.orders") == 1500
    assert scalar(database, "SELECT count(*) FROM shop.orders WHERE note IS NULL") == 8000
    assert (
        scalar(
            database,
            "SELECT count(*) FROM pg_constraint WHERE contype IN ('p','f','u') "
            "AND connamespace = 'shop'::regnamespace",
        )
        == 4
    )
    gone = pgdyno("drop", *server_options(database))
    assert gone.code == 0, gone.err
    left = "SELECT count(*) FROM pg_class WHERE relnamespace = 'shop'::regnamespace"
    assert scalar(database, left) == 0
    assert scalar(database, "SELECT to_regtype('shop.level')") is None


def test_a_smaller_copy_has_the_same_shape(pgdyno: Command, database15: Target, shop: Path) -> None:
    where = server_options(database15)
    said = pgdyno("init", str(shop), *where, "--fraction", "0.5", "--json")
    assert said.code == 0, said.err
    assert said.document["scale"] == 6000
    per_order = "SELECT count(*) FROM shop.orders GROUP BY customer ORDER BY 1 DESC LIMIT 1"
    assert scalar(database15, per_order) == 100  # 2 % of all orders, as in the original
    assert scalar(database15, "SELECT count(DISTINCT customer) FROM shop.orders") == 750
    with connect(database15, verb="test") as session:
        dataset = datasets.inspect(session)
        assert (dataset.kind, str(dataset)) == ("capture", "6,000 rows of a capture by pgdyno")
        vacuumed = next(
            s for s in reset(session, dataset, is_scratch=False).steps if s.name == "vacuum"
        )
        assert not vacuumed.skipped
    again = pgdyno("init", str(shop), *where, "--json")
    assert again.code == 0, again.err
    assert again.document["scale"] == 12_000


def test_tables_of_the_user_with_these_names_stay(
    pgdyno: Command, database15: Target, shop: Path
) -> None:
    run_sql(database15, "CREATE SCHEMA shop")
    run_sql(database15, "CREATE TABLE shop.customer AS SELECT 1 AS mine")
    said = pgdyno("init", str(shop), *server_options(database15))
    assert said.code == 1
    assert scalar(database15, "SELECT mine FROM shop.customer") == 1


def test_a_function_of_the_user_with_this_name_stays(
    pgdyno: Command, database: Target, tmp_path: Path
) -> None:
    made = "CREATE FUNCTION public.bonus() RETURNS int LANGUAGE sql AS 'SELECT {}'"
    capture = shop_capture()
    bonus = SchemaObject(
        kind="function",
        name="public.bonus()",
        sql=made.format(2).replace("CREATE", "CREATE OR REPLACE"),
    )
    path = tmp_path / "shop.capture"
    path.write_bytes(encoded(capture.model_copy(update={"objects": (*capture.objects, bonus)})))
    run_sql(database, made.format(1))
    said = pgdyno("init", str(path), *server_options(database))
    assert said.code == 1, said.err
    assert "the function public.bonus()" in " ".join(said.err.split())
    assert scalar(database, "SELECT to_regnamespace('shop')") is None
    assert scalar(database, "SELECT public.bonus()") == 1
    run_sql(database, "DROP FUNCTION public.bonus()")
    assert pgdyno("init", str(path), *server_options(database)).code == 0
    assert scalar(database, "SELECT public.bonus()") == 2
    assert pgdyno("drop", *server_options(database)).code == 0


def test_statements_are_printed_and_missing_extensions_named_before_anything_is_made(
    pgdyno: Command, database15: Target, shop: Path, tmp_path: Path
) -> None:
    printed = pgdyno("init", str(shop), "--print-sql")
    assert "CREATE TYPE shop.level" in printed.out
    assert 'copy shop.orders ("id", "customer",' in printed.out
    extension = SchemaObject(kind="extension", name="unheard", sql="CREATE EXTENSION unheard")
    capture = shop_capture()
    path = tmp_path / "more.capture"
    path.write_bytes(encoded(capture.model_copy(update={"objects": (extension, *capture.objects)})))
    said = pgdyno("init", str(path), *server_options(database15))
    assert said.code == 1
    assert "unheard" in said.err
    assert scalar(database15, "SELECT to_regnamespace('shop')") is None


def test_rows_of_a_partitioned_table_go_where_they_belong(
    pgdyno: Command, database15: Target, tmp_path: Path
) -> None:
    def part(name: str, rows: int, bounds: str) -> Any:
        made, shape = table(name, "", rows, 8192, partition_of="public.event")
        sql = f"CREATE TABLE {name} PARTITION OF public.event FOR VALUES {bounds}"
        return made.model_copy(update={"kind": "partition", "sql": sql}), shape

    parent, parent_shape = table("public.event", "id integer, at date", 0, 0, is_partitioned=True)
    parent = parent.model_copy(update={"sql": f"{parent.sql} PARTITION BY RANGE (at)"})
    parts = [
        part("public.event_1", 3000, "FROM ('2024-01-01') TO ('2024-02-01')"),
        part("public.event_2", 1000, "FROM ('2024-02-01') TO ('2024-03-01')"),
    ]
    columns = []
    for name, rows, ids, dates in (
        ("event", 0, ("1", "1"), ("2024-01-01", "2024-01-01")),
        ("event_1", 3000, ("1", "3000"), [f"2024-01-{day:02}" for day in range(1, 32)]),
        ("event_2", 1000, ("3001", "4000"), [f"2024-02-{day:02}" for day in range(1, 30)]),
    ):
        of = f"public.{name}"
        columns += [
            column(f"{of}.id", "integer", evenly("integer", *ids, distinct=max(1, rows))),
            column(f"{of}.at", "date", evenly("date", *dates, distinct=30, step=86400)),
        ]
    capture = Capture(
        header=header(),
        objects=(parent, *(made for made, _ in parts)),
        tables=(parent_shape, *(shape for _, shape in parts)),
        columns=tuple(columns),
    )
    path = tmp_path / "event.capture"
    path.write_bytes(encoded(capture))
    said = pgdyno("init", str(path), *server_options(database15), "--json")
    assert said.code == 0, said.err
    counts = "SELECT tableoid::regclass::text, count(*) FROM public.event GROUP BY 1 ORDER BY 1"
    (first, first_rows), (second, second_rows) = run_sql(database15, counts)
    assert (first, second) == ("event_1", "event_2")
    assert first_rows + second_rows == 4000
    assert abs(first_rows - 3000) < 200


def test_a_view_that_the_server_refuses_is_left_out_and_named(
    pgdyno: Command, database15: Target, tmp_path: Path
) -> None:
    view = SchemaObject(
        kind="view",
        name="shop.seen",
        sql="CREATE VIEW shop.seen AS SELECT needed(1)",
        stage="after_rows",
    )
    capture = shop_capture()
    path = tmp_path / "view.capture"
    path.write_bytes(encoded(capture.model_copy(update={"objects": (*capture.objects, view)})))
    where = server_options(database15)
    first = pgdyno("init", str(path), *where, "--json")
    assert first.code == 0, first.err
    [note] = [note for note in first.document["likeness"]["notes"] if "shop.seen" in note]
    assert "left out" in note
    assert "needed(integer) does not exist" in note
    assert scalar(database15, "SELECT count(*) FROM shop.orders") == 10_000
    gone = pgdyno("drop", *where)
    assert gone.code == 0, gone.err
    assert scalar(database15, "SELECT to_regclass('shop.seen')") is None


def _copied(
    pgdyno: Command, cluster: ScratchCluster, folder: Path, rows: int, *, keeps_values: bool
) -> tuple[Any, float, list[str]]:
    """Make an original and its copy; return the likeness, and the share of equal plans."""
    what = shapes.original(rows)
    names = [f"shapes_{part}_{rows}_{keeps_values}" for part in ("original", "copy")]
    targets = [cluster.target.with_database(name) for name in names]
    for name in names:
        run_sql(cluster.target, sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    with connection(targets[0]) as source:
        shapes.make(source, what)
        capture = theirs = shapes.captured(source, what)
        path = folder / "shapes.capture"
        if keeps_values:
            path.write_bytes(encoded(capture))
        else:
            taken = pgdyno("capture", *server_options(targets[0]), "-o", path, "--duration", "2s")
            assert taken.code == 0, taken.err
            theirs = file.read(path)
        said = pgdyno("init", str(path), *server_options(targets[1]), "--json")
        assert said.code == 0, said.err
        queries = shapes.statements(capture, theirs, 100, seed=7)
        with connection(targets[1]) as copy:
            other = [
                query
                for query, of_copy in queries
                if shapes.plan_shape(source, query) != shapes.plan_shape(copy, of_copy)
            ]
    for name in names:
        run_sql(cluster.target, sql.SQL("DROP DATABASE {}").format(sql.Identifier(name)))
    return said.document["likeness"], 1 - len(other) / len(queries), other


def _short(likeness: Any) -> list[str]:
    return [
        f"{item['name']} {quantity['name']}: {quantity['source']} -> {quantity['copy']}"
        for item in likeness["compared"]
        for quantity in item["quantities"]
        if quantity["verdict"] == "short"
    ]


@pytest.mark.parametrize("keeps_values", [True, False], ids=["values", "stand-ins"])
def test_columns_of_many_types_and_shapes_are_alike_in_a_copy(
    pgdyno: Command, any_server: ScratchCluster, tmp_path: Path, keeps_values: bool
) -> None:
    likeness, same_plans, other = _copied(
        pgdyno, any_server, tmp_path, SMALL_ROWS, keeps_values=keeps_values
    )
    short = _short(likeness)
    kinds = Counter(item["kind"] for item in likeness["compared"])
    assert kinds["column"] >= 200
    outside = {item.partition(" ")[0] for item in short}
    assert len(outside) <= 0.05 * kinds["column"], short
    assert same_plans >= 0.95, other


@pytest.mark.slow
@pytest.mark.parametrize("keeps_values", [True, False], ids=["values", "stand-ins"])
def test_a_whole_database_of_shapes_is_alike(
    pgdyno: Command,
    any_server: ScratchCluster,
    tmp_path: Path,
    proved: Proved,
    keeps_values: bool,
) -> None:
    likeness, same_plans, other = _copied(
        pgdyno, any_server, tmp_path, ALL_ROWS, keeps_values=keeps_values
    )
    short = _short(likeness)
    quantities = sum(len(item["quantities"]) for item in likeness["compared"])
    assert len(short) <= 0.02 * quantities, short
    assert same_plans >= 0.95, other
    values = "with its values" if keeps_values else "with stand-ins"
    proved(
        f"a copy of 200 columns {values} on PostgreSQL {any_server.binaries.major} is alike",
        required="98 % of the quantities within their limits, 95 % of 100 plans",
        seen=f"{1 - len(short) / quantities:.1%} and {same_plans:.0%}",
    )


def test_a_copy_can_have_the_statistics_of_the_original(
    pgdyno: Command, pg18: ScratchCluster, database15: Target, shop: Path
) -> None:
    old = pgdyno("init", str(shop), *server_options(database15), "--import-statistics")
    assert old.code == 1
    assert "PostgreSQL 18" in old.err
    run_sql(pg18.target, "CREATE DATABASE copy_with_statistics")
    target = pg18.target.with_database("copy_with_statistics")
    said = pgdyno("init", str(shop), *server_options(target), "--import-statistics")
    assert said.code == 0, said.err
    common = (
        "SELECT most_common_vals::text FROM pg_stats"
        " WHERE tablename = 'customer' AND attname = 'country'"
    )
    assert scalar(target, common) == "{QX,ZT}"
    distinct = "SELECT n_distinct FROM pg_stats WHERE tablename = 'orders' AND attname = 'customer'"
    assert scalar(target, distinct) == 1500


def test_a_copy_on_a_scratch_server_is_compared_and_kept(
    pgdyno: Command, shop: Path, tmp_path: Path
) -> None:
    scratch = ("--scratch", "--pg-version", "15")
    said = pgdyno("init", str(shop), *scratch, "--json")
    assert said.code == 0, said.err
    assert said.document["state"] == "complete"
    kinds = {item["kind"] for item in said.document["likeness"]["compared"]}
    assert kinds == {"column", "table"}
    assert "is kept" not in said.err
    kept = pgdyno("init", str(shop), *scratch, "--keep")
    assert kept.code == 0, kept.err
    path = kept.err.rpartition("The cluster is kept for the next command: ")[2].splitlines()[0]
    assert Path(path).is_dir()
    shutil.rmtree(path)


def test_a_capture_with_extensions_is_loaded_on_the_version_that_comes_along(
    pgdyno: Command, database15: Target, tmp_path: Path
) -> None:
    for name in ("pg_trgm", "citext", "hstore", "btree_gist", "ltree"):
        run_sql(database15, f"CREATE EXTENSION {name}")
    run_sql(
        database15,
        "CREATE TABLE item (id int PRIMARY KEY, name citext, tags hstore, path ltree);"
        "CREATE INDEX ON item USING gin (lower(name::text) gin_trgm_ops);"
        "INSERT INTO item SELECT i, 'item ' || i, hstore('a', i::text), ('top.n' || i)::ltree"
        " FROM generate_series(1, 500) i;"
        "ANALYZE item",
    )
    path = tmp_path / "item.capture"
    said = pgdyno("capture", *server_options(database15), "--duration", "2s", "-o", path)
    assert said.code == 0, said.err
    copied = pgdyno("init", path, "--scratch", "--pg-version", "18", "--json")
    assert (copied.code, copied.document["state"]) == (0, "complete"), copied.err


def test_a_copy_is_made_without_the_extensions_that_the_server_lacks(
    pgdyno: Command, database15: Target, tmp_path: Path
) -> None:
    run_sql(
        database15,
        "CREATE EXTENSION pgcrypto; CREATE TABLE item (id int PRIMARY KEY,"
        " token text DEFAULT encode(gen_random_bytes(4), 'hex'));"
        "INSERT INTO item SELECT g FROM generate_series(1, 100) g; ANALYZE item",
    )
    path = tmp_path / "item.capture"
    said = pgdyno("capture", *server_options(database15), "--duration", "2s", "-o", path)
    assert said.code == 0, said.err
    copied = pgdyno("init", path, "--scratch", "--pg-version", "18", "--json")
    assert (copied.code, copied.document["state"]) == (0, "complete"), copied.err
    notes = " ".join(copied.document["likeness"]["notes"])
    assert "the extension pgcrypto is left out" in notes
    assert "the column public.item.token" in notes
