"""Sources of parameters from statistics alone: loops, rows that are added together, counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from pgdyno.engine.distribution import Distribution, Hot, Spread
from pgdyno.features.capture.model import (
    Constant,
    Drawn,
    Equal,
    Fresh,
    ListOf,
    Number,
    OfColumn,
    Returned,
    Source,
    Step,
    Turn,
)
from pgdyno.features.capture.observed import Counters, Statement
from pgdyno.features.capture.reading.described import Described
from pgdyno.features.capture.reading.grouping import StatementGroup
from pgdyno.features.capture.reading.names import Names
from pgdyno.features.capture.reading.parsed import parse
from pgdyno.features.capture.reading.steps import Steps
from pgdyno.features.capture.schema import ColumnShape, KeyReference


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

DOCUMENTS = Distribution(kind="json", distinct=5)
COUNTERS = Counters(calls=10, rows=100)
NO_ROWS: Mapping[str, float] = {}


def described_of(text: str, names: Names = NAMES, counters: Counters = COUNTERS) -> Described:
    parsed = parse(text, names)
    own = Statement(id=text, text=text, kind=parsed.kind, reads_only=False, counters=counters)
    return Described(own, parsed)


def steps(
    turns: dict[str, float],
    columns: Sequence[ColumnShape] = COLUMNS,
    names: Names = NAMES,
    rows: Mapping[str, float] = NO_ROWS,
) -> list[Step]:
    described = {text: described_of(text, names) for text in turns}
    return list(Steps(columns, rows).of(StatementGroup("", 10, turns), described))


def test_a_loop_goes_through_the_keys_of_an_earlier_list_in_their_order() -> None:
    items, stock = steps({ITEMS: 1, STOCK: 10})
    [listed] = items.parameters
    assert isinstance(listed, ListOf)
    assert listed.is_sorted
    assert stock.parameters[0] == Equal(step=0, parameter=0, take="element")
    assert stock.turns == Number(step=0, parameter=0)


def test_a_loop_through_a_column_ends_with_its_values_and_its_steps_stay_together() -> None:
    take = "DELETE FROM line WHERE l_o_id = $1 AND l_number = $2 RETURNING l_i_id"
    give = "UPDATE stock SET s_quantity = s_quantity + $1 WHERE s_w_id = 1 AND s_i_id = $2"
    first, other = steps({take: 14.9, give: 14.9})
    assert first.parameters[1] == Turn(offset=1)
    assert (first.repeat.mean, first.repeat.most) == (14.9, 15)
    assert first.repeat.least == pytest.approx(14.8)
    [more] = steps({take: 15.3})
    assert more.repeat == Spread(least=15, mean=15, most=15)
    assert other.loops_with_before
    assert not first.loops_with_before
    # Without a value of the loop it may be another one.
    _, alone = steps({DISTRICT: 10, "UPDATE stock SET s_quantity = 1 WHERE s_i_id = $1": 10})
    assert not alone.loops_with_before


def test_a_constant_of_the_program_is_the_same_in_all_calls() -> None:
    update = "UPDATE stock SET s_quantity = s_quantity + $3 WHERE s_w_id = $1 AND s_i_id = $2"
    [step] = steps({update: 1})
    assert step.parameters[2] == Constant(value="1")
    unknown = "UPDATE stock SET s_quantity = s_quantity + $1 WHERE s_w_id = $2 AND s_i_id = $3"
    [step] = steps({unknown: 1})
    assert step.parameters[0].origin == "drawn"


def test_a_constant_is_not_the_amount_that_moves_between_rows() -> None:
    money = Distribution(kind="numeric", distinct=100, bounds=("0.5", "99.5"))
    shapes = [
        shape.model_copy(update={"distribution": money}) if shape.column == "s_quantity" else shape
        for shape in COLUMNS
    ]
    # $3 may be a constant: so it is one if it is a whole number.
    first = "UPDATE stock SET s_quantity = s_quantity + $3 WHERE s_w_id = $1 AND s_i_id = $2"
    other = "UPDATE line SET l_quantity = l_quantity + $1 WHERE l_o_id = $2 AND l_number = $3"
    _, step = steps({first: 1, other: 1})
    assert not isinstance(step.parameters[0], Equal)
    _, step = steps({first: 1, other: 1}, shapes)
    assert step.parameters[0] == Equal(step=0, parameter=2)


def test_two_columns_with_the_keys_of_a_third_hold_the_same_keys() -> None:
    house = column("house.w_id", 1, is_unique=True)
    shapes = [*COLUMNS, house]
    read = "SELECT d_next_o_id FROM district WHERE d_w_id = $1 AND d_id = $2"
    _, stock = steps({read: 1, "SELECT s_quantity FROM stock WHERE s_w_id = $1": 1}, shapes)
    assert stock.parameters == (Equal(step=0, parameter=0),)
    _, stock = steps({read: 1, "SELECT s_quantity FROM stock WHERE s_w_id = $1": 1})
    assert isinstance(stock.parameters[0], OfColumn)


def test_a_version_that_was_read_with_a_row_is_the_one_that_the_update_asks_for() -> None:
    shapes = [column("page.g_id", 1, is_unique=True), column("page.g_version"), column("page.g_n")]
    names = Names({"public.page": [shape.column for shape in shapes]}, ["public"])
    read = "SELECT g_id, g_version FROM page WHERE g_id = $1"
    change = (
        "UPDATE page SET g_n = $1, g_version = g_version + 1 WHERE g_id = $2 AND g_version = $3"
    )
    _, changed = steps({read: 1, change: 1}, shapes, names)
    assert changed.parameters[1:] == (Equal(step=0, parameter=0), Returned(step=0, column=1))
    # Another row has another version.
    other = "SELECT g_version FROM page WHERE g_n = $1"
    _, changed = steps({other: 1, change: 1}, shapes, names)
    assert isinstance(changed.parameters[2], OfColumn)


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
        c.model_copy(update={"references": KeyReference(table="public.district", column=name)})
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


@pytest.mark.parametrize(
    ("text", "rows", "blocks", "length"),
    [
        # 80 rows are those of two quantities: each of the ten has 40 rows of 400.
        ("SELECT l_i_id FROM line WHERE l_quantity = ANY ($1)", 80, 0, 2),
        ("SELECT l_i_id FROM line WHERE l_quantity IN ($1 /*, ... */)", 120, 0, 3),
        ("SELECT i_id FROM item WHERE i_id = ANY ($1)", 700, 0, 700),
        ("SELECT count(*) FROM item WHERE i_id = ANY ($1)", 1, 90, 30),
    ],
)
def test_a_list_is_as_long_as_the_rows_of_its_values_say(
    text: str, rows: int, blocks: int, length: int
) -> None:
    counters = Counters(calls=10, rows=10 * rows, hit_blocks=10 * blocks)
    known = described_of(text, counters=counters)
    sizes = {"public.line": 400.0, "public.item": 1000.0}
    [step] = Steps(COLUMNS, sizes).of(StatementGroup("", 10, {text: 1}), {text: known})
    [listed] = step.parameters
    assert isinstance(listed, ListOf)
    assert listed.length.mean == length


def test_lists_side_by_side_are_of_one_length_whatever_is_known_of_their_values() -> None:
    put = (
        "WITH added AS (SELECT unnest($1::int[]) AS id, unnest($2::text[]) AS tags)"
        " INSERT INTO line (l_i_id, l_quantity) SELECT id, length(tags) FROM added"
    )
    own = described_of(put)
    types = {"parameter_types": ("integer[]", "text[]")}
    described = {put: Described(own.statement.model_copy(update=types), own.parsed)}
    [step] = Steps(COLUMNS, NO_ROWS).of(StatementGroup("", 10, {put: 1}), described)
    first, tags = step.parameters
    assert isinstance(first, ListOf)
    assert isinstance(tags, ListOf)
    assert (first.as_long_as, tags.as_long_as) == (None, 0)


def test_a_state_is_a_label_of_its_enum_and_another_one_after_the_change() -> None:
    labels = ("new", "running", "done")
    shapes = [
        column("job.id", 1, is_unique=True),
        ColumnShape(
            table="public.job",
            column="state",
            type="public.job_state",
            distribution=Distribution(kind="enum", distinct=0, labels=labels),
        ),
        column("job.attempt"),
    ]
    names = Names({"public.job": ["id", "state", "attempt"]}, ["public"])
    texts = (
        "UPDATE job SET state = $1 WHERE state = $2 RETURNING id",
        "UPDATE job SET attempt = CASE WHEN state = $1 THEN 0 ELSE attempt + $2 END WHERE id = $3",
        "SELECT id FROM job WHERE state = ANY($1)",
    )
    types = {
        texts[0]: ("public.job_state", "public.job_state"),
        texts[1]: ("public.job_state", "integer", "integer"),
        texts[2]: ("public.job_state[]",),
    }
    described = {
        text: Described(
            own.statement.model_copy(update={"parameter_types": types[text]}), own.parsed
        )
        for text, own in ((text, described_of(text, names)) for text in texts)
    }
    made = [
        next(iter(Steps(shapes, {}).of(StatementGroup("", 10, {text: 1}), described)))
        for text in texts
    ]
    moved, asked = made[0].parameters
    assert isinstance(moved, Drawn)
    assert [hot.value for hot in moved.distribution.hot] == ["running", "done"]
    assert asked == OfColumn(table="public.job", column="state")
    compared = made[1].parameters[0]
    assert isinstance(compared, OfColumn)
    assert compared.column == "state"
    [choice] = made[2].parameters
    assert isinstance(choice, ListOf)
    assert (choice.is_distinct, choice.length.mean) == (True, 3)


def test_a_parameter_has_a_value_of_its_type_and_not_of_the_column_that_changes() -> None:
    shapes = [
        column("job.id", 1, is_unique=True),
        ColumnShape(table="public.job", column="data", type="jsonb", distribution=DOCUMENTS),
    ]
    names = Names({"public.job": ["id", "data"]}, ["public"])
    text = "UPDATE job SET data = jsonb_set(data, $1, $4, $2) WHERE id = $3"
    own = described_of(text, names)
    typed = own.statement.model_copy(
        update={"parameter_types": ("text[]", "boolean", "integer", "jsonb")}
    )
    described = {text: Described(typed, own.parsed)}
    [step] = Steps(shapes, {}).of(StatementGroup("", 10, {text: 1}), described)
    assert isinstance(step.parameters[0], ListOf)
    assert step.parameters[1] == Constant(value="t")


def test_values_of_in_are_of_several_rows_and_an_insert_that_adds_nothing_has_old_keys() -> None:
    shapes = [column("tag.id", 1, is_unique=True), column("tag.name")]
    names = Names({"public.tag": ["id", "name"]}, ["public"])
    listed = "SELECT name FROM tag WHERE id IN ($1, $2, $3)"
    [step] = steps({listed: 1}, shapes, names)
    assert step.parameters == (OfColumn(table="public.tag", column="id"),) * 3
    put = "INSERT INTO tag (id, name) VALUES ($1, $2) ON CONFLICT DO NOTHING"
    for rows, is_new in ((0, False), (100, True)):
        described = {put: described_of(put, names, Counters(calls=100, rows=rows))}
        [step] = Steps(shapes, {}).of(StatementGroup("", 10, {put: 1}), described)
        assert isinstance(step.parameters[0], Fresh if is_new else OfColumn)


def test_bounds_of_several_columns_come_from_a_row_that_is_inside() -> None:
    read = "SELECT l_i_id FROM line WHERE l_number <= $1 AND l_o_id >= $2 AND l_quantity = $3"
    inside = tuple(
        OfColumn(table="public.line", column=name, group=0)
        for name in ("l_number", "l_o_id", "l_quantity")
    )
    assert sources_of(read, rows=10) == inside
    # If no row is found, the bounds do not belong together.
    assert sources_of(read, rows=1)[1] != inside[1]
    below = "SELECT l_i_id FROM line WHERE l_number < $1 AND l_o_id >= $2 AND l_quantity = $3"
    assert sources_of(below, rows=10)[1] != inside[1]


def sources_of(text: str, rows: int) -> tuple[Source, ...]:
    """Return the sources of a statement whose 10 calls returned this number of rows."""
    counters = Counters(calls=10, rows=rows)
    parsed = parse(text, NAMES)
    statement = Statement(id=text, text=text, kind="select", reads_only=True, counters=counters)
    sources = Steps(COLUMNS, {"public.line": 150_000})
    [step] = sources.of(StatementGroup("", 10, {text: 1.0}), {text: Described(statement, parsed)})
    return step.parameters


TENANTS = "SELECT 1 FROM doc WHERE d_tenant = $1 AND d_id = $2"


@pytest.mark.parametrize(
    "text", [TENANTS, "UPDATE doc SET d_note = 1 WHERE d_id = $2 AND d_tenant = $1"]
)
def test_a_statement_with_tenant_and_key_finds_a_row_of_this_tenant(
    text: str,
) -> None:
    tenant = column("tenant.t_id", 1, values=3, is_unique=True)
    key, note = column("doc.d_id", 1, is_unique=True), column("doc.d_note")
    owner = column("doc.d_tenant", values=3)
    owner = owner.model_copy(
        update={"references": KeyReference(table="public.tenant", column="t_id")}
    )
    names = Names(
        {"public.tenant": ["t_id"], "public.doc": ["d_id", "d_note", "d_tenant"]}, ["public"]
    )
    [step] = steps({text: 1}, [tenant, key, note, owner], names, {"public.doc": 1000})
    given = [own for own in step.parameters if isinstance(own, OfColumn) and own.given]
    assert [own.table for own in given] == ["public.doc"], step.parameters
    [other] = given[0].given
    # Whichever is drawn first, the other one is a column of the same row.
    assert {given[0].column, other.column} == {"d_tenant", "d_id"}
