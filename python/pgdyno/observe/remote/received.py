"""Reads the host collector's output: files by path, and the difference between the clocks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

# Sent only with slow samples, and valid until the next.
LASTING = ("/proc/mounts", "/sys/", "/df/", "/inodes/", "/server/")
# A name, then its line: a colon belongs to the name when a number and a slash follow it, as in
# /sys/class/powercap/intel-rapl:0/name.
_LINE = re.compile(r"(/(?:[^:]|:(?=\d+(?::\d+)*/))*):(.*)", re.DOTALL)


def files_of(lines: Iterable[str]) -> dict[str, str]:
    """Return the texts of the files in the lines of one sample, by path."""
    texts_of: dict[str, list[str]] = {}
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is not None:
            texts_of.setdefault(match[1], []).append(match[2])
    return {path: "\n".join(texts) + "\n" for path, texts in texts_of.items()}


@dataclass(slots=True)
class Offset:
    """How far another host's clock is ahead of ours, from the quickest answer so far.

    The other clock was read between question and answer: half of that time is the uncertainty.
    """

    offset_ns: int = 0
    uncertainty_ns: int = 0
    answers: int = 0

    def see(self, asked_ns: int, theirs_ns: int, answered_ns: int) -> None:
        """Use one answer: two times on our clock, and the time on theirs."""
        uncertainty_ns = (answered_ns - asked_ns) // 2
        if not self.answers or uncertainty_ns < self.uncertainty_ns:
            self.offset_ns = theirs_ns - (asked_ns + answered_ns) // 2
            self.uncertainty_ns = uncertainty_ns
        self.answers += 1
