"""A table of an answer as text: names on the left, numbers aligned on the right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pgdyno.report.blocks import TableBlock, TableColumn
from pgdyno.report.text_page import TextPage, one_line

# Code with less room than this takes another line.
_ROOM_MIN = 30
_INDENT = 4


def code_table(page: TextPage, table: TableBlock, row_count: int) -> Iterator[str]:
    """Yield the heading, and below it the names of the columns and the first rows.

    Code gets the room that other columns leave. If this is little, it takes another line.
    """
    if not table.heading:
        yield from _code_lines(page, table, row_count)
        return
    yield table.heading
    inner = replace(page, column_count=page.column_count - 2)
    yield from (f"  {line}" for line in _code_lines(inner, table, row_count))


def _code_lines(page: TextPage, table: TableBlock, row_count: int) -> Iterator[str]:
    columns, indent = table.columns, " " * _INDENT
    kept = [place for place, column in enumerate(columns) if column.is_in_text]
    rows = (tuple(column.head for column in columns), *table.rows[:row_count])
    widths = [max(len(row[place]) for row in rows) for place in range(len(columns))]
    code = next(place for place in kept if columns[place].is_code)
    if _room(page, widths, code, kept) < _ROOM_MIN:
        kept = [place for place in kept if not columns[place].is_last_to_fit]
    room = _room(page, widths, code, kept)
    widths[code] = min(widths[code], room)
    if room < _ROOM_MIN:
        kept.remove(code)
    for number, row in enumerate(rows):
        cells = (_cell(columns[place], row[place], widths[place], place) for place in kept)
        line = "   ".join(cells).rstrip()
        if code in kept or not number:
            yield line
        elif code == 0:
            if row[code]:
                yield one_line(row[code], page.column_count)
            yield from page.wrapped(line, indent, 2 * indent)
        else:
            yield from (line, indent + one_line(row[code], page.column_count - len(indent)))


def _cell(column: TableColumn, text: str, width: int, place: int) -> str:
    if column.is_code:
        text = one_line(text, width)
    return f"{text:{'<' if place == 0 or column.is_name or column.is_code else '>'}{width}}"


def _room(page: TextPage, widths: Sequence[int], code: int, kept: Sequence[int]) -> int:
    return page.column_count - sum(widths[place] + 3 for place in kept if place != code)
