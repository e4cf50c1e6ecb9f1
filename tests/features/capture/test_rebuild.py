"""From a capture to tables of the same shape: keys, references, sizes, conditions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.fixtures.captures import column, evenly, header, key, shop_capture, table, tpcb_capture
from tests.fixtures.contract import complaints

from pgdyno.engine.distribution import Distribution, Hot
from pgdyno.features.capture.checks import within_partitions
from pgdyno.features.capture.likeness import compared, ks_distance
from pgdyno.features.capture.model import Capture, CountedKey, Counter
from pgdyno.features.capture.ranks import ranks_in, together, unique
from pgdyno.features.capture.rebuild import Rebuilt
from pgdyno.features.capture.schema import ColumnShape, KeyReference, SchemaObject
from pgdyno.server.dataset.marked_objects import constant

INTEGER = "integer"


def capture_of(*parts: Any, columns: list[ColumnShape], objects: Any = ()) -> Capture:
    return Capture(
        header=header(),
        objects=(*(made for made, _ in parts), *objects),
        tables=tuple(shape for _, shape in parts),
        columns=tuple(columns),
    )


def lines_of_orders(**changes: Any) -> Capture:
    """Orders with a key of two columns, and lines that refer to both and add a number."""
    orders = table("public.orders", "shop integer, number integer", 500, 8192)
    lines = table("public.lines", "shop integer, number integer, line integer", 1500, 8192)
    few, many = evenly(INTEGER, "1", "5", distinct=5), evenly(INTEGER, "1", "100", distinct=100)

    def part(of: str, name: str, position: int, d: Distribution, **more: Any) -> ColumnShape:
        return column(f"public.{of}.{name}", INTEGER, d, key_position=position, **more)

    def to(name: str) -> KeyReference:
        return KeyReference(table="public.orders", column=name, constraint="lines_fkey")

    columns = [
        part("orders", "shop", 1, few),
        part("orders", "number", 2, many),
        part("lines", "shop", 1, few, references=to("shop")),
        part("lines", "number", 2, many, references=to("number")),
        part("lines", "line", 3, evenly(INTEGER, "1", "2", distinct=2)),
    ]
    return capture_of(orders, lines, columns=columns).model_copy(update=changes)


def test_a_foreign_key_refers_to_numbers_of_the_referenced_values() -> None:
    rebuilt = Rebuilt(shop_capture(), 1.0)
    made = rebuilt.distribution("shop.orders", "customer")
    assert made is not None
    assert (made.kind, made.distinct, made.hot[0]) == ("rank", 1500, Hot(value="16", fraction=0.02))
    assert made.bounds == ("0", "479", "1009", "1529", "1999")
    assert made.element == rebuilt.distribution("shop.customer", "id")


@pytest.mark.parametrize("name", ["shop", "lines", "tpcb"])
def test_the_options_of_a_copy_are_those_of_the_engine(name: str) -> None:
    made = {"shop": shop_capture, "lines": lines_of_orders, "tpcb": tpcb_capture}[name]()
    assert complaints(Rebuilt(made, 0.5).as_engine(seed=1)) == []


def test_a_smaller_copy_has_fewer_rows_and_keys_and_the_same_skew() -> None:
    rebuilt = Rebuilt(shop_capture(), 0.5)
    assert {name: made.rows for name, made in rebuilt.tables.items()} == {
        "shop.customer": 1000,
        "shop.orders": 5000,
    }
    made = rebuilt.distribution("shop.orders", "customer")
    assert made is not None
    assert [hot.fraction for hot in made.hot] == [0.02, 0.01]
    assert made.bounds == ("0", "239", "504", "764", "999")
    assert rebuilt.distribution("shop.customer", "id") == Distribution(
        kind="integer", distinct=1000, bounds=("1", "1000"), step=1, is_dense=True
    )


def test_a_small_table_is_whole_in_a_small_copy() -> None:
    rebuilt = Rebuilt(tpcb_capture(scale=10), 0.01)
    rows = {name.removeprefix("public.pgbench_"): t.rows for name, t in rebuilt.tables.items()}
    assert rows == {"branches": 10, "tellers": 100, "accounts": 10_000, "history": 1000}


def test_lines_refer_to_orders_by_all_columns_of_their_key() -> None:
    rebuilt = Rebuilt(lines_of_orders(), 1.0)
    (link,) = rebuilt.tables["public.lines"].links
    assert (link["columns"], link["referenced"]) == (["shop", "number"], ["shop", "number"])
    assert link["extra"] == ["line"]
    line = rebuilt.distribution("public.lines", "line")
    assert line is not None
    assert line.distinct >= 3, "three lines of an order differ, although statistics know two"
    assert rebuilt.tables["public.orders"].keys == (("shop", "number"),)
    assert rebuilt.notes == ()


def test_keys_of_one_counter_belong_together_and_the_counter_is_above_them() -> None:
    capture = lines_of_orders()
    without = [c.model_copy(update={"references": None}) for c in capture.columns]
    shops = table("public.shops", "shop integer, next integer", 5, 8192)
    next_number = evenly(INTEGER, "7", "7", distinct=1)
    columns = [
        *without,
        column("public.shops.shop", INTEGER, evenly(INTEGER, "1", "5", distinct=5), key_position=1),
        column("public.shops.next", INTEGER, next_number),
    ]
    keys = [
        CountedKey(table=f"public.{of}", column="number", group=("shop",))
        for of in ("lines", "orders")
    ]
    counter = Counter(table="public.shops", column="next", group=("shop",), keys=tuple(keys))
    changes = {"columns": tuple(columns), "counters": (counter,)}
    tables = {"objects": (*capture.objects, shops[0]), "tables": (*capture.tables, shops[1])}
    rebuilt = Rebuilt(capture.model_copy(update=changes | tables), 1.0)
    [link] = rebuilt.tables["public.lines"].links
    assert (link["table"], link["extra"]) == ("public.orders", ["line"])
    assert link["distribution"]["distinct"] == 500
    assert rebuilt.notes == ()
    filled = (
        'UPDATE public.shops AS c SET "next" = l.next FROM (SELECT g0, max(k) + 1 AS next FROM'
        ' (SELECT "shop" AS g0, "number" AS k FROM public.lines UNION ALL SELECT "shop" AS g0,'
        ' "number" AS k FROM public.orders) AS r GROUP BY g0) AS l'
        ' WHERE c."shop" = l.g0 AND c."next" <> l.next'
    )
    assert any(json.dumps(filled) in sql for sql in rebuilt.as_engine(1)["completion"])


def test_rows_that_are_sorted_by_shop_are_sorted_by_shop_in_lines_too() -> None:
    capture = lines_of_orders()
    orders = {"shop": 1.0, "number": 0.2, "line": 0.1}
    columns = [c.model_copy(update={"correlation": orders[c.column]}) for c in capture.columns]
    rebuilt = Rebuilt(capture.model_copy(update={"columns": tuple(columns)}), 1.0)
    [link] = rebuilt.tables["public.lines"].links
    assert link["correlation"] == 1.0


def test_a_key_has_as_many_combinations_as_rows() -> None:
    made = table("public.t", "a integer, b integer", 1000, 8192)
    few = evenly(INTEGER, "1", "10", distinct=10)
    columns = [
        column(f"public.t.{name}", INTEGER, few, key_position=at) for at, name in enumerate("ab", 1)
    ]
    rebuilt = Rebuilt(capture_of(made, columns=columns), 1.0)
    counts = [c.distribution.distinct for c in rebuilt.tables["public.t"].columns.values()]
    assert counts[0] * counts[1] >= 1000


def test_a_table_whose_key_refers_to_another_has_no_more_rows_than_that_one() -> None:
    parent = table("public.p", "id integer", 100, 8192)
    child = table("public.c", "id integer", 120, 8192)
    refers = KeyReference(table="public.p", column="id", constraint="c_fkey")
    own = key("public.c.id", 120).model_copy(update={"references": refers})
    rebuilt = Rebuilt(capture_of(parent, child, columns=[key("public.p.id", 100), own]), 1.0)
    assert rebuilt.tables["public.c"].rows == 100


def test_two_tables_may_refer_to_each_other() -> None:
    both = [table(f"public.{name}", "id integer, other integer", 50, 8192) for name in "ab"]
    columns = []
    for mine, other in ("ab", "ba"):
        refers = KeyReference(table=f"public.{other}", column="id", constraint=f"{mine}_fkey")
        columns += [
            key(f"public.{mine}.id", 50),
            column(
                f"public.{mine}.other",
                INTEGER,
                evenly(INTEGER, "1", "50", distinct=50),
                references=refers,
            ),
        ]
    rebuilt = Rebuilt(capture_of(*both, columns=columns), 1.0)
    for name in ("public.a", "public.b"):
        made = rebuilt.distribution(name, "other")
        assert made is not None
        assert made.kind == "rank"


def test_what_the_server_may_refuse_has_a_form_that_it_takes() -> None:
    made = table("public.t", "a integer, b integer", 100, 8192)
    objects = (
        SchemaObject(
            kind="index",
            name="t_lower",
            table="public.t",
            sql="CREATE UNIQUE INDEX t_lower ON public.t USING btree (abs(a))",
            stage="after_rows",
        ),
        SchemaObject(
            kind="exclusion",
            name="t_excl",
            table="public.t",
            sql="ALTER TABLE public.t ADD CONSTRAINT t_excl EXCLUDE USING gist (a WITH =)",
            stage="after_rows",
        ),
    )
    columns = [column("public.t.a", INTEGER, evenly(INTEGER, "1", "9", distinct=9))]
    rebuilt = Rebuilt(capture_of(made, columns=columns, objects=objects), 1.0)
    unique, exclusion = rebuilt.as_engine(1)["tables"][0]["indexes"]
    for sql in ("CREATE UNIQUE INDEX t_lower", "CREATE INDEX t_lower ON public.t"):
        assert sql in unique
    assert "EXCLUDE" not in exclusion
    assert "CREATE INDEX t_excl ON public.t USING gist (a)" in exclusion
    assert "values that exclude each other are not made" in exclusion


def test_partitions_are_one_table_whose_rows_the_server_distributes() -> None:
    def part(name: str, rows: int, **more: Any) -> Any:
        return table(f"public.{name}", "id integer", rows, 8192, **more)

    parts = [part("m1", 300, partition_of="public.m"), part("m2", 100, partition_of="public.m")]
    parent = part("m", 0, is_partitioned=True)
    columns = [
        column("public.m.id", INTEGER, evenly(INTEGER, distinct=0)),
        column("public.m1.id", INTEGER, evenly(INTEGER, "1", "150", "300", distinct=300)),
        column("public.m2.id", INTEGER, evenly(INTEGER, "301", "350", "400", distinct=100)),
    ]
    rebuilt = Rebuilt(capture_of(parent, *parts, columns=columns), 1.0)
    (made,) = rebuilt.tables.values()
    assert (made.rows, made.shape.is_partitioned) == (400, True)
    whole = made.columns["id"].distribution
    assert (whole.distinct, whole.bounds[0], whole.bounds[-1]) == (400, "1", "400")
    assert ks_distance(whole, evenly(INTEGER, "1", "400", distinct=400)) == pytest.approx(
        0, abs=0.2
    )


def test_generated_columns_are_left_to_the_server_and_texts_fit_into_their_types() -> None:
    made = table("public.t", "a integer, b integer, c varchar(3)", 100, 8192)
    columns = [
        column("public.t.a", INTEGER, evenly(INTEGER, "1", "9", distinct=9), generated="b * 2"),
        column("public.t.c", "character varying(3)", evenly("text", "a", "z", distinct=9)),
    ]
    ((_, rebuilt),) = Rebuilt(capture_of(made, columns=columns), 1.0).tables.items()
    assert list(rebuilt.columns) == ["c"]
    length = rebuilt.columns["c"].distribution.length
    assert length is not None
    assert length.most == 3


def test_values_stay_inside_the_partitions() -> None:
    dates = evenly("date", "2023-12-05", "2024-03-01", "2025-01-01", distinct=90)
    assert within_partitions("2024-01-01", "2025-01-01", dates).bounds == (
        "2024-01-01",
        "2024-03-01",
    )
    numbers = evenly(INTEGER, "5", "90", "100", distinct=90)
    assert within_partitions("10", "100", numbers).bounds == ("10", "90")


def test_common_keys_keep_numbers_of_their_own() -> None:
    parent = evenly(INTEGER, "1", "1000000", distinct=5)
    common = tuple(Hot(value=str(value), fraction=0.2) for value in (1, 2, 3))
    child = Distribution(kind="integer", distinct=3, hot=common)
    ranks = ranks_in(child, parent, parent)
    assert len({hot.value for hot in ranks.hot}) == 3


def test_a_unique_column_has_room_for_all_rows() -> None:
    made = unique(evenly(INTEGER, "1", "10", distinct=10), 50)
    assert (made.is_dense, made.bounds, made.distinct) == (True, ("1", "50"), 50)


def test_the_distance_of_distributions_is_known() -> None:
    low = evenly(INTEGER, "0", "50", "100", distinct=100)
    high = evenly(INTEGER, "50", "75", "100", distinct=100)
    assert ks_distance(low, low) == 0
    assert ks_distance(low, high) == pytest.approx(0.5)
    spike = low.model_copy(update={"hot": (Hot(value="100", fraction=0.4),)})
    assert ks_distance(low, spike) == pytest.approx(0.4, abs=0.01)
    assert ks_distance(evenly("other", "a", "b", distinct=2), low) is None
    verdicts = [
        quantity.verdict
        for quantity in compared(
            low, high, rows=1000, source_correlation=0.5, copy_correlation=0.55
        )
    ]
    assert verdicts == ["pass", "pass", "pass", "short", "pass"]


def test_parts_with_the_same_values_are_not_added_up() -> None:
    flags = Distribution(
        kind="boolean", distinct=2, hot=(Hot(value="t", fraction=0.9), Hot(value="f", fraction=0.1))
    )
    other = flags.model_copy(update={"hot": (Hot(value="f", fraction=1.0),), "distinct": 1})
    whole = together([(300, flags), (100, other)])
    assert whole.distinct == 2
    assert {hot.value: hot.fraction for hot in whole.hot} == pytest.approx({"t": 0.675, "f": 0.325})


def test_numbers_fit_into_the_digits_of_their_type() -> None:
    shape = evenly("numeric", "-100.03", "9.5", "101.02", distinct=50)
    capture = capture_of(
        table("public.t", "amount numeric(4,2)", 50, 8192),
        columns=[column("public.t.amount", "numeric(4,2)", shape)],
    )
    made = Rebuilt(capture, 1.0).distribution("public.t", "amount")
    assert made is not None
    assert made.bounds == ("-99.99", "9.5", "99.99")


def test_a_key_of_several_columns_has_enough_whole_numbers() -> None:
    few, many = evenly(INTEGER, "1", distinct=1), evenly(INTEGER, "3", "480", distinct=500)
    columns = [
        column("public.stock.shop", INTEGER, few, key_position=1),
        column("public.stock.item", INTEGER, many, key_position=2),
    ]
    capture = capture_of(
        table("public.stock", "shop integer, item integer", 500, 8192), columns=columns
    )
    made = Rebuilt(capture, 1.0).distribution("public.stock", "item")
    assert made is not None
    assert (made.bounds, made.distinct) == (("1", "500"), 500)


@pytest.mark.parametrize("text", ["a", "$pgdyno_0$", "$pgdyno_0$ $pgdyno_1$", "$pgdyno_0"])
def test_a_text_cannot_end_the_constant_that_has_it(text: str) -> None:
    written = constant(text)
    tag = written[: written.index("$", 1) + 1]
    assert written == f"{tag}{text}{tag}"
    assert written.index(tag, len(tag)) == len(tag) + len(text)
