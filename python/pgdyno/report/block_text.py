"""Blocks as text: rows with labels, and tables between them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from pgdyno.report.block_lists import ListBlock
from pgdyno.report.blocks import (
    Block,
    BlockAnswer,
    BlockSection,
    LabelledLine,
    Level,
    TableBlock,
    blocks_of,
)
from pgdyno.report.list_text import list_lines
from pgdyno.report.table_text import table_lines
from pgdyno.report.text_page import WIDTH, TextPage, joined

# The path of the page is one line more.
_LINES_MAX = 24


def answer_text(answer: BlockAnswer, width: int = WIDTH, level: Level = "short") -> str:
    """Return an answer in lines of at most `width` characters; the last row says where it is."""
    page, head = TextPage(width), answer.head
    state = "" if head.is_complete else ", ended early: results until then"
    first = [*page.row("target", head.target), *page.row("answer", head.sentence)]
    rest = [
        *block_lines(page, answer.blocks, level),
        *page.row("saved", f"#{head.number}{state}   pgdyno report {head.number}"),
    ]
    room = math.inf if level == "full" else _LINES_MAX - len(first) - len(rest)
    lists = (block for block in answer.blocks if isinstance(block, ListBlock))
    return joined([*first, *(li for block in lists for li in list_lines(page, block, room)), *rest])


def block_lines(page: TextPage, blocks: Sequence[Block], level: Level = "short") -> Iterator[str]:
    """Yield the lines and tables of blocks. The first of several lines has their label."""
    label = ""
    for block in blocks:
        if isinstance(block, LabelledLine) and level in (block.level, "full"):
            yield from page.row("" if block.label == label else block.label, block.said)
            label = block.label or label
        elif isinstance(block, BlockSection):
            yield from block_lines(page, block.blocks, level)
            if level == "full":
                for listed in blocks_of(block.blocks, ListBlock):
                    yield from list_lines(page, listed, math.inf)
        elif isinstance(block, TableBlock):
            row_count = len(block.rows) if level == "full" else block.short_row_count
            yield from table_lines(page, block, row_count) if row_count else ()
