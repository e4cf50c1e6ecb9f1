"""Each option of each verb changes the result, or is refused: `option_table` says how it is tried.

The options come from the commands themselves, so a new option cannot be forgotten.
"""

from __future__ import annotations

import ast
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from bench.generated import generate
from tests.cli.option_table import BASES, BY_TEST, LOADS, TRIED, Words
from tests.fixtures.captures import tpcb_capture
from tests.fixtures.command import Command

from pgdyno.cli import drop, measure, output, undo
from pgdyno.cli.from_options import OWN_SERVER_ONLY
from pgdyno.cli.main import pgdyno as main_group
from pgdyno.cli.reference import every_context, every_parameter
from pgdyno.errors import PgdynoError
from pgdyno.features.capture.file import encoded
from pgdyno.features.capture.verbs import capture
from pgdyno.features.crash.verbs import crash
from pgdyno.features.doctor.verbs import doctor, noise_floor
from pgdyno.features.tpcc.verbs import check
from pgdyno.features.watch.verbs import watch
from pgdyno.store.experiment import Store

ROOT = Path(__file__).resolve().parents[2]
# They are those of compare, which is tried on a server of the user's own.
OF_OWN_SERVERS = (*OWN_SERVER_ONLY, "observe", "pooler", "ssh", "host_shell", "apply")
OWN = ["-h", "db1", "-d", "bank"]
Outcome = tuple[str, Any]


_SPEC = """
[experiment]
name = "a"
[server]
{server}
[dataset]
kind = "{kind}"
[workload]
scripts = [{{ builtin = "select-only" }}]
[[variant]]
name = "a"
[[variant]]
name = "b"
settings = {{ work_mem = "8MB" }}
[design]
kind = "compare"
"""


class Recorded(Exception):
    """A server would be asked now, with these arguments."""


@pytest.fixture
def result_of(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[[list[str]], Outcome]:
    """Return what a command line leads to: ("refused", message) or ("ran", what it did)."""
    for name in ("PGHOST", "PGSERVICE", "PGHOSTADDR", "PGDYNO_STORE", "PGDATABASE", "PGUSER"):
        monkeypatch.delenv(name, raising=False)
    files = {
        "SQL": "SELECT :aid;\n",
        "CONF": "work_mem = 64MB\nfsync = off\n",
        "OTHERCONF": "work_mem = 65MB\n",
        "LOG": 'LOG:  temporary file: path "base/pgsql_tmp/a", size 1000000\n',
        "OTHERLOG": 'LOG:  temporary file: path "base/pgsql_tmp/a", size 9000000\n',
        "PROPERTIES": "db=postgres\nconn=jdbc:postgresql://db1:5432/bank\nwarehouses=2\n"
        "terminals=2\nrunMins=1\n",
        "SPEC": _SPEC.format(server="scratch = {}", kind="pgbench"),
        "OWNSPEC": _SPEC.format(server='dsn = "host=db1"', kind="existing"),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "CAPTURE").write_bytes(encoded(tpcb_capture()))
    (tmp_path / "FOLDER").mkdir()
    monkeypatch.chdir(tmp_path)

    def recorded(*given: Any, progress: Any = None, **named: Any) -> None:
        every_ns = getattr(progress, "plain_every_ns", None)
        plain = [getattr(value, "root", value) for value in (*given[:1], *named.values())]
        raise Recorded(repr((plain, [getattr(v, "root", "") for v in given], every_ns)))

    for module, function in (
        (measure, "carry_out"),
        (noise_floor, "carry_out"),
        (doctor, "examine"),
        (watch, "watch"),
        (capture, "Reading"),
        (crash, "crash"),
        (check, "connect"),
        (drop, "connect"),
    ):
        monkeypatch.setattr(module, function, recorded)

    def run(line: list[str]) -> Outcome:
        monkeypatch.setattr(output, "_is_quiet", False)
        before = _written(tmp_path)
        try:
            code = main_group.main(line, prog_name="pgdyno", standalone_mode=False)
        except (click.UsageError, PgdynoError) as error:
            message = error.format_message() if isinstance(error, click.UsageError) else str(error)
            capsys.readouterr()
            return "refused", message
        except Recorded as load:
            code = f"{load} quiet {output._is_quiet}"
        shown = capsys.readouterr()
        now = _written(tmp_path)
        said = [str(part).replace(str(tmp_path), "") for part in (code, shown.out, shown.err)]
        return "ran", (said, now.keys() - before.keys(), now)

    return run


def _written(folder: Path) -> dict[str, bytes]:
    """Return the contents of the files, without the name of the folder: each test has another."""
    return {
        str(path.relative_to(folder)): path.read_bytes().replace(bytes(folder), b"")
        for path in folder.rglob("*")
        if path.is_file() and "runs" not in path.parts
    }


@pytest.fixture(scope="session")
def usual_results() -> dict[tuple[str, ...], Outcome]:
    """What command lines without the option led to: many options are tried with the same line."""
    return {}


def every_option() -> list[tuple[str, click.Option]]:
    """Return (verb, option) for each option that changes what a verb does.

    The engine reads those of pgbench: crates/pgdyno-engine/tests/pgbench_options.rs tries them.
    """
    return [
        (verb, parameter)
        for verb, context in every_context()
        for parameter in every_parameter(context.command)
        if isinstance(parameter, click.Option) and "--help" not in parameter.opts
        if verb != "pgbench"
    ]


def words_of(verb: str, option: click.Option) -> Words | None:
    """Return the words of an option: from the table, else by its type; None without a value."""
    name = str(option.name)
    known = TRIED.get((verb, name)) or TRIED.get(name)
    if known is not None:
        return known
    long_name = next(word for word in option.opts if word.startswith("--"))
    needing = "-b tpcc-like" if name.startswith("program_") else ""
    if option.is_flag or (option.flag_value is not None and option.type is click.UNPROCESSED):
        return Words(long_name, needing)
    if isinstance(option.type, click.Choice):
        choices = [c for c in option.type.choices if c != option.default]
        return Words(f"{long_name} {choices[-1]}", needing)
    if isinstance(option.type, click.IntRange | click.FloatRange):
        least = option.type.min or 0
        return Words(f"{long_name} {max(int(least), 0) + 13}", needing)
    return None


def lines_of(verb: str, words: Words) -> list[tuple[list[str], list[str]]]:
    """Return the command lines to compare: without and with the option, in each place."""
    base = [*BASES[verb].split(), *words.needed]
    if verb == "run":
        bases = [base, [word.replace("SPEC", "OWNSPEC") for word in base]]
    elif verb in LOADS and words.used[0] not in ("--host", "--port", "--user", "--database"):
        # tune asks its server before it plans, so it is tried on a scratch server.
        bases = [[*base, *place] for place in (["--scratch"], OWN)[: 1 if verb == "tune" else 2]]
    else:
        bases = [base]
    return [(line, [*line, *words.used]) for line in bases]


@pytest.mark.parametrize(
    ("verb", "option"),
    [pytest.param(v, o, id=f"{v} {o.opts[-1]}") for v, o in every_option()],
)
def test_an_option_changes_the_result_or_is_refused(
    verb: str,
    option: click.Option,
    result_of: Callable[[list[str]], Outcome],
    usual_results: dict[tuple[str, ...], Outcome],
    stored: Path,
    tmp_path: Path,
) -> None:
    if (test := BY_TEST.get((verb, str(option.name))) or BY_TEST.get(str(option.name))) is not None:
        assert is_a_test(test), f"{test} does not exist"
        return
    words = words_of(verb, option)
    assert words is not None, f"{verb} {option.opts}: add a line to tests/cli/option_table.py"
    if verb in ("report", "export", "show", "list", "diff", "note", "undo"):
        link_results(stored, tmp_path)
    tried = []
    for without, with_it in lines_of(verb, words):
        usual = tuple(without)
        if usual not in usual_results:
            usual_results[usual] = result_of(without)
        kind, before = usual_results[usual]
        used, after = result_of(with_it)
        if kind == "refused" and used == "refused":
            continue  # The other words do not fit this kind of server.
        assert kind == "ran", f"{without}: {before}"
        assert (used, after) != (kind, before), f"{' '.join(with_it)} changes nothing"
        tried.append(used)
    assert tried, f"{words.used} was never tried"
    if verb in (*LOADS, "run"):
        needs_a_server = verb == "tune" and str(option.name) in OF_OWN_SERVERS
        assert "ran" in tried or needs_a_server, f"{words.used} is always refused: {after}"


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one result."""
    store = Store(tmp_path_factory.mktemp("stored"))
    generate(store, rounds=2, effect_ratio=0.1, noise_ratio=0.01).seal()
    return store.root


def link_results(stored: Path, folder: Path) -> None:
    """Copy the results to where the verbs look for them."""
    shutil.copytree(stored, folder / "pgdyno-runs", dirs_exist_ok=True)


def is_a_test(name: str) -> bool:
    """Return whether `tests/x.py::test_y` exists."""
    path, _, test = name.partition("::")
    tree = ast.parse((ROOT / path).read_text())
    return test in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_a_check_decides_the_exit_code(pgdyno: Command) -> None:
    asked = ("doctor", "--scratch", "--json")
    findings = pgdyno(*asked).document["findings"]
    is_worse = any(finding["verdict"] in ("warn", "bad") for finding in findings)
    assert pgdyno(*asked, "--check", "good").code == (4 if is_worse else 0)


def test_quiet_prints_no_notes(pgdyno: Command) -> None:
    asked = ("bench", "--scratch", "--dry-run", "-T", "1s")
    assert "warning" in pgdyno(*asked).err
    assert pgdyno(*asked, "-q").err == ""


def test_noise_is_measured_with_its_options(result_of: Callable[[list[str]], Outcome]) -> None:
    base = ["doctor", "--aa"]
    kind, usual = result_of(base)
    assert kind == "ran"
    for words in (["--budget", "1min"], ["--run", "2s"], ["--store", "OTHER"], ["--user", "me"]):
        used, changed = result_of([*base, *words])
        assert (used, changed) != ("ran", usual), words
        assert used == "ran", changed
    used, changed = result_of([*base, "--user", "me", "--confirm", "bank@db1"])
    assert "bank@db1" in str(changed)


def test_undo_uses_the_commands_that_are_given(
    stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link_results(stored, tmp_path)
    given: list[Any] = []

    def undone(_folder: Any, reach: Any, commands: Any, **_rest: Any) -> list[Any]:
        place = {"host": "db1", "port": "5432", "user": "me", "database": "bank"}
        given.append((reach(place).user, commands))
        return []

    monkeypatch.setattr(undo, "undo_outstanding", undone)
    for name in ("apply", "restart", "recover"):
        line = ["undo", "1", "--store", str(tmp_path / "pgdyno-runs"), f"--{name}-command", "mine"]
        main_group.main(line, standalone_mode=False)
        assert getattr(given[-1][1], f"{name}_command") == "mine"
    line = ["undo", "1", "--store", str(tmp_path / "pgdyno-runs")]
    main_group.main([*line, "--command-timeout", "9s"], standalone_mode=False)
    assert given[-1][1].command_timeout_s == 9.0
    main_group.main([*line, "--admin", "host=db1 user=dba"], standalone_mode=False)
    assert given[-1][0] == "dba"
