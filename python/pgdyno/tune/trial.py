"""The data types of a tuning: candidates, the runs to do, their results, and effects. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.intervals import interval_of_mean
from pgdyno.quantities import percent
from pgdyno.tune.space import Point

Stage = Literal["search", "proof", "attribution", "final", "second"]
BASE = "yours"
"""Name of the server as it is."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Settings to try. `name`: such as "yours", "pgtune", "trial 7", "without jit"."""

    name: str
    settings: Point

    def without(self, label: str, names: Sequence[str]) -> Candidate:
        """Return the candidate without some of its changes.

        Args: label, for the name of the new candidate; names, the settings that keep their old
        values.
        """
        kept = {name: value for name, value in self.settings.items() if name not in names}
        return Candidate(f"without {label}", kept)


@dataclass(frozen=True, slots=True)
class Step:
    """One run to do: candidate, stage, and round (from 1 in each stage).

    `server_number`: of its server where there are several equal ones, else 0.
    """

    stage: Stage
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


@dataclass(frozen=True, slots=True)
class Budget:
    """How the time of all runs was spent, as shares.

    `total_s`: the time that passed; runs at the same time count once. `overhead_ratio`: everything
    that is not load, reset, restart, loading of data or a failed run. `start_s_median` and
    `start_s_max`: from the decision to the load, of runs without restart and loading of data; None
    without such a run.
    """

    total_s: float
    load_ratio: float
    reset_ratio: float
    restart_ratio: float
    loading_ratio: float
    failed_ratio: float
    overhead_ratio: float
    start_s_median: float | None
    start_s_max: float | None

    def sentence(self) -> str:
        """Return "118 s: load 82 %, reset 6 %, restarts 5 %, loading data 0 %, overhead 7 %"."""
        parts = (
            ("load", self.load_ratio),
            ("reset", self.reset_ratio),
            ("restarts", self.restart_ratio),
            ("loading data", self.loading_ratio),
            *([("failed runs", self.failed_ratio)] if self.failed_ratio else []),
            ("overhead", self.overhead_ratio),
        )
        shares = ", ".join(f"{name} {percent(share)}" for name, share in parts)
        starts = ""
        if self.start_s_median is not None and self.start_s_max is not None:
            starts = (
                f"; without a restart, a run started after {self.start_s_median:.1f} s (median),"
                f" {self.start_s_max:.1f} s (longest)"
            )
        return f"{self.total_s:,.0f} s: {shares}{starts}"


def budget_of(
    took_ns: Sequence[int],
    spent_ns: Sequence[Mapping[str, int]],
    *,
    failed_ns: int = 0,
    elapsed_ns: int | None = None,
) -> Budget | None:
    """Return how the time of runs was spent; None if an older result does not have it.

    Args: took_ns, the whole time of each run; spent_ns, for each run part -> time; failed_ns, the
    time of failed runs; elapsed_ns, the time that passed, if runs took place at the same time. The
    shares are of the time without waiting for runs on other servers ("waited").
    """
    total_ns = sum(took_ns) + failed_ns - sum(spent.get("waited", 0) for spent in spent_ns)
    if not total_ns or not all(spent_ns):
        return None

    def share(part: str) -> float:
        return sum(spent.get(part, 0) for spent in spent_ns) / total_ns

    known = [share(part) for part in ("load", "reset", "restart", "loading")]
    starts_s = [
        spent["start"] / 1e9
        for spent in spent_ns
        if not spent.get("restart") and not spent.get("loading")
    ]
    return Budget(
        total_s=(total_ns if elapsed_ns is None else elapsed_ns) / 1e9,
        load_ratio=share("load"),
        reset_ratio=share("reset"),
        restart_ratio=share("restart"),
        loading_ratio=share("loading"),
        failed_ratio=failed_ns / total_ns,
        overhead_ratio=1 - sum(known) - failed_ns / total_ns,
        start_s_median=statistics.median(starts_s) if starts_s else None,
        start_s_max=max(starts_s, default=None),
    )
