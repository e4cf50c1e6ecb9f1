"""What the sessions of pgdyno's own set, and what ends them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from tests.fixtures.clusters import connection, run_sql, scalar
from tests.fixtures.command import Command, server_options
from tests.fixtures.poolers import Pooler

from pgdyno.errors import ServerError
from pgdyno.server.connect import connect
from pgdyno.server.session_start import OWN_PATH
from pgdyno.server.target import Target

SHOWN = (
    "SELECT current_setting('search_path'), current_setting('DateStyle'),"
    " current_setting('standard_conforming_strings'), 0.1::float8::text"
)


def test_our_settings_win_over_those_of_the_database(database: Target) -> None:
    for setting in ("search_path = e", "DateStyle = 'German, DMY'", "extra_float_digits = -15"):
        run_sql(database, f"ALTER DATABASE {database.database} SET {setting}")
    with connect(database, verb="test") as session:
        assert session.execute(SHOWN).fetchone() == (OWN_PATH, "ISO, DMY", "on", "0.1")
        assert session.load_path == "e"


def test_no_session_of_ours_waits_for_the_transactions_of_others(database: Target) -> None:
    run_sql(database, "CREATE TABLE written (n int)")
    settings = ("isolation = serializable", "deferrable = on", "read_only = on")
    for setting in ("statement_timeout = '5s'", *(f"default_transaction_{s}" for s in settings)):
        run_sql(database, f"ALTER DATABASE {database.database} SET {setting}")
    with connection(database) as other:
        other.execute("BEGIN READ WRITE, NOT DEFERRABLE; INSERT INTO written VALUES (1)")
        with pytest.raises(psycopg.errors.QueryCanceled):
            run_sql(database, "SELECT 1")
        with connect(database, verb="test", read_only=True) as session:
            assert session.execute("SELECT 1").fetchone() == (1,)
            with session.transaction():
                assert session.execute("SELECT 1").fetchone() == (1,)


def test_no_limit_of_the_database_ends_an_idle_session_of_ours(database: Target) -> None:
    for setting in ("idle_session_timeout", "idle_in_transaction_session_timeout"):
        run_sql(database, f"ALTER DATABASE {database.database} SET {setting} = '200ms'")
    if scalar(database, "SELECT count(*) FROM pg_settings WHERE name = 'transaction_timeout'"):
        run_sql(database, f"ALTER DATABASE {database.database} SET transaction_timeout = '200ms'")
    elsewhere = database.with_database("postgres")
    with connect(database, verb="test", read_only=True) as session:
        run_sql(elsewhere, "SELECT pg_sleep(0.6)")
        with session.transaction():
            assert session.execute("SELECT 1").fetchone() == (1,)
            run_sql(elsewhere, "SELECT pg_sleep(0.6)")
            assert session.execute("SELECT 1").fetchone() == (1,)


def test_a_session_that_may_write_again_is_closed(database: Target) -> None:
    with connect(database, verb="test", read_only=True) as session:
        with pytest.raises(ServerError, match="default_transaction_read_only"):
            session.execute("SELECT set_config('default_transaction_read_only', 'off', false)")
        assert session.closed


def test_a_transaction_that_is_given_up_prints_nothing_of_the_library(
    either_database: Target,
) -> None:
    place = either_database
    given_up = (
        "from pgdyno.server.connect import connect; from pgdyno.server.target import Target\n"
        f"here = Target({place.host!r}, {place.ports!r}, {place.user!r}, {place.database!r})\n"
        "with connect(here, verb='test') as session, session.transaction():\n"
        "    session.pgconn.send_query(b'SELECT pg_catalog.pg_sleep(1)')\n"
        "    raise KeyboardInterrupt\n"
    )
    command = [sys.executable, "-c", given_up]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "KeyboardInterrupt" in done.stderr
    assert "error ignored" not in done.stderr


def test_our_settings_end_with_each_transaction_at_a_pooler(pooler: Pooler) -> None:
    with connect(pooler.target, verb="test") as session:
        assert session.is_pooled
        assert session.execute("SELECT current_setting('search_path')").fetchone() == (OWN_PATH,)
        with session.transaction():
            session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            assert session.execute("SHOW search_path").fetchone() == (OWN_PATH,)
    [(left,)] = run_sql(pooler.target, "SHOW search_path")
    assert left != OWN_PATH


def test_no_statement_of_ours_is_compiled_whatever_the_database_wants(
    either_database: Target,
) -> None:
    for setting in ("jit = on", "jit_above_cost = 0", "jit_optimize_above_cost = 0"):
        run_sql(either_database, f"ALTER DATABASE {either_database.database} SET {setting}")
    with connect(either_database, verb="test") as session:
        session.execute("SELECT sum(i) FROM generate_series(1, 9) i")
        assert session.execute("SHOW jit").fetchone() == ("off",)
        with session.as_the_load():
            assert session.execute("SHOW jit").fetchone() == ("on",)
        libraries = Path(f"/proc/{session.info.backend_pid}/maps").read_text()
        assert "llvmjit" not in libraries, "the compiler was loaded"
        session.use_load_path()
        with session.as_the_load():
            session.execute("SELECT sum(i) FROM generate_series(1, 9) i")
            [(can_compile,)] = session.execute("SELECT pg_jit_available()")
            libraries = Path(f"/proc/{session.info.backend_pid}/maps").read_text()
        assert ("llvmjit" in libraries) == can_compile, "what is compiled would be noticed"


@pytest.mark.parametrize("encoding", ["SJIS", "EUC_TW", "SQL_ASCII"])
def test_texts_of_a_database_are_read_whatever_encoding_it_sets(
    encoding: str, database: Target, pgdyno: Command, tmp_path: Path
) -> None:
    run_sql(database, 'CREATE TABLE "größe" (a int)')
    run_sql(database, f"ALTER DATABASE {database.database} SET client_encoding = '{encoding}'")
    with connect(database, verb="test") as session:
        named = session.execute("SELECT relname::text FROM pg_class WHERE relname ~ '^gr.+e$'")
        assert named.fetchone() == ("größe",)
    here = server_options(database)
    for words in (
        ("doctor",),
        ("capture", "--duration", "2s", "-o", str(tmp_path / "some.capture")),
    ):
        said = pgdyno(*words, *here)
        assert said.code == 0, said.err


def test_views_of_extensions_are_read_though_the_database_restricts_views(
    database: Target,
) -> None:
    run_sql(database, "CREATE VIEW seen AS SELECT 1 AS a")
    restriction = "restrict_nonsystem_relation_kind"
    if scalar(database, f"SELECT count(*) FROM pg_settings WHERE name = '{restriction}'"):
        run_sql(database, f"ALTER DATABASE {database.database} SET {restriction} = 'view'")
    with connect(database, verb="test") as session:
        assert session.execute("SELECT a FROM public.seen").fetchone() == (1,)


# What ends statements early by intent, decides where rows are, or cannot be set for a database.
_LEFT_ALONE = (
    "'timeout|read_only|^local_|^(transaction_|vacuum_cost|temp_buffers)|^default_(ta|to)|^lc_'"
)
_EXTREME = f"""
    SELECT name, CASE vartype WHEN 'bool' THEN CASE boot_val WHEN 'on' THEN 'off' ELSE 'on' END
      WHEN 'enum' THEN enumvals[CASE WHEN %s THEN 1 ELSE cardinality(enumvals) END]
      ELSE CASE WHEN %s AND name <> 'geqo_pool_size' OR name = 'geqo_threshold' THEN min_val
        ELSE max_val END END
    FROM pg_settings WHERE context = 'user' AND vartype <> 'string' AND name !~ {_LEFT_ALONE}
"""


@pytest.mark.parametrize("is_lowest", [True, False], ids=["lowest", "highest"])
def test_no_value_that_a_database_sets_stops_a_session_of_ours(
    database: Target, pgdyno: Command, tmp_path: Path, is_lowest: bool
) -> None:
    for name, value in run_sql(database, _EXTREME, is_lowest, is_lowest):
        run_sql(database, f"ALTER DATABASE {database.database} SET {name} = '{value}'")
    here = server_options(database)
    for words, code in (
        (("doctor",), 0),
        (("settings",), 0),
        (("work-mem",), 0),
        (("watch", "--duration", "2s"), 0),
        (("init", "-s", "1"), 0),
        (("bench", "-S", "-T", "1s", "--warmup", "0s"), 3),
        (("capture", "--duration", "2s", "-o", str(tmp_path / "a.capture")), 0),
        (("drop", "pgbench"), 0),
    ):
        said = pgdyno(*words, *here)
        assert said.code == code, (words, said.err)
    with connect(database, verb="test") as session:
        shown = "SELECT setting FROM pg_settings WHERE name = 'geqo_pool_size'"
        assert session.execute(shown).fetchone() == ("0",)
        with session.as_the_load():
            assert session.execute(shown).fetchone() == (str(2**31 - 1),)
        session.use_load_path()
        assert session.execute(shown).fetchone() == (str(2**31 - 1),)
