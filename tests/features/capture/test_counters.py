"""Columns that count the keys of other tables are found in the steps of a transaction."""

from __future__ import annotations

from tests.fixtures.captures import column, evenly

from pgdyno.features.capture.model import (
    CountedKey,
    Counter,
    Equal,
    OfColumn,
    Returned,
    Step,
    Template,
)
from pgdyno.features.capture.reading.counters import CountersOfLoad
from pgdyno.features.capture.reading.names import Names
from pgdyno.features.capture.reading.parsed import Parsed, parse

NUMBERS = evenly("integer", "1", "100", distinct=100)
COLUMNS = [
    column("public.shop.id", "integer", NUMBERS, key_position=1, is_unique=True),
    column("public.shop.next", "integer", NUMBERS),
    column("public.orders.shop", "integer", NUMBERS, key_position=1),
    column("public.orders.number", "integer", NUMBERS, key_position=2),
    column("public.lines.shop", "integer", NUMBERS, key_position=1),
    column("public.lines.number", "integer", NUMBERS, key_position=2),
    column("public.lines.line", "integer", NUMBERS, key_position=3),
]
NAMES = Names(
    {
        "public.shop": ["id", "next"],
        "public.orders": ["shop", "number"],
        "public.lines": ["shop", "number", "line"],
    },
    ["public"],
)
UPDATE = "UPDATE shop SET next = next + $1 WHERE id = $2 RETURNING next - $3"
ORDER = "INSERT INTO orders (shop, number) VALUES ($1, $2)"
LINE = "INSERT INTO lines (shop, number, line) VALUES ($1, $2, $3)"
SHOP = OfColumn(table="public.shop", column="id")


def parsed_of(*texts: str) -> dict[str, Parsed]:
    return {text: parse(text, NAMES) for text in texts}


def counters_of(first: str, *steps: Step) -> list[Counter]:
    template = Template(name="order", rate_tps=1, steps=steps)
    counters = CountersOfLoad(COLUMNS, (), parsed_of(first, ORDER, LINE))
    return list(counters.of([template]))


def test_the_next_number_of_a_shop_counts_orders_and_lines_of_the_same_shop() -> None:
    steps = (
        Step(statement=UPDATE, parameters=(SHOP, SHOP, SHOP)),
        Step(
            statement=ORDER,
            parameters=(Equal(step=0, parameter=1), Returned(step=0, column=0)),
        ),
        Step(
            statement=LINE,
            parameters=(Equal(step=1, parameter=0), Equal(step=1, parameter=1), SHOP),
        ),
    )
    [counter] = counters_of(UPDATE, *steps)
    assert (counter.table, counter.column, counter.group) == ("public.shop", "next", ("id",))
    assert counter.keys == (
        CountedKey(table="public.orders", column="number", group=("shop",)),
        CountedKey(table="public.lines", column="number", group=("shop",)),
    )


def test_a_number_of_another_shop_or_of_a_key_is_no_counter() -> None:
    update = Step(statement=UPDATE, parameters=(SHOP, SHOP, SHOP))
    elsewhere = Step(statement=ORDER, parameters=(SHOP, Returned(step=0, column=0)))
    assert counters_of(UPDATE, update, elsewhere) == []
    read = "SELECT id FROM shop WHERE id = $1"
    by_key = Step(
        statement=ORDER, parameters=(Equal(step=0, parameter=0), Returned(step=0, column=0))
    )
    assert counters_of(read, Step(statement=read, parameters=(SHOP,)), by_key) == []


def test_what_reads_a_counter_asks_for_keys_near_it() -> None:
    read = "SELECT next FROM shop WHERE id = $1"
    recent = "SELECT line FROM lines WHERE shop = $1 AND number < $2"
    order = Template(
        name="order",
        rate_tps=1,
        steps=(
            Step(statement=UPDATE, parameters=(SHOP, SHOP, SHOP)),
            Step(
                statement=LINE,
                parameters=(Equal(step=0, parameter=1), Returned(step=0, column=0), SHOP),
            ),
        ),
    )
    number = OfColumn(table="public.lines", column="number")
    asks = {
        shop: Template(
            name="recent",
            rate_tps=1,
            steps=(
                Step(statement=read, parameters=(SHOP,)),
                Step(statement=recent, parameters=(source, number)),
            ),
        )
        for shop, source in (("own", Equal(step=0, parameter=0)), ("other", SHOP))
    }
    counters = CountersOfLoad(COLUMNS, (), parsed_of(UPDATE, LINE, read, recent))
    _, own, other = counters.followed([order, asks["own"], asks["other"]])
    assert own.steps[1].parameters[1] == Returned(step=0, column=0)
    assert other.steps[1].parameters[1] == number
