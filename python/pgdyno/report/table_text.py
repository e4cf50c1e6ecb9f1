"""A table of an answer as text: names on the left, numbers aligned on the right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pgdyno.report.blocks import TableBlock, TableColumn
from pgdyno.report.text_page import TextPage, one_line

# Code with less room than this takes another line.
_ROOM_MIN = 30
_INDENT = 4


def table_lines(page: TextPage, table: TableBlock, row_count: int) -> Iterator[str]:
    """Yield the heading, the names of the columns and the first rows; then the sentence below.

    The rows are indented under a heading.
    """
    places = [place for place, column in enumerate(table.columns) if column.is_in_text]
    columns = [table.columns[place] for place in places]
    shown = table.rows[:row_count]
    if row_count < len(table.rows):
        shown += table.short_rest
    rows = [tuple(row[place] for place in places) for row in shown]
    rows.insert(0, tuple(column.head for column in columns))
    start = ""
    if table.heading:
        yield table.heading
        start = " " * (len(table.heading) - len(table.heading.lstrip()) + 2)
    inner = replace(page, column_count=page.column_count - len(start))
    if any(column.is_code for column in columns):
        lines = _code_lines(inner, columns, rows)
    else:
        lines = _stacked_lines(inner, rows, is_turned=table.is_turned, gap=3 - bool(start))
    yield from (f"{start}{line}".rstrip() for line in lines)
    if table.below and (start or table.is_turned):
        yield from page.row("  ", table.below, indent=2)


def _stacked_lines(
    page: TextPage, rows: list[tuple[str, ...]], *, is_turned: bool, gap: int
) -> Iterator[str]:
    """Yield the rows, names first; columns without room follow below, with the names again."""
    if is_turned:
        first, *others = zip(*rows, strict=True)
        rows = [first, *((f"  {name}", *cells) for name, *cells in others)]
    names, *columns = (aligned(column, ">") for column in zip(*rows, strict=True))
    names = aligned([row[0] for row in rows], "<")
    stacks: list[list[list[str]]] = []
    used = 0
    for cells in columns:
        used += gap + len(cells[0])
        if not stacks or used > page.column_count:
            stacks.append([names])
            used = len(names[0]) + gap + len(cells[0])
        stacks[-1].append(cells)
    for stack in stacks:
        yield from ((" " * gap).join(row) for row in zip(*stack, strict=True))


def aligned(cells: Sequence[str], side: str) -> list[str]:
    """Return cells of one width. Args: side, "<" or ">"."""
    width = max(map(len, cells))
    return [f"{cell:{side}{width}}" for cell in cells]


def _code_lines(
    page: TextPage, columns: list[TableColumn], rows: list[tuple[str, ...]]
) -> Iterator[str]:
    """Yield the rows. Code gets the room that other columns leave; with little, another line."""
    indent = " " * _INDENT
    kept = [*range(len(columns))]
    widths = [max(len(row[place]) for row in rows) for place in kept]
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
