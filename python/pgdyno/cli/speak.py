"""The two voices: data on standard output, talk on standard error. The only place that prints."""

from __future__ import annotations

import shutil
import sys
import tempfile
import textwrap

_is_quiet = False
_live_width = 0


def be_quiet() -> None:
    """Say nothing more on standard error, except errors."""
    global _is_quiet
    _is_quiet = True


def is_terminal() -> bool:
    """Return whether standard error is a terminal that a live line can be drawn on."""
    return sys.stderr.isatty() and not _is_quiet


def data(text: str) -> None:
    """Write the result itself."""
    clear_live()
    print(text, flush=True)


def note(text: str) -> None:
    """Write one line about what is going on."""
    if not _is_quiet:
        clear_live()
        print(text, file=sys.stderr, flush=True)


def live(text: str) -> None:
    """Replace the live line; only on a terminal."""
    global _live_width
    if not is_terminal():
        return
    columns = shutil.get_terminal_size().columns
    shown = text[: columns - 1]
    print(f"\r{shown}\x1b[K", end="", file=sys.stderr, flush=True)
    _live_width = len(shown)


def clear_live() -> None:
    """Take the live line away, so that what follows begins at the margin."""
    global _live_width
    if _live_width:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        _live_width = 0


def problem(message: str, hint: str, *, sqlstate: str | None = None) -> None:
    """Write an error as one paragraph, and the next step on a line of its own."""
    clear_live()
    code = f" (SQLSTATE {sqlstate})" if sqlstate and sqlstate not in message else ""
    text = f"pgdyno: {message}{code}"
    width = max(60, min(100, shutil.get_terminal_size().columns))
    # A script error brings its own lines (the source and a caret), which must not be refilled.
    lines = [text] if "\n" in text else textwrap.wrap(text, width, break_long_words=False)
    print("\n".join(lines), file=sys.stderr)
    if hint:
        print(f"next: {hint}", file=sys.stderr)
    sys.stderr.flush()


def still_cleaning() -> None:
    """Answer a second Ctrl-C."""
    clear_live()
    print("still cleaning up; a second signal skips nothing", file=sys.stderr, flush=True)


def keep_trace(trace: str) -> str:
    """Store the trace of a defect in a file and return its path."""
    with tempfile.NamedTemporaryFile(
        "w", prefix="pgdyno-defect-", suffix=".txt", delete=False
    ) as file:
        file.write(trace)
    return file.name
