"""One number with its uncertainty: the only form in which pgdyno's results travel."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy.typing as npt

from pgdyno.analysis.arrays import finite
from pgdyno.analysis.student import t_quantile
from pgdyno.errors import AnalysisError

Scope = Literal["within_run", "between_runs", "none"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value, its interval (95 % unless said otherwise), and what the interval is about.

    `low` and `high` both None: no interval, n = 1. `low` given and `high` None: no upper bound is
    known, because transactions that never finished would lie there. `n` counts independent values
    (runs, pairs, or the effective sample size within a run). `scope` says what a repetition would
    vary: `within_run` covers this run only and is usually narrower than `between_runs`.
    `censored`: the value is a lower bound, printed as ">= value".
    """

    value: float
    low: float | None
    high: float | None
    n: float | int
    unit: str
    scope: Scope
    censored: bool = False

    def __post_init__(self) -> None:
        for bound in (self.value, self.low, self.high):
            if bound is not None and not math.isfinite(bound):
                raise AnalysisError(f"an estimate must be finite, got {bound} {self.unit}")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise AnalysisError(f"interval upside down: {self.low} to {self.high} {self.unit}")

    def to_json(self) -> dict[str, float | int | str | bool | None]:
        """Return the JSON object of this estimate, with the field names as keys."""
        return {
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "n": self.n,
            "unit": self.unit,
            "scope": self.scope,
            "censored": self.censored,
        }

    def scaled(self, factor: float, unit: str) -> Estimate:
        """Return this estimate in another unit; `factor` > 0 converts the value."""
        if not factor > 0:
            raise AnalysisError(f"a unit factor must be greater than 0, got {factor}")
        return self.mapped(lambda number: number * factor, unit)

    def mapped(self, increasing: Callable[[float], float], unit: str) -> Estimate:
        """Return this estimate through a strictly increasing function, such as exp."""
        low = None if self.low is None else increasing(self.low)
        high = None if self.high is None else increasing(self.high)
        value = increasing(self.value)
        return Estimate(value, low, high, self.n, unit, self.scope, self.censored)

    @property
    def has_interval(self) -> bool:
        """True when at least one bound is known."""
        return self.low is not None or self.high is not None


def without_interval(value: float, unit: str) -> Estimate:
    """Return a number of which there is one only."""
    return Estimate(float(value), None, None, 1, unit, "none")


def mean_between_runs(values: npt.ArrayLike, unit: str, *, level: float = 0.95) -> Estimate:
    """Return the mean over runs with Student's t interval.

    Args: values, one per run, any unit; level, 0..1.
    Source: Student 1908; the run is the unit of replication (Kalibera and Jones 2013).
    Limits: assumes runs independent and about normal; with 3 runs the t factor is 4.3, so the
    interval is wide on purpose. One value gives no interval.
    """
    array = finite(values, what=f"runs in {unit}")
    mean = float(array.mean())
    if array.size == 1:
        return without_interval(mean, unit)
    half = t_quantile((1 + level) / 2, array.size - 1) * float(array.std(ddof=1))
    half /= math.sqrt(array.size)
    low = mean - half
    if (array >= 0).all():
        low = max(low, 0.0)  # Rates and durations are not below zero; the truth is not cut off.
    return Estimate(mean, low, mean + half, int(array.size), unit, "between_runs")
