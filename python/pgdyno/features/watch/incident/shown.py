"""Findings as lines of text, for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pgdyno.report.text_page import TextPage

_INDENT = 4
_TREE_MAX = 5
# How much is shown of a finding: all; all but its lines; one line and the next step; one line.
_WHOLE, _PLAIN, _SHORT, _LINE = range(4)

Document = Mapping[str, Any]


def finding_lines(findings: Sequence[Document], width: int, lines_max: int) -> list[str]:
    """Return the findings as numbered paragraphs, the last ones shortened if there is no room."""
    page, details = TextPage(width), [_WHOLE] * len(findings)
    # Every finding keeps its next step as long as possible.
    steps = [(place, detail) for detail in (1, 2, 3) for place in reversed(range(len(findings)))]
    while True:
        lines = [
            line
            for place, finding in enumerate(findings)
            for line in _paragraph(page, place + 1, finding, details[place])
        ]
        if len(lines) <= lines_max or not steps:
            return lines
        place, detail = steps.pop(0)
        details[place] = detail


def _paragraph(page: TextPage, number: int, finding: Document, detail: int) -> Iterator[str]:
    indent, width = " " * _INDENT, page.column_count
    said = f"{'over: ' if finding['is_over'] else ''}{finding['said']}"
    if detail >= _SHORT:
        yield _cut(f"{number:2}  {said}", width)
        if detail == _SHORT:
            yield _cut(f"{indent}next: {finding['next_step']}", width)
        return
    cost = f"; {finding['cost']}" if finding["cost"] else ""
    yield from page.wrapped(f"{said}{cost}", f"{number:2}  ", indent)
    shown_count = 0 if detail == _PLAIN else _TREE_MAX if number == 1 else 1
    for line in finding["lines"][:shown_count]:
        yield _cut(f"{indent}{line}", width)
    yield from page.wrapped(finding["next_step"], f"{indent}next: ", f"{indent}      ")


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else f"{line[: width - 1]}\u2026"


def live_lines(findings: Sequence[Document], width: int) -> list[str]:
    """Return one line for each finding that is not over."""
    lines = [f"  ! {finding['said']}" for finding in findings if not finding["is_over"]]
    return [_cut(line, width) for line in lines]
