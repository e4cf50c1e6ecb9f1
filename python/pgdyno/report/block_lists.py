"""Blocks of an answer that are no tables: what to look at, code to copy, charts over time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgdyno.analysis.findings import Mark
    from pgdyno.report.chart import Chart


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
