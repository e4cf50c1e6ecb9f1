"""Sources of parameters from statistics alone: loops, rows that are added together, counters."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.capture.distribution import Distribution, Hot
from pgdyno.capture.model import (
    Constant,
    Counters,
    Equal,
    ListOf,
    Number,
    OfColumn,
    Returned,
    Statement,
    Step,
    Turn,
)
from pgdyno.capture.schema import ColumnShape, Reference
from pgdyno.capturing.grouping import Group
from pgdyno.capturing.names import Names
from pgdyno.capturing.parameter_sources import Described, Sources
from pgdyno.capturing.parsed import parse


def column(
    name: str, place: int = 0, *, values: int = 1000, is_unique: bool = False
) -> ColumnShape:
    table, bare = name.split(".")
    few = tuple(Hot(value=str(n), fraction=1 / values) for n in range(1, values + 1))
    shape = Distribution(
        kind="integer",
        distinct=values,
        hot=few if values <= 100 else (),
        bounds=() if values <= 100 else ("1", str(values)),
    )
    return ColumnShape(
        table=f"public.{table}",
        column=bare,
        type="integer",
        is_unique=is_unique,
        key_position=place,
        distribution=shape,
    )


COLUMNS = [
    column("item.i_id", 1, is_unique=True),
    column("stock.s_w_id", 1, values=4),
    column("stock.s_i_id", 2),
    column("stock.s_quantity"),
    column("district.d_w_id", 1, values=4),
    column("district.d_id", 2, values=10),
    column("district.d_next_o_id"),
    column("orders.o_id", 1),
    column("line.l_o_id", 1),
    column("line.l_number", 2, values=15),
    column("line.l_i_id"),
    column("line.l_quantity", values=10),
]
NAMES = Names(
    {
        table: [shape.column for shape in COLUMNS if shape.table == table]
        for table in {shape.table for shape in COLUMNS}
    },
    ["public"],
)
ITEMS = "SELECT i_id FROM item WHERE i_id = ANY ($1)"
STOCK = "UPDATE stock SET s_quantity = s_quantity - $2 WHERE s_w_id = $3 AND s_i_id = $1"
LINES = (
    "INSERT INTO line (l_o_id, l_number, l_i_id, l_quantity)"
    " SELECT $1, l.* FROM unnest($2::int[], $3::int[], $4::int[]) AS l"
)
DISTRICT = "UPDATE district SET d_next_o_id = d_next_o_id + $1 WHERE d_w_id = $2 AND d_id = $3"


def steps(
    turns: dict[str, float], columns: Sequence[ColumnShape] = COLUMNS, names: Names = NAMES
) -> list[Step]:
    described = {
        text: Described(
            Statement(
                id=text,
                text=text,
                kind=parse(text, names).kind,
                reads_only=False,
                counters=Counters(calls=10, rows=100),
            ),
            parse(text, names),
        )
        for text in turns
    }
    return list(Sources(columns, {}).steps(Group("", 10, turns), described))


def test_a_column_that_is_never_null_gets_no_value_that_may_be_null() -> None:
    person = column("person.p_id", 1, is_unique=True).model_copy(update={"is_not_null": True})
    page, author = column("page.g_id", 1, is_unique=True), column("page.g_p_id")
    note = column("note.n_p_id").model_copy(update={"is_not_null": True})
    to_person = Reference(table="public.person", column="p_id")
    author, note = (c.model_copy(update={"references": to_person}) for c in (author, note))
    shapes = [person, page, author, note]
    names = Names({f"public.{t}": [c.column for c in shapes if c.table == f"public.{t}"]
                   for t in ("person", "page", "note")}, ["public"])  # fmt: skip
    read = "SELECT g_p_id FROM page WHERE g_id = $1"
    look, put = "SELECT FROM person WHERE p_id = $1", "INSERT INTO note (n_p_id) VALUES ($1)"
    for before in ([read], [read, look]):
        *_, last = steps(dict.fromkeys([*before, put], 1), shapes, names)
        assert last.parameters == (OfColumn(table="public.person", column="p_id"),)
        assert last.not_null == (0,)
    certain = [shape.model_copy(update={"is_not_null": True}) for shape in shapes]
    *_, last = steps(dict.fromkeys([read, put], 1), certain, names)
    assert last.parameters == (Returned(step=0, column=0),)


def test_a_loop_goes_through_the_keys_of_an_earlier_list_in_their_order() -> None:
    items, stock = steps({ITEMS: 1, STOCK: 10})
    [listed] = items.parameters
    assert isinstance(listed, ListOf)
    assert listed.is_sorted
    assert stock.parameters[0] == Equal(step=0, parameter=0, take="element")
    assert stock.turns == Number(step=0, parameter=0)


def test_rows_that_are_added_together_have_different_keys() -> None:
    _, lines = steps({ITEMS: 1, LINES: 1})
    _, numbers, keys, quantities = lines.parameters
    assert isinstance(numbers, ListOf)
    assert numbers.of == Turn(offset=1)
    assert numbers.count == Number(step=0, parameter=0)
    assert keys == Equal(step=0, parameter=0)
    assert isinstance(quantities, ListOf)
    assert quantities.as_long_as == 1


def test_a_loop_with_as_many_turns_as_a_column_has_numbers_has_each_once() -> None:
    [district] = steps({DISTRICT: 10})
    assert district.parameters[2] == Turn(offset=1)
    # A counter of keys gives the next one.
    assert district.parameters[0] == Constant(value="1")
    [few] = steps({DISTRICT: 3})
    assert not isinstance(few.parameters[2], Turn)


def test_a_row_takes_the_key_that_the_counter_of_its_group_returned() -> None:
    shapes = [*COLUMNS, column("sold.o_id", 3), column("sold.o_w_id", 1), column("sold.o_d_id", 2)]
    shapes = [
        c.model_copy(update={"references": Reference(table="public.district", column=name)})
        if (name := {"o_w_id": "d_w_id", "o_d_id": "d_id"}.get(c.column, ""))
        else c
        for c in shapes
    ]
    names = Names({**{"public.sold": ["o_id", "o_w_id", "o_d_id"]},
                   "public.district": ["d_w_id", "d_id", "d_next_o_id"]}, ["public"])  # fmt: skip
    count = f"{DISTRICT} RETURNING d_next_o_id - $4"
    insert = "INSERT INTO sold (o_id, o_w_id, o_d_id) VALUES ($1, $2, $3)"
    counter, row = steps({count: 1.0, insert: 1.0}, shapes, names)
    assert (counter.parameters[0], counter.parameters[3]) == (Constant(value="1"),) * 2
    assert row.parameters == (
        Returned(step=0, column=0),
        Equal(step=0, parameter=1),
        Equal(step=0, parameter=2),
    )


def test_a_range_is_as_wide_as_the_blocks_of_a_call_explain() -> None:
    read = "SELECT count(*) FROM line WHERE l_number = $1 AND l_o_id < $2 AND l_o_id >= $2 - $3"
    counters = Counters(calls=10, rows=10, hit_blocks=8_000)
    parsed = parse(read, NAMES)
    statement = Statement(id=read, text=read, kind="select", reads_only=True, counters=counters)
    sources = Sources(COLUMNS, {"public.line": 150_000})
    group = Group("", 10, {read: 1.0})
    [step] = sources.steps(group, {read: Described(statement, parsed)})
    # 150,000 rows of 15 numbers and 1,000 orders: 10 rows an order; 800 blocks are 200 rows.
    assert step.parameters[2] == Constant(value="20")
