"""Every verb that sends a user's text to a user's server checks it: no way leads past the check."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from tests.fixtures.clusters import run_sql, scalar
from tests.fixtures.command import Command, Said, server_options
from tests.fixtures.poolers import Pooler

from pgdyno.cli.main import MODULES, VERBS
from pgdyno.server.target import Target

Server = tuple[str, ...]
BEGINS_READ_WRITE = "BEGIN READ WRITE;\nSELECT wipe();\nCOMMIT;\n"
HIDES = "SELECT wipe();\n"
QUICK = ("-T", "5s", "--warmup", "0s")


def dsn_of(server: Server) -> str:
    names = ("host", "port", "user", "dbname")
    return " ".join(f"{name}={value}" for name, value in zip(names, server[1::2], strict=True))


def spec_of(server: Server, script: Path) -> str:
    return (
        f'[experiment]\nname = "a"\n[server]\ndsn = "{dsn_of(server)}"\n'
        '[dataset]\nkind = "existing"\n'
        f'[workload]\nclients = 1\nduration = "5s"\nwarmup = "0s"\n'
        f'scripts = [{{ file = "{script}" }}]\n[design]\nkind = "bench"\n'
    )


def _run(server: Server, script: Path) -> tuple[str, ...]:
    path = script.with_suffix(".toml")
    path.write_text(spec_of(server, script))
    return "run", str(path)


# The options that take a text which a verb sends to a server of the user's own.
SENDS: dict[tuple[str, str], Callable[[Server, Path], tuple[str, ...]]] = {
    ("bench", "file"): lambda server, script: ("bench", *server, "-f", str(script), *QUICK),
    ("sweep", "file"): lambda server, script: ("sweep", *server, "-f", str(script)),
    ("sweep", "variants"): lambda server, script: (
        *("sweep", *server, "-f", str(script.with_name("reads.sql"))),
        *("--variant", "a: work_mem=1MB", "--variant", f"b: script={script}"),
    ),
    ("compare", "file"): lambda server, script: (
        *("compare", *server, "-f", str(script), *QUICK),
        *("--variant", "a: work_mem=1MB", "--variant", "b: work_mem=2MB"),
    ),
    ("compare", "variants"): lambda server, script: (
        *("compare", *server, "-f", str(script.with_name("reads.sql")), *QUICK),
        *("--variant", "a: work_mem=1MB", "--variant", f"b: script={script}"),
    ),
    ("tune", "file"): lambda server, script: (
        *("tune", *server, "-f", str(script), "-T", "10s", "--budget", "30min"),
        *("--setting", "work_mem", "--admin", dsn_of(server)),
    ),
    ("run", "spec"): _run,
    ("work-mem", "files"): lambda server, script: (
        *("work-mem", *server, "-f", str(script), "--allow-explain-analyze"),
    ),
}
# The names of options that may take a text with statements.
_TEXTS = re.compile(r"file|sql|script|spec|variant|statement|quer", re.I)
# They send nothing to a server of the user's own.
OTHERS = {
    "conf_file": "a postgresql.conf",
    "file_version": "the version of a postgresql.conf",
    "print_sql": "prints",
    "print_spec": "prints",
    "on_file_system": "the kind of a file system",
}
OF_SCRATCH = {("work-mem", "sql"), ("crash", "check_sql")}
OF_RESULTS = {("spec", "file"), ("report", "file"), ("export", "file")}
# The drop-in sends what pgbench sends.
OF_THE_DROP_IN = {("pgbench", "file")}


def parameters() -> set[tuple[str, str]]:
    taken = set()
    for verb in VERBS:
        command = importlib.import_module(MODULES[verb]).command
        names = (param.name for param in command.params if isinstance(param, click.Parameter))
        taken |= {(verb, name) for name in names if name and _TEXTS.search(name)}
    return taken


def test_every_option_that_takes_a_text_is_known_here() -> None:
    sent = {(v, n) for v, n in parameters() if n not in OTHERS}
    sent -= OF_SCRATCH | OF_RESULTS | OF_THE_DROP_IN
    assert sent == set(SENDS)


@pytest.fixture
def guarded(database15: Target) -> Target:
    run_sql(database15, "CREATE TABLE kept AS SELECT 1 AS a")
    run_sql(database15, "CREATE FUNCTION wipe() RETURNS void LANGUAGE sql AS 'DELETE FROM kept'")
    return database15


def given(tmp_path: Path, text: str) -> Path:
    (tmp_path / "reads.sql").write_text("SELECT 1;\n")
    script = tmp_path / "given.sql"
    script.write_text(text)
    return script


def assert_refused(said: Said, target: Target, *words: str) -> None:
    assert said.code == 1, said.err
    assert any(word in " ".join(said.error.split()) for word in words), said.err
    assert scalar(target, "SELECT count(*) FROM kept") == 1


@pytest.mark.parametrize("option", SENDS, ids=[" ".join(option) for option in SENDS])
def test_a_text_that_permits_itself_to_write_is_refused(
    option: tuple[str, str], guarded: Target, pgdyno: Command, tmp_path: Path
) -> None:
    script = given(tmp_path, BEGINS_READ_WRITE)
    said = pgdyno(*SENDS[option](server_options(guarded), script))
    assert_refused(said, guarded, "permits writes", "does more than read")


@pytest.mark.parametrize("verb", [verb for verb, name in SENDS if name in ("file", "files")])
def test_a_value_that_adds_a_statement_is_refused(
    verb: str, guarded: Target, pgdyno: Command, tmp_path: Path
) -> None:
    [option] = [option for option in SENDS if option[0] == verb and option[1] != "variants"]
    asked = SENDS[option](server_options(guarded), given(tmp_path, "SELECT :x;\n"))
    value = "1; COMMIT; DELETE FROM kept; --"
    said = pgdyno(*asked, "-D", f"x={value}")
    if verb == "work-mem":  # The value is a literal, and so harmless.
        assert scalar(guarded, "SELECT count(*) FROM kept") == 1
        return
    assert_refused(said, guarded, "begins another transaction", "does more than read")


@pytest.mark.parametrize("verb", ["bench", "work-mem"])
def test_the_server_refuses_writes_hidden_in_a_function(
    verb: str, guarded: Target, pgdyno: Command, tmp_path: Path
) -> None:
    [option] = [option for option in SENDS if option[0] == verb]
    said = pgdyno(*SENDS[option](server_options(guarded), given(tmp_path, HIDES)))
    assert said.code in (1, 2, 3), said.err
    assert "25006" in said.err + said.out, said.err + said.out
    assert scalar(guarded, "SELECT count(*) FROM kept") == 1


def test_with_permission_a_function_may_write(
    guarded: Target, pgdyno: Command, tmp_path: Path
) -> None:
    [bench] = [SENDS[option] for option in SENDS if option[0] == "bench"]
    script = given(tmp_path, HIDES)
    said = pgdyno(*bench(server_options(guarded), script)[:-4], "--allow-write", "-T", "1s")
    assert "25006" not in said.err + said.out, said.err
    assert scalar(guarded, "SELECT count(*) FROM kept") == 0


def test_a_script_together_with_a_built_in_that_writes_is_refused(
    guarded: Target, pgdyno: Command, tmp_path: Path
) -> None:
    assert pgdyno("init", *server_options(guarded), "-s", "1").code == 0
    script = given(tmp_path, HIDES)
    said = pgdyno("bench", *server_options(guarded), "-b", "tpcb-like", "-f", str(script), *QUICK)
    assert_refused(said, guarded, "share its sessions with tpcb-like")
    # A file with the name of a built-in is a file.
    named = script.rename(tmp_path / "tpcb-like")
    said = pgdyno("bench", *server_options(guarded), "-b", "tpcb-like", "-f", str(named), *QUICK)
    assert_refused(said, guarded, "would write", "share its sessions")


def test_a_script_through_a_pooler_needs_permission(
    pooler: Pooler, pgdyno: Command, tmp_path: Path
) -> None:
    asked = ("bench", *server_options(pooler.target), *QUICK, "--confirm", "pooled@127.0.0.1")
    said = pgdyno(*asked, "-f", str(given(tmp_path, "SELECT 1;\n")))
    assert said.code == 1, said.err
    assert "which cannot keep a session read-only" in " ".join(said.error.split())


def test_a_connection_that_a_function_opens_is_not_read_only(
    guarded: Target, pgdyno: Command, tmp_path: Path
) -> None:
    run_sql(guarded, "CREATE EXTENSION dblink")
    dsn = dsn_of(server_options(guarded)).replace("'", "")
    made = "CREATE FUNCTION far() RETURNS text LANGUAGE sql AS $$SELECT dblink_exec"
    run_sql(guarded, f"{made}('{dsn}', 'DELETE FROM kept')$$")
    bench = SENDS["bench", "file"](server_options(guarded), given(tmp_path, "SELECT far();\n"))
    pgdyno(*bench[:-4], "-T", "1s", "--warmup", "0s")
    assert scalar(guarded, "SELECT count(*) FROM kept") == 0
    # Written in the script, the call is refused.
    direct = given(tmp_path, f"SELECT dblink_exec('{dsn}', 'DELETE FROM kept');\n")
    said = pgdyno(*SENDS["bench", "file"](server_options(guarded), direct))
    assert said.code == 1, said.err
    assert "would write to" in " ".join(said.error.split())


def test_the_drop_in_is_not_limited(guarded: Target, pgdyno: Command, tmp_path: Path) -> None:
    script = given(tmp_path, HIDES)
    said = pgdyno("pgbench", *server_options(guarded), "-n", "-f", str(script), "-t", "1")
    assert said.code == 0, said.err
    assert scalar(guarded, "SELECT count(*) FROM kept") == 0
