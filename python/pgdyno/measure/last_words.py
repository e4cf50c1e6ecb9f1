"""What a scratch server's log said last: the log is removed with the server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pgdyno.errors import ServerError
from pgdyno.measure.under_test import UnderTest
from pgdyno.server.postmaster import last_words, read_log

_HINT = (
    "the results until then are kept; correct the problem that the log names, or use another disk"
)


def words_of_log(under_test: UnderTest) -> str:
    """Return the last sentences of a scratch server's log; "" of somebody else's server."""
    path = under_test.log_path()
    said = last_words(read_log(path)) if path is not None else ()
    return "; ".join(words.rstrip(".") for words in said)


def with_words_of_log(message: str, hint: str, words: str) -> tuple[str, str]:
    """Return an error's message and hint with the log's last words, where there are any."""
    return (f"{message} Its log ends: {words}.", _HINT) if words else (message, hint)


@contextmanager
def quoting_the_log(under_test: UnderTest) -> Iterator[None]:
    """Have an error say what the log says, where it comes of a scratch server that has ended.

    Raises: ServerError.
    """
    try:
        yield
    except ServerError as error:
        if under_test.cluster is None or under_test.cluster.pid is not None:
            raise
        message, hint = with_words_of_log(error.message, error.hint, words_of_log(under_test))
        raise ServerError(message, hint=hint, sqlstate=error.sqlstate) from error
