"""Lines of a page of the documentation, at the width of a terminal."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

_ITEM = re.compile(r"(?:[-*]|\d+\.) ")
_RULE = re.compile(r"\|[-|: ]+$")
# A blank at which no line ends.
_HARD = "\xa0"


def for_terminal(text: str, width: int) -> str:
    """Return a page without the marks of Markdown, in lines of at most `width` columns.

    Commands, outputs and lines that begin with blanks stay as they are. A row of a table becomes a
    paragraph: "first cell: heading: second cell; heading: third cell".
    """
    lines: list[str] = []
    block: list[str] = []
    is_code = False
    for line in (*text.splitlines(), ""):
        is_mark = line.startswith("```")
        if block and (is_mark or not _belongs(line, block[0])):
            lines += _table(block, width) if block[0].startswith("|") else _filled(block, width)
            block = []
        if is_mark:
            is_code = not is_code
        elif is_code or not line.strip() or (line.startswith(" ") and not block):
            lines.append(line)
        else:
            block.append(line)
    return "\n".join(lines).strip("\n")


def _belongs(line: str, first: str) -> bool:
    """Return whether a line goes on with the paragraph, item or table that begins with `first`."""
    if not line.strip() or line.startswith("|") != first.startswith("|") or _ITEM.match(line):
        return False
    return not line.startswith(" ") or _ITEM.match(first) is not None


def _filled(block: list[str], width: int) -> list[str]:
    item = _ITEM.match(block[0])
    return _wrapped(" ".join(line.strip() for line in block), width, len(item[0]) if item else 0)


def _table(block: list[str], width: int) -> Iterator[str]:
    rows = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in block]
    has_head = len(block) > 1 and _RULE.match(block[1]) is not None
    heads = rows[0] if has_head and len(rows[0]) > 2 else []
    for line, row in zip(block, rows, strict=True):
        if _RULE.match(line) or row is heads:
            continue
        first, *others = row
        named = heads[1:] + [""] * len(others)
        said = [f"{n}: {cell}" if n else cell for n, cell in zip(named, others, strict=False)]
        yield from _wrapped(": ".join(filter(None, (first, "; ".join(said)))), width, 4)


def _wrapped(text: str, width: int, indent: int) -> list[str]:
    """Return lines; a command between backquotes stays in one line, so that it can be copied."""
    text = text.replace("**", "").replace("\\|", "|")
    text = re.sub(r"`[^`]+`", lambda span: span[0].replace(" ", _HARD), text)
    lines = textwrap.wrap(
        text,
        width,
        subsequent_indent=" " * indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
    return [line.replace(_HARD, " ") for line in lines]
