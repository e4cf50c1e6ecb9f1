"""The report as Markdown with separate pictures: for a wiki, or a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pgdyno.analysis.findings import ExperimentFindings
from pgdyno.analysis.verdicts import Doubt
from pgdyno.redaction import printable
from pgdyno.report import figures, svg, words
from pgdyno.report.about_blocks import about_blocks
from pgdyno.report.block_charts import (
    ChartList,
    DoubtList,
    ForestBlock,
    SentenceBlock,
    TimeBars,
)
from pgdyno.report.block_lists import CodeBlock, ListBlock
from pgdyno.report.blocks import Block, BlockAnswer, BlockSection, TableBlock, Tile, blocks_of
from pgdyno.report.compare_blocks import compare_sections
from pgdyno.report.compare_charts import round_charts
from pgdyno.report.markdown_tables import (
    Table,
    latency_table,
    level_table,
    nodes_table,
    parts_table,
)
from pgdyno.report.own import own_of_cells, own_shown

_WIDTH_PX = 760
_MARKUP = re.compile(r"[\\|\[\]`]")
Pictures = dict[str, bytes]


def markdown_of(findings: ExperimentFindings, *, stem: str) -> tuple[str, Pictures]:
    """Return the text, and its pictures as SVG by file name.

    Args: stem, the start of the pictures' names: "report" gives "report-rounds.svg".
    """
    return markdown_with(findings, stem=stem)


def markdown_with(
    findings: ExperimentFindings,
    *,
    stem: str,
    tables: Sequence[tuple[str, Table]] = (),
    lines: Sequence[str] = (),
) -> tuple[str, Pictures]:
    """Return the same as `markdown_of`, with additional lines and tables before all others.

    Args: tables, each with its title.
    """
    pictures = {f"{stem}-{key}.svg": picture for key, picture in _pictures(findings)}
    contrasts = findings.compare.contrasts if findings.compare is not None else ()
    first, *more = [contrast.sentence for contrast in contrasts] or [findings.sentence]
    text = [
        f"# {_cell(first)}",
        "",
        *(f"**{_cell(said)}**\n" for said in more),
        f"pgdyno {findings.kind} #{findings.number}, {_cell(words.fact_line(findings))}",
        "",
        *(line for title, table in tables[:1] for line in _section(title, table)),
        *lines,
        *(f"![{name}]({name})\n" for name in pictures),
        *(line for title, table in tables[1:] for line in _section(title, table)),
        *_tables(findings),
        *(line for section in about_blocks(findings) for line in _section_lines(section)),
        f"Made by pgdyno {findings.version}. Intervals are 95 %.",
    ]
    return printable("\n".join(text) + "\n"), pictures


def answer_markdown(answer: BlockAnswer, remarks: Sequence[str] = (), stem: str = "") -> str:
    """Return the blocks of an answer as Markdown.

    Args: remarks, notes kept with the result; stem, the start of the pictures' names.
    """
    head = answer.head
    tiles_shown = [(tile.label, _tile_words(tile)) for tile in blocks_of(answer.blocks, Tile)]
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
    """Yield a table without its pictures, which have no text."""
    places = [place for place, column in enumerate(table.columns) if column.style != "plotted"]
    if is_titled and table.title:
        note = f" ({_cell(table.note)})" if table.note else ""
        yield from (f"**{_cell(table.title)}**{note}", "")
    if table.rows:
        head = [table.columns[place].head for place in places]
        yield from _rows((head, [[row[place] for place in places] for row in table.rows]))
    if table.below:
        yield from (_cell(table.below), "")


def _forest_rows(block: Block) -> Iterator[str]:
    """Yield the changes of a forest plot as a table: a picture needs more room."""
    if not isinstance(block, ForestBlock) or not (block.is_in_text and block.forest.groups):
        return
    rows: list[tuple[str, ...]] = [
        (group.name, row.name, group.said(row), row.verdict)
        for group in block.forest.groups
        for row in group.on_page(block.row_max_count)
    ]
    yield from _section("Changes", (("", "metric", "change", "verdict"), rows))


def _tables(findings: ExperimentFindings) -> Iterator[str]:
    run = findings.run
    if findings.compare is not None:
        for section in compare_sections(findings):
            yield from _section_lines(section)
    for curve in findings.curves:
        yield from _section(f"Load levels of {curve.script}", level_table(curve))
    if findings.compare is None and (cells := own_of_cells(findings)) is not None:
        yield from _block_tables(cells)
    if run is not None:
        if run.where is not None:
            title = f"Where the time goes: {words.run_words(findings)}"
            yield from _section(title, parts_table(run.where))
            if run.where.nodes:
                yield from _section("The other nodes", nodes_table(run.where))
        yield from _section("Latency", latency_table(run))
        own = own_shown(run)
        if own is not None:
            yield from _block_tables(own)


def _block_tables(section: BlockSection) -> Iterator[str]:
    for table in blocks_of(section.blocks, TableBlock):
        yield from _section(table.title, _as_table(table))


def _tile_words(tile: Tile) -> str:
    """Return "1.31 s (0.66 to 1.97)"."""
    ends = f" ({tile.range_text})" if tile.range_text else ""
    return f"{tile.value} {tile.unit}".rstrip() + ends


def _as_table(table: TableBlock) -> Table:
    return tuple(column.head for column in table.columns), list(table.rows)


def _doubt(doubt: Doubt) -> str:
    kind = "Not valid" if doubt.verdict == "not_valid" else "Doubt"
    return f"- **{kind}**: {_cell(doubt.message)} Next: {_cell(doubt.hint)}."


def _section(title: str, table: Table) -> Iterator[str]:
    yield from (f"## {_cell(title)}", "", *_rows(table))


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


def _pictures(findings: ExperimentFindings) -> Iterator[tuple[str, bytes]]:
    """Yield name and SVG of the charts of the page's first screen."""
    compared = findings.compare
    charts = round_charts(compared) if compared is not None else figures.main_charts(findings)
    for chart in (*charts, *figures.curve_charts(findings)):
        yield _file_name(chart.key), svg.standalone(chart, width=_WIDTH_PX).encode()


def _file_name(key: str) -> str:
    return "".join(c if c.isalnum() or c == "-" else "-" for c in key)
