"""How many digits of a number its interval supports.

Digits follow the interval, not the value: the half-width is kept to one or two significant digits
and the value is rounded to the same decimal place, so that no printed digit is pure noise.
Source: Particle Data Group, Review of Particle Physics, introduction, "Rounding".
"""

from __future__ import annotations

import math

from pgdyno.analysis.estimate import Estimate

PLAIN_DIGITS = 3
_DECIMALS_MAX = 8


def decimals_of(estimate: Estimate) -> int:
    """Return the decimal place (negative: tens, hundreds) that the interval of `estimate` supports.

    Limits: never more than eight decimals, and never so few that fewer than two digits of the value
    are left; an interval of width zero says nothing about digits, so three are kept.
    """
    # Without an interval nothing says which digits are noise: those of a whole number stay.
    plain = max(plain_decimals(estimate.value), 0)
    if estimate.low is not None and estimate.high is not None:
        half_width = (estimate.high - estimate.low) / 2
    elif estimate.low is not None:
        half_width = estimate.value - estimate.low
    else:
        return plain
    if half_width <= 0:
        return plain
    most = plain_decimals(estimate.value, PLAIN_DIGITS + 2)
    least = plain_decimals(estimate.value, 2)
    return max(min(_rounding_decimals(half_width), most, _DECIMALS_MAX), least)


def _rounding_decimals(half_width: float) -> int:
    exponent = math.floor(math.log10(half_width))
    leading = half_width / 10**exponent * 100
    # 100-354: two digits; 355-949: one; 950-999 is rounded up to 1000 and so has two again.
    digits = 2 if leading < 355 else 1
    if leading >= 950:
        exponent, digits = exponent + 1, 2
    return digits - 1 - exponent


def plain_decimals(value: float, digits: int = PLAIN_DIGITS) -> int:
    """Return the decimals that show `digits` significant digits of a value without interval."""
    if value == 0 or not math.isfinite(value):
        return 0
    return min(digits - 1 - math.floor(math.log10(abs(value))), _DECIMALS_MAX)


def fixed(value: float, decimals: int) -> str:
    """Return `value` with thousands separators, rounded at `decimals` (negative: tens)."""
    rounded = round(value, decimals)
    # A rounded -0.0 would print as "-0".
    return f"{rounded + 0.0:,.{max(decimals, 0)}f}"


def plain(value: float, digits: int = PLAIN_DIGITS) -> str:
    """Return a number that has no interval with at most `digits` significant digits.

    Digits left of the decimal point are never rounded away: 340,623 stays whole.
    """
    return fixed(value, max(plain_decimals(value, digits), 0))


def milliseconds(value_ms: float) -> str:
    """Return a duration in the unit a person would choose: "7.4 us", "8.46 ms", "1.25 s"."""
    size = abs(value_ms)
    if size == 0:
        return "0 ms"
    if size < 0.1:
        return f"{plain(value_ms * 1e3, 2)} us"
    if size < 1e4:
        return f"{plain(value_ms)} ms"
    return f"{plain(value_ms / 1e3)} s"


def counted(value: int, noun: str) -> str:
    """Return "1 doubt" or "3,000 doubts"."""
    return f"{value:,} {noun}" if value == 1 else f"{value:,} {noun}s"


def percent(ratio: float) -> str:
    """Return a share in 0..1 as "62 %", "0.5 %", "< 0.1 %"."""
    value = ratio * 100
    if 0 < abs(value) < 0.1:
        return "< 0.1 %"
    return f"{value:.1f} %" if abs(value) < 9.95 and value != round(value) else f"{value:.0f} %"


def change_text(ratio: Estimate) -> str:
    """Return a ratio as a change: "+37.1 % (35.0 to 39.4)", "-8 % (-11 to +2)".

    The ends carry a plus sign only where the other has a minus. Without an interval:
    "+3 % (no interval yet)".
    """
    value = (ratio.value - 1) * 100
    if ratio.low is None or ratio.high is None:
        return f"{_signed(value, 1)} % (no interval yet)"
    low, high = (ratio.low - 1) * 100, (ratio.high - 1) * 100
    width = high - low
    digits = 0 if width >= 20 else 1 if width >= 0.4 else 2
    ends = f"{_signed(low, digits)} to {_signed(high, digits)}"
    return f"{_signed(value, digits)} % ({ends.replace('+', '') if low >= 0 else ends})"


def _signed(value: float, digits: int) -> str:
    text = f"{value:+,.{digits}f}"
    return text[1:] if float(text.replace(",", "")) == 0 else text
