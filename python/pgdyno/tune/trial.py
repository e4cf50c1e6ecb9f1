"""What a tuning tries, what it asks to run, and what came of it. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.intervals import interval_of_mean
from pgdyno.tune.space import Point

Stage = Literal["search", "proof", "attribution", "final"]
BASE = "yours"
"""Name of the server as it is."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Settings that are tried; `name` such as "yours", "pgtune", "trial 7", "without jit"."""

    name: str
    settings: Point

    def without(self, label: str, names: Sequence[str]) -> Candidate:
        """Return the candidate with some settings as they were."""
        kept = {name: value for name, value in self.settings.items() if name not in names}
        return Candidate(f"without {label}", kept)


@dataclass(frozen=True, slots=True)
class Step:
    """One run to do: which candidate, in which stage and round (from 1 within the stage)."""

    stage: Stage
    round: int
    candidate: Candidate


@dataclass(frozen=True, slots=True)
class Measured:
    """One run done. `goal_ratio`: log of what is to be large.

    None: it failed, and `why` says how; without `why` the metric of this run is missing.
    """

    step: Step
    goal_ratio: float | None
    took_ns: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class Effect:
    """Log ratio of one candidate against another with the interval of its pairs."""

    name: str
    log_ratios: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Return the mean of the log ratios."""
        return float(np.mean(self.log_ratios)) if self.log_ratios else 0.0

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the ends of the interval for a number of pairs that was set beforehand."""
        if len(self.log_ratios) < 2:
            return -math.inf, math.inf
        mean, half = interval_of_mean(np.array(self.log_ratios), level=level, looks="fixed")
        return mean - half, mean + half

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
    """One candidate of the search: what its pairs against the best of that time showed."""

    candidate: Candidate
    against: str
    effect: Effect
    failure: str = ""
