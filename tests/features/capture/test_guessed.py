"""Values that statistics do not show: bounds of one row, and keys of steps that found no row."""

from __future__ import annotations

from tests.features.capture.test_parameter_sources import COLUMNS, NAMES, column

from pgdyno.features.capture.model import Counters, OfColumn, Returned, Source, Statement
from pgdyno.features.capture.reading.described import Described
from pgdyno.features.capture.reading.grouping import StatementGroup
from pgdyno.features.capture.reading.guessed import with_existing_keys
from pgdyno.features.capture.reading.names import Names
from pgdyno.features.capture.reading.parameter_sources import Sources
from pgdyno.features.capture.reading.parsed import parse
from pgdyno.features.capture.schema import KeyReference

PART = column("part.p_item").model_copy(
    update={"references": KeyReference(table="public.item", column="i_id")}
)
WHOLE = [shape.model_copy(update={"is_not_null": True}) for shape in (*COLUMNS, PART)]
WITH_PART = Names(
    {
        table: [shape.column for shape in WHOLE if shape.table == table]
        for table in {shape.table for shape in WHOLE}
    },
    ["public"],
)


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
    sources = Sources(COLUMNS, {"public.line": 150_000})
    [step] = sources.steps(
        StatementGroup("", 10, {text: 1.0}), {text: Described(statement, parsed)}
    )
    return step.parameters


def test_a_key_that_is_needed_exists_if_no_row_was_found() -> None:
    find = "SELECT l_o_id FROM line WHERE l_quantity = $1"
    read, write = "SELECT o_id FROM orders WHERE o_id = $1", "DELETE FROM orders WHERE o_id = $1"
    first = Returned(step=0, column=0)
    key = first.model_copy(update={"otherwise": OfColumn(table="public.orders", column="o_id")})
    assert key_after(find, read, rows=10) == key
    # It usually finds no row, or the transaction writes.
    assert key_after(find, read, rows=1) == first
    assert key_after(find, write, rows=10) == first


def test_a_key_that_is_written_exists_if_no_row_was_found() -> None:
    find = "SELECT i_id FROM item ORDER BY i_id LIMIT 1"
    write = "INSERT INTO part (p_item) VALUES ($1)"
    assert key_after(find, write, rows=10) == Returned(
        step=0, column=0, otherwise=OfColumn(table="public.item", column="i_id")
    )


def key_after(first: str, second: str, rows: int) -> Source:
    """Return the source of the only parameter of a step that follows another one."""
    counters = Counters(calls=10, rows=rows)
    described = []
    for text in (first, second):
        parsed = parse(text, WITH_PART)
        statement = Statement(
            id=text, text=text, kind=parsed.kind, reads_only=parsed.reads_only, counters=counters
        )
        described.append(Described(statement, parsed))
    sources = Sources(WHOLE, {})
    group = StatementGroup("", 10, {first: 1.0, second: 1.0})
    steps = list(sources.steps(group, {d.statement.id: d for d in described}))
    return list(with_existing_keys(steps, described, sources))[1].parameters[0]
