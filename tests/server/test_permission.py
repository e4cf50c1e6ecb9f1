"""Ways to write without permission, or to disturb others: each is refused, by text or by server."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from tests.fixtures.clusters import run_sql
from tests.fixtures.command import Command, server_options

from pgdyno.errors import RefusedError
from pgdyno.server.connect import connect
from pgdyno.server.permission import refuse_unenforced, refuse_unpermitted
from pgdyno.server.target import Target

# Refused by the text, before anything is sent.
REFUSED = """\
BEGIN READ WRITE
BEGIN TRANSACTION READ WRITE
BEGIN ISOLATION LEVEL SERIALIZABLE, READ WRITE
begin /* hidden */ read -- words
 write
START TRANSACTION READ WRITE
START TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE
SET TRANSACTION READ WRITE
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ WRITE
SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE
SET default_transaction_read_only = off
SET "default_transaction_read_only" TO 'off'
SET DEFAULT_TRANSACTION_READ_ONLY TO DEFAULT
SET LOCAL transaction_read_only = off
RESET default_transaction_read_only
RESET transaction_read_only
RESET ALL
SELECT set_config('default_transaction_read_only', 'off', false)
SELECT pg_catalog.set_config('default_transaction_read_only', 'off', false)
SELECT "set_config"('DEFAULT_transaction_read_only', 'off', false)
SELECT set_config('default_' || 'transaction_read_only', 'off', false)
SELECT set_config(E'default_transaction_read\\x5fonly', 'off', false)
SELECT set_config(U&'default_transaction_read\\005fonly', 'off', false)
SELECT set_config(is_local => false, new_value => 'off', setting_name => 'transaction_read_only')
SELECT 1 WHERE (SELECT set_config('transaction_read_only', 'off', true)) = 'off'
WITH s AS (SELECT set_config('default_transaction_read_only', 'off', false)) TABLE s
VALUES (set_config('default_transaction_read_only', 'off', false))
EXPLAIN ANALYZE SELECT set_config('default_transaction_read_only', 'off', false)
DECLARE c CURSOR FOR SELECT set_config('default_transaction_read_only', 'off', false)
SELECT 1; BEGIN READ WRITE
SELECT f(); COMMIT; SELECT f()
BEGIN; SELECT f(); END; SELECT g()
SELECT f(); ROLLBACK; BEGIN
COMMIT; BEGIN READ WRITE; DELETE FROM kept; COMMIT
DISCARD ALL
DO $$ BEGIN DELETE FROM kept; END $$
PREPARE p AS DELETE FROM kept
EXECUTE p
EXPLAIN ANALYZE EXECUTE p
PREPARE TRANSACTION 'p'
COMMIT PREPARED 'p'
COPY kept FROM STDIN
COPY kept TO '/tmp/kept'
COPY (SELECT 1) TO PROGRAM 'true'
COPY kept FROM PROGRAM 'true'
ALTER SYSTEM SET work_mem = '1GB'
ALTER ROLE CURRENT_USER SET default_transaction_read_only = off
ALTER DATABASE d SET default_transaction_read_only = off
INSERT INTO kept VALUES (1)
UPDATE kept SET a = 1
DELETE FROM kept
MERGE INTO kept USING kept k ON true WHEN MATCHED THEN DELETE
TRUNCATE kept
WITH d AS (DELETE FROM kept RETURNING a) SELECT * FROM d
EXPLAIN ANALYZE DELETE FROM kept
EXPLAIN ANALYZE CREATE TABLE other AS SELECT 1
SELECT 1 AS a INTO other
CREATE TABLE other AS SELECT 1
CREATE TEMP TABLE other (a int)
SELECT a FROM kept FOR UPDATE
SELECT a FROM kept FOR KEY SHARE
LOCK TABLE kept
CALL write_rows()
VACUUM kept
REINDEX TABLE kept
CHECKPOINT
NOTIFY somebody
LISTEN somebody
LOAD 'auto_explain'
SELECT nextval('numbers')
SELECT setval('numbers', 1)
SELECT lo_create(0)
SELECT lo_from_bytea(0, 'a')
SELECT lo_export(1, '/tmp/kept')
SELECT pg_terminate_backend(1)
SELECT pg_catalog.pg_cancel_backend(1)
SELECT pg_reload_conf()
SELECT pg_switch_wal()
SELECT pg_create_restore_point('a')
SELECT pg_create_physical_replication_slot('a')
SELECT pg_logical_emit_message(false, 'a', 'b')
SELECT pg_stat_reset()
SELECT pg_stat_statements_reset()
SELECT pg_advisory_lock(1)
SELECT pg_try_advisory_xact_lock(1)
SELECT pg_notify('a', 'b')
SELECT dblink_exec('dbname=d', 'DELETE FROM kept')
SELECT query_to_xml('SELECT delete_all()', true, true, '')
SELECT ts_stat('SELECT delete_all()')"""
ASKED = REFUSED.replace("words\n write", "words\v write").split("\n")
# What only the server can see: the read-only transaction refuses it.
HIDDEN = (
    "SELECT delete_all()",
    "SELECT * FROM delete_all() AS d",
    "SELECT a FROM shown",
    "SELECT count(*) FROM kept WHERE 1 #! 1",
)
READING = (
    "BEGIN; SELECT 1; END",
    "SELECT 1; COMMIT",
    "BEGIN; SAVEPOINT a; SELECT 1; ROLLBACK TO a; SELECT 2; COMMIT",
    "SELECT a FROM kept WHERE a = :a LIMIT :n",
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT 1; END",
    "SAVEPOINT a; ROLLBACK TO a; RELEASE a",
    "SET LOCAL work_mem = '64MB'",
    "SET TRANSACTION READ ONLY",
    "SHOW default_transaction_read_only",
    "SELECT 'DELETE FROM kept; BEGIN READ WRITE' /* ; COMMIT */",
    "SELECT set_config('work_mem', '64MB', true)",
    "SELECT a FROM kept_:a",
    "SELECT interval :a",
    "EXPLAIN ANALYZE SELECT a FROM kept",
    "DECLARE c CURSOR FOR SELECT 1; FETCH 10 FROM c; CLOSE c",
)


def permitted(text: str, *, is_simple: bool = True, **variables: str) -> None:
    refuse_unpermitted("a.sql", [text], variables, is_simple=is_simple)


def test_the_list_has_at_least_60_ways() -> None:
    assert len(set(ASKED)) + len(HIDDEN) >= 60


@pytest.mark.parametrize("text", ASKED)
def test_a_statement_that_does_more_than_read_is_refused_by_its_text(text: str) -> None:
    with pytest.raises(RefusedError, match=r"Script a\.sql ") as refused:
        permitted(text.replace("\v", "\n"))
    assert "--allow-write" in refused.value.hint


@pytest.mark.parametrize("text", READING)
def test_a_statement_that_reads_is_permitted(text: str) -> None:
    permitted(text)
    permitted(text, is_simple=False)


def test_a_value_is_read_as_the_simple_protocol_pastes_it() -> None:
    text, value = "SELECT :x", "1; BEGIN READ WRITE"
    with pytest.raises(RefusedError, match="permits writes"):
        permitted(text, x=value)
    with pytest.raises(RefusedError, match="permits writes"):
        permitted("SELECT ':x'", x="'; BEGIN READ WRITE; --")
    # In the other protocols a value is a parameter.
    permitted(text, x=value, is_simple=False)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1 -:x /*\n; BEGIN READ WRITE; SELECT f(); COMMIT; -- */",
        "SELECT $a1$ $a:x$; BEGIN READ WRITE; SELECT f(); COMMIT; -- $a1$",
        "SELECT :x$a$ ; BEGIN READ WRITE; SELECT f(); COMMIT; -- $a$",
    ],
)
def test_a_value_that_moves_the_end_of_a_string_or_comment_is_refused(text: str) -> None:
    with pytest.raises(RefusedError, match="its value could change the statement"):
        permitted(text)


def test_in_the_other_protocols_a_value_moves_no_end() -> None:
    permitted("SELECT 1 -:x /*\n; BEGIN READ WRITE; SELECT f(); COMMIT; -- */", is_simple=False)


def test_a_variable_may_have_letters_outside_ascii() -> None:
    with pytest.raises(RefusedError, match="permits writes"):
        permitted("SELECT ':é'", é="'; BEGIN READ WRITE; --")


@pytest.mark.parametrize(
    ("is_pooled", "writing", "why"),
    [
        (True, (), "through a pooler"),
        (False, ("tpcb-like",), "share its sessions with tpcb-like"),
    ],
)
def test_a_script_whose_sessions_cannot_be_read_only_is_refused(
    is_pooled: bool, writing: tuple[str, ...], why: str
) -> None:
    with pytest.raises(RefusedError, match=why) as refused:
        refuse_unenforced(["a.sql"], writing=writing, is_pooled=is_pooled)
    assert "--allow-write" in refused.value.hint
    refuse_unenforced([], writing=writing, is_pooled=is_pooled)
    refuse_unenforced(["a.sql"], writing=(), is_pooled=False)


def test_a_text_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(RefusedError, match="What it would do is not known"):
        permitted("SELECT FROM FROM x")


@pytest.mark.pg
def test_a_read_only_transaction_refuses_hidden_writes(database: Target) -> None:
    run_sql(database, "CREATE TABLE kept AS SELECT 1 AS a")
    made = "RETURNS int LANGUAGE sql AS 'DELETE FROM kept RETURNING a'"
    run_sql(database, f"CREATE FUNCTION delete_all() {made}")
    run_sql(database, "CREATE VIEW shown AS SELECT delete_all() AS a")
    both = "(l int, r int) RETURNS bool LANGUAGE sql AS 'DELETE FROM kept; SELECT true'"
    run_sql(database, f"CREATE FUNCTION drop_both{both}")
    run_sql(database, "CREATE OPERATOR #! (LEFTARG = int, RIGHTARG = int, FUNCTION = drop_both)")
    with connect(database, verb="test") as connection:
        connection.use_load_path()
        connection.execute("SET default_transaction_read_only = on")
        for text in HIDDEN:
            permitted(text)
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                connection.execute(text)
    assert run_sql(database, "SELECT count(*) FROM kept") == [(1,)]


@pytest.mark.pg
def test_a_load_that_would_permit_itself_to_write_does_not_start(
    database: Target, pgdyno: Command, tmp_path: Path
) -> None:
    run_sql(database, "CREATE TABLE kept AS SELECT 1 AS a")
    run_sql(database, "CREATE FUNCTION f() RETURNS void LANGUAGE sql AS 'DELETE FROM kept'")
    path = tmp_path / "a.sql"
    path.write_text("BEGIN READ WRITE;\nSELECT f();\nCOMMIT;\n")
    asked = (*server_options(database), "-f", str(path), "-T", "1s", "--warmup", "0s")
    said = pgdyno("bench", *asked)
    assert said.code == 1, said.err
    assert "permits writes: BEGIN READ WRITE" in " ".join(said.error.split())
    path.write_text("SELECT :x;\n")
    said = pgdyno("bench", *asked, "-D", "x=1; COMMIT; BEGIN READ WRITE; SELECT f(); COMMIT")
    assert said.code == 1, said.err
    assert run_sql(database, "SELECT count(*) FROM kept") == [(1,)]
