"""An answer as a notebook shows it: the sentence, the numbers, the first lines, the doubts.

It has no style sheet and no script, because a notebook has its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup

from pgdyno.redaction import printable
from pgdyno.report.block_charts import DoubtList, ForestBlock, RowList
from pgdyno.report.blocks import BlockAnswer, Tile, blocks_of

_FOREST_ROWS_MAX = 12


def answer_fragment(answer: BlockAnswer) -> str:
    """Return an answer as HTML without a page around it."""
    head = answer.head
    said = Markup("<p><b>{}</b></p>").format(head.sentence)
    about = Markup("<p>{} #{}, {}</p>").format(head.verb, head.number, head.target)
    rows = [Markup("<tr><th>{}</th><td>{}</td></tr>").format(*row) for row in _rows(answer)]
    table = Markup("<table>{}</table>").format(Markup("").join(rows)) if rows else ""
    return printable("".join((said, about, table)))


def _rows(answer: BlockAnswer) -> Iterator[tuple[str, str]]:
    for block in blocks_of(answer.blocks, ForestBlock):
        for group in block.forest.groups:
            for row in group.rows[:_FOREST_ROWS_MAX]:
                yield f"{group.name}: {row.name}", group.said(row)
    for named in blocks_of(answer.blocks, RowList):
        yield from named.rows
    for tile in blocks_of(answer.first, Tile):
        interval = f"({tile.range_text})" if tile.range_text else ""
        yield tile.label, " ".join(filter(None, (tile.value, tile.unit, interval, tile.aside)))
    for line in answer.lines:
        if line.level == "short" and line.said:
            yield line.label, line.said
    for doubts in blocks_of(answer.blocks, DoubtList):
        for doubt in doubts.doubts:
            yield "NOT VALID" if doubt.verdict == "not_valid" else "doubt", doubt.message
