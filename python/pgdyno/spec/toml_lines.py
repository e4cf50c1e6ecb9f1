"""The line of each value in a TOML text: tomllib keeps no positions.

Limits: only for texts that tomllib has accepted; nothing is checked a second time.
"""

from __future__ import annotations

import re
from collections.abc import Callable

Path = tuple[str | int, ...]
_KEY = re.compile(r"\s*(?:\"((?:[^\"\\]|\\.)*)\"|'([^']*)'|([A-Za-z0-9_-]+))\s*")
_STRINGS = re.compile(r'"""(?:[^\\]|\\.)*?"""|\'\'\'.*?\'\'\'|"(?:[^"\\]|\\.)*"|\'[^\']*\'', re.S)
_BARE = re.compile(r"[^,\]}\n#]*")
_BLANK = re.compile(r"(?:\s|#[^\n]*)*")


class TomlLines:
    """The line of every key and element of a TOML text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._lines: dict[Path, int] = {}
        self._counts: dict[Path, int] = {}
        self._read()

    def line_of(self, path: Path) -> int:
        """Return the line of `path`, or of its nearest parent that the text contains."""
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path, 1)

    def _read(self) -> None:
        table: Path = ()
        while self._skip_blank():
            if self._text[self._at] == "[":
                is_array = self._text.startswith("[[", self._at)
                self._at += 2 if is_array else 1
                table = self._resolved(self._keys(), is_array=is_array)
                self._note(table)
                self._at = self._text.index("]", self._at) + (2 if is_array else 1)
            else:
                self._pair(table)

    def _resolved(self, keys: tuple[str, ...], *, is_array: bool) -> Path:
        """Return the path of a table's header; in an array the path leads to its last element."""
        path: Path = ()
        for place, key in enumerate(keys):
            path = (*path, key)
            if place == len(keys) - 1 and is_array:
                self._counts[path] = self._counts.get(path, 0) + 1
            if path in self._counts:
                self._note(path)
                path = (*path, self._counts[path] - 1)
        return path

    def _pair(self, table: Path) -> None:
        began = self._at
        keys = self._keys()
        self._at += 1  # the equals sign
        for length in range(1, len(keys) + 1):
            self._note((*table, *keys[:length]), began)
        self._value((*table, *keys))

    def _value(self, path: Path) -> None:
        self._skip_blank()
        self._note(path)
        if string := _STRINGS.match(self._text, self._at):
            self._at = string.end()
        elif self._text[self._at] == "{":
            self._each("}", lambda _: self._pair(path))
        elif self._text[self._at] == "[":
            self._each("]", lambda place: self._value((*path, place)))
        else:
            bare = _BARE.match(self._text, self._at)
            assert bare is not None
            self._at = bare.end()

    def _each(self, end: str, read: Callable[[int], None]) -> None:
        self._at += 1
        place = 0
        while self._skip_blank() and self._text[self._at] != end:
            if self._text[self._at] == ",":
                self._at += 1
                continue

            read(place)
            place += 1
        self._at += 1

    def _keys(self) -> tuple[str, ...]:
        keys = []
        while match := _KEY.match(self._text, self._at):
            keys.append(next(part for part in match.groups() if part is not None))
            self._at = match.end()
            if not self._text.startswith(".", self._at):
                break
            self._at += 1
        return tuple(keys)

    def _skip_blank(self) -> bool:
        blank = _BLANK.match(self._text, self._at)
        assert blank is not None
        self._at = blank.end()
        return self._at < len(self._text)

    def _note(self, path: Path, at: int | None = None) -> None:
        line = self._text.count("\n", 0, self._at if at is None else at) + 1
        self._lines.setdefault(path, line)
