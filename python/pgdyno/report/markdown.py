"""The report as Markdown with separate pictures: for a wiki, or a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pgdyno.analysis.verdicts import Doubt
from pgdyno.redaction import printable
from pgdyno.report import svg
from pgdyno.report.block_charts import (
    ChartList,
    CodeBlock,
    DoubtList,
    ForestBlock,
    ListBlock,
    SentenceBlock,
    TimeBars,
)
from pgdyno.report.blocks import Block, BlockAnswer, BlockSection, TableBlock, Tile, blocks_of

_WIDTH_PX = 760
_MARKUP = re.compile(r"[\\|\[\]`]")
Pictures = dict[str, bytes]


def answer_markdown(answer: BlockAnswer, remarks: Sequence[str] = (), stem: str = "") -> str:
    """Return the blocks of an answer as Markdown.

    Args: remarks, notes kept with the result; stem, the start of the pictures' names.
    """
    head = answer.head
    tiles_shown = [(tile.label, _tile_words(tile)) for tile in blocks_of(answer.first, Tile)]
    state = "" if head.is_complete else ", ended early"
    said = [block.said for block in blocks_of(answer.blocks, SentenceBlock)]
    first, *more = said or [head.sentence]
    text = [
        f"# {_cell(first)}",
        "",
        *(f"**{_cell(sentence)}**\n" for sentence in more),
        f"pgdyno {head.verb} #{head.number}{state}, {_cell(head.target)}",
        "",
        *(_rows((("", ""), tiles_shown)) if tiles_shown else ()),
        *(f"- **{_cell(line.label)}**: {_cell(line.said)}" for line in answer.lines),
        *(f"- **note**: {_cell(remark)}" for remark in remarks),
        "",
        *(f"![{name}]({name})\n" for name in answer_pictures(answer, stem)),
        *(
            line
            for block in answer.first
            if isinstance(block, TableBlock)
            for line in _table_lines(block, is_titled=True)
        ),
        *(line for block in answer.blocks for line in _forest_rows(block)),
        *_lists(answer.first),
    ]
    for section in answer.sections:
        text += _section_lines(section)
    text.append(f"Made by pgdyno {head.version}. {_cell(answer.method)}")
    return printable("\n".join(text) + "\n")


def _codes(blocks: Sequence[Block]) -> Iterator[str]:
    for block in blocks_of(blocks, CodeBlock):
        # A fence is longer than each row of backticks in the text.
        fence = "`" * max([3, *(len(row) + 1 for row in re.findall("`+", block.code))])
        yield from (f"{fence}{block.language}", block.code, fence, "")


def _lists(blocks: Sequence[Block]) -> Iterator[str]:
    for block in blocks_of(blocks, ListBlock):
        for number, item in enumerate(block.items, 1):
            aside = f"; {_cell(item.aside)}" if item.aside else ""
            yield f"{number}. **{_cell(item.whole)}**{aside}"
            yield from (f"    - {_cell(line)}" for line in item.lines)
            if item.next_step:
                yield f"    - next: {_cell(item.next_step)}"
        yield ""


def answer_pictures(answer: BlockAnswer, stem: str) -> Pictures:
    """Return the charts of an answer as SVG by file name."""
    return {
        f"{stem}-{_file_name(chart.key)}.svg": svg.standalone(chart, width=_WIDTH_PX).encode()
        for block in blocks_of(answer.blocks, ChartList)
        for chart in block.charts
    }


def _section_lines(section: BlockSection) -> Iterator[str]:
    """Yield a section; one whose blocks are only pictures has none."""
    tables = section.tables
    doubts = [*blocks_of(section.blocks, DoubtList)]
    bars = [*blocks_of(section.blocks, TimeBars)]
    lists = [*_lists(section.blocks), *_codes(section.blocks)]
    if not (tables or doubts or bars or lists):
        return
    yield from (f"## {_cell(section.title)}", "")
    if section.lead:
        yield from (_cell(section.lead), "")
    yield from lists
    for bar in bars:
        yield from _rows((("variant", "ms"), [(name, said) for name, _, said in bar.rows]))
    for table in tables:
        yield from _table_lines(table, is_titled=table.title != section.title)
    for doubt in (doubt for block in doubts for doubt in block.doubts):
        yield _doubt(doubt)
    yield from [""] * bool(doubts)


def _table_lines(table: TableBlock, *, is_titled: bool) -> Iterator[str]:
    """Yield a table without its pictures, which have no text; what the page folds is folded."""
    places = [place for place, column in enumerate(table.columns) if not column.is_plotted]
    if table.summary:
        yield from (f"<details><summary>{_cell(table.summary)}</summary>", "")
    elif is_titled and table.title:
        note = f" ({_cell(table.note)})" if table.note else ""
        yield from (f"**{_cell(table.title)}**{note}", "")
    if table.rows:
        head = [table.columns[place].head for place in places]
        yield from _rows((head, [[row[place] for place in places] for row in table.rows]))
    if table.below:
        yield from (_cell(table.below), "")
    yield from ("</details>", "") if table.summary else ()


def _forest_rows(block: Block) -> Iterator[str]:
    """Yield the changes of a forest plot as a table: a picture needs more room."""
    if not isinstance(block, ForestBlock) or not (block.is_in_text and block.forest.groups):
        return
    rows: list[tuple[str, ...]] = [
        (group.name, row.name, group.said(row), row.verdict)
        for group in block.forest.groups
        for row in group.on_page(block.row_max_count)
    ]
    yield from ("## Changes", "", *_rows((("", "metric", "change", "verdict"), rows)))


def _tile_words(tile: Tile) -> str:
    """Return "1.31 s (0.66 to 1.97)"."""
    ends = f" ({tile.range_text})" if tile.range_text else ""
    return f"{tile.value} {tile.unit}".rstrip() + ends


def _doubt(doubt: Doubt) -> str:
    kind = "Not valid" if doubt.verdict == "not_valid" else "Doubt"
    return f"- **{kind}**: {_cell(doubt.message)} Next: {_cell(doubt.hint)}."


def _rows(table: tuple[Sequence[str], Sequence[Sequence[str]]]) -> Iterator[str]:
    head, rows = table
    yield f"| {' | '.join(map(_cell, head))} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(map(_cell, row))} |"
    yield ""


def _cell(text: str) -> str:
    """Return a text for one cell: on one line, without markup, links and pictures."""
    return _MARKUP.sub(r"\\\g<0>", " ".join(text.splitlines())).replace("<", "&lt;")


def _file_name(key: str) -> str:
    return "".join(c if c.isalnum() or c == "-" else "-" for c in key)
