"""How many digits of a number its interval supports.

Digits follow the interval, not the value: the half-width is kept to one or two significant digits
and the value is rounded to the same decimal place, so that no printed digit is pure noise.
Source: Particle Data Group, Review of Particle Physics, introduction, "Rounding".
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pgdyno.quantities import DECIMALS_MAX, fixed, plain_decimals, signed

if TYPE_CHECKING:
    from pgdyno.analysis.estimate import Estimate


# From this ratio on a change is in times, because +20,704 % is hard to read.
_TIMES_MIN = 10


def decimals_of(estimate: Estimate) -> int:
    """Return the decimal place (negative: tens, hundreds) that the interval of `estimate` supports.

    Limits: at most eight decimals, and at most three digits unless both ends of the interval would
    then be the same text. At least two digits of a value that is larger than its noise. An interval
    of width zero says nothing about digits, so three are kept.
    """
    # Without an interval, the noise is not known. All digits of a whole number are kept.
    plain = max(plain_decimals(estimate.value), 0)
    if estimate.low is not None and estimate.high is not None:
        half_width = (estimate.high - estimate.low) / 2
    elif estimate.low is not None:
        half_width = estimate.value - estimate.low
    else:
        return plain
    if half_width <= 0:
        return plain
    if _is_noise(estimate):
        # No digit beyond those of the interval means anything.
        return min(_rounding_decimals(half_width), DECIMALS_MAX)
    assert estimate.low is not None, "an estimate without a lower end has no half-width"
    high = estimate.value if estimate.high is None else estimate.high
    supported = min(_rounding_decimals(half_width), DECIMALS_MAX)
    least = plain_decimals(estimate.value, 2)
    return max(_short(estimate.value, estimate.low, high, supported), least)


def _short(value: float, low: float, high: float, supported: int) -> int:
    """Return the decimals for three digits, or for as many as tell the ends apart.

    Digits before the decimal point stay.
    """
    least = min(supported, max(plain_decimals(value), 0))
    for decimals in range(least, supported + 1):
        if round(low, decimals) != round(high, decimals):
            return decimals
    return least


def _is_noise(estimate: Estimate) -> bool:
    """Return whether the value may be 0 as well."""
    low, high = estimate.low, estimate.high
    return low is not None and high is not None and low < 0 < high and not estimate.says_nothing


def common_decimals(column: Iterable[float | None]) -> int:
    """Return the decimals for a column of times in ms: three digits of the largest one.

    Limits: at most four decimals, 0.1 us, because no clock of a server tells less.
    """
    sizes = [abs(number) for number in column if number is not None]
    return min(max(plain_decimals(max(sizes, default=0.0)), 0), 4)


def value_words(estimate: Estimate) -> str:
    """Return the value as a sentence has it, such as "1,892"."""
    return fixed(estimate.value, decimals_of(estimate))


def range_words(estimate: Estimate) -> str:
    """Return the interval as a sentence has it, such as " (1,861 to 1,923)"; "" without one."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f" ({ends_text(estimate.low, estimate.high, decimals_of(estimate))})"


def ends_text(low: float, high: float, decimals: int, *, is_signed: bool = False) -> str:
    """Return the ends of an interval, such as "1,861 to 1,923"."""
    return " to ".join(end_text(end, decimals, is_signed=is_signed) for end in (low, high))


def end_text(end: float, decimals: int, *, is_signed: bool = False) -> str:
    """Return an end of an interval; its side of 0 decides, so an end near 0 is not shown as 0."""
    if end and round(end, decimals) == 0:
        decimals = plain_decimals(end, 1)
    return signed(end, decimals) if is_signed else fixed(end, decimals)


def _rounding_decimals(half_width: float) -> int:
    exponent = math.floor(math.log10(half_width))
    leading = half_width / 10**exponent * 100
    # 100-354: two digits; 355-949: one digit; 950-999 is rounded up to 1000, so two digits.
    digits = 2 if leading < 355 else 1
    if leading >= 950:
        exponent, digits = exponent + 1, 2
    return digits - 1 - exponent


def change_text(ratio: Estimate, *, without: str = " (no interval yet)") -> str:
    """Return a ratio as a change: "+37.1 % (35.0 to 39.4)", "-8 % (-11 to +2)".

    An end has a plus sign only if the other end has a minus sign. A large ratio is a number of
    times: "210 times (160 to 280)".
    Args: without, the text after a value that has no interval; "" leaves the reason out, too.
    """
    if min(ratio.value, ratio.value if ratio.low is None else ratio.low) >= _TIMES_MIN:
        return f"{value_words(ratio)} times{range_words(ratio) or without}"
    value = (ratio.value - 1) * 100
    if ratio.low is None or ratio.high is None:
        return f"{signed(value, 1)} %{without}"
    if ratio.is_of_noise:
        return f"{signed(value, 0)} %{without and ' (no usable interval)'}"
    low, high = (ratio.low - 1) * 100, (ratio.high - 1) * 100
    width = high - low
    digits = _short(value, low, high, 0 if width >= 20 else 1 if width >= 0.4 else 2)
    return f"{signed(value, digits)} % ({ends_text(low, high, digits, is_signed=low < 0)})"
