"""The blocks of an answer that are no tables: sentences, plots, charts, doubts, lists, code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from pgdyno.redaction import printable
from pgdyno.report import numbers

if TYPE_CHECKING:
    from pgdyno.analysis.estimate import Estimate
    from pgdyno.analysis.findings import Mark
    from pgdyno.analysis.verdicts import Doubt
    from pgdyno.report.blocks import TableBlock, Tone
    from pgdyno.report.chart import Chart
    from pgdyno.report.forest import Forest
    from pgdyno.report.parts import TimePart


class PageText(str):
    """A text that looks otherwise on the page, such as a number with a small interval."""

    page: Markup

    def __new__(cls, text: str, page: Markup) -> PageText:
        """Return the text with its form on the page. Args: page, without secrets."""
        made = super().__new__(cls, text)
        made.page = Markup(printable(page))
        return made


def drawn(svg: Markup) -> PageText:
    """Return a cell that only the page has: a picture."""
    return PageText("", svg)


def figure_text(text: str, quantity: str) -> PageText:
    """Return a number with its place in the JSON document, such as "variants.1.metrics.tps"."""
    shown = text.replace(">= ", "≥ ")
    return PageText(text, Markup('<span data-quantity="{}">{}</span>').format(quantity, shown))


def with_small(text: str, small: str) -> str:
    """Return a text with a smaller one after it, such as the name of a wait event."""
    page = Markup("{} <small>{}</small>").format(text, small)
    return PageText(f"{text} ({small})", page) if small else text


def value_with(text: str, interval: str) -> str:
    """Return a number; the page alone has its interval, too."""
    page = Markup('{}<span class="iv">{}</span>').format(text, interval)
    return PageText(text, page) if interval else text


def number_text(estimate: Estimate, quantity: str, more: str = "") -> PageText:
    """Return an estimate with its interval. Args: more, red words after it."""
    interval = Markup('<span class="iv">{}</span>').format(numbers.interval_text(estimate))
    value = numbers.value_text(estimate)
    page = Markup('<span data-quantity="{}">{}{}</span>').format(quantity, value, interval)
    if more:
        page += Markup(' <span class="red">{}</span>').format(more)
    return PageText(f"{numbers.estimate_text(estimate)} {more}".rstrip(), page)


@dataclass(frozen=True, slots=True)
class SentenceBlock:
    """A sentence of the answer, if it has several; the page has them instead of that of the head.

    `verdict` begins `said`, and is set in bold; "" for the whole. The text never omits the label.
    """

    label: str
    said: str
    verdict: str = ""
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class RowList:
    """Rows with names under a heading, for the text alone: a table of the page has the numbers."""

    heading: str
    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ForestBlock:
    """Changes with their intervals on one axis, and on the page `tables` next to it.

    `row_max_count`: the rows of one contrast on the page. `is_valid`: verdicts may have a colour.
    `is_in_text`: text and Markdown have it, too; not if a table has the same changes.
    """

    forest: Forest
    row_max_count: int
    is_valid: bool
    tables: tuple[TableBlock, ...] = ()
    is_in_text: bool = True


@dataclass(frozen=True, slots=True)
class TimeBars:
    """Bars of times on one scale: name, bar, time; and the name and the look of each part."""

    rows: tuple[tuple[str, Markup, PageText], ...]
    legend: tuple[tuple[str, Markup], ...]


@dataclass(frozen=True, slots=True)
class TimeSplit:
    """The mean latency of a run as a bar with its largest parts; a table has all parts.

    The page has it on the first screen. `at`: the place of the run in the JSON document, such as
    "at_the_knee.". `load`: which run; "" if there is only one. `remarks`: sentences under the bar
    of the text.
    """

    latency: Estimate
    parts: tuple[TimePart, ...]
    decimals: int
    at: str = ""
    load: str = ""
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChartList:
    """Line charts with one axis; Markdown has them as pictures in separate files.

    Outside a section: on the first screen.
    """

    charts: tuple[Chart, ...]


@dataclass(frozen=True, slots=True)
class TableRow:
    """Tables that a wide page shows side by side."""

    tables: tuple[TableBlock, ...]


@dataclass(frozen=True, slots=True)
class DoubtList:
    """What was repeated ("" if nothing), whether the runs are valid, and the reasons to doubt."""

    repeated: str
    validity: str
    doubts: tuple[Doubt, ...]


ChartBlock = (
    SentenceBlock | RowList | ForestBlock | TimeBars | TimeSplit | ChartList | TableRow | DoubtList
)


@dataclass(frozen=True, slots=True)
class ListItem:
    """One thing to look at. `aside`: what it costs. `lines`: more about it, such as a tree.

    `is_over`: it has ended, such as a lock that is released.
    """

    said: str
    aside: str = ""
    lines: tuple[str, ...] = ()
    next_step: str = ""
    is_over: bool = False

    @property
    def whole(self) -> str:
        """Return the sentence, after "over: " if it has ended."""
        return "over: " * self.is_over + self.said


@dataclass(frozen=True, slots=True)
class ListBlock:
    """Things to look at, the worst first. A list outside a section precedes all other blocks.

    If there is no room, the text shortens the last items. In a section, only the full text has it.
    """

    items: tuple[ListItem, ...]
    anchor: str = "findings"


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """Lines to copy, which no form wraps. `short`: those of the short text, "" for none."""

    label: str
    code: str
    language: str = "sql"
    short: str = ""


@dataclass(frozen=True, slots=True)
class TimeCharts:
    """Charts over time on one axis, with their marks. Outside a section: on the first screen."""

    charts: tuple[Chart, ...]
    marks: tuple[Mark, ...] = ()
