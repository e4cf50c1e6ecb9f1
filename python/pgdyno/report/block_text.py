"""Blocks as text: rows with labels, and tables between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pgdyno.report.blocks import (
    Block,
    BlockAnswer,
    BlockSection,
    LabelledLine,
    Level,
    TableBlock,
)
from pgdyno.report.text_page import WIDTH, TextPage, joined


def answer_text(answer: BlockAnswer, width: int = WIDTH, level: Level = "short") -> str:
    """Return an answer in lines of at most `width` characters; the last row says where it is."""
    page, head = TextPage(width), answer.head
    state = "" if head.is_complete else ", ended early: results until then"
    return joined(
        [
            *page.row("target", head.target),
            *page.row("answer", head.sentence),
            *block_lines(page, answer.blocks, level),
            *page.row("saved", f"#{head.number}{state}   pgdyno report {head.number}"),
        ]
    )


def block_lines(page: TextPage, blocks: Sequence[Block], level: Level = "short") -> Iterator[str]:
    """Yield the lines and tables of blocks. The first of several lines has their label."""
    label = ""
    for block in blocks:
        if isinstance(block, LabelledLine) and level in (block.level, "full"):
            yield from page.row("" if block.label == label else block.label, block.said)
            label = block.label or label
        elif isinstance(block, BlockSection):
            yield from block_lines(page, block.blocks, level)
        elif isinstance(block, TableBlock):
            row_count = len(block.rows) if level == "full" else block.short_row_count
            yield from _table(block, row_count) if row_count else ()


def _table(table: TableBlock, row_count: int) -> Iterator[str]:
    """Yield a table of the text: names on the left, numbers aligned on the right."""
    places = [place for place, column in enumerate(table.columns) if not column.is_words]
    heads = tuple(column.head for column in table.columns)
    rows = [tuple(row[place] for place in places) for row in (heads, *table.rows[:row_count])]
    widths = [max(len(row[column]) for row in rows) for column in range(len(places))]
    for row in rows:
        first, *rest = zip(row, widths, strict=True)
        cells = "   ".join(f"{text:>{width}}" for text, width in rest)
        yield f"{first[0]:{first[1]}}   {cells}".rstrip()
