"""Errors as programs read them: documents, exit codes, closed streams, altered results."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
from pathlib import Path

import pytest
from tests.fixtures.command import PROGRAM, Command
from tests.store.contents import written

from pgdyno.cli import output
from pgdyno.cli.main import _run
from pgdyno.loop.journal import record_decision, record_finished
from pgdyno.spec.planned import Cell, PlannedRun, Stop
from pgdyno.store.experiment import Store
from pgdyno.store.folder import ExperimentFolder


def result(store: Path) -> ExperimentFolder:
    """Make a sealed result of one run."""
    folder = Store(store).create("a", "bench")
    folder.write_spec("name = 'a'\n")
    number = written(folder).finish().number
    record_decision(folder, PlannedRun(number, "detail", 1, Cell((0,), 1), 0, 10**9, 1))
    record_finished(folder, number, 5)
    record_decision(folder, Stop("done"))
    folder.write_analysis({"sentence": "5 tps", "runs": 2, "runs_valid": 1, "is_complete": True})
    folder.seal()
    return folder


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (["show", "77", "--json"], "store"),
        (["bench", "--scratch", "-T", "soon", "--json"], "spec"),
        (["bench", "--nosuch", "--json"], "usage"),
        (["bench", "-h", "/nowhere", "-d", "x", "--json"], "server"),
    ],
)
def test_under_json_an_error_is_a_document(
    line: list[str],
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert _run(line) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["format"] == "pgdyno.error/1"
    assert document["error"]["kind"] == kind
    assert document["error"]["message"]
    assert document["error"]["hint"]


@pytest.mark.parametrize("verb", ["check", "spec"])
def test_a_missing_word_is_named_in_one_paragraph(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run([verb]) == 1
    *message, hint = capsys.readouterr().err.splitlines()
    assert "Choose from: " in " ".join(message)
    assert len(message) < 3
    assert not any("\t" in line for line in message)
    assert hint == f"next: pgdyno {verb} --help"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_not_a_defect(closed: str, tmp_path: Path) -> None:
    done = subprocess.run(
        f"{shlex.quote(str(PROGRAM))} list {closed}",
        shell=True, cwd=tmp_path, env={**os.environ, "PGDYNO_STORE": str(tmp_path)},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_a_store_that_refuses_is_found_before_a_server_is_asked(
    pgdyno: Command, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        port = str(server.getsockname()[1])
        (tmp_path / "taken").write_text("")
        said = pgdyno(
            *("bench", "-h", "127.0.0.1", "-p", port, "-d", "x", "-T", "1s"),
            *("--store", tmp_path / "taken" / "store"),
        )
        with pytest.raises(TimeoutError):
            server.accept()
    assert said.code == 1
    assert "taken" in said.error


def test_the_store_is_listed_by_its_owner_alone(tmp_path: Path) -> None:
    # A scratch server of another user may run inside: it passes through, and reads nothing else.
    store = tmp_path / "store"
    store.mkdir(mode=0o755)
    first = Store(store).create("a", "bench")
    assert store.stat().st_mode & 0o777 == 0o711
    store.chmod(0o755)
    Store(store).create("b", "bench")
    assert store.stat().st_mode & 0o777 == 0o711
    assert first.folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_of_other_things_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    tmp_path.chmod(0o755)
    Store(tmp_path).create("a", "bench")
    assert tmp_path.stat().st_mode & 0o777 == 0o755


def test_list_marks_what_is_not_valid_interrupted_or_altered(pgdyno: Command) -> None:
    folder = result(pgdyno.store)
    listed = pgdyno("list").out
    assert "1 of 2 runs NOT VALID" in listed
    assert "ALTERED" not in listed
    folder.write_analysis({"sentence": "5", "runs": 1, "runs_valid": 0, "is_complete": False})
    listed = " ".join(pgdyno("list").out.split())
    assert ", interrupted, NOT VALID, ALTERED since: analysis.json was changed" in listed
    told = {"sentence": "NOT VALID: 5 tps", "runs": 1, "runs_valid": 0, "is_complete": True}
    folder.write_analysis(told)
    assert pgdyno("list").out.count("NOT VALID") == 1, "the sentence begins with it"
    folder.write_analysis({**told, "is_complete": False})
    [row] = pgdyno("list", "--json").document["results"]
    assert (row["judged_count"], row["valid_count"], row["is_complete"]) == (1, 0, False)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("runs/0007/summary.json", None),
        ("runs/0007/summary.json", "{}"),
        ("runs/0007/summary.json", "{"),
        ("runs/0007/intervals.parquet", None),
        ("runs/0007/intervals.parquet", "nonsense"),
        ("spec.toml", "a = ["),
        ("spec.toml", ""),
        ("plan.jsonl", ""),
    ],
)
def test_a_damaged_file_of_a_result_is_named(
    name: str, content: str | None, pgdyno: Command
) -> None:
    folder = result(pgdyno.store)
    path = folder.folder / name
    if content is None:
        path.unlink()
    else:
        path.write_text(content)
    said = pgdyno("show", "1")
    assert said.code == 1
    assert f"{name} {'is missing' if content is None else 'was changed'}" in " ".join(
        said.error.split()
    )
    assert len(said.error.splitlines()) < 8


@pytest.mark.parametrize("name", ["runs/0007/intervals.parquet", "runs/0007/summary.json"])
@pytest.mark.parametrize("content", [None, "nonsense"])
@pytest.mark.parametrize("table", ["runs", "intervals"])
def test_an_export_names_a_damaged_file(
    table: str, content: str | None, name: str, pgdyno: Command
) -> None:
    folder = result(pgdyno.store)
    path = folder.folder / name
    if content is None:
        path.unlink()
    else:
        path.write_text(content)
    said = pgdyno("export", "1", "--table", table)
    words = f"{name} {'is missing' if content is None else 'was changed'}"
    assert words in " ".join(said.err.split())
    assert "Traceback" not in said.err
    assert "defect" not in said.err


def test_a_note_does_not_bless_what_somebody_altered(pgdyno: Command) -> None:
    folder = result(pgdyno.store)
    (folder.folder / "spec.toml").write_text("altered")
    assert pgdyno("note", "1", "looked at it").code == 0
    assert ExperimentFolder(folder.folder).verify() == ["spec.toml was changed."]


TWO = ("--variant", "a: work_mem=1MB", "--variant", "b: work_mem=2MB")


@pytest.mark.parametrize(
    ("words", "warnings"),
    [
        (("bench", "-T", "3"), ["a run of 3 s can only end NOT VALID"]),
        (("bench", "-T", "10"), []),
        (("bench", "-t", "3"), []),
        (("sweep", "-T", "3"), ["a run at a level of 3 s can only end NOT VALID"]),
        (("sweep", "--knee-duration", "5s"), ["the run at the knee of 5 s can only end NOT VALID"]),
        (("sweep",), []),
        (
            ("compare", "-T", "3", *TWO),
            ["are needed, unless one execution of the script takes longer than 300 ms"],
        ),
        (
            ("compare", "-T", "3", "--metric", "p99", *TWO),
            ["a run of 3 s can only end NOT VALID: at least 5 s are needed\n"],
        ),
        (("compare", *TWO), []),
    ],
)
def test_a_warning_before_the_run_says_that_it_cannot_be_valid(
    words: tuple[str, ...], warnings: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run([*words, "--scratch", "--dry-run"]) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning")]
    assert len(told) == len(warnings)
    for line, words_of_warning in zip(told, warnings, strict=True):
        assert words_of_warning in line + "\n"


def test_control_characters_are_shown_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    output.data("a\x1b[31mred\x07\tb\nc \u202etxt\u2066 \N{ZERO WIDTH SPACE}")
    output.note("n\x1b[2J\nwarning: forged")
    output.problem("no table p\u009b2J\npgdyno: all is well", "x\nnext: rm -rf /")
    shown = capsys.readouterr()
    assert shown.out == "a\\u001b[31mred\\u0007\tb\nc \\u202etxt\\u2066 \\u200b\n"
    assert shown.err == (
        "n\\u001b[2J\n  warning: forged\n"
        "pgdyno: no table p\\u009b2J\n  pgdyno: all is well\nnext: x\n  next: rm -rf /\n"
    )


def test_an_error_begins_with_the_program_and_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    output.problem("/" + "long" * 30 + " exists, and is not replaced.", "name a new file")
    first, *_, last = capsys.readouterr().err.splitlines()
    assert first.startswith("pgdyno: /long")
    assert last == "next: name a new file"


def test_a_json_document_with_control_characters_in_names_stays_valid(
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = "c1 \u009b2J del \x7f bidi \u202e tag \U000e0041 esc \x1b"
    output.data(json.dumps({"name": name}, ensure_ascii=False))
    said = capsys.readouterr().out
    assert json.loads(said) == {"name": name}
    assert said.rstrip("\n").isprintable()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["init", "tpcc", "--warehouses", "ten"], "'ten' is not a whole number."),
        (["bench", "-c", "many"], "'many' is not a whole number."),
        (["compare", "--duraton", "5s"], "Did you mean '--duration'?"),
        (["compare", "--repeat", "5"], "The comparison ends by itself: set --precision"),
        (["compare", "--unheard-of"], "No such option '--unheard-of'."),
    ],
)
def test_a_wrong_option_is_refused_in_plain_words(
    line: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(line) == 1
    assert said in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("verb", ["bench", "compare", "tune"])
def test_a_list_of_clients_names_the_verb_that_takes_one(pgdyno: Command, verb: str) -> None:
    said = (
        pgdyno(verb, "-c", "1,8,32", "--variant", "a: ")
        if verb == "compare"
        else pgdyno(verb, "-c", "1,8,32")
    )
    assert said.code == 1
    assert "next: pgdyno sweep -c 1,8,32 measures each; --variant adds variants" in said.err
