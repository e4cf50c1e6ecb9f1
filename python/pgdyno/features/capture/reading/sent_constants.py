"""Constants of a program's statements, from the texts that sessions show.

pg_stat_statements has `$n` in place of constants. A session shows the text of its last statement as
the program sent it: with constants, and `$n` for parameters. A text may be cut; what it shows of
its beginning counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

# The server cuts longer texts: track_activity_query_size.
_CUT_BYTES = 1023
_NUMBER = re.compile(r"\$(\d+)")
_TEXT = r"[EeBbXx]?'(?:[^']|'')*'"
_LITERAL = re.compile(
    rf"\$\d+|{_TEXT}|[-+]?\s*\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|true\b|false\b|null\b", re.I
)
_WORDS: Mapping[str, str | None] = {"true": "t", "false": "f", "null": None}


def constants_of(counted: str, sent: str) -> dict[int, str | None]:
    """Return the constant for each number that has one; None is NULL.

    Args: counted, the text of pg_stat_statements; sent, that of a session.
    """
    constants: dict[int, str | None] = {}
    # A constant at the end of a text that is cut may be cut, too.
    whole = len(sent) - 1 if len(sent.encode()) >= _CUT_BYTES else len(sent) + 1
    parts = _NUMBER.split(counted)
    at = len(parts[0])
    if not _agree(parts[0], sent, 0):
        return {}
    for number, after in zip(parts[1::2], parts[2::2], strict=True):
        literal = _LITERAL.match(sent, at)
        end = len(sent) if literal is None else literal.end()
        if at >= whole or (literal is not None and end >= whole):
            return constants  # The rest is cut.
        if literal is None or not _agree(after, sent, end):
            return {}
        text, at = literal[0], literal.end() + len(after)
        if not text.startswith("$"):
            constants[int(number)] = _value(text)
    return constants


def _agree(part: str, sent: str, at: int) -> bool:
    """Return whether a part of the text follows, as far as the text goes."""
    return sent[at : at + len(part)] == part[: len(sent) - at]


def _value(literal: str) -> str | None:
    if literal.lower() in _WORDS:
        return _WORDS[literal.lower()]
    if literal.endswith("'"):
        return literal[literal.index("'") + 1 : -1].replace("''", "'")
    return literal.replace(" ", "")
