"""Tables of a tenant whose parts call functions of the tenant: no session of pgdyno calls one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.fixtures.clusters import Make, connection, run_sql
from tests.fixtures.command import Command, server_options
from tests.fixtures.tenant import TRAPPED, Trap, refuse_calls, trapped
from tests.server.test_tenant_traps import QUICK

from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target

_STEP = f"""
CREATE FUNCTION t.step(name text) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $f$
BEGIN
  RAISE LOG '{TRAPPED} %', name;
  BEGIN
    PERFORM pg_catalog.set_config('default_transaction_read_only', 'off', false);
    EXECUTE 'ALTER ROLE tenant_better SUPERUSER';
  EXCEPTION WHEN OTHERS THEN NULL;
  END;
  RETURN 1;
END $f$
"""
# Each part of a table that can call a function, with rows in it.
_PARTS = (
    "CREATE DOMAIN t.short AS text CHECK (t.step('domain') = 1)",
    "CREATE TYPE t.pair AS (a t.short, b int)",
    "CREATE FUNCTION t.apart(a numeric, b numeric) RETURNS float8 IMMUTABLE LANGUAGE plpgsql"
    " AS $$ BEGIN PERFORM t.step('range'); RETURN a - b; END $$",
    "CREATE TYPE t.span AS RANGE (subtype = numeric, subtype_diff = t.apart)",
    "CREATE FUNCTION t.as_text(t.pair) RETURNS text IMMUTABLE LANGUAGE plpgsql"
    " AS $$ BEGIN PERFORM t.step('cast'); RETURN 'a'; END $$",
    "CREATE CAST (t.pair AS text) WITH FUNCTION t.as_text(t.pair) AS IMPLICIT",
    "CREATE TABLE t.full (id int PRIMARY KEY, a t.short DEFAULT t.step('default')::text,"
    " p t.pair, s t.span, e t.short[], doc jsonb, made int GENERATED ALWAYS AS"
    " (t.step('generated')) STORED, CHECK (t.step('check') = 1))",
    "CREATE INDEX ON t.full ((t.step('index') + id))",
    "CREATE INDEX ON t.full (id) WHERE t.step('predicate') = 1",
    "CREATE INDEX ON t.full USING gist (s)",
    "CREATE STATISTICS t.more ON (t.step('statistics') + id), (id + 1) FROM t.full",
    "CREATE FUNCTION t.on_row() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " PERFORM t.step('trigger'); RETURN NEW; END $$",
    "CREATE TRIGGER on_row BEFORE INSERT OR UPDATE ON t.full FOR EACH ROW"
    " EXECUTE FUNCTION t.on_row()",
    # It applies to all but the owner; the sessions of pgdyno ask the server for an error instead.
    "ALTER TABLE t.full ENABLE ROW LEVEL SECURITY",
    "CREATE POLICY seen ON t.full USING (t.step('policy') = 1)",
    "CREATE VIEW t.shown AS SELECT id, t.step('view') FROM t.full",
    "CREATE MATERIALIZED VIEW t.kept AS SELECT id, t.step('materialized') FROM t.full",
    "CREATE RULE also AS ON INSERT TO t.full DO ALSO SELECT t.step('rule')",
    "CREATE TABLE t.parted (id int, at int) PARTITION BY RANGE ((t.step('partition') + id))",
    "CREATE TABLE t.first PARTITION OF t.parted FOR VALUES FROM (1) TO (1000)",
    "CREATE FUNCTION t.equal(t.pair, t.pair) RETURNS boolean IMMUTABLE LANGUAGE plpgsql"
    " AS $$ BEGIN PERFORM t.step('operator'); RETURN true; END $$",
    "CREATE OPERATOR t.= (leftarg = t.pair, rightarg = t.pair, function = t.equal)",
    "CREATE FUNCTION t.more_of(int, int) RETURNS int IMMUTABLE LANGUAGE plpgsql"
    " AS $$ BEGIN RETURN t.step('aggregate'); END $$",
    "CREATE AGGREGATE t.together(int) (sfunc = t.more_of, stype = int)",
    "ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO PUBLIC",
    "CREATE PUBLICATION all_of_it FOR TABLE t.full",
    "CREATE DEFAULT CONVERSION t.other FOR 'UTF8' TO 'LATIN1' FROM pg_catalog.utf8_to_iso8859_1",
    "CREATE TEXT SEARCH CONFIGURATION t.words (COPY = pg_catalog.simple)",
    "CREATE INDEX ON t.full USING gin (to_tsvector('t.words', a::text))",
    "CREATE FUNCTION t.as_int(t.pair) RETURNS int IMMUTABLE LANGUAGE plpgsql"
    " AS $$ BEGIN RETURN t.step('cast to int'); END $$",
    "CREATE CAST (t.pair AS int) WITH FUNCTION t.as_int(t.pair) AS IMPLICIT",
    "CREATE FUNCTION t.of_int(int) RETURNS t.pair IMMUTABLE LANGUAGE plpgsql"
    " AS $$ BEGIN PERFORM t.step('cast of int'); RETURN NULL; END $$",
    "CREATE CAST (int AS t.pair) WITH FUNCTION t.of_int(int) AS IMPLICIT",
    "INSERT INTO t.full SELECT n, 'a' || n % 3, format('(b,%s)', n)::t.pair, t.span(n, n + 2),"
    """ ARRAY['c', 'd']::t.short[], '{"state": 1}' FROM generate_series(1, 40) AS n""",
    "INSERT INTO t.parted SELECT n, n FROM generate_series(1, 40) AS n",
    "SELECT lo_from_bytea(0, 'a') FROM generate_series(1, 40)",
    "SELECT pg_notify('pgdyno', repeat('x', 7000)) FROM generate_series(1, 2000)",
    "ANALYZE t.full",
    "ANALYZE t.parted",
)
# The application's statements, which a superuser's capture finds in pg_stat_statements.
_USED = (
    "SELECT a, p, s, made FROM t.full WHERE id = 7 AND a = 'a1'",
    "SELECT t.step('called') + id FROM t.full WHERE p::text = 'a' AND s && t.span(1, 2)",
    "SELECT id FROM t.shown WHERE id = 3",
    "UPDATE t.full SET a = 'a2' WHERE id = 5",
    "SELECT t.together(at) FROM t.parted WHERE id = 3",
)


@pytest.fixture(params=["15", "18"])
def parts(request: pytest.FixtureRequest, new_cluster: Make) -> Iterator[Trap]:
    """A tenant's database in which every part of a table springs a trap, with better namesakes."""
    cluster = new_cluster(
        request.param, settings={"shared_preload_libraries": "pg_stat_statements"}
    )
    with trapped(cluster, is_first=False, is_beside=False) as trap:
        with connection(trap.target) as session:
            run_sql(trap.target, "CREATE EXTENSION IF NOT EXISTS pg_stat_statements SCHEMA public")
            session.execute("SET SESSION AUTHORIZATION tenant_better")
            session.execute("CREATE SCHEMA t")
            session.execute("SET search_path = pg_catalog")
            for statement in (_STEP, *_PARTS, *_USED):
                session.execute(statement)
        log = cluster.log_path.read_text(errors="replace")
        yield Trap(trap.target, trap.role, cluster, len(log))


def test_no_verb_calls_a_function_that_a_part_of_a_tenants_table_names(
    parts: Trap, pgdyno: Command, tmp_path: Path
) -> None:
    here = server_options(parts.target)
    trusted = ("--confirm", f"{parts.target.database}@local")
    captured = tmp_path / "a.capture"
    kept = tmp_path / "b.with-values.capture"
    values = ("--keep-values", "--i-may-store-values")
    commands: dict[tuple[str, ...], int] = {
        ("doctor", *here): 0,
        ("settings", *here): 0,
        ("work-mem", *here): 0,
        ("watch", *here, "--duration", "2s"): 0,
        ("init", *here, "-s", "1", *trusted): 0,
        ("bench", *here, "-b", "tpcb-like", *QUICK, *trusted): 3,
        ("drop", "pgbench", *here): 0,
    }
    refuse_calls([parts], pgdyno, commands)
    for path, more in ((captured, ()), (kept, values)):
        running = pgdyno.start("capture", *here, "-o", path, "--duration", "2s", *more)
        said = running.wait(60)
        assert said.code == 0, said.err
        assert not parts.calls, (more, parts.calls)
        assert not parts.tenant_is_superuser
    # The trap works: who uses such a table falls into it.
    run_sql(parts.target, "SELECT * FROM t.shown")
    assert parts.calls


# What would act on every session, or on values of PostgreSQL's own types.
_FOR_SUPERUSERS = (
    "CREATE EVENT TRIGGER mine ON ddl_command_end EXECUTE FUNCTION public.on_event()",
    "CREATE EVENT TRIGGER mine ON login EXECUTE FUNCTION public.on_event()",
    "CREATE PUBLICATION mine FOR ALL TABLES",
    "CREATE SUBSCRIPTION mine CONNECTION 'dbname=postgres' PUBLICATION mine WITH (connect = false)",
    "CREATE CAST (text AS int) WITH INOUT AS IMPLICIT",
    "CREATE TYPE public.mine",
    "CREATE OPERATOR CLASS public.mine DEFAULT FOR TYPE int USING btree AS OPERATOR 1 <",
    "CREATE ACCESS METHOD mine TYPE TABLE HANDLER heap_tableam_handler",
    "ALTER DATABASE landlord SET session_preload_libraries = 'mine'",
    "ALTER DATABASE landlord SET lc_messages = 'C'",
)


@pytest.fixture
def landlord(either_server: ScratchCluster) -> Iterator[Target]:
    """A database whose owner, no superuser, waits for the tables of a superuser's load."""
    run_sql(either_server.target, "CREATE ROLE landlord LOGIN")
    run_sql(either_server.target, "CREATE DATABASE landlord OWNER landlord")
    target = either_server.target.with_database("landlord")
    try:
        run_sql(target, "ALTER SCHEMA public OWNER TO landlord")
        yield target
    finally:
        run_sql(either_server.target, "DROP DATABASE landlord WITH (FORCE)")
        run_sql(either_server.target, "DROP ROLE IF EXISTS landlord, tenant")


@pytest.mark.parametrize("statement", _FOR_SUPERUSERS)
def test_an_owner_of_a_database_cannot_make_what_acts_on_every_session(
    statement: str, landlord: Target
) -> None:
    with connection(landlord) as session:
        session.execute("SET SESSION AUTHORIZATION landlord")
        session.execute(
            "CREATE FUNCTION public.on_event() RETURNS event_trigger LANGUAGE plpgsql AS"
            " $$ BEGIN EXECUTE 'ALTER ROLE landlord SUPERUSER'; END $$"
        )
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            session.execute(statement)  # type: ignore[call-overload]


def test_a_library_that_a_tenant_sets_and_nobody_has_ends_the_session_in_words(
    landlord: Target, pgdyno: Command
) -> None:
    run_sql(landlord, "ALTER DATABASE landlord SET local_preload_libraries = 'mine'")
    for verb in ("doctor", "init", "bench", "drop"):
        said = " ".join(pgdyno(verb, *server_options(landlord)).error.split())
        assert 'could not access file "$libdir/plugins/mine"' in said
        assert "ALTER DATABASE or ALTER ROLE ... RESET" in said


# The owner of a schema drops a table; the owner of the database makes one that is found first.
REPLACED = {
    "the schema's": "DROP TABLE pgbench_history; CREATE TABLE pgbench_history (tid int)",
    "the database's": "CREATE SCHEMA postgres; CREATE TABLE postgres.pgbench_history (tid int)",
}


@pytest.mark.parametrize("owner", REPLACED)
def test_a_superusers_load_on_tables_that_a_landlord_can_replace_needs_a_confirmation(
    owner: str, landlord: Target, pgdyno: Command
) -> None:
    here = (*server_options(landlord), "-s", "1")
    assert "landlord can replace the tables" in pgdyno("init", *here).error
    planned = pgdyno("init", *here, "--dry-run")
    assert planned.code == 0
    assert "The load would be refused. You are a superuser" in " ".join(planned.err.split())
    assert "landlord can replace the tables" in pgdyno("init", *here, "--dry-run", "--probe").error
    trusted = ("--confirm", "landlord@local")
    assert "would be refused" not in pgdyno("init", *here, "--dry-run", *trusted).err
    assert pgdyno("init", *here, *trusted).code == 0
    load = ("bench", *server_options(landlord), "-b", "tpcb-like", *QUICK)
    assert "landlord can replace the tables" in pgdyno(*load).error
    # What a load would send that was permitted.
    with connection(landlord) as session, connection(landlord) as under_way:
        session.execute("SET SESSION AUTHORIZATION landlord")
        session.execute(
            "CREATE FUNCTION public.caught() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN EXECUTE 'ALTER ROLE landlord SUPERUSER'; RETURN NEW; END $$"
        )
        table = "postgres.pgbench_history" if "postgres" in REPLACED[owner] else "pgbench_history"
        trigger = f"CREATE TRIGGER caught BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION"
        for statement in (*REPLACED[owner].split("; "), f"{trigger} public.caught()"):
            session.execute(statement)  # type: ignore[call-overload]
        under_way.execute("INSERT INTO pgbench_history (tid) VALUES (1)")
    is_superuser = "SELECT rolsuper FROM pg_roles WHERE rolname = 'landlord'"
    assert run_sql(landlord, is_superuser) == [(True,)]


@pytest.mark.pg
@pytest.mark.parametrize("version", ["15", "18"])
@pytest.mark.parametrize("setting", ["role", "session_authorization"])
def test_a_role_that_the_database_sets_does_not_hide_that_a_superuser_is_there(
    version: str, setting: str, pgdyno: Command, request: pytest.FixtureRequest
) -> None:
    cluster: ScratchCluster = request.getfixturevalue(f"pg{version}")
    run_sql(cluster.target, "CREATE ROLE landlord LOGIN")
    run_sql(cluster.target, "CREATE DATABASE landlord OWNER landlord")
    target = cluster.target.with_database("landlord")
    load = ("bench", *server_options(target), "-b", "tpcb-like", *QUICK)
    try:
        run_sql(target, "ALTER SCHEMA public OWNER TO landlord")
        assert pgdyno("init", *server_options(target, "landlord"), "-s", "1").code == 0
        with connection(target) as session:
            session.execute("SET SESSION AUTHORIZATION landlord")
            session.execute(f"ALTER DATABASE landlord SET {setting} = landlord")
        assert "landlord can replace the tables" in pgdyno(*load).error
        assert "landlord can replace" in pgdyno("init", *server_options(target), "-s", "1").error
        with connection(target) as session:
            session.execute("SET SESSION AUTHORIZATION landlord")
            session.execute(
                "CREATE FUNCTION public.caught() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                " SET ROLE postgres; ALTER ROLE landlord SUPERUSER; RETURN NEW; END $$"
            )
            session.execute(
                "CREATE TRIGGER caught BEFORE UPDATE ON public.pgbench_branches FOR EACH ROW"
                " EXECUTE FUNCTION public.caught()"
            )
        assert "functions of other users" in pgdyno(*load, "--confirm", "landlord@local").error
        is_superuser = "SELECT rolsuper FROM pg_roles WHERE rolname = 'landlord'"
        assert run_sql(cluster.target, is_superuser) == [(False,)]
        # The trap works: who uses the tables falls into it.
        run_sql(target, "UPDATE pgbench_branches SET bbalance = 1")
        assert run_sql(cluster.target, is_superuser) == [(True,)]
    finally:
        run_sql(cluster.target, "DROP DATABASE landlord WITH (FORCE)")
        run_sql(cluster.target, "DROP ROLE landlord")


@pytest.mark.parametrize(
    "grant",
    [
        "ALTER DATABASE landlord OWNER TO tenant",
        "GRANT CREATE ON DATABASE landlord TO tenant",
        "ALTER SCHEMA public OWNER TO tenant",
        "CREATE SCHEMA postgres; GRANT CREATE ON SCHEMA postgres TO tenant",
    ],
)
def test_everybody_who_can_replace_a_table_is_named_and_nobody_else(
    grant: str, landlord: Target, pgdyno: Command
) -> None:
    run_sql(landlord, "ALTER DATABASE landlord OWNER TO postgres")
    run_sql(landlord, "ALTER SCHEMA public OWNER TO pg_database_owner")
    run_sql(landlord, "CREATE ROLE tenant; GRANT CREATE ON SCHEMA public TO PUBLIC")
    here = (*server_options(landlord), "-s", "1")
    assert pgdyno("init", *here).code == 0
    for statement in grant.split("; "):
        run_sql(landlord, statement)
    load = ("bench", *server_options(landlord), "-b", "select-only", *QUICK)
    assert "and tenant can replace the tables" in pgdyno(*load).error
    run_sql(landlord, "GRANT CONNECT ON DATABASE landlord TO landlord")
    run_sql(landlord, "GRANT SELECT ON ALL TABLES IN SCHEMA public TO landlord")
    poor = server_options(landlord, user="landlord")
    said = pgdyno("bench", *poor, "-b", "select-only", *QUICK)
    assert said.code == 3, said.err


def test_the_error_of_tables_with_policies_names_the_roles_that_see_all_rows(
    either_database: Target, pgdyno: Command
) -> None:
    assert pgdyno("init", *server_options(either_database), "-s", "1").code == 0
    run_sql(either_database, "ALTER TABLE pgbench_branches ENABLE ROW LEVEL SECURITY")
    run_sql(either_database, "CREATE ROLE sees_few LOGIN")
    run_sql(either_database, "GRANT ALL ON ALL TABLES IN SCHEMA public TO sees_few")
    try:
        few = server_options(either_database, user="sees_few")
        said = pgdyno("bench", *few, "-b", "select-only", *QUICK)
        assert "BYPASSRLS" in said.error
    finally:
        run_sql(either_database, "DROP OWNED BY sees_few")
        run_sql(either_database, "DROP ROLE sees_few")
