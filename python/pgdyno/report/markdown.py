"""The report as Markdown with separate pictures: for a wiki, or a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pgdyno.analysis.findings import ExperimentFindings
from pgdyno.redaction import printable
from pgdyno.report import figures, svg, tiles, words
from pgdyno.report.blocks import BlockAnswer, BlockSection, TableBlock, Tile, blocks_of
from pgdyno.report.compare_charts import round_charts
from pgdyno.report.further_tables import further_tables
from pgdyno.report.markdown_tables import (
    Table,
    change_table,
    latency_table,
    level_table,
    nodes_table,
    parts_table,
    variant_table,
)
from pgdyno.report.own import own_of_cells, own_shown
from pgdyno.report.statement_table import HEAD, statement_note, statement_rows

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
        *_stopped(findings),
        "## Doubts",
        "",
        *_doubts(findings),
        "",
        "## Measured on",
        "",
        *_rows(
            (("", ""), [*findings.facts.rows, ("durability", findings.facts.durability)]),
        ),
        f"Made by pgdyno {findings.version}. Intervals are 95 %.",
    ]
    return printable("\n".join(text) + "\n"), pictures


def answer_markdown(answer: BlockAnswer, remarks: Sequence[str] = ()) -> str:
    """Return the blocks of an answer as Markdown. Args: remarks, notes kept with the result."""
    head, tiles_shown = answer.head, blocks_of(answer.blocks, Tile)
    state = "" if head.is_complete else ", ended early"
    text = [
        f"# {_cell(head.sentence)}",
        "",
        f"pgdyno {head.verb} #{head.number}{state}, {_cell(head.target)}",
        "",
        *_rows((("", ""), [(tile.label, _tile_words(tile)) for tile in tiles_shown])),
        *(f"- **{_cell(line.label)}**: {_cell(line.said)}" for line in answer.lines),
        *(f"- **note**: {_cell(remark)}" for remark in remarks),
        "",
    ]
    for section in answer.sections:
        text += [
            f"## {_cell(section.title)}",
            "",
            *([_cell(section.lead), ""] if section.lead else []),
        ]
        for table in section.tables:
            text += _rows(_as_table(table))
    text.append(f"Made by pgdyno {head.version}. {_cell(answer.method)}")
    return printable("\n".join(text) + "\n")


def _stopped(findings: ExperimentFindings) -> Iterator[str]:
    compared = findings.compare
    if compared is not None:
        yield from ("## Stopped", "", f"{_cell(compared.stopped_by)}.", "")
    if findings.repeated:
        yield from ("## Repeated", "", _cell(findings.repeated_words), "")


def _tables(findings: ExperimentFindings) -> Iterator[str]:
    compared, run = findings.compare, findings.run
    if compared is not None:
        yield from _section("Variants", variant_table(compared))
        for further in further_tables(compared):
            table = further.table
            yield from _section(further.title, (table.head, list(table.rows)))
            yield from (_cell(table.note), "")
        for contrast in compared.contrasts:
            if contrast.difference is not None:
                differs = f"{contrast.variant} differs from {contrast.reference}"
                title = f"Where {differs}, ms per transaction"
                yield from _section(title, change_table(contrast))
        for contrast in compared.contrasts:
            plans: list[tuple[str, ...]] = [
                (f"{change.script}:{change.line}", change.was, change.became)
                for change in contrast.plan_changes
            ]
            if plans:
                title = f"Plans of {contrast.variant} that differ"
                yield from _section(
                    title, (("statement", contrast.reference, contrast.variant), plans)
                )
        for contrast in compared.contrasts:
            if contrast.statements:
                title = f"Statements of {contrast.variant} against {contrast.reference}"
                yield from _section(title, (HEAD, statement_rows(contrast)))
                yield from (f"{_cell(statement_note(contrast))}.", "")
        if compared.settings:
            names = ("setting", *(variant.name for variant in compared.variants))
            rows = [(name, *values) for name, values in compared.settings]
            yield from _section("Settings that differ, as read back", (names, rows))
        if compared.confounds:
            yield from (
                "## Confounds",
                "",
                *(f"- {_cell(confound)}" for confound in compared.confounds),
                "",
            )
    for curve in findings.curves:
        yield from _section(f"Load levels of {curve.script}", level_table(curve))
    if (cells := own_of_cells(findings)) is not None:
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


def _doubts(findings: ExperimentFindings) -> Iterator[str]:
    doubts = tiles.doubts_of(findings)
    if not doubts:
        yield "No rule found a reason to doubt this result."
    for doubt in doubts:
        kind = "Not valid" if doubt.verdict == "not_valid" else "Doubt"
        yield f"- **{kind}**: {_cell(doubt.message)} Next: {_cell(doubt.hint)}."


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
