"""Blocks as text: rows with labels, and tables, forest plots and doubts between them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pgdyno import quantities
from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.rounding import ends_text
from pgdyno.quantities import fixed
from pgdyno.report.block_charts import (
    CodeBlock,
    DoubtList,
    ForestBlock,
    ListBlock,
    ListItem,
    RowList,
    SentenceBlock,
    TableRow,
    TimeSplit,
)
from pgdyno.report.blocks import (
    Block,
    BlockAnswer,
    BlockSection,
    LabelledLine,
    Level,
    TableBlock,
    blocks_of,
)
from pgdyno.report.numbers import value_text
from pgdyno.report.parts import OTHER, TimePart, fold, in_bar_order
from pgdyno.report.table_text import aligned, table_lines
from pgdyno.report.text_page import WIDTH, TextPage, clipped, cut, joined

if TYPE_CHECKING:
    from pgdyno.analysis.estimate import Estimate
    from pgdyno.report.forest import Forest, ForestGroup, Scale

_FOREST_WIDTH, _FOREST_WIDTH_MIN = 41, 21

# The path of the page is one line more.
_LINES_MAX = 24


def answer_text(answer: BlockAnswer, width: int = WIDTH, level: Level = "short") -> str:
    """Return an answer in lines of at most `width` characters; the last row says where it is."""
    page, head = TextPage(width), answer.head
    state = "" if head.is_complete else ", ended early: results until then"
    lists = [block for block in answer.blocks if isinstance(block, ListBlock)]
    has_sentences = any(blocks_of(answer.blocks, SentenceBlock))
    answered = () if has_sentences else page.row("answer", head.sentence)
    first = [*page.row("target", head.target), *answered]
    rest = [
        *block_lines(page, [block for block in answer.blocks if block not in lists], level),
        *page.row("saved", f"#{head.number}{state}   pgdyno report {head.number}"),
    ]
    room = math.inf if level == "full" else _LINES_MAX - len(first) - len(rest)
    return joined([*first, *(li for block in lists for li in list_lines(page, block, room)), *rest])


def blocks_text(blocks: Sequence[Block], width: int, label_width: int) -> str:
    """Return blocks without a head as text. Args: label_width, of the column of labels."""
    return joined(block_lines(TextPage(width, label_width), blocks))


def block_lines(page: TextPage, blocks: Sequence[Block], level: Level = "short") -> Iterator[str]:
    """Yield the lines and tables of blocks. The first of several lines has their label."""
    label = ""
    for block in blocks:
        if isinstance(block, LabelledLine) and level in (block.level, "full"):
            yield from page.row("" if block.label == label else block.label, block.said)
            label = block.label or label
        elif isinstance(block, SentenceBlock):
            yield from page.row(block.label, block.said)
        elif isinstance(block, BlockSection):
            yield from block_lines(page, block.blocks, level)
        elif isinstance(block, TableRow):
            yield from block_lines(page, block.tables, level)
        elif isinstance(block, TableBlock):
            row_count = len(block.rows) if level == "full" else block.short_row_count
            yield from table_lines(page, block, row_count) if row_count else ()
        elif isinstance(block, ListBlock) and level == "full":
            yield from list_lines(page, block, math.inf)
        elif isinstance(block, CodeBlock) and (
            code := block.code if level == "full" else block.short
        ):
            # Not wrapped, so that the lines can be copied.
            yield from (block.label, *(f"  {line}" for line in code.splitlines()))
        elif isinstance(block, RowList):
            yield from _row_list(page, block)
        elif isinstance(block, ForestBlock) and block.is_in_text:
            yield from _forest(page, block.forest)
        elif isinstance(block, TimeSplit):
            yield from time_split(page, block)
        elif isinstance(block, DoubtList):
            yield from _doubts(page, block)


def _row_list(page: TextPage, block: RowList) -> Iterator[str]:
    yield block.heading
    width = max((len(name) for name, _ in block.rows), default=0)
    for name, said in block.rows:
        yield from page.row(f"  {name}", said, indent=width + 4)


def _doubts(page: TextPage, block: DoubtList) -> Iterator[str]:
    if block.repeated:
        yield from page.row("repeated", block.repeated)
    yield from page.row("valid", block.validity)
    for doubt in block.doubts:
        label = "  NOT VALID" if doubt.verdict == "not_valid" else "  doubt"
        yield from page.row(label, doubt.message)
        if doubt.hint:
            yield from page.row("", f"-> {doubt.hint}")


def _forest(page: TextPage, forest: Forest) -> Iterator[str]:
    for group in forest.groups:
        yield from _forest_group(page, group, forest.scale)
        yield from block_lines(page, group.below)


def _forest_group(page: TextPage, group: ForestGroup, scale: Scale) -> Iterator[str]:
    """Yield the heading, a row for each change, and the axis under the plot."""
    yield f"{group.name} ({group.note})" if group.note else group.name
    texts = aligned([group.said(row) for row in group.rows], "<")
    room = page.column_count - len(texts[0]) - 2 * len("  ") - len("  [] not certain")
    # A table below has the whole name.
    name_max = room - _FOREST_WIDTH_MIN
    names = aligned([cut(row.name, name_max) for row in group.rows], "<")
    width = max(_FOREST_WIDTH_MIN, min(_FOREST_WIDTH, room - len(names[0])))
    width -= (width + 1) % 2  # "equal" has a cell in the middle.
    for name, text, row in zip(names, texts, group.rows, strict=True):
        mark = row.verdict if not group.is_of_metrics else "decides" if row.decides else ""
        yield f"  {name}  {text}  [{_whisker(row.ratio, scale, width)}] {mark}"
    low, high, half = scale.label(scale.low_ratio), scale.label(scale.reach_ratio), (width + 2) // 2
    yield f"  {'':{len(names[0])}}  {'':{len(texts[0])}}  {low:{half}}|{high:>{half}}"


def _whisker(ratio: Estimate, scale: Scale, width: int) -> str:
    """Return one line of the plot: the interval, its value, "equal"; an arrow is beyond the end."""
    cells = [" "] * width
    middle = width // 2

    def place(value: float) -> int:
        return middle + round(scale.share(value) * middle)

    if ratio.low is not None and ratio.high is not None:
        for cell in range(place(ratio.low), place(ratio.high) + 1):
            cells[cell] = "-"
    cells[middle] = "|" if cells[middle] == " " else "+"
    cells[place(ratio.value)] = "<o>"[1 + scale.beyond(ratio.value)]
    return "".join(cells)


_BAR_WIDTH = 64
_PARTS_SHOWN = 8
# One character for each part of the bar, in the order of the bar; they differ without colour.
_SIGNS = "#=+:o~%-"


def time_split(page: TextPage, block: TimeSplit) -> Iterator[str]:
    """Yield the bar, a line for each part, and the remarks."""
    shown = fold(block.parts, at_most=_PARTS_SHOWN)
    signs = {part.name: sign for part, sign in zip(in_bar_order(shown), _SIGNS, strict=False)}
    yield f"where the {value_text(block.latency)} ms go"
    yield f"  [{_bar(shown, signs)}]"
    amounts = aligned([fixed(part.ms.value, block.decimals) for part in shown], ">")
    ranges = aligned([_range_text(part.ms, block.decimals) for part in shown], "<")
    shares = aligned([quantities.percent(part.share_ratio) for part in shown], ">")
    words = aligned([part.words for part in shown], "<")
    for row, part in enumerate(shown):
        line = f"  {signs[part.name]} {amounts[row]}  {ranges[row]}  {shares[row]}  {words[row]}"
        # A name that does not fit is not shown; the report has it.
        is_event = part.event and not part.words.startswith(f"{OTHER}: ")
        name = f"  {part.event}" if is_event else ""
        yield line + (name if len(line + name) <= page.column_count else "")
    for said in block.remarks:
        yield from page.wrapped(said, "  ", "    ")


def _range_text(estimate: Estimate, decimals: int) -> str:
    if estimate.low is None or estimate.high is None:
        return ""
    return f"({ends_text(estimate.low, estimate.high, decimals)})"


def _bar(parts: Iterable[TimePart], signs: dict[str, str]) -> str:
    """Return the bar: every part has at least one character, lengths by largest remainder."""
    drawn = [part for part in in_bar_order(parts) if part.ms.value > 0]
    total = sum(part.ms.value for part in drawn)
    if total <= 0:
        return " " * _BAR_WIDTH
    exact = [max(part.ms.value / total * _BAR_WIDTH, 1.0) for part in drawn]
    lengths = [int(length) for length in exact]
    by_remainder = sorted(range(len(drawn)), key=lambda i: lengths[i] - exact[i])
    for i in by_remainder:
        if sum(lengths) < _BAR_WIDTH:
            lengths[i] += 1
    while sum(lengths) > _BAR_WIDTH:
        lengths[lengths.index(max(lengths))] -= 1
    return "".join(signs[part.name] * length for part, length in zip(drawn, lengths, strict=True))


_ITEM_INDENT = 4
_ITEM_LINES_MAX = 5
# How much is shown of an item: all; one of its lines; none of them; one line and the whole next
# step; one line.
_WHOLE, _FIRST, _PLAIN, _SHORT, _LINE = range(5)


def list_lines(page: TextPage, block: ListBlock, lines_max: float) -> list[str]:
    """Return the items as numbered paragraphs, the last ones shortened if there is no room."""
    items = block.items
    shown_max = None if lines_max == math.inf else _ITEM_LINES_MAX
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
    indent, width = " " * _ITEM_INDENT, page.column_count
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
