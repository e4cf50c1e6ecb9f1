"""What a program adds to an answer, as data: every form of the answer draws it alike.

The file `shown.py` of a program's folder makes it. This room knows no program: it draws lines,
tiles and tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.findings import ExperimentFindings, RunFindings
from pgdyno.feature import features
from pgdyno.programs.registry import part_of, program_named
from pgdyno.report import numbers
from pgdyno.report.text_page import TextPage


@dataclass(frozen=True, slots=True)
class Tile:
    """One tile; the ruler under its value shows `estimate`.

    `quantity`: the place of the value in the JSON document; "" if the document has no such number.
    """

    label: str
    value: str
    unit: str = ""
    aside: str = ""
    range_text: str = ""
    estimate: Estimate | None = None
    tone: Literal["plain", "good", "bad", "failed"] = "plain"
    quantity: str = ""


def number_tile(label: str, estimate: Estimate, aside: str = "", quantity: str = "") -> Tile:
    """Return the tile of an estimate, with its interval."""
    return Tile(
        label,
        numbers.value_text(estimate),
        estimate.unit,
        aside,
        numbers.interval_text(estimate),
        estimate,
        quantity=quantity,
    )


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; `unit` follows its name, `meaning` explains it in one line.

    `is_words`: a note. The text has no room for it, and the page heads it with its meaning.
    `is_name`: the column names the row; the first column always does. `is_last_to_fit`: a narrow
    page leaves the column out.
    """

    name: str
    unit: str = ""
    meaning: str = ""
    is_words: bool = False
    is_name: bool = False
    is_last_to_fit: bool = False

    @property
    def head(self) -> str:
        """Return the name with its unit, such as "p90 ms"."""
        return f"{self.name} {self.unit}".rstrip()


@dataclass(frozen=True, slots=True)
class OwnTable:
    """A table of the page and of Markdown.

    `note` follows the title, `below` is a sentence under the table. `summary`: not "" if the page
    folds the table, and then shows this line; `is_open`: it is unfolded at first.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    below: str = ""
    summary: str = ""
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class OwnShown:
    """What the program of one run adds to its answer.

    `anchor` and `short`: of its section in the page's menu. `lines`: of the text, with labels; a
    table stands between them. `document`: keys of the JSON document. `main_panels`: the charts of
    the first screen instead of the usual ones. `lists_types`: the tables have every transaction
    type, so the text needs no list of scripts.
    """

    title: str
    anchor: str
    short: str
    lead: str
    lines: tuple[tuple[str, str] | OwnTable, ...] = ()
    tiles: tuple[Tile, ...] = ()
    tables: tuple[OwnTable, ...] = ()
    document: Mapping[str, Any] = field(default_factory=dict)
    main_panels: tuple[str, ...] = ()
    lists_types: bool = False

    @property
    def unfolded(self) -> tuple[OwnTable, ...]:
        """Return the tables that the page shows at once; the others follow them."""
        return tuple(table for table in self.tables if not table.summary)

    @property
    def folded(self) -> tuple[OwnTable, ...]:
        """Return the tables that the page shows behind their summary."""
        return tuple(table for table in self.tables if table.summary)


def own_shown(run: RunFindings | None) -> OwnShown | None:
    """Return what the program of a run adds, None if it adds nothing."""
    if run is None or run.program.own is None:
        return None
    part = part_of(program_named(run.program.name), "shown")
    if part is None:
        return None
    shown = part.shown_of(run)
    assert isinstance(shown, OwnShown), f"shown_of of {run.program.name} returns an OwnShown"
    return shown


def document_by_features(run: RunFindings) -> dict[str, Any]:
    """Return the keys that features add to the JSON document of a run."""
    added: dict[str, Any] = {}
    for feature in features():
        if feature.name in run.added and "run_document" in feature.parts:
            added |= feature.part("run_document")(run.added[feature.name])
    return added


def lines_by_features(page: TextPage, run: RunFindings) -> Iterator[str]:
    """Yield the lines that features add to the text of a run."""
    for feature in features():
        if feature.name in run.added and "run_lines" in feature.parts:
            yield from feature.part("run_lines")(page, run.added[feature.name])


def own_of_cells(findings: ExperimentFindings) -> OwnShown | None:
    """Return what the program adds to an answer of several cells, None if it adds nothing."""
    if not findings.cells:
        return None
    part = part_of(program_named(findings.cells[0].program), "shown")
    assert part is not None, f"{findings.cells[0].program} finds something and shows it"
    has_run = own_shown(findings.run) is not None
    shown = part.shown_of_cells(findings.cells, has_run=has_run)
    assert isinstance(shown, OwnShown), "shown_of_cells returns an OwnShown"
    return shown


def text_table(table: OwnTable) -> Iterator[str]:
    """Yield a table of the text: names on the left, numbers aligned on the right."""
    places = [place for place, column in enumerate(table.columns) if not column.is_words]
    heads = tuple(column.head for column in table.columns)
    rows = [tuple(row[place] for place in places) for row in (heads, *table.rows)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(places))]
    for row in rows:
        first, *rest = zip(row, widths, strict=True)
        cells = "   ".join(f"{text:>{width}}" for text, width in rest)
        yield f"{first[0]:{first[1]}}   {cells}".rstrip()
