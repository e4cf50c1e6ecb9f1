"""Data on standard output, messages on standard error. The only place that prints."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from pgdyno.errors import StoreError
from pgdyno.redaction import printable, redacted, redacted_output
from pgdyno.report.text_page import WIDTH

_is_quiet = False
_is_json = False
# Tables need this width. A narrower terminal wraps their lines.
_WIDTH_MIN = 72
# Width of a terminal that does not report its width.
_WIDTH_USUAL = 80
_LABEL = re.compile(r"\S+  +")
# Work that lasts longer is named.
_WAIT_S = 2.0
_live_lines = 0


def use_any_encoding() -> None:
    """Print `?` for characters that the terminal does not have; JSON stays valid."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def be_quiet() -> None:
    """From now on, write only errors to standard error."""
    global _is_quiet
    _is_quiet = True


def is_terminal() -> bool:
    """Return whether standard error is a terminal with a movable cursor, for live lines.

    With TERM=dumb the cursor cannot move (a shell in an editor, a log of a session).
    """
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and not _is_quiet


def width() -> int:
    """Return the width of text on standard output: the terminal's width, from 72 to 100 characters.

    Without a terminal the width is 100, so that scripts always find the same lines.
    """
    if not sys.stdout.isatty():
        return WIDTH
    return max(_WIDTH_MIN, min(WIDTH, shutil.get_terminal_size().columns))


def data(text: str) -> None:
    """Write the result to standard output.

    Raises: StoreError if standard output is a file on a full disk.
    """
    clear_live()
    _write(sys.stdout, printable(text) + "\n")


def note(text: str) -> None:
    """Write one line about the progress; on a narrow terminal it is wrapped."""
    if _is_quiet:
        return
    clear_live()
    text = _indented(printable(text))
    if sys.stderr.isatty() and "\n" not in text:
        label = _LABEL.match(text)
        text = textwrap.fill(
            text,
            max(20, os.get_terminal_size(sys.stderr.fileno()).columns or _WIDTH_USUAL),
            subsequent_indent=" " * len(label[0] if label else "  "),
            break_long_words=False,
            break_on_hyphens=False,
        )
    _write(sys.stderr, text + "\n")


def warning(message: str, hint: str) -> None:
    """Write a warning and its next step as two sentences."""
    text = message[:1].upper() + message[1:]
    ends = "" if text.endswith((".", "!", "?")) else "."
    note(f"warning: {text}{ends} {hint[:1].upper() + hint[1:]}".rstrip())


def live(*lines: str) -> None:
    """Replace the live lines; only on a terminal."""
    global _live_lines
    if not is_terminal():
        return
    columns, rows = shutil.get_terminal_size()
    texts = (printable(" ".join(line.splitlines())) for line in lines[: rows - 1])
    shown = [text[: columns - 1] for text in texts]
    _write(sys.stderr, _erasing() + "\n".join(shown))
    _live_lines = len(shown)


@contextmanager
def doing(words: str, after_s: float = _WAIT_S) -> Iterator[None]:
    """Name the work of the block if it lasts longer than `after_s`."""
    timer = threading.Timer(after_s, live if is_terminal() else note, [f"{words} ..."])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def clear_live() -> None:
    """Erase the live lines, so that the next text begins at the margin."""
    global _live_lines
    if _live_lines:
        _write(sys.stderr, _erasing())
        _live_lines = 0


def _indented(text: str) -> str:
    """Return a text whose further lines are indented, so that a name cannot add a message."""
    return text.replace("\n", "\n  ")


def _erasing() -> str:
    """Return the control codes that erase from the first live line on."""
    up = f"\x1b[{_live_lines - 1}A" if _live_lines > 1 else ""
    return f"\r{up}\x1b[J"


def problem(message: str, hint: str, *, sqlstate: str | None = None) -> None:
    """Write an error as one paragraph, and the next step on a separate line."""
    clear_live()
    code = f" (SQLSTATE {sqlstate})" if sqlstate and sqlstate not in message else ""
    text = printable(redacted(f"pgdyno: {message}{code}"))
    room = max(20, min(WIDTH, shutil.get_terminal_size().columns))
    # A script error has several lines (the source and a caret), which are not wrapped.
    if "\n" in text:
        lines = [_indented(text)]
    else:
        # The name of the program stays with the first word, such as a long path.
        bound = text.replace(" ", "\xa0", 1)
        lines = textwrap.wrap(bound, room, break_long_words=False, break_on_hyphens=False)
        lines[0] = lines[0].replace("\xa0", " ", 1)
    if hint:
        lines.append(_indented(f"next: {printable(hint)}"))
    _write(sys.stderr, "\n".join(lines) + "\n")


def expect_json(is_expected: bool) -> None:
    """From now on, also write errors as JSON documents to standard output, because of --json."""
    global _is_json
    _is_json = is_expected


def failed(kind: str, message: str, hint: str, *, sqlstate: str | None = None) -> None:
    """Write an error that leaves no result; with --json, the document has the error."""
    problem(message, hint, sqlstate=sqlstate)
    if _is_json:
        error = {"kind": kind, "message": message, "hint": hint}
        if sqlstate is not None:
            error["sqlstate"] = sqlstate
        data(json.dumps({"format": "pgdyno.error/1", "error": error}, indent=2, ensure_ascii=False))


def still_cleaning() -> None:
    """Tell the user after a second Ctrl-C that cleaning up continues."""
    clear_live()
    _write(sys.stderr, "still cleaning up; another signal does not make it faster\n")


def waits_for(text: str) -> None:
    """Tell the user, who asked for the end, what must end before pgdyno does."""
    clear_live()
    _write(sys.stderr, f"waiting for the end of {printable(text)}\n")


def keep_trace(trace: str) -> str:
    """Store the trace of a defect in a file and return its path."""
    import tempfile

    with tempfile.NamedTemporaryFile(
        "w", prefix="pgdyno-defect-", suffix=".txt", delete=False
    ) as file:
        file.write(redacted(trace))
    return file.name


def _write(stream: TextIO, text: str) -> None:
    """Write without secrets, and flush. If nobody reads (`| head -1`), the run continues.

    Raises: StoreError if standard output cannot be written for another reason.
    """
    try:
        print(redacted_output(text), end="", file=stream, flush=True)
    except OSError as error:
        # Otherwise Python would try to write the rest of the buffer at exit, and report an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if stream is sys.stdout and not isinstance(error, BrokenPipeError):
            raise StoreError(
                f"Standard output cannot be written: {error.strerror}.",
                hint="free some space there; the result is kept: pgdyno show",
            ) from None
