"""Rows that a load moves into another table with their key do not meet their own key there."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fixtures.captured_load import rebuilt
from tests.fixtures.captures import column, evenly
from tests.fixtures.clusters import Make, connection, scalar
from tests.fixtures.command import Command

from pgdyno.features.capture.keys import CopyColumn, CopyTable, apart
from pgdyno.features.capture.model import OfColumn, Returned, Step, Template
from pgdyno.features.capture.reading.moves import with_moves
from pgdyno.features.capture.reading.names import Names
from pgdyno.features.capture.reading.parsed import parse
from pgdyno.features.capture.schema import KeyReference, TableShape
from pgdyno.server.target import Target

KEYS = evenly("integer", "1", "100", distinct=100)
COLUMNS = [
    column("public.outbox.id", "integer", KEYS, key_position=1, is_unique=True),
    column("public.done.id", "integer", KEYS, key_position=1, is_unique=True),
]
NAMES = Names({"public.outbox": ["id", "kind"], "public.done": ["id", "kind"]}, ["public"])
FROM_OUTBOX = OfColumn(table="public.outbox", column="id")
INSIDE = (
    "WITH moved AS (DELETE FROM outbox WHERE id = ANY($1) RETURNING {}) INSERT INTO done {} FROM"
    " moved"
)


def moves_of(*steps: Step) -> dict[str, list[str]]:
    template = Template(name="move", rate_tps=1, steps=steps)
    parsed = {step.statement: parse(step.statement, NAMES) for step in steps}
    made = with_moves(COLUMNS, (), [template], parsed)
    return {own.table: [to.table for to in own.moves_to] for own in made if own.moves_to}


@pytest.mark.parametrize(
    ("returned", "inserted"),
    [
        ("*", "SELECT *"),
        ("id, kind", "SELECT *"),
        ("outbox.*", "(kind, id) SELECT kind, id"),
        ("id AS k, kind", "SELECT moved.k, moved.kind"),
    ],
)
def test_a_statement_that_deletes_and_inserts_rows_moves_their_key(
    returned: str, inserted: str
) -> None:
    text = INSIDE.format(returned, inserted)
    step = Step(statement=text, parameters=(FROM_OUTBOX,))
    assert moves_of(step) == {"public.outbox": ["public.done"]}
    assert parse(text, NAMES).parameters[1].table == "public.outbox"


def test_two_statements_that_delete_and_insert_a_row_move_its_key() -> None:
    steps = (
        Step(
            statement="DELETE FROM outbox WHERE id = $1 RETURNING id, kind",
            parameters=(FROM_OUTBOX,),
        ),
        Step(
            statement="INSERT INTO done VALUES ($1, $2)",
            parameters=(Returned(step=0, column=0), Returned(step=0, column=1)),
        ),
    )
    assert moves_of(*steps) == {"public.outbox": ["public.done"]}


def test_a_copy_of_rows_that_stay_is_no_move() -> None:
    text = "INSERT INTO done SELECT * FROM outbox WHERE id = $1"
    step = Step(statement=text, parameters=(FROM_OUTBOX,))
    assert moves_of(step) == {}
    removal = Step(statement="DELETE FROM outbox WHERE id = $1", parameters=(FROM_OUTBOX,))
    assert moves_of(step, removal) == {"public.outbox": ["public.done"]}


def test_keys_of_tables_whose_rows_move_in_a_circle_do_not_overlap() -> None:
    tables = {}
    for name, to in (("a", "b"), ("b", "c"), ("c", "a")):
        moves = (KeyReference(table=to, column="id"),)
        own = column(f"{name}.id", "integer", KEYS, is_unique=True, moves_to=moves)
        shape = TableShape(name=name, rows=100, bytes=8192)
        tables[name] = CopyTable(shape, 100, {"id": CopyColumn(own, KEYS)})
    made = [table.columns["id"].distribution.bounds for table in apart(tables).values()]
    ends = sorted((int(bounds[0]), int(bounds[-1])) for bounds in made)
    assert ends == [(1, 100), (101, 200), (201, 300)]


SCHEMA = (
    "CREATE DOMAIN amount AS int CHECK (VALUE >= 0)",
    "CREATE TABLE wallet (id int PRIMARY KEY, credit amount NOT NULL)",
    *(
        f"CREATE TABLE {name} (id bigint {what} PRIMARY KEY, kind int NOT NULL)"
        for name, what in (
            ("outbox", "GENERATED ALWAYS AS IDENTITY"),
            ("outbox_done", ""),
            ("cart", "GENERATED ALWAYS AS IDENTITY"),
            ("cart_done", ""),
        )
    ),
    "INSERT INTO wallet SELECT n, n % 50 FROM generate_series(1, 1000) n",
    *(
        f"INSERT INTO {t} (kind) SELECT n FROM generate_series(1, 2000) n"
        for t in ("outbox", "cart")
    ),
    *(
        f"WITH moved AS (DELETE FROM {t} WHERE id <= 1600 RETURNING *)"
        f" INSERT INTO {t}_done SELECT * FROM moved"
        for t in ("outbox", "cart")
    ),
    "ANALYZE",
)


def load(target: Target, count: int = 100) -> None:
    with connection(target) as session:
        for number in range(count):
            session.execute("INSERT INTO outbox (kind) VALUES (%s)", (number,))
            session.execute(
                "WITH moved AS (DELETE FROM outbox WHERE id = ANY(%s) RETURNING *)"
                " INSERT INTO outbox_done SELECT * FROM moved",
                ([1601 + 2 * number, 1602 + 2 * number],),
            )
            session.execute("INSERT INTO cart (kind) VALUES (%s)", (number,))
            with session.transaction():
                row = session.execute(
                    "DELETE FROM cart WHERE id = %s RETURNING id, kind", (1601 + number,)
                ).fetchone()
                session.execute("INSERT INTO cart_done VALUES (%s, %s)", row)
            session.execute(
                "UPDATE wallet SET credit = credit + %s WHERE id = %s", (number % 7, number + 1)
            )


@pytest.mark.pg
@pytest.mark.parametrize(
    ("version", "origin"), [("15", "statistics"), ("15", "log"), ("18", "log")]
)
def test_no_row_of_a_mirror_meets_its_own_key_where_it_moves_to(
    version: str, origin: str, pgdyno: Command, new_cluster: Make, tmp_path: Path
) -> None:
    made = rebuilt(pgdyno, new_cluster, tmp_path, SCHEMA, load, origin=origin, version=version)
    copy = made.copy
    assert "amount" not in made.said.out + made.said.err
    before = [scalar(copy, f"SELECT count(*) FROM {name}_done") for name in ("outbox", "cart")]
    failures = made.mirror("5s")["failures"]
    assert not failures, failures
    after = [scalar(copy, f"SELECT count(*) FROM {name}_done") for name in ("outbox", "cart")]
    # Rows did move.
    assert all(now > earlier for now, earlier in zip(after, before, strict=True))
