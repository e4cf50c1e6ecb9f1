"""Shortens the text of an answer to one screen: what decides stays, and the end says what is left.

A text is stanzas: a line at the margin with its label, and the indented lines under it. Each doubt
is a stanza, too. Lines go from the least important stanza first. Pure; it knows no design.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from pgdyno.quantities import counted
from pgdyno.report.text_page import LABEL_WIDTH, WIDTH

LINES_MAX = 25
_DOUBTS_SHOWN = 3
_PARTS_SHOWN = 5
# Lines of a verdict if there are several: the figures, without the reasons.
_OF_SEVERAL = 2
_HINT = re.compile(r"\s+-> ")
_DOUBT = re.compile(r"  (?:NOT VALID|doubt)\b")
_PEAK = re.compile(r"\S.*\s+peak  ")
# Names of columns: words without the signs that values have.
_WORDS = r"[^(),.=:\s]+(?: [^(),.=:\s]+)*"
_HEAD = re.compile(rf" *{_WORDS}(?: {{2,}}{_WORDS}){{2,}} *")
_NUMBER = re.compile(r"(?<![a-z\d])\d")
_ROW = re.compile(r"  \S")
_BAR = re.compile(r"  \[\S+\]$")
# Label of a stanza -> its importance and the lines that it keeps first. Importance 0: for authors.
_IMPORTANT = {
    "in short": (9, 5),
    "answer": (9, 5),
    "verdict": (9, 4),
    "durability": (9, 2),
    "saved": (9, 1),
    "report": (9, 1),
    "valid": (9, 1),
    "note": (7, 3),
    "costs": (8, 3),
    "apply": (8, 5),
    "left out": (7, 2),
    "alike": (8, 2),
    "cells:": (9, 14),
    "not": (6, 2),
    "NOT VALID": (8, 2),
    "doubt": (6, 2),
    "repeated": (4, 2),
    "target": (6, 2),
    "tps": (6, 1),
    "peak": (5, 4),
    "latency ms": (4, 4),
    "where the": (4, 2 + _PARTS_SHOWN),
    "at the knee": (5, 1),
    "variants": (7, 9),
    "top of": (5, 1 + _PARTS_SHOWN),
    "by statement": (1, 4),
    "setting": (2, 2),
    "CAVEAT": (9, 3),
    "statement": (5, 2),
    "time": (5, 2),
    "p50": (3, 2),
    "p90": (2, 2),
    "differs": (3, 2),
    "drift": (2, 2),
    "rights": (6, 5),
    "BAD": (8, 3),
    "WARN": (5, 3),
    "?": (1, 1),
    "good": (9, 1),
    "confound": (3, 2),
    "state": (0, 0),
    "stopped": (0, 0),
    "side by side": (0, 0),
    "what the devices": (0, 0),
}
# Rows that a program or a feature adds are what its load is measured for.
_OTHERWISE = (5, 4)
_LEAST = {"latency ms": 2, "where the": 1 + _PARTS_SHOWN}
_DOTS = " ..."


@dataclass(slots=True)
class _Stanza:
    label: str
    lines: list[str]
    importance: int
    next_line: str = ""

    @property
    def row_count(self) -> int:
        """Return the number of rows below the heading, without their further lines."""
        return sum(_ROW.match(line) is not None for line in self.lines)

    @property
    def least(self) -> int:
        """Return the number of lines that are always kept."""
        return _LEAST.get(self.label, 1 if self.importance > 5 else 0)


def shortened(text: str, again: str, lines_max: int = LINES_MAX) -> str:
    """Return at most `lines_max` lines of an answer; the last says how to see the others.

    Args: again, the command that prints the whole text.
    """
    whole = text.splitlines()
    if len(whole) <= lines_max:
        return text
    stanzas = _stanzas(whole)
    rows = {id(stanza): stanza.row_count for stanza in stanzas if stanza.label == "variants"}
    stanzas = [_kept(stanza) for stanza in stanzas]
    doubts = [stanza for stanza in stanzas if stanza.label in ("NOT VALID", "doubt")]
    for stanza in doubts[_DOUBTS_SHOWN:]:
        stanza.lines, stanza.importance = [], 0
    verdicts = [stanza for stanza in stanzas if stanza.label == "verdict"]
    for stanza in verdicts if len(verdicts) > 1 else ():
        _cut(stanza, _OF_SEVERAL)
    while sum(len(stanza.lines) for stanza in stanzas) > lines_max - 1:
        longer = [stanza for stanza in stanzas if len(stanza.lines) > stanza.least]
        if not longer:
            break
        least = min(stanza.importance for stanza in longer)
        longest = max(
            # Of equal ones the last, so that a table keeps its head.
            (stanza for stanza in reversed(longer) if stanza.importance == least),
            key=lambda stanza: len(stanza.lines),
        )
        _shorten(longest)
    for stanza, following in pairwise(stanzas):
        _drop_bare_head(stanza, following)
    for stanza in stanzas:
        if 0 < stanza.row_count < rows.get(id(stanza), 0):
            stanza.lines[0] += f"    {stanza.row_count} of {rows[id(stanza)]}"
    shown = [line for stanza in stanzas for line in _ended(stanza)]
    left_out = len(whole) - len(shown)
    further = len(doubts) - min(len(doubts), _DOUBTS_SHOWN)
    of_doubts = f", with {counted(further, 'more doubt')}" if further else ""
    return "\n".join([*shown, f"{'more':12}{counted(left_out, 'line')}{of_doubts}: {again}"])


def _stanzas(lines: list[str]) -> list[_Stanza]:
    """Return the stanzas of a text in their order."""
    stanzas: list[_Stanza] = []
    for line in lines:
        if stanzas and line.startswith(" ") and not _DOUBT.match(line):
            stanzas[-1].lines.append(line)
            continue
        label = next((name for name in _IMPORTANT if line.strip().startswith(name)), "")
        label = "peak" if not label and _PEAK.match(line) else label
        stanzas.append(_Stanza(label, [line], _IMPORTANT.get(label, _OTHERWISE)[0]))
    return stanzas


def _kept(stanza: _Stanza) -> _Stanza:
    """Return a stanza with the lines that it may show at most."""
    if stanza.label == "doubt":
        stanza.lines = [line for line in stanza.lines if not _HINT.match(line)]
    most = _IMPORTANT.get(stanza.label, _OTHERWISE)[1]
    _cut(stanza, most)
    return stanza


def _shorten(stanza: _Stanza) -> None:
    """Take out one line: the bar, else the last; a heading without its lines goes, too."""
    bars = [line for line in stanza.lines if _BAR.match(line)]
    if bars:
        stanza.lines.remove(bars[0])
        return
    is_heading = "  " not in stanza.lines[0]
    _cut(stanza, 0 if is_heading and len(stanza.lines) == 2 else len(stanza.lines) - 1)


def _drop_bare_head(stanza: _Stanza, following: _Stanza) -> None:
    """Take out the head of a table whose rows are all left out, and its heading.

    The rows are the next lines of the stanza, or the next stanzas.
    """
    has_heading = len(stanza.lines) == 2 and "  " not in stanza.lines[0]
    has_no_row = bool(stanza.next_line) or not following.lines
    # A row that stands alone has a number; p99 is a name.
    is_alone = len(stanza.lines) == 1 and not _NUMBER.search(stanza.lines[0])
    if (has_heading or is_alone) and has_no_row and _HEAD.fullmatch(stanza.lines[-1]):
        stanza.lines.clear()


def _cut(stanza: _Stanza, line_count: int) -> None:
    if line_count < len(stanza.lines):
        stanza.next_line = stanza.lines[line_count]
        del stanza.lines[line_count:]


def _ended(stanza: _Stanza) -> list[str]:
    """Return the lines of a stanza; a sentence that was cut ends with three dots."""
    next_line = stanza.next_line
    is_cut = next_line.startswith(" " * LABEL_WIDTH) and not _HINT.match(next_line)
    if not stanza.lines or not is_cut or stanza.label == "latency ms":
        return stanza.lines
    *first, last = stanza.lines
    room = WIDTH - len(_DOTS)
    return [*first, (last if len(last) <= room else last[:room].rpartition(" ")[0]) + _DOTS]
