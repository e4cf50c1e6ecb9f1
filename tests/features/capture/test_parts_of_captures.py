"""Parts of a capture that become parts of a statement hold no statement of somebody else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.features.capture.test_edited_captures import OF_OTHERS, base, made, written
from tests.fixtures.clusters import run_sql, scalar
from tests.fixtures.command import Command, server_options

from pgdyno.features.capture.model import Capture
from pgdyno.features.capture.schema import KeyReference
from pgdyno.server.target import Target

pytestmark = pytest.mark.pg
HARM = "DELETE FROM public.orders"
# The server refuses this table, so its columns are added one by one.
REFUSED = "n numeric(5000)"


def with_table(columns: str, *, kind: str = "integer") -> Capture:
    """Return a capture with these columns of its table; `kind`: the type of the column price."""
    capture = base()
    sql = f"CREATE TABLE public.item ({columns})"
    objects = [
        item.model_copy(update={"sql": sql}) if item.kind == "table" else item
        for item in capture.objects
        if item.kind in ("table", "sequence")
    ]
    shapes = [
        shape.model_copy(update={"type": kind}) if shape.column == "price" else shape
        for shape in capture.columns
    ]
    return capture.model_copy(update={"objects": tuple(objects), "columns": tuple(shapes)})


def a_type_of_a_column() -> Capture:
    columns = "id integer NOT NULL, name text, price numeric(5000)"
    return with_table(columns, kind=f"integer; {HARM}")


def a_backslash_before_a_quote() -> Capture:
    hidden = f"name text DEFAULT E'\\', price int; {HARM}; --'"
    return with_table(f"id integer, {hidden}, {REFUSED}, x text DEFAULT E'\\''")


def a_text_in_dollars() -> Capture:
    hidden = f"name text DEFAULT $a$ ', x text DEFAULT ', price int; {HARM}; -- $a$"
    return with_table(f"id integer, {hidden}, {REFUSED}")


def a_comment() -> Capture:
    hidden = f"name text /* ' */, price int /* ', x int; {HARM}; -- */"
    return with_table(f"id integer, {hidden}, {REFUSED}")


def with_domain(sql: str) -> Capture:
    capture = with_table("id integer, name text, price integer", kind="public.extra")
    domain = made("domain", f"CREATE DOMAIN public.extra AS text {sql}")
    return capture.model_copy(update={"objects": (domain, *capture.objects)})


def a_condition_in_a_text() -> Capture:
    return with_domain(f"DEFAULT 'CHECK (true); {HARM} WHERE (true) CHECK (true)'")


def a_condition_that_ends_a_text() -> Capture:
    hidden = f"CHECK (VALUE <> '; {HARM}; --')"
    return with_domain(f"DEFAULT 'x CHECK (' CHECK (VALUE <> 'a') {hidden}")


def a_table_of_others() -> Capture:
    index = made(
        "index", "CREATE UNIQUE INDEX extra ON public.item (id)", "public.extra", "after_rows"
    )
    index = index.model_copy(update={"table": "public.orders"})
    capture = base()
    return capture.model_copy(update={"objects": (*capture.objects, index)})


@pytest.mark.parametrize(
    "edited",
    [
        a_type_of_a_column,
        a_backslash_before_a_quote,
        a_text_in_dollars,
        a_comment,
        a_condition_in_a_text,
        a_condition_that_ends_a_text,
        a_table_of_others,
    ],
)
def test_a_part_of_an_object_is_not_a_statement(
    edited: Callable[[], Capture], pgdyno: Command, either_database: Target, tmp_path: Path
) -> None:
    for statement in OF_OTHERS[:2]:
        run_sql(either_database, statement)
    said = pgdyno("init", written(edited(), tmp_path), *server_options(either_database))
    assert scalar(either_database, "SELECT count(*) FROM public.orders") == 100, said.err


def with_select(text: str, **changes: object) -> Capture:
    capture = base()
    statements = [
        own.model_copy(update={"text": text, **changes}) if own.reads_only and own.tables else own
        for own in capture.statements
    ]
    return capture.model_copy(update={"statements": tuple(statements)})


def a_type_of_a_parameter() -> Capture:
    text = "SELECT name FROM item WHERE id = $1 AND $2 + $3 = 1"
    return with_select(text, parameter_types=(f"integer) AS SELECT 1; COMMIT; {HARM}; --",))


def a_type_of_a_parameter_in_a_text() -> Capture:
    capture = with_select(
        "SELECT name FROM item WHERE id = $1", parameter_types=(f"integer; COMMIT; {HARM}; --",)
    )
    templates = [kind.model_copy(update={"protocol": "simple"}) for kind in capture.templates]
    return capture.model_copy(update={"templates": tuple(templates)})


def a_table_of_a_statement() -> Capture:
    return with_select("SELECT name FROM item WHERE id = $1", tables=("public.orders",))


def a_reference() -> Capture:
    capture = base()
    key = KeyReference(table=f"public.item LIMIT 1); COMMIT; {HARM}; --", column="id")
    columns = [own.model_copy(update={"references": key}) for own in capture.columns]
    tables = [own.model_copy(update={"rows": 0}) for own in capture.tables]
    return capture.model_copy(update={"columns": tuple(columns), "tables": tuple(tables)})


@pytest.mark.parametrize(
    ("edited", "code"),
    [
        (a_type_of_a_parameter, 1),
        (a_type_of_a_parameter_in_a_text, 1),
        (a_table_of_a_statement, 1),
        (a_reference, 3),
    ],
)
def test_a_part_of_the_load_is_not_a_statement(
    edited: Callable[[], Capture], code: int, pgdyno: Command, database: Target, tmp_path: Path
) -> None:
    for statement in OF_OTHERS[:2]:
        run_sql(database, statement)
    path, where = written(edited(), tmp_path), server_options(database)
    assert pgdyno("init", path, *where).code == 0
    said = pgdyno("bench", "-b", path, *where, "-c", "1", "--warmup", "0s", "-T", "1s")
    assert scalar(database, "SELECT count(*) FROM public.orders") == 100, said.err
    assert said.code == code, said.err
