"""A capture that somebody changed cannot make `init` do more than make its objects."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.captures import shop_capture, tpcb_capture

from pgdyno.errors import SpecError
from pgdyno.features.capture.file import encoded
from pgdyno.features.capture.load_statements import harmless
from pgdyno.features.capture.mirror.job import mirror_load
from pgdyno.features.capture.model import Capture, Constant, CountedKey, Counter, OfColumn, Source
from pgdyno.features.capture.safety import qualified, refuse_other_loads
from pgdyno.features.capture.schema import SchemaObject
from pgdyno.spec.experiment import Script

EVIL = "DROP TABLE public.victim"


def with_object(**fields: Any) -> Capture:
    capture = tpcb_capture()
    given = {"name": "public.extra", "stage": "after_rows", **fields}
    return capture.model_copy(update={"objects": (*capture.objects, SchemaObject(**given))})


def test_captures_as_pgdyno_writes_them_pass() -> None:
    for capture in (tpcb_capture(), shop_capture()):
        qualified(capture, file="a.capture")
        refuse_other_loads(capture, file="a.capture")


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "table", "sql": EVIL},
        {"kind": "table", "sql": f"CREATE TABLE public.extra (a int); {EVIL}"},
        {"kind": "index", "sql": "CREATE INDEX extra ON public.victim (a)"},
        {"kind": "check", "sql": "ALTER TABLE public.victim ADD CHECK (false)"},
        {"kind": "default", "sql": "ALTER TABLE public.victim DISABLE ROW LEVEL SECURITY"},
        {"kind": "trigger", "sql": "CREATE TRIGGER extra BEFORE INSERT ON public.victim"
                                   " FOR EACH ROW EXECUTE FUNCTION f()"},
        {"kind": "function", "sql": "DO $$ BEGIN DELETE FROM victim; END $$"},
        {"kind": "function", "sql": "ALTER ROLE postgres PASSWORD 'x'"},
        {"kind": "view", "sql": "COPY victim TO PROGRAM 'cat'"},
        {"kind": "extension", "sql": "SELECT pg_terminate_backend(1)"},
        {"kind": "sequence", "sql": "SELECT setval('victim_seq', 1)"},
        {"kind": "view", "sql": "CREATE VIEW public.extra AS SELECT 1",
         "name": "public.extra IS ''; DROP TABLE victim --"},
        {"kind": "view", "sql": "CREATE VIEW public.extra AS SELECT 1",
         "name": "public.extra, public.victim"},
        {"kind": "function", "sql": "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
         "name": "public.f() CASCADE"},
        {"kind": "table", "sql": "CREATE TABLE public.extra ("},
    ],
)  # fmt: skip
def test_a_schema_that_does_more_is_refused_before_anything_is_sent(fields: dict[str, Any]) -> None:
    with pytest.raises(SpecError):
        qualified(with_object(**fields), file="a.capture")


@pytest.mark.parametrize(
    "change",
    [
        {"column": 'a" int); DROP TABLE victim; --'},
        {"table": "public.pgbench_accounts; DROP TABLE victim"},
        {"sequence": "s'); DROP TABLE victim; --"},
    ],
)
def test_a_name_that_is_more_than_a_name_is_refused(change: dict[str, str]) -> None:
    capture = tpcb_capture()
    column = capture.columns[0].model_copy(update=change)
    changed = capture.model_copy(update={"columns": (column, *capture.columns[1:])})
    with pytest.raises(SpecError):
        qualified(changed, file="a.capture")


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("public.pgbench_tellers AS t; DROP TABLE victim", "tid"),
        ("public.pgbench_tellers", "tid; DROP TABLE victim"),
        ("public.pgbench_tellers", ""),
    ],
)
def test_a_counter_of_a_column_that_is_not_captured_is_refused(table: str, column: str) -> None:
    key = CountedKey(table=table, column=column, group=("bid",))
    of = Counter(table="public.pgbench_branches", column="bbalance", group=("bid",), keys=(key,))
    capture = tpcb_capture().model_copy(update={"counters": (of,)})
    with pytest.raises(SpecError, match="a counter with public"):
        qualified(capture, file="a.capture")


@pytest.mark.parametrize(
    "text",
    [
        EVIL,
        "SELECT 1; DROP TABLE public.victim",
        "COPY public.victim TO PROGRAM 'cat'",
        "SET default_transaction_read_only = off",
        "SET ROLE postgres",
        "SET TRANSACTION READ WRITE",
        "COPY public.victim FROM '/tmp/victim'",
        "DO $$BEGIN EXECUTE 'x'; END$$",
        "DO $$BEGIN IF true THEN DROP TABLE public.victim; END IF; END$$",
        "DO $$BEGIN /* BEGIN */ COPY public.victim TO 'a'; END$$",
        "DO $$BEGIN PERFORM set_config(name, value, false) FROM public.victim; END$$",
        "DO $$BEGIN PERFORM query_to_xml(name, true, true, '') FROM public.victim; END$$",
        "DO $$BEGIN PERFORM public.dblink_exec(name) FROM public.victim; END$$",
        "DO $$BEGIN PERFORM 'ab'\n'cd'\n'ef'; END$$",
        "DO LANGUAGE plpython3u $$x$$",
        "COPY public.victim TO '/tmp/victim'",
        "ALTER SYSTEM SET fsync = off",
        "CREATE TABLE public.extra (a int)",
        "CREATE TABLE public.extra AS SELECT 1",
        "SELECT 1 INTO public.extra",
        "SELECT 1 INTO public.extra UNION SELECT 2",
        "CREATE TEMP TABLE extra () INHERITS (public.victim)",
        "DROP TABLE IF EXISTS pg_temp.a, public.victim",
        "DROP TABLE pg_temp",
        "DROP TABLE pg_temp.a CASCADE",
        "DROP SEQUENCE pg_temp.a",
    ],
)
def test_a_transaction_that_does_more_than_a_load_is_refused(text: str) -> None:
    capture = tpcb_capture()
    statements = [own.model_copy(update={"text": text}) for own in capture.statements]
    changed = capture.model_copy(update={"statements": tuple(statements)})
    with pytest.raises(SpecError, match="not part of a load"):
        refuse_other_loads(changed, file="a.capture")


def test_utility_statements_as_pgdyno_writes_them_pass() -> None:
    capture = tpcb_capture()
    for text in (
        "SET LOCAL statement_timeout TO '5s'",
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE",
        "DECLARE c_1234 CURSOR FOR SELECT 1",
        "FETCH FORWARD 10 FROM c_1234",
        "LISTEN channel_1234",
        "COPY public.pgbench_tellers TO STDOUT",
        'COPY public.pgbench_tellers ("tid", "bid") FROM STDIN',
        'SET LOCAL ROLE "app"',
        "LOCK TABLE public.pgbench_tellers IN SHARE MODE",
        "DO $do$BEGIN UPDATE public.pgbench_tellers SET bid = 1 WHERE tid = 7; END$do$",
        "CREATE TEMP TABLE IF NOT EXISTS a (id int) ON COMMIT DROP",
        "CREATE TEMP TABLE IF NOT EXISTS a AS SELECT 1",
        "DROP TABLE IF EXISTS pg_temp.a",
    ):
        statements = tuple(own.model_copy(update={"text": text}) for own in capture.statements)
        changed = capture.model_copy(update={"statements": statements})
        refuse_other_loads(changed, file="a.capture")


def with_sources(capture: Capture, change: Callable[[Source], Source]) -> Capture:
    [template] = capture.templates
    steps = [
        step.model_copy(update={"parameters": tuple(map(change, step.parameters))})
        for step in template.steps
    ]
    changed = template.model_copy(update={"steps": tuple(steps)})
    return capture.model_copy(update={"templates": (changed,)})


def test_a_parameter_of_a_column_that_is_not_captured_is_refused() -> None:
    evil = OfColumn(table="public.t; DROP TABLE public.victim", column="a")
    changed = with_sources(tpcb_capture(), lambda own: evil if isinstance(own, OfColumn) else own)
    with pytest.raises(SpecError, match="has no column"):
        refuse_other_loads(changed, file="a.capture")


def test_a_constant_stays_a_value_wherever_its_number_is(tmp_path: Path) -> None:
    # A $1 within a string is text. If it were replaced by SQL, that could end the string.
    statements = [
        own.model_copy(update={"text": "SELECT '$1', $1, \"$1\" -- $1", "constant_count": 1})
        for own in tpcb_capture().statements
    ]
    capture = tpcb_capture().model_copy(update={"statements": tuple(statements)})
    capture = with_sources(capture, lambda _: Constant(value="; DROP TABLE public.victim; --"))
    [template] = capture.templates
    steps = [s.model_copy(update={"parameters": s.parameters[:1]}) for s in template.steps]
    steps = [step for step in steps if step.parameters]
    changed = template.model_copy(update={"steps": tuple(steps)})
    path = tmp_path / "a.capture"
    path.write_bytes(encoded(capture.model_copy(update={"templates": (changed,)})))
    load = mirror_load(Script(builtin="mirror", capture=path))
    assert {statement["text"] for statement in load["statements"]} == {
        "SELECT '$1', '; DROP TABLE public.victim; --', \"$1\" -- $1"
    }


def test_only_harmless_settings_of_a_session_are_taken() -> None:
    given = {"work_mem": "8MB", "search_path": "shop", "enable_hashjoin": "off"}
    evil = {
        "role": "postgres",
        "session_preload_libraries": "x",
        "default_transaction_read_only": "off",
    }
    assert harmless({**given, **evil}) == given
