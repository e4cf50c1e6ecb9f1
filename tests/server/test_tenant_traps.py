"""The owner of a database, no superuser, waits there for the sessions of a superuser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.test_signal_while_server_hangs import CONNECTING
from tests.cli.test_signals_of_verbs import ASKED
from tests.fixtures.clusters import run_sql, scalar
from tests.fixtures.command import Command, server_options
from tests.fixtures.tenant import Trap, refuse_calls, refuse_traces, trapped

from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target

QUICK = ("-T", "1", "--warmup", "0")


@pytest.fixture
def namesakes(any_server: ScratchCluster) -> Iterator[Trap]:
    """A database whose path begins with a namesake of everything in pg_catalog."""
    with trapped(any_server) as trap:
        yield trap


@pytest.fixture
def better(any_server: ScratchCluster) -> Iterator[Trap]:
    """A database whose functions and operators fit better than those of pg_catalog."""
    with trapped(any_server, is_first=False) as trap:
        yield trap


def verbs(trap: Trap, folder: Path) -> dict[tuple[str, ...], int]:
    """Return commands that connect, and their exit codes: a run of 1 s is NOT VALID."""
    script = folder / "one.sql"
    script.write_text("SELECT 1;\n")
    here = server_options(trap.target)
    file = ("-f", str(script))
    place = trap.target
    trusted = ("--confirm", f"{place.database}@local")
    observe = f"host={place.host} port={place.ports} dbname={place.database} user={place.user}"
    variants = ("--variant", "a: work_mem=4MB", "--variant", "b: work_mem=8MB")
    run, spec = ASKED["run"](here, script)
    Path(spec).write_text(Path(spec).read_text().replace('"10s"', '"1s"\nwarmup = "0s"'))
    return {
        ("doctor", *here): 0,
        ("settings", *here): 0,
        ("work-mem", *here): 0,
        ("work-mem", *here, *file, "--allow-explain-analyze"): 0,
        ("init", "-s", "1", *here, "--dry-run"): 0,
        ("init", "-s", "1", *here, *trusted): 0,
        ("init", "tpcc", "--warehouses", "1", *here, *trusted): 0,
        ("check", "tpcc", *here): 0,
        ("watch", *here, "--duration", "2s"): 0,
        ("capture", *here, "-o", str(folder / "a.capture"), "--duration", "2s"): 0,
        ("bench", *here, *file, *QUICK): 3,
        ("bench", *here, *file, *QUICK, "--observe", observe): 3,
        (run, spec): 3,
        ("sweep", *here, *file, *QUICK, "-c", "1"): 3,
        ("compare", *here, *file, *QUICK, *variants, "--rounds", "3"): 3,
        ("tune", *here, *file, "--admin", observe, "--dry-run"): 0,
        ("init", *here, "-s", "1", *trusted): 0,
        ("drop", "pgbench", *here): 0,
        ("drop", "tpcc", *here): 0,
    }


# What has other tests, and the drop-in, whose sessions are those of pgbench.
ELSEWHERE = {
    "undo": "test_undo_calls_nothing_of_a_tenant",
    "crash": "test_a_crash_calls_nothing_of_a_tenant",
    "pgbench": "test_the_drop_in_is_not_limited",
}


def test_every_verb_that_connects_meets_the_traps(
    any_server: ScratchCluster, tmp_path: Path
) -> None:
    walked = {words[0] for words in verbs(Trap(any_server.target, "", any_server, 0), tmp_path)}
    assert walked | {*ELSEWHERE} == {*CONNECTING, *ELSEWHERE}


def test_the_trap_makes_its_owner_a_superuser_if_a_superuser_searches_its_schema(
    namesakes: Trap,
) -> None:
    run_sql(namesakes.target, "SELECT version()")
    assert namesakes.tenant_is_superuser
    assert namesakes.calls


def test_no_session_of_a_verb_calls_a_namesake_of_what_postgresql_has(
    namesakes: Trap, pgdyno: Command, tmp_path: Path
) -> None:
    refuse_calls([namesakes], pgdyno, verbs(namesakes, tmp_path))


def test_no_session_of_a_verb_calls_what_fits_better_than_what_postgresql_has(
    better: Trap, pgdyno: Command, tmp_path: Path
) -> None:
    commands = verbs(better, tmp_path)
    commands = {words: code for words, code in commands.items() if words[0] != "tune"}
    here = server_options(better.target)
    trusted = ("--confirm", f"{better.target.database}@local")
    select_only = ("bench", *here, "-b", "select-only", *QUICK, *trusted)
    at = [words[0] for words in commands].index("bench")
    items = list(commands.items())
    refuse_calls([better], pgdyno, dict([*items[:at], (select_only, 3), *items[at:]]))


@pytest.mark.parametrize("is_first", [True, False], ids=["namesakes", "better"])
def test_undo_calls_nothing_of_a_tenant(
    any_server: ScratchCluster, pgdyno: Command, tmp_path: Path, is_first: bool
) -> None:
    with trapped(any_server, is_first=is_first) as trap:
        place = trap.target
        here = f"host={place.host} port={place.ports} dbname={place.database} user={place.user}"
        script = tmp_path / "one.sql"
        script.write_text("SELECT 1;\n")
        before = scalar(any_server.target, "SHOW autovacuum_naptime")
        running = pgdyno.start(
            *("compare", *server_options(place), "-f", script, "--admin", here, "-T", "10min"),
            *("--rounds", "3"),
            *("--variant", "new: autovacuum_naptime=41s", "--variant", "as it is"),
        )
        running.await_load(pgdyno.store)
        running.process.kill()
        running.wait()
        refuse_traces([trap], "compare")
        assert scalar(any_server.target, "SHOW autovacuum_naptime") == "41s"
        said = pgdyno("undo")
        refuse_traces([trap], "undo")
        assert said.code == 0, said.err
        assert scalar(any_server.target, "SHOW autovacuum_naptime") == before


def test_no_function_beside_those_of_an_extension_is_called(
    any_server: ScratchCluster, pgdyno: Command
) -> None:
    names = ("pg_prewarm", "pg_buffercache", "pg_stat_statements")

    def extensions(target: Target) -> None:
        for name in names:
            run_sql(target, f"CREATE EXTENSION {name} SCHEMA public")

    with trapped(any_server, is_first=False, prepared=extensions) as trap:
        here = server_options(trap.target)
        trusted = ("--confirm", f"{trap.target.database}@local")
        load = ("bench", *here, "-b", "select-only", *QUICK, *trusted)
        commands = {
            ("init", *here, "-s", "1", *trusted): 0,
            (*load, "--cache", "prewarm"): 3,
        }
        refuse_calls([trap], pgdyno, commands)


def test_a_view_with_the_name_of_a_table_is_not_read(database: Target, pgdyno: Command) -> None:
    run_sql(database, "CREATE TABLE seen (a int)")
    run_sql(
        database,
        "CREATE FUNCTION look() RETURNS int LANGUAGE sql AS"
        " 'INSERT INTO seen VALUES (1) RETURNING a'",
    )
    run_sql(database, "CREATE VIEW pgbench_branches AS SELECT look() AS bid")
    run_sql(database, "COMMENT ON VIEW pgbench_branches IS 'pgdyno dataset pgbench scale=1'")
    here = server_options(database)
    for command in (("init", "-s", "1"), ("drop", "pgbench"), ("bench", *QUICK)):
        said = pgdyno(*command, *here)
        assert said.code == 1, said.err
    assert run_sql(database, "SELECT * FROM seen") == []


@pytest.mark.parametrize(
    "code",
    [
        "CREATE TRIGGER more BEFORE INSERT OR UPDATE ON pgbench_branches FOR EACH ROW"
        " EXECUTE FUNCTION act()",
        "CREATE INDEX ON pgbench_branches ((bid + look(1)))",
        "CREATE POLICY one ON pgbench_branches USING (look(1) > 0)",
        "CREATE RULE more AS ON UPDATE TO pgbench_branches DO ALSO SELECT look(1)",
        "ALTER TABLE pgbench_branches ADD CHECK (bid > look(0))",
        "CREATE TABLE far (bid int REFERENCES pgbench_branches ON DELETE CASCADE);"
        " ALTER TABLE far OWNER TO forger",
    ],
    ids=["trigger", "index", "policy", "rule", "check", "foreign key"],
)
def test_tables_with_code_of_another_user_do_not_count_as_marked(
    database: Target, pgdyno: Command, code: str
) -> None:
    here = server_options(database)
    run_sql(database, "CREATE ROLE forger LOGIN")
    try:
        run_sql(database, "GRANT CREATE ON SCHEMA public TO forger")
        assert pgdyno("init", "-s", "1", *here).code == 0
        run_sql(
            database,
            "CREATE FUNCTION act() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
        )
        run_sql(
            database, "CREATE FUNCTION look(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 0'"
        )
        for thing in ("TABLE pgbench_branches", "FUNCTION act()", "FUNCTION look(int)"):
            run_sql(database, f"ALTER {thing} OWNER TO forger")
        for statement in code.split("; "):
            run_sql(database, statement)
        said = pgdyno("bench", *QUICK, *here)
        assert said.code == 1, said.err
        assert "pgbench_branches" in said.error
        assert pgdyno("bench", *QUICK, *server_options(database, "forger")).code == 1
    finally:
        run_sql(database, "DROP OWNED BY forger CASCADE")
        run_sql(database, "DROP ROLE forger")


@pytest.fixture
def both_places(database: Target, pgdyno: Command) -> Target:
    """Tables of pgdyno in public, and tables of the user with the same names in app."""
    assert pgdyno("init", "-s", "1", *server_options(database)).code == 0
    run_sql(database, "CREATE SCHEMA app")
    for table in ("accounts", "branches", "tellers", "history"):
        made = f"CREATE TABLE app.pgbench_{table} (LIKE public.pgbench_{table} INCLUDING ALL)"
        run_sql(database, made)
        copied = f"INSERT INTO app.pgbench_{table} SELECT * FROM public.pgbench_{table}"
        run_sql(database, copied)
    return database


def written(database: Target) -> object:
    """Return how many rows the load wrote into the user's own tables."""
    return scalar(database, "SELECT count(*) FROM app.pgbench_history")


def test_a_variant_that_leads_to_tables_of_the_user_is_refused(
    both_places: Target, pgdyno: Command
) -> None:
    variants = ("--variant", "a: work_mem=4MB", "--variant", "b: search_path=app")
    load = ("-b", "tpcb-like", *QUICK, "--rounds", "3")
    said = pgdyno("compare", *server_options(both_places), *variants, *load)
    assert said.code == 1, said.err
    assert "--allow-write" in said.error
    assert written(both_places) == 0


def test_the_mark_is_read_where_the_load_writes_and_not_where_pgdyno_observes(
    both_places: Target, pgdyno: Command
) -> None:
    place = f"host={both_places.host} port={both_places.ports} user={both_places.user}"
    place = f"{place} dbname={both_places.database}"
    there = f"{place} options=-csearch_path=app"
    load = ("-b", "tpcb-like", *QUICK)
    said = pgdyno("bench", there, "--observe", place, *load)
    assert said.code == 1, said.err
    assert "--allow-write" in said.error
    assert written(both_places) == 0
    said = pgdyno("bench", there, "--observe", place, *load, "--allow-write")
    assert written(both_places) != 0, said.err


@pytest.mark.parametrize(
    "made",
    [
        "",
        "CREATE VIEW first AS SELECT * FROM far; CREATE VIEW target AS SELECT * FROM first",
        "CREATE TABLE target (a int); ALTER FOREIGN TABLE far INHERIT target",
        "CREATE TABLE target (a int) PARTITION BY LIST (a);"
        " ALTER TABLE target ATTACH PARTITION far FOR VALUES IN (1)",
    ],
    ids=["direct", "views", "child", "partition"],
)
def test_a_foreign_table_needs_permission_however_a_script_reaches_it(
    database: Target, pgdyno: Command, tmp_path: Path, made: str
) -> None:
    run_sql(database, "CREATE FOREIGN DATA WRAPPER distant")
    run_sql(database, "CREATE SERVER elsewhere FOREIGN DATA WRAPPER distant")
    run_sql(database, "CREATE FOREIGN TABLE far (a int) SERVER elsewhere")
    for statement in filter(None, made.split(";")):
        run_sql(database, statement)
    script = tmp_path / "read.sql"
    script.write_text(f"SELECT * FROM {'target' if made else 'public.far'};\n")
    here = server_options(database)
    for command in (
        ("bench", *QUICK, "-f", script),
        ("work-mem", "-f", script, "--allow-explain-analyze"),
    ):
        said = pgdyno(*command, *here)
        assert said.code == 1, said.err
        assert "public.far" in said.error


def test_prewarm_creates_no_extension_on_a_server_of_the_user(
    database: Target, pgdyno: Command
) -> None:
    here = server_options(database)
    assert pgdyno("init", "-s", "1", *here).code == 0
    said = pgdyno("bench", *here, *QUICK, "-b", "select-only", "--cache", "prewarm")
    assert said.code == 1, said.err
    assert "CREATE EXTENSION pg_prewarm" in said.error
    assert scalar(database, "SELECT count(*) FROM pg_extension WHERE extname = 'pg_prewarm'") == 0
