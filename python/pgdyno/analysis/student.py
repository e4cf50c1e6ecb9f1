"""Student's t distribution, for any degrees of freedom above 0.

In plain Python: a library that has it takes longer to import than a page of a report takes to make.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

_STEPS_MAX = 1000
_EXACT = 1e-15


@lru_cache(maxsize=4096)
def t_quantile(probability: float, degrees: float) -> float:
    """Return the value that a t variable stays below with this probability, 0 < p < 1."""
    if probability < 0.5:
        return -t_quantile(1 - probability, degrees)
    # Subtle: the tail is convex and heavier than the normal one, so from the normal quantile
    # Newton's steps lead upwards only, and not beyond the root.
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
    if x > (a + 1) / (a + b + 2):  # The fraction is slow there: from the other end it is not.
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
