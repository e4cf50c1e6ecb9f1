"""Where words go when nobody can take them: closed pipes, full disks, narrow encodings."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import click
import pytest
from tests.fixtures.command import PROGRAM

from pgdyno.cli import options
from pgdyno.errors import StoreError

SAYS = (
    "from pgdyno.cli import output\n"
    "output.use_any_encoding()\n"
    "for number in range(3):\n"
    "    output.note(f'note {number}')\n"
    "    output.data(f'data {number} \\N{FIRE}')\n"
    "raise SystemExit(3)\n"
)


def _run(*, stdout: int, stderr: int, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", SAYS],
        stdout=stdout,
        stderr=stderr,
        env={**os.environ, **environment},
        timeout=60,
        check=False,
    )


def _closed_pipe() -> int:
    reader, writer = os.pipe()
    os.close(reader)
    return writer


def test_a_closed_standard_output_does_not_end_the_command() -> None:
    writer = _closed_pipe()
    done = _run(stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert done.returncode == 3
    assert done.stderr.decode() == "note 0\nnote 1\nnote 2\n"


def test_the_data_are_complete_although_standard_error_is_closed() -> None:
    writer = _closed_pipe()
    done = _run(stdout=subprocess.PIPE, stderr=writer, PYTHONIOENCODING="utf-8")
    os.close(writer)
    assert done.returncode == 3
    assert done.stdout.decode().splitlines()[-1] == "data 2 \N{FIRE}"


def test_a_terminal_without_a_character_shows_a_question_mark() -> None:
    done = _run(stdout=subprocess.PIPE, stderr=subprocess.PIPE, PYTHONIOENCODING="ascii")
    assert done.returncode == 3
    assert done.stdout == b"data 0 ?\ndata 1 ?\ndata 2 ?\n"


def test_standard_output_on_a_full_disk_is_an_error_with_a_next_step() -> None:
    with Path("/dev/full").open("w") as full:
        done = _run(stdout=full.fileno(), stderr=subprocess.PIPE)
    assert "StoreError: Standard output cannot be written: No space left" in done.stderr.decode()
    assert "Exception ignored" not in done.stderr.decode()


@pytest.mark.parametrize("name", ["", "missing/out.json"])
def test_a_json_file_that_cannot_be_written_is_refused_before_anything_else(
    name: str, tmp_path: Path
) -> None:
    reached = []

    @click.command()
    @options.json_option
    def command(json_to: str | None) -> None:
        reached.append(json_to)

    with pytest.raises(click.BadParameter, match="cannot be written"):
        command.main(["--json", str(tmp_path / name)], standalone_mode=False)
    command.main(["--json", str(tmp_path / "out.json")], standalone_mode=False)
    command.main(["--json"], standalone_mode=False)
    assert reached == [str(tmp_path / "out.json"), "-"]


def test_json_goes_to_a_file_and_the_text_to_the_screen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out.json"
    options.write("words", json.dumps({"tps": 1}), str(target))
    assert capsys.readouterr().out == "words\n"
    assert json.loads(target.read_text()) == {"tps": 1}


def test_a_report_that_cannot_be_written_says_why(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be written: Is a directory"):
        options.write_file(tmp_path, "page")


@pytest.mark.parametrize(("columns", "set_in"), [(60, 72), (80, 80), (200, 100)])
def test_text_is_as_wide_as_its_terminal(columns: int, set_in: int) -> None:
    ours, terminal = pty.openpty()
    try:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        assert _width(terminal) == set_in
    finally:
        os.close(terminal)
        os.close(ours)


def test_text_for_a_file_is_100_columns_wide_whatever_the_terminal_is(tmp_path: Path) -> None:
    with (tmp_path / "text").open("wb") as file:
        assert _width(file.fileno()) == 100


@pytest.mark.parametrize(("terminal_type", "shown"), [("xterm", "\r\x1b[J5 tps"), ("dumb", "end")])
def test_a_terminal_that_cannot_move_its_cursor_gets_no_live_line(
    terminal_type: str, shown: str
) -> None:
    ours, terminal = pty.openpty()
    try:
        # What is written after the live line shows that there was none.
        said = "from pgdyno.cli import output; output.live('5 tps'); output.note('end')"
        subprocess.run(
            [sys.executable, "-c", said],
            stdin=subprocess.DEVNULL,
            stderr=terminal,
            env={**os.environ, "TERM": terminal_type},
            timeout=60,
            check=True,
        )
        assert os.read(ours, 4096).decode().startswith(shown)
    finally:
        os.close(terminal)
        os.close(ours)


def test_a_live_line_escapes_what_would_move_the_cursor() -> None:
    ours, terminal = pty.openpty()
    try:
        said = "from pgdyno.cli import output; output.live('db \\x1b]0;t\\x07\\n\\u009b2J\\u202e')"
        subprocess.run(
            [sys.executable, "-c", said],
            stdin=subprocess.DEVNULL,
            stderr=terminal,
            env={**os.environ, "TERM": "xterm", "PYTHONIOENCODING": "utf-8"},
            timeout=60,
            check=True,
        )
        shown = os.read(ours, 4096).decode().removeprefix("\r\x1b[J")
        assert shown == r"db \u001b]0;t\u0007 \u009b2J\u202e"
    finally:
        os.close(terminal)
        os.close(ours)


def test_a_note_on_a_narrow_terminal_is_broken_between_words() -> None:
    ours, terminal = pty.openpty()
    try:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 30, 0, 0))
        note = "target  db1:5432/bank  PostgreSQL 15.18, scale 10"
        subprocess.run(
            [sys.executable, "-c", f"from pgdyno.cli import output; output.note({note!r})"],
            stdin=subprocess.DEVNULL,
            stderr=terminal,
            env={name: value for name, value in os.environ.items() if name != "COLUMNS"},
            timeout=60,
            check=True,
        )
        shown = os.read(ours, 4096).decode().replace("\r\n", "\n")
    finally:
        os.close(terminal)
        os.close(ours)
    assert shown == "target  db1:5432/bank\n        PostgreSQL 15.18,\n        scale 10\n"


def _width(stdout: int) -> int:
    """Return how wide a program sets text whose standard output is that descriptor."""
    done = subprocess.run(
        [sys.executable, "-c", "from pgdyno.cli import output; raise SystemExit(output.width())"],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if name != "COLUMNS"},
        timeout=60,
        check=False,
    )
    assert not done.stderr
    return done.returncode


@pytest.mark.parametrize(
    ("verb", "is_said"), [("watch", True), ("pgbench", False), ("watch --help", False)]
)
def test_a_terminal_shows_at_once_which_verb_is_loaded(
    verb: str, is_said: bool, tmp_path: Path
) -> None:
    ours, terminal = pty.openpty()
    try:
        subprocess.run(
            [PROGRAM, *verb.split()],
            env={**os.environ, "TERM": "xterm", "PGDYNO_STORE": str(tmp_path), "PGPORT": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=terminal,
            timeout=60,
            check=False,
        )
        os.write(terminal, b"end")
        said = os.read(ours, 4096).decode()
    finally:
        os.close(terminal)
        os.close(ours)
    # The line is erased before the next one.
    assert said.startswith("\r\x1b[Jpgdyno watch starts ...\r\x1b[J") is is_said
    assert ("starts ..." in said) is is_said
