"""The Tab key in real shells: words, options, values, results, files, names that need quotes."""

from __future__ import annotations

import os
import pty
import re
import resource
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.fixtures import needs
from tests.fixtures.programs import TAB_SHELLS

from pgdyno.cli.completion import SHELLS, script_of
from pgdyno.cli.main import _run
from pgdyno.store.experiment import Store

TAB = "\t"
_PRINTS = {
    "bash": "pgdyno() { printf 'ARGS'; printf '<%s>' \"$@\"; printf 'END\\n'; }\nPS1='ready> '\n",
    "zsh": "pgdyno() { printf 'ARGS'; printf '<%s>' \"$@\"; printf 'END\\n'; }\nPS1='ready> '\n",
    "fish": "function pgdyno; printf ARGS; printf '<%s>' $argv; printf 'END\\n'; end\n"
    "function fish_prompt; echo -n 'ready> '; end\nfunction fish_greeting; end\n",
}
_BEGIN = {"bash": "", "zsh": "autoload -Uz compinit; compinit -u\n", "fish": ""}
Typed = Callable[..., list[str]]


@pytest.fixture(scope="session")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the script of each shell once."""
    place = tmp_path_factory.mktemp("scripts")
    for shell in SHELLS:
        (place / shell).write_text(script_of(shell))
    return place


def started(
    shell: str, script: Path, folder: Path, home: Path, *, user: int | None = None
) -> tuple[int, int]:
    """Start an interactive shell in a new terminal; return its process and the terminal."""
    setup = f"{_BEGIN[shell]}{_PRINTS[shell]}source {script}\ncd {folder}\n"
    environment = {
        "HOME": str(home),
        "PATH": "/usr/bin:/bin",
        "TERM": "dumb",
        "LC_ALL": "C.UTF-8",
        "ZDOTDIR": str(home),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_DATA_HOME": str(home / "data"),
        "COLUMNS": "200",
        "PGSERVICEFILE": str(home.parent / "services"),
        "PGPASSFILE": str(home.parent / "pgpass"),
    }
    rc = {"bash": home / "rc", "zsh": home / ".zshrc", "fish": home / "config/fish/config.fish"}
    rc[shell].parent.mkdir(parents=True, exist_ok=True)
    rc[shell].write_text(setup)
    # Without this folder, fish reads all man pages in the background, for minutes.
    (home / "data/fish/generated_completions").mkdir(parents=True, exist_ok=True)
    argv = {"bash": ["bash", "--rcfile", str(rc["bash"]), "-i"], "zsh": ["zsh", "-i"]}
    child, terminal = pty.fork()
    if child == 0:  # pragma: no cover
        if user is not None:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
        os.execvpe(shell, argv.get(shell, ["fish", "-i"]), environment)
    return child, terminal


def read_until(terminal: int, mark: str, seconds: float = 30) -> str:
    """Return what the terminal shows until `mark` appears."""
    seen, deadline = "", time.monotonic() + seconds
    while mark not in seen:
        left = deadline - time.monotonic()
        assert left > 0, f"{mark!r} did not appear in {seen!r}"
        if select.select([terminal], [], [], left)[0]:
            seen += os.read(terminal, 65536).decode(errors="replace")
    return seen


@pytest.fixture(params=TAB_SHELLS)
def typed(request: pytest.FixtureRequest, scripts: Path, tmp_path: Path) -> Iterator[Typed]:
    """Type a line with tabs into a real shell; return the arguments that the command then has."""
    shell = request.param
    children = []

    def type_in(text: str, folder: Path) -> list[str]:
        home = tmp_path / f"home-{len(children)}"
        home.mkdir()
        child, terminal = started(shell, scripts / shell, folder, home)
        children.append((child, terminal))
        read_until(terminal, "ready> ")
        for part in re.split(f"({TAB})", text):
            os.write(terminal, part.encode())
            time.sleep(0.15)  # A shell that draws candidates drops what is typed meanwhile.
        os.write(terminal, b"\r")
        shown = read_until(terminal, "END\r\n")
        inner = shown.rpartition("ARGS")[2].partition("END")[0]
        return re.findall(r"<([^>]*)>", inner)

    yield type_in
    for child, terminal in children:
        os.close(terminal)
        os.kill(child, 9)
        os.waitpid(child, 0)


def stored(store: Path, *names: str) -> None:
    """Make results without runs."""
    for name in names:
        Store(store).create(name, "bench")


def test_verbs_options_and_their_values_are_completed(typed: Typed, tmp_path: Path) -> None:
    assert typed(f"pgdyno comp{TAB}", tmp_path)[0] in ("comp", "compare", "completion")
    assert typed(f"pgdyno swe{TAB}", tmp_path) == ["sweep"]
    assert typed(f"pgdyno bench --durat{TAB}9s", tmp_path) == ["bench", "--duration", "9s"]
    assert typed(f"pgdyno bench -b select{TAB}", tmp_path) == ["bench", "-b", "select-only"]


def test_settings_kinds_and_tables_are_completed(typed: Typed, tmp_path: Path) -> None:
    line = f"pgdyno bench --set wal_compres{TAB}on"
    assert typed(line, tmp_path) == ["bench", "--set", "wal_compression=on"]
    assert typed(f"pgdyno init ledg{TAB}", tmp_path) == ["init", "ledger"]
    assert typed(f"pgdyno export --table histog{TAB}", tmp_path)[-1] == "histograms"


def test_settings_of_searches_and_variants_topics_and_services_are_completed(
    typed: Typed, tmp_path: Path
) -> None:
    (tmp_path / "services").write_text("# of psql\n[bank]\nhost=db1\n\n[shop]\nhost=db2\n")
    line = f"pgdyno tune --setting max_wal_si{TAB}64MB..4GB"
    assert typed(line, tmp_path) == ["tune", "--setting", "max_wal_size=64MB..4GB"]
    line = f"pgdyno compare --variant wal_compres{TAB}on"
    assert typed(line, tmp_path) == ["compare", "--variant", "wal_compression=on"]
    assert typed(f"pgdyno help kne{TAB}", tmp_path) == ["help", "knee"]
    assert typed(f"pgdyno watch service=ba{TAB}", tmp_path) == ["watch", "service=bank"]


def test_places_are_those_of_the_file_of_passwords_and_no_password_is_shown(
    typed: Typed, tmp_path: Path
) -> None:
    lines = (
        "#no:1:note:u:p\ndb1.example:5433:bank:dba:secret\n*:*:*:dba:s2\na\\:b:1:x:y:z\nshort:1\n"
    )
    (tmp_path / "pgpass").write_text(lines)
    line = f"pgdyno watch -h db{TAB}-d ba{TAB}-U db{TAB}-p 5{TAB}"
    wanted = ["watch", "-h", "db1.example", "-d", "bank", "-U", "dba", "-p", "5433"]
    assert typed(line, tmp_path) == wanted
    assert typed(f"pgdyno watch -d se{TAB}", tmp_path) == ["watch", "-d", "se"]


# What may stand where the file of passwords should be.
ODD_FILES = {
    "a pipe": lambda path: os.mkfifo(path),
    "a folder": lambda path: path.mkdir(),
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "without rights": lambda path: (path.write_text("db2:1:b:c:p\n"), path.chmod(0)),
    "10 MB of lines": lambda path: path.write_text("db2:1:b:c:p\n" * 800_000),
    "one line of 10 MB": lambda path: path.write_text("db2:" * 2_500_000),
    "not UTF-8": lambda path: path.write_bytes(b"\xff\xfe:1:b:c:p\n\0\0:::::\xc3\n"),
    "controls": lambda path: path.write_text(
        "".join(
            f"db{mark}:54{mark}:b{mark}:c{mark}:p\n"
            for mark in ("\x1b[31m", "\x07", "\r", "\x9b2J", "\u202e", "\u200b", "\x7f", "a\tb")
        )
    ),
    "quotes": lambda path: path.write_text("db'\"$(touch made)`touch made`;x:1:b:c:p\n"),
}


@pytest.mark.parametrize("shell", TAB_SHELLS)
@pytest.mark.parametrize("kind", ODD_FILES)
def test_an_odd_file_of_passwords_keeps_nobody_waiting_and_controls_no_terminal(
    kind: str, shell: str, scripts: Path, tmp_path: Path
) -> None:
    ODD_FILES[kind](tmp_path / "pgpass")
    asked = "_pgdyno_candidates watch -h ''; _pgdyno_candidates watch service="
    if shell == "fish":
        asked = "complete -C 'pgdyno watch -h '; complete -C 'pgdyno watch service='"
    begin = f"autoload -Uz compinit; compinit -u -d {tmp_path}/dump\n" if shell == "zsh" else ""
    variables = {"PGPASSFILE": f"{tmp_path}/pgpass", "PGSERVICEFILE": f"{tmp_path}/pgpass"}
    done = subprocess.run(
        [shell, "-c", f"{begin}source {scripts / shell}\n{asked}"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
        timeout=20,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8", **variables},
    )
    shown = done.stdout.decode(errors="replace")
    assert [letter for letter in shown if not letter.isprintable() and letter not in "\t\n"] == []
    assert len(shown) < 1000
    assert not (tmp_path / "made").exists()


def test_the_setting_within_a_quoted_variant_is_completed(
    typed: Typed, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    # bash ends the quotes with the only candidate, and takes what follows as part of the word.
    end = "on" if request.node.callspec.params["typed"] == "bash" else "on'"
    line = f"pgdyno compare --variant 'on: wal_compres{TAB}{end}"
    assert typed(line, tmp_path) == ["compare", "--variant", "on: wal_compression=on"]


def test_results_are_completed_by_number_and_by_names_that_need_quotes(
    typed: Typed, tmp_path: Path
) -> None:
    stored(tmp_path / "pgdyno-runs", "night", 'it\'s a "run"', "b\x07ell\n")
    assert typed(f"pgdyno show nig{TAB}", tmp_path) == ["show", "night"]
    assert typed(f"pgdyno show it{TAB}", tmp_path) == ["show", 'it\'s a "run"']
    assert typed(f"pgdyno report la{TAB}", tmp_path) == ["report", "last"]
    assert typed(f"pgdyno show b{TAB}", tmp_path) == ["show", "b"]


def test_files_of_the_right_kind_are_completed(typed: Typed, tmp_path: Path) -> None:
    for name in ("my load.sql", "my load.txt", "spec.toml", "speck.txt"):
        (tmp_path / name).touch()
    assert typed(f"pgdyno bench -f my{TAB}", tmp_path) == ["bench", "-f", "my load.sql"]
    assert typed(f"pgdyno run spe{TAB}", tmp_path) == ["run", "spec.toml"]


def test_nothing_that_is_typed_is_evaluated(typed: Typed, tmp_path: Path) -> None:
    line = f"pgdyno show '$(touch made)'`{TAB}"
    typed(line.replace("`", ""), tmp_path)
    assert not (tmp_path / "made").exists()


def test_names_of_results_and_files_are_not_evaluated(typed: Typed, tmp_path: Path) -> None:
    hostile = ("a$(touch made)", "b`touch made`", "c;touch made", "d & touch made", "e|touch made")
    stored(tmp_path / "pgdyno-runs", *hostile, "f*", "g!!", "h~", "i\\x", "$(touch made)", "-n")
    (tmp_path / "y$(touch made).sql").touch()
    text = "".join(f"pgdyno show {letter}{TAB}; " for letter in "abcde").rstrip("; ")
    typed(text, tmp_path)
    for letter, name in zip("abcde", hostile, strict=True):
        assert typed(f"pgdyno show {letter}{TAB}", tmp_path) == ["show", name]
    assert typed(f"pgdyno bench -f y{TAB}", tmp_path)[-1] == "y$(touch made).sql"
    assert not (tmp_path / "made").exists()


def test_a_pipe_in_place_of_the_index_keeps_nobody_waiting(typed: Typed, tmp_path: Path) -> None:
    store = tmp_path / "it's"
    store.mkdir()
    os.mkfifo(store / ".index")
    assert typed(f"pgdyno show --store it\\'s nig{TAB}", tmp_path)[-1] == "nig"


HOSTILE = ("$(touch made)", "`touch made`", "a;touch made", "b|touch made", "c&touch made&")
HOSTILE += ("d<in", "f*", "g?", "~h", "!i", "#j", "-k", "{l,m}", "[p]", "'n", 'e\\back"o')


# The first of them are among the names of the test above.
@pytest.mark.parametrize(
    "name", [*(pytest.param(name, marks=pytest.mark.slow) for name in HOSTILE[:-2]), *HOSTILE[-2:]]
)
def test_a_hostile_name_is_completed_as_it_is_and_nothing_runs(
    name: str, typed: Typed, tmp_path: Path
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    stored(folder / "pgdyno-runs", f"x{name}")
    (folder / f"y{name}.sql").touch()
    assert typed(f"pgdyno show x{TAB}", folder) == ["show", f"x{name}"]
    assert typed(f'pgdyno show "x{TAB}', folder) == ["show", f"x{name}"]
    assert typed(f"pgdyno bench -f y{TAB}", folder) == ["bench", "-f", f"y{name}.sql"]
    assert sorted(path.name for path in folder.iterdir()) == ["pgdyno-runs", f"y{name}.sql"]


@pytest.mark.parametrize("shell", TAB_SHELLS)
def test_a_store_and_a_folder_without_rights_complete_nothing_and_say_nothing(
    shell: str, scripts: Path, house: Path
) -> None:
    needs.offered(os.geteuid() == 0, "only root can become another user")
    home = house / f"visitor-{shell}"
    (home / "pgdyno-runs").mkdir(parents=True)
    home.chmod(0o777)
    stored(home / "pgdyno-runs", "night")
    (home / "pgdyno-runs").chmod(0)
    script = home / "script"
    shutil.copy(scripts / shell, script)
    script.chmod(0o644)
    child, terminal = started(shell, script, home, home, user=65534)
    try:
        read_until(terminal, "ready> ")
        for part in ("pgdyno show nig", TAB, " -f x", TAB):
            os.write(terminal, part.encode())
            time.sleep(0.3)
        os.write(terminal, b"\r")
        shown = read_until(terminal, "END\r\n")
        assert "<show><nig><-f><x>END" in shown, shell
        assert "pgdyno-runs" not in shown, shell
    finally:
        os.close(terminal)
        os.kill(child, 9)
        os.waitpid(child, 0)


def test_a_store_that_cannot_be_read_completes_nothing_and_says_nothing(
    typed: Typed, tmp_path: Path
) -> None:
    store = tmp_path / "pgdyno-runs"
    store.mkdir()
    (store / ".index").mkdir()
    assert typed(f"pgdyno show ni{TAB}", tmp_path) == ["show", "ni"]


@pytest.mark.parametrize("shell", TAB_SHELLS)
def test_a_tab_takes_at_most_60_ms_of_cpu_with_10000_results(
    shell: str, scripts: Path, tmp_path: Path
) -> None:
    store = tmp_path / "pgdyno-runs"
    store.mkdir()
    lines = (f"{number}\tr-{number}\tbench\tresult {number}\n" for number in range(1, 10_001))
    (store / ".index").write_text("".join(lines))
    often = 20
    words = "set -l i 0; while test $i -lt {n}; {call} >/dev/null; set i (math $i + 1); end"
    loop = {
        "bash": "for ((i = 0; i < {n}; i++)); do _pgdyno_candidates show 12 >/dev/null; done",
        "zsh": "for ((i = 0; i < {n}; i++)); do _pgdyno_candidates show 12 >/dev/null; done",
        "fish": words.replace("{call}", 'complete -C "pgdyno show 12"'),
    }[shell]
    source = f"source {scripts / shell}\n"
    if shell == "zsh":
        source = f"autoload -Uz compinit; compinit -u -d {tmp_path}/dump\n{source}"

    def cpu_s(count: int) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [shell, "-c", source + loop.replace("{n}", str(count))],
            check=True,
            cwd=tmp_path,
            capture_output=True,
            env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert (cpu_s(often) - cpu_s(0)) / often <= 0.060


def test_list_writes_an_index_that_is_missing_or_stale(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(tmp_path, "one", "two")
    index = tmp_path / ".index"
    assert [line.split("\t")[3] for line in index.read_text().splitlines()] == ["one", "two"]
    shutil.rmtree(next(tmp_path.glob("one-*")))
    assert _run(["list", "--store", str(tmp_path)]) == 0
    assert index.read_text().split("\t")[0] == "2"
    index.unlink()
    assert _run(["list", "--store", str(tmp_path)]) == 0
    assert index.read_text().split("\t")[0] == "2"


def test_the_verb_says_where_the_script_belongs(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["completion", "fish"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("# Completion of pgdyno in fish")
    assert "~/.config/fish/completions/pgdyno.fish" in said.err


@pytest.mark.parametrize("begun", ["it\\'s", "'$(t", "\"it's"])
def test_a_name_that_is_begun_with_quotes_is_completed(
    begun: str, typed: Typed, tmp_path: Path
) -> None:
    names = ("it's $(touch made)", "$(touch made)")
    stored(tmp_path / "pgdyno-runs", *names)
    shown = typed(f"pgdyno show {begun}{TAB}", tmp_path)
    assert shown == ["show", names["$" in begun]]
    assert not (tmp_path / "made").exists()
