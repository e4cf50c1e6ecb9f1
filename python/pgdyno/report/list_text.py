"""Lists of an answer as numbered paragraphs for the terminal, clipped to the room that there is."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pgdyno.report.block_lists import ListBlock, ListItem
from pgdyno.report.text_page import TextPage, clipped

_INDENT = 4
_LINES_MAX = 5
# How much is shown of an item: all; one of its lines; none of them; one line and the whole next
# step; one line.
_WHOLE, _FIRST, _PLAIN, _SHORT, _LINE = range(5)


def list_lines(page: TextPage, block: ListBlock, lines_max: float) -> list[str]:
    """Return the items as numbered paragraphs, the last ones shortened if there is no room."""
    items = block.items
    shown_max = None if lines_max == math.inf else _LINES_MAX
    details = [_WHOLE] * len(items)
    # Every item keeps its next step as long as possible.
    steps = [(place, detail) for detail in range(1, 5) for place in reversed(range(len(items)))]
    while True:
        lines = [
            line
            for place, item in enumerate(items)
            for line in _paragraph(page, place + 1, item, details[place], shown_max)
        ]
        if len(lines) <= lines_max or not steps:
            return lines
        place, detail = steps.pop(0)
        details[place] = detail


def _paragraph(
    page: TextPage, number: int, item: ListItem, detail: int, lines_max: int | None
) -> Iterator[str]:
    indent, width = " " * _INDENT, page.column_count
    if detail >= _SHORT:
        yield clipped(f"{number:2}  {item.whole}", width)
        if detail == _SHORT:
            # Somebody will copy a command from it.
            yield from page.wrapped(item.next_step, f"{indent}next: ", f"{indent}      ")
        return
    aside = f"; {item.aside}" if item.aside else ""
    yield from page.wrapped(f"{item.whole}{aside}", f"{number:2}  ", indent)
    for line in item.lines[: {_WHOLE: lines_max, _FIRST: 1, _PLAIN: 0}[detail]]:
        yield clipped(f"{indent}{line}", width)
    if item.next_step:
        yield from page.wrapped(item.next_step, f"{indent}next: ", f"{indent}      ")
