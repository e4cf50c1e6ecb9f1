"""Options of a verb as a table of text, which reads like the help of the verb."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import click

from pgdyno.cli.headings import HeadedOption

Decorator = Callable[[Any], Any]
_RANGE = re.compile(r"(\w+):(-?[\d.]*?)\.\.(-?[\d.]*)")
_PATHS = {
    "PATH": click.Path(path_type=Path),
    "DIRECTORY": click.Path(path_type=Path, file_okay=False),
}


def table(text: str, **further: Mapping[str, Any]) -> Decorator:
    """Return a decorator that adds the options of a table.

    Args: text, headings of --help, and below each a line for each option, whose help text follows
    after two blanks or in the next lines:

        Crashes
        -c --clients --client N:1..1000 =8 *
            Number of clients that commit (default 8).
        --crash (only) N:1..  Repeat only the crash with this number.

    After its names an option may have: click's name of the parameter in brackets; a value, which is
    a word (TIME), a range of numbers (N:1..1000, N:1.., N:0.5..), any number (N:float), or words to
    choose from (kill|power); "..." if it can be repeated; a default (=8); and "*" if a first user
    needs it. An option without a value is a flag. further: more arguments of click, by the
    parameter's name.
    """
    return together(*(line.decorator(further.get(line.field, {})) for line in lines_of(text)))


@dataclass(frozen=True, slots=True)
class OptionLine:
    """An option of a table. `field`: click's name of the parameter; `settings`: as for click."""

    names: tuple[str, ...]
    field: str
    settings: Mapping[str, Any]

    def decorator(self, further: Mapping[str, Any]) -> Decorator:
        """Return the decorator that adds the option, with more arguments of click."""
        return click.option(*self.names, cls=HeadedOption, **{**self.settings, **further})


def lines_of(text: str) -> Iterator[OptionLine]:
    """Yield the options of a table."""
    heading = ""
    for entry in filter(None, re.split(r"^(?=\S)", dedent(text).strip(), flags=re.MULTILINE)):
        if entry.startswith("-"):
            yield _line(heading, entry)
        else:
            heading = entry.strip()


def together(*decorators: Decorator) -> Decorator:
    """Return a decorator that adds options in the order of these decorators."""

    def add(command: Any) -> Any:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return add


def _line(heading: str, entry: str) -> OptionLine:
    head, words = re.split(r"  +|\n", entry, maxsplit=1)
    names = [word.strip("()") for word in head.split() if word.startswith(("-", "("))]
    long_name = next((name for name in names if name.startswith("--")), names[0])
    own = names[-1] if "(" in head else long_name.lstrip("-").replace("-", "_")
    settings = {"heading": heading, "help": " ".join(words.split()), **dict(_settings(head))}
    return OptionLine(tuple(names), own, settings)


def _settings(head: str) -> Iterator[tuple[str, Any]]:
    """Yield click's settings for the words after the names of an option."""
    has_value = False
    for word in head.split():
        if word == "*":
            yield "first", True
        elif word == "...":
            yield "multiple", True
        elif word.startswith("="):
            yield "default", word[1:]
        elif not word.startswith(("-", "(")):
            has_value = True
            if match := _RANGE.fullmatch(word):
                yield "type", _range(match[2], match[3])
                yield "metavar", match[1]
            elif word.endswith(":float"):
                yield "type", float
                yield "metavar", word.removesuffix(":float")
            elif "|" in word and not word.isupper():
                yield "type", click.Choice(word.strip("|").split("|"))
            elif word in _PATHS:
                yield "type", _PATHS[word]
            else:
                yield "metavar", word
    if not has_value:
        yield "is_flag", True


def _range(least: str, most: str) -> click.IntRange | click.FloatRange:
    if "." in least + most:
        return click.FloatRange(float(least) if least else None, float(most) if most else None)
    return click.IntRange(int(least) if least else None, int(most) if most else None)
