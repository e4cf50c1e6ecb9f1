"""Small inputs that failed once, word for word, each with its right answer.

Each file stands for a kind, whose neighbours have tests with their feature. Logs are in
`tests/features/capture/logs`, edited captures in `tests/features/capture/edited`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.fixtures.captured_load import capture_new_log
from tests.fixtures.clusters import Make, connection, make_cluster, run_sql
from tests.fixtures.command import Command, server_options

from pgdyno.engine.executable import engine_path
from pgdyno.errors import SpecError
from pgdyno.features.doctor.check_facts import CheckFacts
from pgdyno.features.tune.server_settings import read_file
from pgdyno.server.find import find
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target

CORPUS = Path(__file__).parent / "corpus"


def files(folder: str) -> list[Path]:
    return sorted((CORPUS / folder).iterdir())


def name_of(path: Path) -> str:
    return path.stem


@pytest.mark.pg
@pytest.mark.parametrize("major", [15, 18])
@pytest.mark.parametrize("path", files("conf"), ids=name_of)
def test_a_configuration_is_taken_as_the_server_takes_it(
    path: Path, major: int, tmp_path: Path
) -> None:
    tmp_path.chmod(0o700)
    content = path.read_bytes()
    if major == 18:
        # This build has no zstd.
        content = content.replace(b"zstd", b"pglz")
    path = tmp_path / "postgresql.conf"
    path.write_bytes(content)
    postgres = find(version=str(major)).bin_dir / "postgres"

    def judged(name: str) -> str | None:
        command = [postgres, "-C", name, "-D", tmp_path]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return None if done.returncode else done.stdout.rstrip("\n")

    if judged("work_mem") is None:
        objections = objections_to(path, major)
        assert objections
        assert all("postgresql.conf:" in objection for objection in objections)
        return
    settings = read_file(path, major, CheckFacts()).settings
    named = [line.split()[0] for line in path.read_text().splitlines()]
    with ThreadPoolExecutor(2) as pool:
        servers = dict(zip(named, pool.map(judged, named), strict=True))
    assert {name: settings[name].text for name in named} == servers


def objections_to(path: Path, major: int) -> list[str]:
    try:
        settings = read_file(path, major, CheckFacts()).settings
    except SpecError as error:
        return [str(error)]
    return [setting.objection for setting in settings.values() if setting.objection]


# What the spec has, and what a note must say.
SPECS: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "b21_separators": (
        ['dsn = "postgresql://bench@db1/tpcc"', "clients = 20"],
        ["runMins = 5: line 6 ends with a space", "warehouses = 10", "paymentWeight"],
    ),
    "h03b_env": (
        ["clients = 1", 'dsn = "postgresql://tpcc@localhost/tpcc"'],
        [*(f"line {number}:" for number in range(3, 9)), "set it in the spec"],
    ),
    "h04b_expr": (["clients = 20"], ["pg_host = $host: line 6, from line 3", "warehouses 100"]),
    "h10_foreach_var_braces": (['kind = "sweep"', "levels = [ 1, 2, 4, ]"], []),
    "h13_socket": (
        ["clients = 4", 'dsn = "postgresql://tpcc@/tpcc?host=/var/run/postgresql"'],
        ["warehouses 10"],
    ),
    "h17_if": (["clients = 8", 'mix = "weights"'], ["warehouses 10"]),
    "h22_python_loop": (
        ['kind = "sweep"', "levels = [ 1, 2, 4, ]", 'warmup = "1min"', 'run = "3min"'],
        ["warehouses 30"],
    ),
    "h36_else": (["clients = 8", 'duration = "10min"'], ["warehouses 100"]),
}


@pytest.mark.parametrize("path", files("specs"), ids=name_of)
def test_a_file_of_another_tool_is_what_that_tool_does(
    path: Path, pgdyno: Command, tmp_path: Path
) -> None:
    if path.suffix == ".txt":
        path = shutil.copy(path, tmp_path / f"{path.stem}.py")
    tool = "benchmarksql" if path.suffix == ".properties" else "hammerdb"
    said = pgdyno("spec", f"from-{tool}", path)
    if path.stem == "b08_noslash":
        assert said.code == 1
        assert "b08_noslash.properties, line 16" in said.error
        return
    assert said.code == 0, said.err
    spec, notes = " ".join(said.out.split()), " ".join(said.err.split())
    values, words = SPECS[path.stem]
    assert [value for value in values if value not in spec] == []
    assert [word for word in words if word not in notes] == []
    assert ("home = " in spec) == (tool == "benchmarksql")


@pytest.mark.pg
@pytest.mark.parametrize("path", files("scripts"), ids=name_of)
def test_a_script_ends_as_in_pgbench(path: Path, database: Target) -> None:
    given = database.libpq_parameters()
    names = {"PGHOST": "host", "PGPORT": "port", "PGUSER": "user", "PGDATABASE": "dbname"}
    environment = os.environ | {name: str(given[key]) for name, key in names.items()}
    endings = []
    for program in ([find(version="15").bin_dir / "pgbench"], [engine_path(), "pgbench"]):
        command = [*program, "-n", "-t", "1", "-f", path]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=60
        )
        endings.append((done.returncode, "expected one row, got 0" in done.stderr))
    assert endings == [(2, True), (2, True)]


# What a copy must have, or what the outputs must name: the second word is its name.
OBJECTS = """
    SELECT 'relation ' || relname || ' ' || relkind::text FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v', 'S')
    UNION ALL
    SELECT 'index ' || tablename || ' ' || regexp_replace(indexdef, 'INDEX \\S+ ', '')
    FROM pg_indexes WHERE schemaname = 'public'
    UNION ALL
    SELECT 'function ' || oid::regprocedure FROM pg_proc p
    WHERE pronamespace = 'public'::regnamespace AND NOT EXISTS (
        SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype IN ('e', 'i'))
    UNION ALL
    SELECT 'collation ' || collname FROM pg_collation
    WHERE collnamespace = 'public'::regnamespace
    UNION ALL
    SELECT 'configuration ' || cfgname FROM pg_ts_config
    WHERE cfgnamespace = 'public'::regnamespace
    UNION ALL
    SELECT 'column ' || attrelid::regclass || '.' || attname || ' '
        || format_type(atttypid, atttypmod)
    FROM pg_attribute JOIN pg_class c ON c.oid = attrelid
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND attnum > 0
    UNION ALL
    SELECT 'sequence ' || sequencename || ' ' || concat_ws(
        ' ', data_type, start_value, min_value, max_value, increment_by, cycle)
    FROM pg_sequences WHERE schemaname = 'public'
"""


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, ScratchCluster]]:
    with make_cluster("15") as old, make_cluster("18") as new:
        yield {"15": old, "18": new}


def with_statements(server: Target, name: str, path: Path) -> Target:
    """Create a database, and the objects of a file in it."""
    run_sql(server, f"CREATE DATABASE {name}")
    target = server.with_database(name)
    with connection(target) as session:
        session.execute(path.read_text())
        session.execute("ANALYZE")
    return target


@pytest.mark.pg
@pytest.mark.parametrize("source", files("schemas"), ids=name_of)
def test_a_schema_is_copied_or_what_is_missing_is_named(
    source: Path, servers: dict[str, ScratchCluster], pgdyno: Command, tmp_path: Path
) -> None:
    # Each file meets one version; tests/fixtures/every_schema.py has these kinds on both.
    number = files("schemas").index(source)
    server = servers["15" if number % 2 else "18"].target
    core = with_statements(server, f"core{number}", source)
    run_sql(server, f"CREATE DATABASE copy{number}")
    copy = server.with_database(f"copy{number}")
    path = tmp_path / "a.capture"
    captured = pgdyno("capture", *server_options(core), "-o", path, "--duration", "2s")
    assert captured.code == 0, captured.err
    made = pgdyno("init", path, *server_options(copy))
    assert made.code == 0, made.err
    said = made.out + made.err + pgdyno("capture", "show", path, "--all").out
    there = {row[0] for row in run_sql(copy, OBJECTS)}
    missing = [text for [text] in run_sql(core, OBJECTS) if text not in there]
    assert [text for text in missing if text.split()[1].split("(")[0] not in said] == []
    tables = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 2200"
    for [table] in run_sql(core, tables):
        count = f'SELECT count(*) FROM "{table}"'
        assert run_sql(copy, count) == run_sql(core, count), table


# The statements that failed on every call, and one parameter each.
TYPED = (
    ("SELECT id FROM b WHERE during && %s::tstzrange LIMIT 3", "[2024-01-03,2024-01-04)"),
    ("SELECT id FROM b ORDER BY p <-> %s::point LIMIT 3", "(5,7)"),
    ("SELECT id FROM b WHERE hs @> %s::hstore LIMIT 3", '"k"=>"12"'),
    ("SELECT id FROM b WHERE doc @? %s::jsonpath LIMIT 3", "$.tags[*]"),
    ("SELECT id FROM b WHERE tsv @@ %s::tsquery LIMIT 3", "word7"),
    ("SELECT id FROM b WHERE path <@ %s::ltree LIMIT 3", "a.b4"),
)


@pytest.mark.pg
@pytest.mark.parametrize("version", ["15", "18"])
def test_parameters_have_the_types_that_their_operators_take(
    version: str, new_cluster: Make, pgdyno: Command, tmp_path: Path
) -> None:
    logging = {"logging_collector": "on", "log_destination": "csvlog", "log_directory": "log"}
    server = new_cluster(version, settings=logging).target
    core = with_statements(server, "core", CORPUS / "mirror/schema2.sql")
    run_sql(server, "ALTER DATABASE core SET log_min_duration_statement = 0")
    path = tmp_path / "a.capture"

    def use() -> None:
        with connection(core) as session:
            for _ in range(10):
                for statement, value in TYPED:
                    session.execute(statement, [value])

    capture_new_log(pgdyno, core, path, use)
    assert shares_of_the_copy(server, path, pgdyno) == (1.0, 0.0)


@pytest.mark.pg
def test_a_conflict_on_an_expression_finds_its_index(
    new_cluster: Make, pgdyno: Command, tmp_path: Path
) -> None:
    server = new_cluster("15").target
    core = with_statements(server, "mir_src", CORPUS / "mirror/schema.sql")
    path = tmp_path / "a.capture"
    given = ("--log", CORPUS / "mirror/load.log", "-o", path)
    said = pgdyno("capture", *server_options(core), *given)
    assert said.code == 0, said.err
    reproduced, failed = shares_of_the_copy(server, path, pgdyno)
    assert reproduced == 1
    assert failed <= 0.01


def shares_of_the_copy(server: Target, path: Path, pgdyno: Command) -> tuple[float, float]:
    """Return the shares of a capture's calls that its copy sends, and of failed transactions."""
    run_sql(server, "CREATE DATABASE copy")
    copy = server.with_database("copy")
    made = pgdyno("init", path, *server_options(copy))
    assert made.code == 0, made.err
    given = ("-b", path, "-c", "2", "--warmup", "0s", "--duration", "3s", "--json")
    said = pgdyno("bench", *server_options(copy), *given)
    assert said.code in (0, 3), said.err
    answer = said.document
    failed = sum(answer["failures"].values())
    return answer["likeness"]["reproduced_calls"], failed / (failed + answer["transactions"])
