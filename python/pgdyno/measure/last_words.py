"""The last lines of a scratch server's log, for errors: the log is removed with the server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pgdyno.errors import ServerError
from pgdyno.measure.under_test import UnderTest
from pgdyno.server.postmaster import last_words, read_log

_HINT = (
    "the results until then are kept; correct the problem that the log names, or use another disk"
)
_SILENT = "The server's log does not say why, so something outside ended it."
_SILENT_HINT = (
    "the results until then are kept; dmesg shows whether the kernel ended it for lack of memory"
)


def words_of_log(under_test: UnderTest) -> str:
    """Return what a scratch server's log says last; "" for a server of the user's own."""
    path = under_test.log_path()
    if path is None:
        return ""
    said = "; ".join(words.rstrip(".") for words in last_words(read_log(path)))
    return f"The last lines of the server's log: {said}." if said else _SILENT


def with_words_of_log(message: str, hint: str, words: str) -> tuple[str, str]:
    """Return an error's message and hint with what the log says, "" if it cannot be read."""
    if not words:
        return message, hint
    return f"{message} {words}", _SILENT_HINT if words == _SILENT else _HINT


@contextmanager
def quoting_the_log(under_test: UnderTest) -> Iterator[None]:
    """Add the last lines of the log to an error, if a scratch server has ended.

    Raises: ServerError instead of the error in the block.
    """
    try:
        yield
    except ServerError as error:
        if under_test.cluster is None or under_test.cluster.pid is not None:
            raise
        message, hint = with_words_of_log(error.message, error.hint, words_of_log(under_test))
        raise ServerError(message, hint=hint, sqlstate=error.sqlstate) from error
