"""The data types of a tuning: candidates, the runs to do, their results, and effects. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.intervals import interval_of_mean
from pgdyno.features.tune.space import Point

StageName = Literal["search", "proof", "attribution", "final", "second", "alone"]
BASE = "yours"
"""Name of the server as it is."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Settings to try. `name`: such as "yours", "pgtune", "trial 7", "without jit"."""

    name: str
    settings: Point

    def without(self, setting: str) -> Candidate:
        """Return the candidate with the old value of one setting."""
        kept = {name: value for name, value in self.settings.items() if name != setting}
        return Candidate(f"without {setting}", kept)

    def only(self, name: str, settings: Collection[str]) -> Candidate:
        """Return a candidate of this name with some of the changes."""
        return Candidate(name, {n: v for n, v in self.settings.items() if n in settings})


@dataclass(frozen=True, slots=True)
class Step:
    """One run to do: candidate, stage, and round (from 1 in each stage).

    `server_number`: of its server where there are several equal ones, else 0.
    """

    stage: StageName
    round: int
    candidate: Candidate
    server_number: int = 0


@dataclass(frozen=True, slots=True)
class Measured:
    """The result of one run. `goal_ratio`: the log of the goal, which shall be large.

    `took_ns`: the time that passed; `run_count` runs at the same time have an equal share of it.
    If `goal_ratio` is None, the run failed for the reason `why`; if `why` is empty, the run has no
    value of the metric.
    """

    step: Step
    goal_ratio: float | None
    took_ns: int
    why: str = ""
    run_count: int = 1


@dataclass(frozen=True, slots=True)
class Effect:
    """Log ratio of one candidate against another with the interval of its pairs."""

    name: str
    log_ratios: tuple[float, ...]
    level_ratio: float = 0.95

    @property
    def mean(self) -> float:
        """Return the mean of the log ratios."""
        return float(np.mean(self.log_ratios)) if self.log_ratios else 0.0

    def interval(self) -> tuple[float, float]:
        """Return the ends of the interval for a number of pairs that was set beforehand."""
        if len(self.log_ratios) < 2:
            return -math.inf, math.inf
        ratios = np.array(self.log_ratios)
        mean, half = interval_of_mean(ratios, level=self.level_ratio, looks="fixed")
        return mean - half, mean + half

    @property
    def is_above_zero(self) -> bool:
        """Return whether the whole interval is above zero."""
        return self.interval()[0] > 0

    def estimate(self) -> Estimate:
        """Return the ratio with its interval."""
        low, high = self.interval()
        known = math.isfinite(low)
        return Estimate(
            math.exp(self.mean),
            math.exp(low) if known else None,
            math.exp(high) if known else None,
            len(self.log_ratios),
            "1",
            "between_runs" if known else "none",
        )


@dataclass(frozen=True, slots=True)
class Trial:
    """One candidate of the search, with the result of its pairs against the best at that time."""

    candidate: Candidate
    against: str
    effect: Effect
    failure: str = ""
