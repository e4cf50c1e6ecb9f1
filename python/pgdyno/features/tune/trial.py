"""The data types of a tuning: candidates, runs to do, their results, what was seen. Pure."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from typing import Literal

from pgdyno.analysis.estimate import Estimate
from pgdyno.features.tune.space import Point

BASE = "yours"
"""Name of the server as it is."""

SET = "the set"
"""Name of the candidate with all values of the formulas, and of its question."""

NAME_MAX = 60
"""The longest name that a variant may have."""

Length = Literal["turn", "run", "long run"]
"""A turn within a load, a run, or a run that is long enough for a checkpoint or a vacuum."""
LENGTHS: tuple[Length, ...] = ("turn", "run", "long run")
Role = Literal["alone", "set", "back"]
"""What a question is about.

One value of a setting on top of the best settings, all values of the formulas, or one of these
settings back at your value.
"""
Decision = Literal["better", "worse", "no better", "not known", "failed", "not tried"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """Settings to try. `name`: "yours", or what it changes, such as "work_mem=64MB"."""

    name: str
    settings: Point


def candidate_of(settings: Point, name: str = "") -> Candidate:
    """Return the candidate with these settings; without a name, its settings are its name."""
    listed = ", ".join(f"{setting}={value}" for setting, value in sorted(settings.items()))
    if len(listed) > NAME_MAX:
        mark = f"{zlib.crc32(listed.encode()):08x}"
        listed = f"{listed[: NAME_MAX - len(mark) - 1]}~{mark}"
    return Candidate(name or listed or BASE, dict(settings))


@dataclass(frozen=True, slots=True)
class TrialStep:
    """One run to do: its round (from 1) and its candidate.

    `length`: how long it lasts; turns are parts of one load, which may have more rounds.
    """

    round: int
    candidate: Candidate
    length: Length = "run"

    @property
    def in_turns(self) -> bool:
        """Return whether it is a part of a load in which candidates take turns."""
        return self.length == "turn"


@dataclass(frozen=True, slots=True)
class TrialResult:
    """The result of one run. `goal_ratio`: the log of the goal, which shall be large.

    If `goal_ratio` is None, the run failed for the reason `why`; if `why` is empty, the run has no
    value of the metric.
    """

    step: TrialStep
    goal_ratio: float | None
    took_ns: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class PairEffect:
    """The log ratio of two candidates: mean, half-width of its interval, number of pairs.

    `half_ratio` is infinite while the scatter of a pair is not known.
    """

    mean_ratio: float
    half_ratio: float
    pair_count: int

    @property
    def low_ratio(self) -> float:
        """Return the lower end of the interval."""
        return self.mean_ratio - self.half_ratio

    @property
    def high_ratio(self) -> float:
        """Return the upper end of the interval."""
        return self.mean_ratio + self.half_ratio

    @property
    def is_above_zero(self) -> bool:
        """Return whether the whole interval is above zero."""
        return self.low_ratio > 0

    def estimate(self, *, is_more_better: bool) -> Estimate | None:
        """Return the ratio of the metric with its interval; None without a pair."""
        if not self.pair_count:
            return None
        sign = 1 if is_more_better else -1
        mean = math.exp(sign * self.mean_ratio)
        if not math.isfinite(self.half_ratio):
            return Estimate(mean, None, None, self.pair_count, "1", "none")
        low, high = sorted(math.exp(sign * end) for end in (self.low_ratio, self.high_ratio))
        return Estimate(mean, low, high, self.pair_count, "1", "between_runs")


@dataclass(frozen=True, slots=True)
class Trial:
    """One value of one setting, with what its pairs showed.

    `against`: the settings that it was compared with. `failure`: why it could not be measured.
    """

    setting: str
    value: str
    candidate: Candidate
    against: Candidate
    effect: PairEffect
    decision: Decision
    failure: str = ""
    role: Role = "alone"

    @property
    def name(self) -> str:
        """Return "work_mem=64MB", "the set (11 settings)" or "work_mem=4MB as now"."""
        if self.role == "set":
            return f"{self.setting} ({self.value})"
        return f"{self.setting}={self.value}{' as now' * (self.role == 'back')}"
