"""How much of a captured load can be reproduced, and why the rest cannot."""

from __future__ import annotations

from dataclasses import dataclass

from pgdyno.features.capture.mirror.replay import templates_in
from pgdyno.features.capture.model import Capture
from pgdyno.features.capture.observed import REASONS
from pgdyno.quantities import shares_words


@dataclass(frozen=True, slots=True)
class NotCovered:
    """Statements that are left out for one reason."""

    reason: str
    words: str
    statements: int
    calls: int
    time_ms: float
    calls_ratio: float | None
    time_ratio: float | None
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Coverage:
    """The share of calls and of execution time that templates reproduce.

    `calls_ratio`: None if the logs lack an unknown part of the statements.
    """

    calls: int
    time_ms: float
    calls_ratio: float | None
    time_ratio: float | None
    left_out: tuple[NotCovered, ...]

    @property
    def sentence(self) -> str:
        """Return "96 % of the calls and 91 % of the time can be reproduced"."""
        if not self.calls:
            return "the capture has no calls of statements"
        return f"{shares_words(self.calls_ratio, self.time_ratio)} can be reproduced"


def coverage_of(capture: Capture) -> Coverage:
    """Return the coverage: statements of templates against everything that was counted."""
    used = {step.statement for template in templates_in(capture) for step in template.steps}
    within = [s.counters for s in capture.statements if s.id in used]
    calls = sum(c.calls for c in within)
    time_ms = sum(c.time_ms for c in within)
    unused = [s for s in capture.statements if s.id not in used and s.counters.calls]
    entries = [(item.reason, item.text, item.calls, item.time_ms) for item in capture.left_out]
    entries += [("other", s.text, s.counters.calls, s.counters.time_ms) for s in unused]
    all_calls = calls + sum(entry[2] for entry in entries)
    all_time_ms = time_ms + sum(entry[3] for entry in entries)
    is_partial = capture.header.is_partial

    def share(part: float, whole: float) -> float | None:
        return None if is_partial or not whole else part / whole

    left_out = []
    for reason in sorted({entry[0] for entry in entries}):
        mine = [entry for entry in entries if entry[0] == reason]
        mine.sort(key=lambda entry: -entry[3])
        sums = sum(entry[2] for entry in mine), sum(entry[3] for entry in mine)
        left_out.append(
            NotCovered(
                reason=reason,
                words=REASONS.get(reason, reason),
                statements=len(mine),
                calls=sums[0],
                time_ms=sums[1],
                calls_ratio=share(sums[0], all_calls or 1),
                time_ratio=share(sums[1], all_time_ms),
                examples=tuple(dict.fromkeys(entry[1] for entry in mine if entry[1]))[:3],
            )
        )
    return Coverage(
        calls=all_calls,
        time_ms=all_time_ms,
        calls_ratio=share(calls, all_calls or 1),
        time_ratio=share(time_ms, all_time_ms),
        left_out=tuple(sorted(left_out, key=lambda item: -item.time_ms)),
    )
