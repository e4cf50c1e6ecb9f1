"""Reads a postgresql.conf as the server does: tokens, lines, included files.

Source: guc-file.l of PostgreSQL 14 to 18, and the manual, "Managing Configuration File Contents".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from pgdyno.errors import SpecError
from pgdyno.user_file import TEXT_MAX_BYTES, read_bytes

_INCLUDES = ("include", "include_if_exists", "include_dir")
# CONF_FILE_MAX_DEPTH of the server.
_DEPTH_MAX = 10
_BYTE_ORDER_MARK = "\ufeff"
# The server takes every byte above 127 as a letter.
_LETTER, _FURTHER = r"[A-Za-z_\x80-\U0010ffff]", r"[A-Za-z_0-9\x80-\U0010ffff]"
_ID = f"{_LETTER}{_FURTHER}*"
# The server's rules in its order: the longest match counts, of equal ones the first.
_TOKENS = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        ("end", r"\n"),
        ("blank", r"[ \t\r]+|#.*"),
        ("name", _ID),
        ("qualified name", rf"{_ID}\.{_ID}"),
        ("string", r"'(?:[^'\\\n]|\\.|'')*'"),
        ("word", rf"{_LETTER}(?:{_FURTHER}|[-._:/])*"),
        ("integer", r"[-+]?(?:0x[0-9a-fA-F]+|[0-9]+)[a-zA-Z]*"),
        ("real", r"[-+]?[0-9]*\.[0-9]*(?:[Ee][-+]?[0-9]+)?"),
        ("equals", "="),
    )
)
_VALUES = ("name", "string", "word", "integer", "real")
_ESCAPE = re.compile(r"''|\\([0-7]{1,3}|.)")
_CONTROLS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


@dataclass(frozen=True, slots=True)
class ConfLine:
    """One setting of a file, with its name as written. `place`: "FILE:LINE"."""

    name: str
    value: str
    place: str


def read_conf(path: Path) -> dict[str, str]:
    """Return name in lower case -> value; the last value of a name counts, as in the server.

    Raises: SpecError with file and line, for a line that the server would refuse.
    """
    return {line.name.lower(): line.value for line in conf_lines(path)}


def conf_lines(path: Path, *, depth: int = 0) -> list[ConfLine]:
    """Return every setting of a file, and of the files that it includes, in order.

    Included files are read where they are named, relative to the file that names them.
    Args: depth, how many files include this one, at most 10 as in the server.
    Raises: SpecError with file and line, for a line that the server would refuse.
    """
    lines: list[ConfLine] = []
    for line in _lines_of(path):
        if line.name.lower() not in _INCLUDES:
            lines.append(line)
            continue
        for included in _included_files(line, path.parent):
            if depth == _DEPTH_MAX:
                raise SpecError(
                    f"{line.place}: {line.name}: files include each other more than "
                    f"{_DEPTH_MAX} deep.",
                    hint="remove the circle of includes",
                )
            lines += conf_lines(included, depth=depth + 1)
    return lines


def _lines_of(path: Path) -> Iterator[ConfLine]:
    """Yield the settings of one file: a name, perhaps "=", a value, and the end of the line."""
    text = read_bytes(path, max_bytes=TEXT_MAX_BYTES).decode("utf-8", errors="replace")
    if text.startswith(_BYTE_ORDER_MARK):
        raise SpecError(
            f"{path}:1: the file begins with a byte order mark, which the server takes as part of"
            " the first name.",
            hint="save the file as UTF-8 without a byte order mark",
        )
    number = 1
    row: list[tuple[str, str]] = []
    for kind, token in (*_tokens(text), ("end", "")):
        if kind != "end":
            row.append((kind, token))
            continue
        if row:
            yield _line_of(row, f"{path}:{number}")
        row = []
        number += 1


def _line_of(row: list[tuple[str, str]], place: str) -> ConfLine:
    named, *rest = row
    if named[0] not in ("name", "qualified name"):
        _refuse(place, named[1])
    if rest and rest[0][0] == "equals":
        rest = rest[1:]
    if not rest or rest[0][0] not in _VALUES or len(rest) > 1:
        is_value = bool(rest) and rest[0][0] in _VALUES
        _refuse(place, *(token for _, token in (rest[1:] if is_value else rest)[:1]))
    kind, token = rest[0]
    return ConfLine(named[1], _unquoted(token) if kind == "string" else token, place)


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text):
        matches = [(kind, match) for kind, rule in _TOKENS if (match := rule.match(text, at))]
        kind, match = max(matches, key=lambda known: known[1].end(), default=("error", None))
        token = match[0] if match is not None else text[at]
        at += len(token)
        if kind != "blank":
            yield kind, token


def _refuse(place: str, token: str | None = None) -> NoReturn:
    near = "at the end of the line" if token is None else f"near {token!r}"
    raise SpecError(
        f"{place}: syntax error {near}: the line is not name = value.",
        hint="quote values other than plain words and numbers: name = 'value'",
    )


def _unquoted(token: str) -> str:
    """Return the text of a quoted value: '' is a quote, and a backslash begins an escape."""

    def plain(match: re.Match[str]) -> str:
        escaped = match[1]
        if escaped is None:
            return "'"
        if escaped[0] in "01234567":
            return chr(int(escaped, 8) & 0xFF)
        return _CONTROLS.get(escaped, escaped)

    # A C string ends at a zero byte.
    return _ESCAPE.sub(plain, token[1:-1]).partition("\0")[0]


def _included_files(line: ConfLine, folder: Path) -> list[Path]:
    """Return the files that an include reads; of a folder those that the server reads, in order."""
    name, place = line.name.lower(), f"{line.place}: {line.name.lower()}"
    if not line.value.strip():
        raise SpecError(f"{place} names nothing.", hint="name a file, or remove the line")
    named = folder / line.value
    if name == "include_dir" and named.is_dir():
        try:
            names = sorted(file.name for file in named.iterdir() if not file.is_dir())
        except OSError as error:
            raise SpecError(
                f"{place}: {named} cannot be read: {error.strerror}.",
                hint="check the privileges on that folder",
            ) from None
        return [named / n for n in names if n.endswith(".conf") and not n.startswith(".")]
    if name == "include_if_exists" and not named.exists():
        return []
    if name == "include_dir" or not named.exists():
        kind = "folder" if name == "include_dir" else "file"
        raise SpecError(
            f"{place}: there is no {kind} {named}.",
            hint=f"copy that {kind} to this place, or remove the line",
        )
    return [named]
