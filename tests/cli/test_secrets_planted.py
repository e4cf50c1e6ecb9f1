"""Secrets are planted in every input; none of them is printed, stored, or given to a child."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from tests.fixtures import needs
from tests.fixtures.clusters import Make, run_sql
from tests.fixtures.command import Command, RunningCommand, Said, server_options
from tests.test_redaction import FORMS

from pgdyno.cli.output import keep_trace
from pgdyno.server.find import find
from pgdyno.server.target import Target

# Each form holds another secret, so that the one that gets out names its form.
TEXTS = {f"pLanted{number}Xq": form for number, form in enumerate(FORMS) if "cut off" not in form}
GIVEN = ("gIven1Xq", "gIven2Xq", "gIven3Xq", "gIven4Xq", "gIven5Xq")
ENVIRONMENT = {"PGPASSWORD": GIVEN[0]}
SERVER_SAYS = (
    "CREATE FUNCTION says() RETURNS void LANGUAGE plpgsql AS $$BEGIN"
    " RAISE EXCEPTION 'dsn: host=a password=sErver1Xq'; END$$"
)
BENCHMARKSQL = (
    "db=postgres\ndriver=org.postgresql.Driver\nuser=app\npassword=bEnch1Xq\nwarehouses=2\n"
    "conn=jdbc:postgresql://db1:5432/bank?user=app&password=bEnch2Xq\nterminals=2\nrunMins=1\n"
    "osCollectorSSHAddr=postgres://a:bEnch3Xq@db1\n"
)
HAMMERDB = "dbset db pg\ndiset connection pg_host db1\ndiset tpcc pg_superuserpass hAmmer1Xq\n"


STATISTICS = ("sTat1Xq", "sTat2Xq", "hBa1Xq")


def secrets() -> set[str]:
    return {
        *TEXTS,
        *GIVEN,
        *STATISTICS,
        "sErver1Xq",
        "bEnch1Xq",
        "bEnch2Xq",
        "bEnch3Xq",
        "hAmmer1Xq",
    }


def seen_in(content: str | bytes) -> set[str]:
    content = content.decode(errors="replace") if isinstance(content, bytes) else content
    return {secret for secret in secrets() if secret in content}


def stored(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and content of every file; compressed tables as text."""
    for path in folder.rglob("*"):
        if path.suffix == ".parquet":
            with contextlib.closing(duckdb.connect()) as reader:
                yield str(path), str(reader.execute("FROM read_parquet(?)", [str(path)]).fetchall())
        elif path.is_file():
            yield str(path), path.read_bytes().decode(errors="replace")


def children(running: RunningCommand) -> dict[int, bytes]:
    """Return the arguments and the environment of each process that the command started, by pid.

    Before its exec such a process is a copy of the command, with the same arguments.
    """
    command = running.process.pid
    started = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                is_copy = (entry / "exe").samefile(f"/proc/{command}/exe")
                if int(fields[1]) == command and not is_copy:
                    given = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                    started[int(entry.name)] = given
    return started


def conninfo(target: Target) -> str:
    return (
        f"host={target.host} port={target.ports} user={target.user} dbname={target.database}"
        f" password={GIVEN[1]}"
    )


def assert_silent(said: Said) -> None:
    assert "Traceback" not in said.err, said.err
    assert seen_in(said.out + said.err) == set()


def test_there_are_at_least_40_secrets() -> None:
    assert len(secrets()) >= 40


def test_a_secret_in_a_script_is_in_no_output_no_file_and_no_child(
    database15: Target, pgdyno: Command, tmp_path: Path
) -> None:
    statements = [f"SELECT $pg${form.format(s, s)}$pg$;" for s, form in TEXTS.items()]
    script = tmp_path / "secret.sql"
    script.write_text("\n".join(["\\sleep 20 ms", *statements]) + "\n")
    running = pgdyno.start(
        *("bench", conninfo(database15), "-f", str(script), "-T", "2s", "--warmup", "0s"),
        *("--allow-write", "--json", str(tmp_path / "out.json"), "-D", f"password={GIVEN[2]}"),
        env=ENVIRONMENT,
        is_new=True,
    )
    engine = running.await_load(pgdyno.store)
    started = children(running)
    assert started[engine]
    assert [seen_in(given) for given in started.values()] == [set()] * len(started)
    said = running.wait()
    # A secret that is masked in the specification must not make it unreadable.
    assert said.code in (0, 3), said.err
    assert_silent(said)
    failing = tmp_path / "says.sql"
    run_sql(database15, SERVER_SAYS)
    failing.write_text("SELECT says();\n")
    assert_silent(pgdyno("bench", conninfo(database15), "-f", str(failing), "-T", "1s",
                         "--warmup", "0s", "--allow-write"))  # fmt: skip
    for asked in (
        ("note", "last", f"the password={GIVEN[3]} is old"),
        ("show", "1"),
        ("report", "1", "-o", str(tmp_path / "page.html")),
        ("report", "1", "--md", "-o", str(tmp_path / "page.md")),
        ("export", "1", "-o", str(tmp_path / "runs.csv")),
        ("list",),
    ):
        assert_silent(pgdyno(*asked))
    for path in (script, failing):
        path.unlink()
    leaks = {name: seen_in(content) for name, content in stored(tmp_path) if seen_in(content)}
    assert leaks == {}


def test_a_secret_that_a_server_shows_is_in_no_output_and_no_file(
    new_cluster: Make, pgdyno: Command, tmp_path: Path
) -> None:
    needs.offered(
        "pg_stat_statements" not in find(version="15").lacks, "PostgreSQL 15 without contrib"
    )
    preloaded = {"shared_preload_libraries": "pg_stat_statements", "work_mem": "1MB"}
    cluster = new_cluster("15", settings=preloaded)
    target = cluster.target
    run_sql(target, "CREATE EXTENSION pg_stat_statements")
    run_sql(target, "CREATE ROLE somebody")
    # The extension keeps the constants of such statements.
    run_sql(target, f"CREATE TABLE kept AS SELECT 'password={STATISTICS[1]}', i"
            " FROM generate_series(1, 100000) i ORDER BY 2 DESC")  # fmt: skip
    spilled = pgdyno("work-mem", *server_options(target))
    assert "CREATE TABLE kept AS SELECT" in " ".join(spilled.out.split())
    assert_silent(spilled)
    script = tmp_path / "role.sql"
    script.write_text(f"ALTER ROLE somebody PASSWORD '{STATISTICS[0]}';\n")
    load = ("-f", str(script), "-c", "1", "-T", "1s", "--warmup", "0s", "--allow-write")
    assert_silent(pgdyno("bench", *server_options(target), *load, "--json"))
    script.unlink()
    hba = cluster.path / "pg_hba.conf"
    rejecting = f"local all {target.user} trust\nlocal all all reject\n"
    hba.write_text(rejecting)
    run_sql(target, "SELECT pg_reload_conf()")
    name = f"token={STATISTICS[2]}"
    for verb in (("doctor",), ("watch", "--duration", "2s"), ("settings",)):
        rejected = pgdyno(*verb, *server_options(target, name))
        assert "rejects connection" in " ".join(rejected.error.split())
        assert_silent(rejected)
    leaks = {name: seen_in(content) for name, content in stored(tmp_path) if seen_in(content)}
    assert leaks == {}


@pytest.mark.parametrize(
    "asked",
    [
        ("bench", f"postgresql://app:{GIVEN[1]}@127.0.0.1:1/none", "-S"),
        ("bench", f"host=127.0.0.1 port=1 password='{GIVEN[1]}'", "-S"),
        ("bench", f"host=127.0.0.1 port=none password={GIVEN[1]}", "-S"),
        ("watch", f"postgresql://127.0.0.1:1/none?p%61ssword={GIVEN[1]}"),
        ("capture", f"postgresql://app:{GIVEN[1]}@127.0.0.1:1/none"),
        ("doctor", f"postgresql://app:{GIVEN[1]}@127.0.0.1:1/none"),
        ("compare", "-h", "127.0.0.1", "-p", "1", "--variant", f"a: dsn=password={GIVEN[1]}"),
        ("tune", "-h", "127.0.0.1", "-p", "1", "--admin", f"user=a password={GIVEN[1]}"),
        ("bench", "-h", "127.0.0.1", "-p", "1", "--check", f"password={GIVEN[1]}"),
        ("work-mem", f"postgresql://app:{GIVEN[1]}@127.0.0.1:1/none"),
        ("settings", f"postgresql://app:{GIVEN[1]}@127.0.0.1:1/none"),
        ("undo", f"password={GIVEN[1]}"),
        ("nothing", f"password={GIVEN[1]}"),
    ],
    ids=" ".join,
)
def test_a_secret_in_an_option_is_not_in_the_error(asked: tuple[str, ...], pgdyno: Command) -> None:
    said = pgdyno(*asked, env=ENVIRONMENT)
    assert said.code != 0
    assert_silent(said)


def test_a_secret_in_a_file_of_another_tool_is_not_in_the_spec(
    pgdyno: Command, tmp_path: Path
) -> None:
    for tool, text in (("from-benchmarksql", BENCHMARKSQL), ("from-hammerdb", HAMMERDB)):
        path = tmp_path / tool
        path.write_text(text)
        assert_silent(pgdyno("spec", tool, str(path)))
        assert_silent(pgdyno("spec", tool, str(path), "-o", str(tmp_path / f"{tool}.toml")))
        path.unlink()
    assert {name for name, content in stored(tmp_path) if seen_in(content)} == set()


def test_a_secret_in_a_spec_file_is_refused_and_not_shown(pgdyno: Command, tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text(
        f'[experiment]\nname = "a"\n[server]\ndsn = "host=a password={GIVEN[4]}"\n'
        '[dataset]\nkind = "existing"\n[design]\nkind = "bench"\n'
    )
    said = pgdyno("run", str(path))
    assert said.code == 1
    assert_silent(said)


def test_a_defect_keeps_its_trace_without_secrets() -> None:
    path = Path(keep_trace(f"ValueError: host=a password={GIVEN[0]}"))
    assert seen_in(path.read_text()) == set()
    path.unlink()
