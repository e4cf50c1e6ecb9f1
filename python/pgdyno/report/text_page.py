"""Sets a text in a fixed number of columns: rows with labels, wrapped lines."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

# The width for a file or a pipe. At this width, rows of tables need no second line.
WIDTH = 100
LABEL_WIDTH = 12


@dataclass(frozen=True, slots=True)
class TextPage:
    """Sets rows in lines of at most `column_count` characters; only a long word may be longer."""

    column_count: int = WIDTH
    label_width: int = LABEL_WIDTH

    def row(self, label: str, said: str, *, indent: int | None = None) -> Iterator[str]:
        """Yield `said` after a label; further lines are indented by `indent`, or as the first."""
        indent = self.label_width if indent is None else indent
        start = f"{label:{indent}}"
        start += " " * (not start.endswith(" ") and bool(label))
        yield from self.wrapped(said, start, " " * max(indent, len(label)))

    def wrapped(self, said: str, first: str, further: str) -> Iterator[str]:
        """Yield `said` in lines; the first begins with `first`, the others with `further`."""
        yield from textwrap.wrap(
            said,
            self.column_count,
            initial_indent=first,
            subsequent_indent=further,
            break_long_words=False,
            break_on_hyphens=False,
        ) or [first.rstrip()]


def clipped(line: str, width: int) -> str:
    """Return a line of at most `width` characters; an ellipsis says that it was longer."""
    return line if len(line) <= width else f"{line[: width - 1]}…"


def one_line(text: str, width: int) -> str:
    """Return a text such as a statement in one line of at most `width` characters."""
    return clipped(" ".join(text.split()), width)


def joined(lines: Iterable[str]) -> str:
    """Return the lines as one text, without spaces at their ends."""
    return "\n".join(line.rstrip() for line in lines)


def cut(text: str, length: int) -> str:
    """Return a text of at most `length` characters on one line; one that was cut ends with dots."""
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[: length - 4].rstrip()} ..."
