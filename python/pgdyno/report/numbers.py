"""Estimates as text: thousands, units, intervals. No other module of this room formats them.

`analysis.rounding` chooses the digits, also for the sentence of an experiment.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pgdyno.analysis.rounding import decimals_of, end_text, ends_text
from pgdyno.quantities import fixed, percent

if TYPE_CHECKING:
    from pgdyno.analysis.estimate import Estimate

NO_INTERVAL = "no interval: n = 1"


def estimate_text(estimate: Estimate, *, with_unit: bool = False) -> str:
    """Return "1,892 (1,861 to 1,923)", ">= 812 (at least 790)", "1,892 (no interval: n = 1)".

    Args: with_unit, whether the unit follows the value: "58.8 ms (56.1 to 61.5)".
    """
    unit = f" {estimate.unit}" if with_unit and estimate.unit else ""
    return f"{value_text(estimate)}{unit} ({interval_text(estimate)})"


def value_text(estimate: Estimate, *, most: float = math.inf) -> str:
    """Return the value alone, rounded to the digits that its interval supports.

    Args: most, an upper limit of the rounded value, so that p99.9 is never printed above max.
    """
    decimals = decimals_of(estimate)
    while decimals < 0 and round(estimate.value, decimals) > most >= estimate.value:
        decimals += 1
    text = fixed(estimate.value, decimals)
    return f">= {text}" if estimate.censored else text


def interval_text(estimate: Estimate, decimals: int | None = None) -> str:
    """Return "1,861 to 1,923", "at least 812" when the upper end is unknown, or NO_INTERVAL.

    An interval between few runs that spans orders of magnitude is "no interval yet: n = 2".
    Args: decimals, for a column in which all rows have the same number; None: from the interval.
    """
    decimals = decimals_of(estimate) if decimals is None else decimals
    low, high = estimate.low, estimate.high
    if estimate.says_nothing:
        return f"no interval yet: n = {estimate.n:g}"
    if low is not None and high is not None:
        return ends_text(low, high, decimals)
    if low is not None:
        return f"at least {end_text(low, decimals)}"
    if high is not None:
        return f"at most {end_text(high, decimals)}"
    if estimate.n <= 1:
        return NO_INTERVAL
    few = estimate.scope == "between_runs"
    return f"no interval yet: n = {estimate.n:g}" if few else "no interval"


def duration_text(estimate: Estimate) -> str:
    """Return the value of an estimate in ms, in a unit that suits its size, such as "7.4 us"."""
    if 0 < abs(estimate.value) < 0.1:
        return f"{value_text(estimate.scaled(1e3, 'us'))} us"
    return f"{value_text(estimate)} ms"


def precision_text(estimate: Estimate) -> str:
    """Return the half-width of the interval in percent of the value: "+-1.6 %", "" without one."""
    if estimate.low is None or estimate.high is None or estimate.value == 0:
        return ""
    return f"±{percent((estimate.high - estimate.low) / 2 / abs(estimate.value))}"
