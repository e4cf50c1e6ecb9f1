"""Commands and words of Tcl, as the manual page Tcl(n) defines them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from pgdyno.errors import SpecError

_NAME = re.compile(r"(?:[A-Za-z0-9_]|::+)+")
_HEX = re.compile(r"[0-9A-Fa-f]{1,4}")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_CLOSES = {"{": "}", "[": "]", '"': '"', "(": ")"}


@dataclass(slots=True)
class Word:
    """A word before substitution.

    `parts`: text, a variable as its name and its index, or a script in brackets. `line`: where its
    text begins. `raw`: as it is written. `is_expanded`: `{*}` is before it.
    """

    line: int
    parts: list[str | tuple[str, Word | None] | list[Command]] = field(default_factory=list)
    raw: str = ""
    is_expanded: bool = False


@dataclass(slots=True)
class Command:
    """A command. `is_inner`: it is in brackets, so its result is a part of a word."""

    line: int
    words: list[Word]
    is_inner: bool


@lru_cache(maxsize=256)
def script_of(text: str, line: int, path: str) -> list[Command]:
    """Return the commands of a script. Raises: SpecError with the line of an open bracket."""
    return TclReader(text, line, path).script("")


def list_of(text: str) -> list[str]:
    """Return the elements of a list. Raises: ValueError if it is not a list."""
    return [item for item, _ in items_of(text)]


def items_of(text: str) -> Iterator[tuple[str, int]]:
    """Yield the elements of a list, and how many lines are before each."""
    reader = TclReader(text, 0, "")
    while reader.skip(" \t\r\n"):
        line, start = reader.line, reader.at
        if text[start] == "{":
            yield reader.braced(), line
        elif text[start] == '"':
            end = text.find('"', start + 1)
            if end < 0:
                raise ValueError("a list with an open quote")
            reader.at = end + 1
            yield text[start + 1 : end], line
        else:
            made = ""
            while reader.at < len(text) and text[reader.at] not in " \t\r\n":
                made += reader.escaped() if text[reader.at] == "\\" else reader.take()
            yield made, line


class TclReader:
    """Reads commands, words and what is in them."""

    def __init__(self, text: str, line: int, path: str) -> None:
        self.text, self.line, self.path, self.at = text, line, path, 0

    def skip(self, characters: str) -> bool:
        """Skip these characters, and the ends of continued lines. Returns: False at the end."""
        while self.at < len(self.text):
            if self.text.startswith("\\\n", self.at):
                self.escaped()
            elif self.text[self.at] in characters:
                self.take()
            else:
                return True
        return False

    def take(self) -> str:
        """Return the next character."""
        character = self.text[self.at]
        self.at += 1
        self.line += character == "\n"
        return character

    def script(self, closing: str) -> list[Command]:
        """Return the commands before the closing bracket, or to the end."""
        made: list[Command] = []
        begin = self.line
        while self.skip(" \t\r\n;"):
            if self.text[self.at] == closing:
                self.at += 1
                return made
            if self.text[self.at] == "#":
                self._comment()
                continue
            command = Command(self.line, [], is_inner=bool(closing))
            while self.skip(" \t\r") and self.text[self.at] not in f"\n;{closing}":
                command.words.append(self.word(f" \t\r\n;{closing}"))
            made.append(command)
        if closing:
            self._open(begin, "[")
        return made

    def word(self, ends: str) -> Word:
        """Return the next word."""
        start, word = self.at, Word(self.line)
        after = self.text[start + 3 : start + 4]
        if self.text.startswith("{*}", start) and after not in ("", *ends):
            word.is_expanded = True
            self.at = start = start + 3
        first = self.text[start]
        if first == "{":
            word.parts.append(self.braced())
        elif first == '"':
            self.take()
            self.substituted(word, '"')
        if self.at == start or self.text[self.at : self.at + 1] not in ("", *ends):
            self.substituted(word, ends, is_bare=True)
        word.raw = self.text[start : self.at]
        return word

    def substituted(self, word: Word, ends: str, *, is_bare: bool = False) -> None:
        """Add what comes before an end to a word; without `is_bare` the end is skipped."""
        begin = self.line
        while self.at < len(self.text):
            character = self.text[self.at]
            if character in ends and not (is_bare and self.text.startswith("\\\n", self.at)):
                self.at += not is_bare
                return
            if character == "\\":
                if is_bare and self.text.startswith("\\\n", self.at):
                    return
                word.parts.append(self.escaped())
            elif character == "$":
                word.parts.append(self.variable())
            elif character == "[":
                self.take()
                word.parts.append(self.script("]"))
            else:
                word.parts.append(self.take())
        if not is_bare:
            self._open(begin, _opening(ends))

    def variable(self) -> str | tuple[str, Word | None]:
        """Return the variable after `$`, or the sign itself."""
        self.take()
        if self.text.startswith("{", self.at):
            end = self.text.find("}", self.at)
            if end < 0:
                self._open(self.line, "{")
            name, self.at = self.text[self.at + 1 : end], end + 1
            return name, None
        match = _NAME.match(self.text, self.at)
        if match is None:
            return "$"
        self.at = match.end()
        if not self.text.startswith("(", self.at):
            return match[0], None
        self.take()
        index = Word(self.line)
        self.substituted(index, ")")
        return match[0], index

    def braced(self) -> str:
        """Return the text between braces, as it is written."""
        begin, start, depth = self.line, self.at, 0
        while self.at < len(self.text):
            character = self.take()
            if character == "\\" and self.at < len(self.text):
                self.take()
            depth += (character == "{") - (character == "}")
            if depth == 0:
                return self.text[start + 1 : self.at - 1]
        return self._open(begin, "{")

    def escaped(self) -> str:
        """Return what a backslash and the characters after it stand for."""
        self.take()
        if self.at >= len(self.text):
            return "\\"
        character = self.take()
        if character == "\n":
            while self.at < len(self.text) and self.text[self.at] in " \t":
                self.at += 1
            return " "
        if character in "xu" and (code := _HEX.match(self.text, self.at)):
            self.at = code.end() if character == "u" else min(code.end(), self.at + 2)
            return chr(int(self.text[code.start() : self.at], 16))
        return _ESCAPES.get(character, character)

    def _comment(self) -> None:
        while self.at < len(self.text) and self.text[self.at] != "\n":
            if self.take() == "\\" and self.at < len(self.text):
                self.take()

    def _open(self, line: int, bracket: str) -> str:
        raise SpecError(
            f"{self.path}, line {line}: {bracket} has no {_CLOSES[bracket]}.",
            hint="correct the script, so that HammerDB can read it",
        )


def _opening(ends: str) -> str:
    return next(bracket for bracket, closing in _CLOSES.items() if closing in ends)
