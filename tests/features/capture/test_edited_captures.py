"""A capture that somebody edited harms nothing: `init`, `bench` and `drop` touch only the copy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.clusters import run_sql, scalar
from tests.fixtures.command import Command, server_options

from pgdyno.features.capture.file import encoded, read
from pgdyno.features.capture.model import Capture
from pgdyno.features.capture.schema import SchemaObject
from pgdyno.server.target import Target

pytestmark = pytest.mark.pg
EDITED = Path(__file__).parent / "edited"
OF_OTHERS = (
    "CREATE TABLE public.orders (id int PRIMARY KEY, note text)",
    "INSERT INTO public.orders SELECT n, 'mine' FROM generate_series(1, 100) n",
    "CREATE SEQUENCE public.free_seq",
    "CREATE TABLE public.mine2 (id int NOT NULL, name text, price int)",
    "INSERT INTO public.mine2 VALUES (5000, 'mine', 1)",
    "CREATE TABLE public.secret AS SELECT 'secret' AS text",
    "CREATE FUNCTION public.charge(int) RETURNS int LANGUAGE sql"
    " AS 'DELETE FROM public.orders RETURNING id'",
    "CREATE FUNCTION public.follows() RETURNS trigger LANGUAGE plpgsql"
    " AS 'BEGIN DELETE FROM public.orders; RETURN NEW; END'",
    "CREATE VIEW public.seen AS SELECT * FROM public.orders",
    "CREATE SCHEMA app",
    "CREATE TABLE app.item (id int, name text, price int)",
)
# Rows, sequences, rights, comments, dependencies and triggers of what is there before.
STATE = (
    "SELECT (SELECT count(*) FROM public.orders), (SELECT count(*) FROM public.mine2),"
    " (SELECT is_called FROM public.free_seq), (SELECT count(*) FROM app.item),"
    " (SELECT string_agg(c.relname || coalesce(c.relacl::text, '') || c.relispartition"
    " || c.relhastriggers || c.relrowsecurity"
    " || coalesce(obj_description(c.oid, 'pg_class'), ''), ',' ORDER BY c.oid) FROM pg_class c"
    " WHERE c.relnamespace IN ('public'::regnamespace, 'app'::regnamespace)),"
    " (SELECT count(*) FROM pg_proc WHERE pronamespace = 'public'::regnamespace),"
    " (SELECT count(*) FROM pg_roles), (SELECT count(*) FROM pg_namespace),"
    " (SELECT count(*) FROM pg_extension), (SELECT count(*) FROM pg_statistic_ext)"
)


def made(
    kind: Any, sql: str, name: str = "public.extra", stage: str = "before_rows"
) -> SchemaObject:
    return SchemaObject(kind=kind, name=name, sql=sql, stage=stage, table="public.item")


def body(text: str, language: str = "plpgsql", more: str = "") -> SchemaObject:
    sql = f"CREATE FUNCTION public.extra() RETURNS int LANGUAGE {language} {more} AS $f${text}$f$"
    return made("function", sql)


ATTACKS = {
    "inherits": made("table", "CREATE TABLE public.extra () INHERITS (public.orders)"),
    "references": made(
        "foreign_key",
        "ALTER TABLE public.item ADD CONSTRAINT extra FOREIGN KEY (id) REFERENCES public.orders",
        "extra",
        "after_rows",
    ),
    "statistics": made(
        "statistics",
        "CREATE STATISTICS public.extra ON id, note FROM public.orders",
        stage="after_rows",
    ),
    "another name": made("table", "CREATE TABLE app.other (a int)"),
    "if not exists": made(
        "table", "CREATE TABLE IF NOT EXISTS public.orders (id int)", "public.orders"
    ),
    "or replace": made(
        "function",
        "CREATE  OR  REPLACE FUNCTION public.charge(int) RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "public.charge",
    ),
    "a view replaced": made(
        "view",
        "CREATE OR REPLACE VIEW public.seen AS SELECT 1 AS id, ''::text AS note",
        "public.seen",
    ),
    "a view of others": made("view", "CREATE VIEW public.extra AS SELECT * FROM secret"),
    "a name of WITH elsewhere": made(
        "view",
        "CREATE VIEW public.extra AS SELECT * FROM secret, (WITH secret AS (SELECT 1)"
        " SELECT * FROM secret) AS s",
    ),
    "a filled view": made(
        "view",
        "CREATE MATERIALIZED VIEW public.extra AS SELECT pg_read_file('PG_VERSION')",
        stage="after_rows",
    ),
    "a file": made("view", "CREATE VIEW public.extra AS SELECT pg_read_file('PG_VERSION')"),
    "XML": made("view", "CREATE VIEW public.extra AS SELECT query_to_xml('x', true, true, '')"),
    "a default": made(
        "table", "CREATE TABLE public.extra (a bigint DEFAULT nextval('public.free_seq'))"
    ),
    "a computed sequence": made(
        "table",
        "CREATE TABLE public.extra (a bigint DEFAULT nextval(('free' || '_seq')::regclass))",
    ),
    "a sequence owned by others": made(
        "sequence", "CREATE SEQUENCE public.extra OWNED BY app.item.id"
    ),
    "a condition": made(
        "check",
        "ALTER TABLE public.item ADD CONSTRAINT extra CHECK (charge(price) > 0)",
        "extra",
        "after_rows",
    ),
    "an expression": made(
        "index", "CREATE INDEX extra ON public.item (charge(price))", "public.extra", "after_rows"
    ),
    "a trigger of others": made(
        "trigger",
        "CREATE TRIGGER extra BEFORE INSERT OR UPDATE ON public.item FOR EACH ROW"
        " EXECUTE FUNCTION public.follows()",
        "extra",
        "after_rows",
    ),
    "a trigger of others by its bare name": made(
        "trigger",
        "CREATE TRIGGER extra BEFORE UPDATE ON public.item FOR EACH ROW EXECUTE FUNCTION follows()",
        "extra",
        "after_rows",
    ),
    "a trigger": made(
        "trigger",
        "CREATE TRIGGER extra BEFORE INSERT ON public.item EXECUTE FUNCTION public.charge(1)",
        "extra",
        "after_rows",
    ),
    "an owner": made("default", "ALTER TABLE public.item OWNER TO pg_monitor", "extra"),
    "another schema": made("default", "ALTER TABLE public.item SET SCHEMA app", "extra"),
    "a body of SQL": body("DELETE FROM orders RETURNING id", "sql"),
    "a body": body("BEGIN DELETE FROM public.orders; RETURN 1; END"),
    "dynamic SQL": body("BEGIN EXECUTE 'DELETE FROM ' || 'orders'; RETURN 1; END"),
    "a program": body("BEGIN COPY item TO PROGRAM 'true'; RETURN 1; END"),
    "a loop": body("DECLARE r record; BEGIN FOR r IN SELECT * FROM secret LOOP END LOOP; END"),
    "a cursor": body("DECLARE c CURSOR FOR SELECT * FROM secret; BEGIN OPEN c; RETURN 1; END"),
    "a setting": body("BEGIN PERFORM set_config('role', 'postgres', false); RETURN 1; END"),
    "a setting of the function": body("BEGIN RETURN 1; END", more="SET row_security = off"),
    "internal": made(
        "function",
        "CREATE FUNCTION public.extra(text) RETURNS text LANGUAGE internal AS 'pg_read_file'",
    ),
    "C": made(
        "function",
        "CREATE FUNCTION public.extra() RETURNS int LANGUAGE c AS '/tmp/evil.so', 'evil'",
    ),
    "a schema with more": made(
        "schema", "CREATE SCHEMA extra CREATE VIEW v AS SELECT * FROM public.secret", "extra"
    ),
    "a schema of others": made("schema", "CREATE SCHEMA app", "app"),
    "a schema of a role": made("schema", "CREATE SCHEMA extra AUTHORIZATION pg_monitor", "extra"),
    "an extension": made("extension", "CREATE EXTENSION IF NOT EXISTS dblink", "dblink"),
    "a schema of the server": made(
        "table", "CREATE TABLE pg_catalog.extra (a int)", "pg_catalog.extra"
    ),
    "a name that is cut": made(
        "table", f"CREATE TABLE public.{'a' * 70} (a int)", f"public.{'a' * 70}"
    ),
    "a type of others": made("view", "CREATE VIEW public.extra AS SELECT NULL::app.item"),
}


def base() -> Capture:
    capture = read(EDITED / "delete_elsewhere.capture")
    statements = [
        own.model_copy(update={"text": "UPDATE item SET price = $2 WHERE id = $1"})
        if "DELETE" in own.text
        else own
        for own in capture.statements
    ]
    return capture.model_copy(update={"statements": tuple(statements)})


@pytest.fixture
def shared(database: Target) -> Target:
    """A database that has objects of others."""
    for statement in OF_OTHERS:
        run_sql(database, statement)
    return database


def written(capture: Capture, folder: Path) -> Path:
    path = folder / "edited.capture"
    path.write_bytes(encoded(capture))
    return path


@pytest.mark.parametrize("name", ["others_sequence", "dblink", "grant", "attach"])
def test_an_edited_file_is_refused_before_anything_is_made(
    pgdyno: Command, shared: Target, name: str
) -> None:
    before = run_sql(shared, STATE)
    said = pgdyno("init", EDITED / f"{name}.capture", *server_options(shared))
    assert said.code == 1, said.err
    assert run_sql(shared, STATE) == before


def test_what_the_capture_does_not_make_is_refused_in_every_kind_of_object(
    pgdyno: Command, shared: Target, tmp_path: Path
) -> None:
    before = run_sql(shared, STATE)
    capture = base()
    for name, item in ATTACKS.items():
        edited = capture.model_copy(update={"objects": (*capture.objects, item)})
        said = pgdyno("init", written(edited, tmp_path), *server_options(shared))
        assert said.code == 1, (name, said.err)
        assert run_sql(shared, STATE) == before, name


def test_a_statement_on_a_table_of_others_needs_permission(
    pgdyno: Command, database: Target
) -> None:
    path, where = EDITED / "delete_elsewhere.capture", server_options(database)
    assert pgdyno("init", path, *where).code == 0
    for statement in OF_OTHERS[:2]:
        run_sql(database, statement)
    said = pgdyno("bench", "-b", path, *where, "-c", "1", "-T", "1s")
    assert said.code == 1, said.err
    assert "--allow-write" in said.err
    assert scalar(database, "SELECT count(*) FROM public.orders") == 100


def test_an_honest_file_is_made_and_dropped_beside_the_objects_of_others(
    pgdyno: Command, shared: Target, tmp_path: Path
) -> None:
    before = run_sql(shared, STATE)
    run_sql(shared, "DROP SCHEMA app CASCADE")
    where = server_options(shared)
    said = pgdyno("init", written(base(), tmp_path), *where)
    assert said.code == 0, said.err
    assert scalar(shared, "SELECT count(*) FROM public.item") == 100
    assert pgdyno("init", written(base(), tmp_path), *where).code == 0
    assert pgdyno("drop", *where).code == 0
    run_sql(shared, "CREATE SCHEMA app")
    run_sql(shared, "CREATE TABLE app.item (id int, name text, price int)")
    assert run_sql(shared, STATE) == before


HARMFUL = {
    "rotates": "SELECT pg_rotate_logfile()",
    "another schema": "SELECT secret_schema.act(1)",
    "XML": "SELECT query_to_xml('DELETE FROM public.orders', true, true, '') FROM item",
    "file": "SELECT pg_read_file('PG_VERSION')",
    "in a block": "DO $$BEGIN PERFORM pg_rotate_logfile(); END$$",
}


def with_load(capture: Capture, *texts: str) -> Capture:
    """Return the capture with further statements, each in a transaction with a good one."""
    [first, *_] = capture.statements
    [template, *_] = capture.templates
    [begin, good, commit] = template.steps
    statements = list(capture.statements)
    templates = list(capture.templates)
    for number, text in enumerate(texts):
        name = f"{number:016x}"
        kind = {"text": text, "id": name, "parameter_types": (), "constant_count": 0}
        statements.append(first.model_copy(update=kind))
        bad = begin.model_copy(update={"statement": name})
        steps = (begin, bad, good, bad, commit)
        templates.append(template.model_copy(update={"name": f"more {number}", "steps": steps}))
    return capture.model_copy(
        update={"statements": tuple(statements), "templates": tuple(templates)}
    )


def test_a_statement_that_calls_a_harmful_function_is_left_out_alone_and_named(
    pgdyno: Command, shared: Target, tmp_path: Path
) -> None:
    run_sql(shared, "DROP SCHEMA app CASCADE")
    path, where = written(with_load(base(), *HARMFUL.values()), tmp_path), server_options(shared)
    shown = pgdyno("capture", "show", path, "--coverage")
    assert "functions that read files" in " ".join(shown.out.split())
    assert "pg_rotate_logfile" in shown.out
    said = pgdyno("init", path, *where)
    assert said.code == 0, said.err
    said = pgdyno("bench", "-b", path, *where, "-c", "1", "-T", "1s", "--json")
    assert said.code in (0, 3), said.err
    names = {script["name"] for script in said.document["scripts"]}
    assert len([name for name in names if "more" in name]) == len(HARMFUL), names
    assert said.document["likeness"]["not_sent"] == list(HARMFUL.values())
    assert not any(script["failures"] for script in said.document["scripts"])
    page = pgdyno("show", "-v", "last").out
    assert "Not sent: SELECT pg_rotate_logfile()" in " ".join(page.split())


# A sequence keeps each call, also one that is rolled back.
CODE_OF_OTHERS = (
    "CREATE SEQUENCE public.called",
    "CREATE FUNCTION public.charged() RETURNS bigint LANGUAGE sql AS"
    " $$SELECT nextval('public.called')$$",
    "CREATE FUNCTION public.of_row(anyelement) RETURNS bigint LANGUAGE sql AS"
    " $$SELECT nextval('public.called')$$",
    "CREATE FUNCTION public.folded() RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS"
    " $$BEGIN RETURN nextval('public.called'); END$$",
    "CREATE PROCEDURE public.charging() LANGUAGE sql AS $$SELECT nextval('public.called')$$",
    "CREATE DOMAIN public.odd AS int CHECK (value + public.charged() > 0)",
)
LOAD_OF_OTHERS = {
    "function": "SELECT charged()",
    "immutable": "SELECT folded() FROM item",
    "procedure": "CALL charging()",
    "in a block": "DO $$BEGIN PERFORM charged(); END$$",
    "as a column": "SELECT item.of_row FROM item LIMIT 1",
    "of a row": "SELECT (item).of_row FROM item LIMIT 1",
    "domain": "SELECT 1::odd",
    "set the path": "SELECT set_config('search_path', 'public', true), charged()",
}


def test_a_statement_that_calls_a_function_of_others_is_left_out_alone_and_named(
    pgdyno: Command, database: Target, tmp_path: Path
) -> None:
    for statement in CODE_OF_OTHERS:
        run_sql(database, statement)
    texts = list(LOAD_OF_OTHERS.values())
    path, where = written(with_load(base(), *texts), tmp_path), server_options(database)
    said = pgdyno("init", path, *where)
    assert said.code == 0, said.err
    told = " ".join(said.err.split())
    for text in texts:
        assert f"not sent: {text[:50]}" in told, (text, told)
    said = pgdyno("bench", "-b", path, *where, "-c", "1", "-T", "1s", "--json")
    assert said.code in (0, 3), said.err
    assert sorted(said.document["likeness"]["not_sent"]) == sorted(texts)
    # The other statements of their transactions are sent.
    names = {script["name"] for script in said.document["scripts"]}
    assert len([name for name in names if "more" in name]) == len(texts), names
    assert not any(script["failures"] for script in said.document["scripts"])
    assert scalar(database, "SELECT is_called FROM public.called") is False


def test_a_table_of_another_schema_is_not_meant_by_the_load(
    pgdyno: Command, shared: Target, tmp_path: Path
) -> None:
    run_sql(shared, "DROP SCHEMA app CASCADE")
    path, where = written(base(), tmp_path), server_options(shared)
    assert pgdyno("init", path, *where).code == 0
    run_sql(shared, "CREATE SCHEMA postgres CREATE TABLE item (id int, name text, price int)")
    run_sql(shared, "INSERT INTO postgres.item SELECT n, 'mine', 7 FROM generate_series(1, 999) n")
    # A path of the file's own choice.
    [kind, *_] = base().sessions
    settings = {**kind.settings, "search_path": '"$user", public'}
    edited = base().model_copy(
        update={"sessions": (kind.model_copy(update={"settings": settings}),)}
    )
    for capture in (base(), edited):
        load = ("bench", "-b", written(capture, tmp_path), *where, "-c", "1", "-T", "1s")
        said = pgdyno(*load, "--allow-write")
        assert said.code in (0, 3), said.err
        assert scalar(shared, "SELECT count(*) FROM postgres.item WHERE price <> 7") == 0


def test_a_change_of_the_schema_in_the_load_is_refused(
    pgdyno: Command, shared: Target, tmp_path: Path
) -> None:
    for text in ("DROP TABLE public.orders", "ALTER ROLE postgres NOLOGIN", "COPY item TO '/x'"):
        path = written(with_load(base(), text), tmp_path)
        run_sql(shared, "DROP SCHEMA IF EXISTS app CASCADE")
        pgdyno("init", path, *server_options(shared))
        said = pgdyno("bench", "-b", path, *server_options(shared), "-c", "1", "-T", "1s")
        assert said.code == 1, (text, said.err)
        assert "it is not part of a load" in " ".join(said.err.split())


def test_a_function_has_the_rights_of_its_caller(
    pgdyno: Command, database: Target, tmp_path: Path
) -> None:
    item = body("SELECT 1", "sql", "STABLE SECURITY DEFINER")
    capture = base()
    edited = capture.model_copy(update={"objects": (*capture.objects, item)})
    assert pgdyno("init", written(edited, tmp_path), *server_options(database)).code == 0
    assert scalar(database, "SELECT prosecdef FROM pg_proc WHERE proname = 'extra'") is False


def test_drop_keeps_a_partition_that_somebody_attached(
    pgdyno: Command, database: Target, tmp_path: Path
) -> None:
    capture = read(EDITED / "attach.capture")
    objects = [item for item in capture.objects if "ATTACH" not in item.sql]
    where = server_options(database)
    objects = [
        item.model_copy(
            update={"sql": item.sql.replace("(1000) TO (2000)", "(MINVALUE) TO (2000)")}
        )
        for item in objects
    ]
    columns = [column.model_copy(update={"sequence": ""}) for column in capture.columns]
    honest = capture.model_copy(update={"objects": tuple(objects), "columns": tuple(columns)})
    assert pgdyno("init", written(honest, tmp_path), *where).code == 0
    run_sql(database, "CREATE TABLE public.mine2 (id int NOT NULL, name text, price int)")
    run_sql(database, "INSERT INTO public.mine2 VALUES (5000, 'mine', 1)")
    run_sql(database, "ALTER TABLE public.item ATTACH PARTITION public.mine2 DEFAULT")
    said = pgdyno("drop", *where)
    assert said.code == 1, said.err
    assert "mine2" in said.err
    assert scalar(database, "SELECT count(*) FROM public.mine2") == 1


def test_an_operator_of_the_database_is_left_to_the_server(
    pgdyno: Command, database: Target, tmp_path: Path
) -> None:
    run_sql(
        database,
        "CREATE FUNCTION public.same(int, text) RETURNS boolean IMMUTABLE LANGUAGE sql"
        " AS 'SELECT true'",
    )
    run_sql(
        database,
        "CREATE OPERATOR public.= (LEFTARG = int, RIGHTARG = text, FUNCTION = public.same)",
    )
    item = made("view", "CREATE VIEW public.extra AS SELECT id FROM item WHERE id = name")
    capture = base()
    edited = capture.model_copy(update={"objects": (*capture.objects, item)})
    assert pgdyno("init", written(edited, tmp_path), *server_options(database)).code == 0
