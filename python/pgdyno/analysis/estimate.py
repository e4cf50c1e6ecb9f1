"""`Estimate`, a value with its interval, and Student's t distribution for intervals of means.

The distribution is plain Python, because importing a library for it takes longer than making a page
of a report.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from statistics import NormalDist
from typing import Literal

import numpy as np
import numpy.typing as npt

from pgdyno.analysis.arrays import finite
from pgdyno.errors import AnalysisError

_STEPS_MAX = 1000
_FEW_RUNS = 4
_WIDE_RATIO = 10.0
_EXACT = 1e-15
_NORMAL_95 = 1.959963984540054


@lru_cache(maxsize=4096)
def t_quantile(probability: float, degrees: float) -> float:
    """Return the value that a t variable stays below with this probability, 0 < p < 1."""
    if probability < 0.5:
        return -t_quantile(1 - probability, degrees)
    # Subtle: the tail is convex and heavier than the tail of the normal distribution. So Newton's
    # steps from the normal quantile lead upwards only, and never beyond the root.
    t = NormalDist().inv_cdf(probability)
    log_peak = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)
    peak = math.exp(log_peak) / math.sqrt(degrees * math.pi)
    for _ in range(_STEPS_MAX):
        density = peak * (1 + t * t / degrees) ** (-(degrees + 1) / 2)
        step = (t_beyond(t, degrees) / 2 - (1 - probability)) / density
        t += step
        if step <= _EXACT * t:
            break
    return t


def t_beyond(t: float, degrees: float) -> float:
    """Return the probability of a value at least as far from 0 as `t`, on either side.

    Source: NIST Digital Library of Mathematical Functions 8.17, I_x(degrees/2, 1/2) at
    x = degrees / (degrees + t^2).
    """
    total = degrees + t * t
    return _beta_ratio(degrees / total, t * t / total, degrees / 2, 0.5)


def _beta_ratio(x: float, rest: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b); `rest` is 1 - x, exactly."""
    if x == 0 or rest == 0:
        return float(rest == 0)
    if x > (a + 1) / (a + b + 2):  # The fraction converges slowly here, but fast for 1 - x.
        return 1 - _beta_ratio(rest, x, b, a)
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front += a * math.log(x) + b * math.log(rest)
    return math.exp(front) / a * _fraction(x, a, b)


def _fraction(x: float, a: float, b: float) -> float:
    """Return the continued fraction of DLMF 8.17.22, from the front (Lentz 1976)."""
    above, below = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    value = below
    for step in range(1, _STEPS_MAX):
        place = a + 2 * step
        for term in (
            step * (b - step) * x / ((place - 1) * place),
            -(a + step) * (a + b + step) * x / (place * (place + 1)),
        ):
            above, below = 1 + term / above, 1 / (1 + term * below)
            value *= above * below
        if abs(above * below - 1) < _EXACT:
            break
    return value


Scope = Literal["within_run", "between_runs", "none"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value, its interval (95 % by default), and what the interval covers.

    `low` and `high` both None: no interval, n = 1. Only `high` None: the upper bound is not known,
    because transactions that never finished would lie there. `n` counts independent values (runs,
    pairs, or the effective sample size within a run). `scope` says what a repetition would vary:
    `within_run` covers this run only and is usually narrower than `between_runs`.
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
            raise AnalysisError(
                f"an interval must begin below its end, got {self.low} to {self.high} {self.unit}"
            )

    def to_json(self) -> dict[str, float | int | str | bool | None]:
        """Return the JSON object of this estimate, with the field names as keys."""
        return asdict(self)

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
    def says_nothing(self) -> bool:
        """True if few runs give an interval that reaches ten times the value, or more.

        With two runs the t factor is 12.7, so that the interval only says: too few runs. JSON and
        files keep its ends.
        """
        return self.value > 0 and self.reaches_beyond(self.value)

    @property
    def is_of_noise(self) -> bool:
        """True for a ratio that may be ten times smaller and ten times larger than its value."""
        if self.low is None or self.high is None or self.value <= 0:
            return False
        return self.low * _WIDE_RATIO < self.value < self.high / _WIDE_RATIO

    def reaches_beyond(self, size: float) -> bool:
        """Return whether few runs give an interval that reaches ten times `size`, or more.

        Args: size > 0 in the unit of the estimate, such as the largest change next to this one.
        """
        if self.scope != "between_runs" or self.n > _FEW_RUNS:
            return False
        ends = [abs(end) for end in (self.low, self.high) if end is not None]
        return bool(ends) and max(ends) >= _WIDE_RATIO * size

    @property
    def has_interval(self) -> bool:
        """True when at least one bound is known."""
        return self.low is not None or self.high is not None


def without_interval(value: float, unit: str) -> Estimate:
    """Return an estimate from one value, which has no interval."""
    return Estimate(float(value), None, None, 1, unit, "none")


def alike(estimates: Sequence[Estimate | None]) -> tuple[Estimate | None, ...]:
    """Return the estimates, all without interval if the interval of one says nothing.

    An interval next to a missing one reads as if that value were measured better.
    """
    if not any(estimate is not None and estimate.says_nothing for estimate in estimates):
        return tuple(estimates)
    return tuple(
        None if estimate is None else replace(estimate, low=None, high=None)
        for estimate in estimates
    )


def mean_between_runs(values: npt.ArrayLike, unit: str, *, level: float = 0.95) -> Estimate:
    """Return the mean over runs with Student's t interval.

    Args: values, one per run, any unit; level, 0..1.
    If all values are above 0, the interval is computed on the logarithmic scale. Therefore the
    interval of a rate or a duration stays above 0. Otherwise it is computed on the plain scale, and
    is cut off at 0 if no value is below 0.
    Source: Student 1908; the run is the unit of replication (Kalibera and Jones 2013).
    Limits: runs must be independent and about normal. With 3 runs the t factor is 4.3, so the
    interval is wide. One value has no interval.
    """
    array = finite(values, what=f"runs in {unit}")
    mean = float(array.mean())
    if array.size == 1:
        return without_interval(mean, unit)
    t = t_quantile((1 + level) / 2, array.size - 1)
    if (array > 0).all():
        half_log = t * float(np.log(array).std(ddof=1)) / math.sqrt(array.size)
        return on_log_scale(mean, half_log, int(array.size), unit)
    half = t * float(array.std(ddof=1)) / math.sqrt(array.size)
    low = max(mean - half, 0.0) if (array >= 0).all() else mean - half
    return Estimate(mean, low, mean + half, int(array.size), unit, "between_runs")


def on_log_scale(value: float, half_log: float, n: float, unit: str) -> Estimate:
    """Return an estimate between runs whose logarithm has an interval of +- `half_log`."""
    # With two runs the t factor is 12.7. An interval that reaches e^30 says nothing.
    factor = math.exp(min(half_log, 30.0))
    return Estimate(value, value / factor, value * factor, n, unit, "between_runs")


def proportion(count: int, of_count: int) -> Estimate:
    """Return a share of independent draws with its 95 % interval.

    Args: 0 <= count <= of_count, of_count > 0.
    Source: Wilson 1927.
    Limits: it is an interval within one run. A deck of cards varies less than independent draws.
    """
    share, n, square = count / of_count, of_count, _NORMAL_95**2
    middle = (share + square / (2 * n)) / (1 + square / n)
    half = math.sqrt(square * (share * (1 - share) / n + square / (4 * n * n))) / (1 + square / n)
    low, high = min(share, middle - half), max(share, middle + half)
    return Estimate(share, max(0.0, low), min(1.0, high), n, "1", "within_run")
