"""The blocks of an answer: one description that text, page, Markdown and JSON draw alike.

One function of a verb or a program returns the blocks in the order of reading. `block_text.py`,
`html.py` and `markdown.py` draw them; `keys_of` is the part of the JSON document.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from markupsafe import Markup

from pgdyno.report import numbers
from pgdyno.report.block_charts import ChartBlock, CodeBlock, ListBlock, TableRow, TimeCharts

if TYPE_CHECKING:
    from pgdyno.analysis.estimate import Estimate

Level = Literal["short", "full"]
Tone = Literal["plain", "good", "bad", "doubt"]


@dataclass(frozen=True, slots=True)
class AnswerHead:
    """What precedes every answer: whose it is, of which server, and the answer in one sentence."""

    verb: str
    number: int
    name: str
    version: str
    target: str
    sentence: str
    is_complete: bool = True


def head_of_document(verb: str, document: Mapping[str, Any]) -> AnswerHead:
    """Return the head of an answer from its JSON document."""
    names = ("number", "name", "pgdyno_version", "target", "sentence", "is_complete")
    return AnswerHead(verb, *(document[name] for name in names))


@dataclass(frozen=True, slots=True)
class LabelledLine:
    """A line of the text. Outside a section it is on the first screen of the page, too.

    `said`: the words after the label. Example: label "tps", said "9,411 (9,380 to 9,440), 94,118
    transactions". `level`: "full" if the short text leaves it out.
    """

    label: str
    said: str
    tone: Tone = "plain"
    level: Level = "short"


@dataclass(frozen=True, slots=True)
class Tile:
    """One tile of the page; the ruler under its value shows `estimate`.

    `aside`: small words after the value, such as "8 clients". `range_text`: the interval in words.
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
class TableColumn:
    """A column of a table; `unit` follows its name, `meaning` explains it in one line.

    `is_words`: a note. The text has no room for it, and the page heads it with its meaning.
    `is_name`: the column names the row; the first column always does. `is_last_to_fit`: a narrow
    page leaves the column out. `is_wide`: it takes the room that the others leave. `style`: the
    class of its cells on the page; "sql": statements or names, which the text cuts to its room.
    """

    name: str
    unit: str = ""
    meaning: str = ""
    is_words: bool = False
    is_name: bool = False
    is_last_to_fit: bool = False
    is_wide: bool = False
    style: str = ""

    @property
    def is_code(self) -> bool:
        """Return whether its cells are statements or names of the server."""
        return self.style == "sql"

    @property
    def is_plotted(self) -> bool:
        """Return whether its cells are pictures, which only the page has."""
        return "plotted" in self.style

    @property
    def is_in_text(self) -> bool:
        """Return whether the text has the column: it has no room for notes, and no pictures."""
        return not self.is_words and not self.is_plotted

    @property
    def head(self) -> str:
        """Return the name with its unit, such as "p90 ms"."""
        return f"{self.name} {self.unit}".rstrip()


@dataclass(frozen=True, slots=True)
class TableBlock:
    """A table of the page and of Markdown; the full text has it, too.

    `note` follows the title, `below` is a sentence under the table. `summary`: not "" if the page
    folds the table, and then shows this line; `is_open`: it is unfolded at first. `short_row_count`
    rows are in the short text, then `short_rest`, which sums up the others. `is_of_types`: every
    type of transaction has a row, so the text needs no list of scripts. `tones`: (row, column) ->
    the tone of a cell. `heading`: the line above it in the text. `is_turned`: there, each column is
    a line. `style`: its class on the page. `strong`: rows that stand out there.
    """

    title: str
    columns: tuple[TableColumn, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    below: str = ""
    summary: str = ""
    is_open: bool = False
    short_row_count: int = 0
    short_rest: tuple[tuple[str, ...], ...] = ()
    is_of_types: bool = False
    tones: Mapping[tuple[int, int], Tone] = field(default_factory=dict)
    heading: str = ""
    is_turned: bool = False
    style: str = ""
    strong: tuple[bool, ...] = ()


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture of the page, such as time bars; a table of its section has its numbers."""

    svg: Markup


@dataclass(frozen=True, slots=True)
class FirstCharts:
    """The charts of the first screen, by their keys, instead of the usual ones."""

    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DocumentKeys:
    """Keys of the JSON document."""

    keys: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BlockSection:
    """A section of the page and of Markdown. `anchor` and `short` are for the page's menu."""

    title: str
    anchor: str
    short: str
    lead: str
    blocks: tuple[Block, ...] = ()

    @property
    def tables(self) -> tuple[TableBlock, ...]:
        """Return the tables: those that the page shows at once, then those that it folds."""
        return tuple(
            sorted(blocks_of(self.blocks, TableBlock), key=lambda table: bool(table.summary))
        )

    @property
    def on_page(self) -> tuple[Block, ...]:
        """Return what the page draws: pictures precede tables, and folded tables are last."""
        drawn = (block for block in self.blocks if not isinstance(block, LabelledLine | Tile))
        return tuple(
            sorted(
                drawn,
                key=lambda block: (
                    1 + bool(block.summary)
                    if isinstance(block, TableBlock)
                    else isinstance(block, TableRow)
                ),
            )
        )


Block = (
    LabelledLine
    | Tile
    | TableBlock
    | ListBlock
    | CodeBlock
    | TimeCharts
    | Drawing
    | FirstCharts
    | DocumentKeys
    | BlockSection
    | ChartBlock
)
Kind = TypeVar("Kind", bound=Block)


def blocks_of(blocks: Sequence[Block], kind: type[Kind]) -> Iterator[Kind]:
    """Yield the blocks of one kind, also from within sections, in their order."""
    for block in blocks:
        if isinstance(block, kind):
            yield block
        elif isinstance(block, BlockSection):
            yield from blocks_of(block.blocks, kind)
        elif isinstance(block, TableRow):
            yield from blocks_of(block.tables, kind)


def keys_of(blocks: Sequence[Block]) -> dict[str, Any]:
    """Return the keys that the blocks add to the JSON document."""
    keys: dict[str, Any] = {}
    for block in blocks_of(blocks, DocumentKeys):
        keys |= block.keys
    return keys


@dataclass(frozen=True, slots=True)
class BlockAnswer:
    """A whole answer. `method`: one sentence at the end of the page."""

    head: AnswerHead
    blocks: tuple[Block, ...]
    method: str = "Intervals are 95 %."

    @property
    def sections(self) -> tuple[BlockSection, ...]:
        """Return the sections of the page, in their order."""
        return tuple(block for block in self.blocks if isinstance(block, BlockSection))

    @property
    def first(self) -> tuple[Block, ...]:
        """Return the blocks of the first screen, which are in no section."""
        return tuple(block for block in self.blocks if not isinstance(block, BlockSection))

    @property
    def lines(self) -> tuple[LabelledLine, ...]:
        """Return the lines of the first screen."""
        return tuple(blocks_of(self.first, LabelledLine))
