"""A finding: who, since when, what it costs, the next step. And the order of several."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any

SHOWN_MAX = 5
_MUCH_RATIO = 0.05
_SAME_DAY_NS = 12 * 3_600_000_000_000


class Danger(IntEnum):
    """What follows if nobody acts: of findings that lost the same time, the worst comes first."""

    COSTS = 0
    GROWS = 1
    LIMIT_NEAR = 2
    WORK_REFUSED = 3
    # This role does not see what is wrong: comes first.
    BLIND = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentFinding:
    """Something that keeps sessions from working, or soon will.

    `said`: who, and what they do, in one sentence. `lost_s`: session-seconds lost during the watch;
    0 if nothing was lost yet. `since_s`: age at the end of the watch; if the server does not tell
    when it began, since it was seen first. `cost`: what it costs, in words. `lines`: more about it,
    such as the tree of sessions. `evidence`: numbers for programs. `answer`: the sentence of the
    whole watch, if this is its first finding and says more than `said`.
    `share_ratio`, of DB time, follows from `lost_s`; None if nothing was lost, or if it is not
    known.
    """

    kind: str
    said: str
    next_step: str
    cost: str = ""
    answer: str = ""
    lost_s: float = 0.0
    share_ratio: float | None = None
    since_s: float | None = None
    is_over: bool = False
    danger: Danger = Danger.COSTS
    lines: tuple[str, ...] = ()
    evidence: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def subject(self) -> tuple[str, ...]:
        """Return what stays the same while the finding lasts: its kind, and the names in it."""
        names = (value for value in self.evidence.values() if isinstance(value, str))
        return (self.kind, *names)

    def as_document(self) -> dict[str, Any]:
        """Return the finding as a part of the JSON document."""
        return dataclasses.asdict(self) | {
            "danger": self.danger.name.lower(),
            "lines": list(self.lines),
        }


def clock_text(time_ns: int, now_ns: int) -> str:
    """Return a Unix time as "13:18:54 UTC"; with its date if it is half a day old."""
    moment = datetime.fromtimestamp(time_ns // 1_000_000_000, tz=UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S}"[11 * (now_ns - time_ns < _SAME_DAY_NS) :] + " UTC"


def quoted(name: str) -> str:
    """Return a name as a string of SQL."""
    return "'" + name.replace("'", "''") + "'"


def in_order(findings: Iterable[IncidentFinding]) -> list[IncidentFinding]:
    """Return the findings with the most lost time first, then the most dangerous."""

    def rank(finding: IncidentFinding) -> tuple[bool, float, int, str]:
        # Little lost time is no reason to come before work that is refused.
        is_much = (finding.share_ratio or 0.0) >= _MUCH_RATIO
        is_blind = finding.danger == Danger.BLIND
        lost_s = finding.lost_s if is_much else 0.0
        return not is_blind, -lost_s, -finding.danger, finding.said

    return sorted(findings, key=rank)
