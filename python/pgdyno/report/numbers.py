"""The one place where numbers become words: thousands, units, intervals.

Digits are chosen by `analysis.rounding`, which the sentence of an experiment uses too.
"""

from __future__ import annotations

from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.rounding import counted as counted
from pgdyno.analysis.rounding import decimals_of as decimals_of
from pgdyno.analysis.rounding import fixed as fixed
from pgdyno.analysis.rounding import milliseconds as milliseconds
from pgdyno.analysis.rounding import percent as percent
from pgdyno.analysis.rounding import plain as plain
from pgdyno.analysis.rounding import plain_decimals

NO_INTERVAL = "no interval: n = 1"
_BYTE_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def estimate_text(estimate: Estimate, *, with_unit: bool = False) -> str:
    """Return "1,892 (1,861 to 1,923)", ">= 812 (at least 790)", "1,892 (no interval: n = 1)".

    `with_unit` puts the unit behind the value: "58.8 ms (56.1 to 61.5)".
    """
    unit = f" {estimate.unit}" if with_unit and estimate.unit else ""
    return f"{value_text(estimate)}{unit} ({interval_text(estimate)})"


def value_text(estimate: Estimate) -> str:
    """Return the value alone, rounded to the place its own interval supports."""
    text = fixed(estimate.value, decimals_of(estimate))
    return f">= {text}" if estimate.censored else text


def interval_text(estimate: Estimate, decimals: int | None = None) -> str:
    """Return "1,861 to 1,923", "at least 812" when the upper end is unknown, or NO_INTERVAL.

    Args: decimals, where a column has the same for all its rows; else as the interval supports.
    """
    decimals = decimals_of(estimate) if decimals is None else decimals
    low, high = estimate.low, estimate.high
    if low is not None and high is not None:
        return f"{fixed(low, decimals)} to {fixed(high, decimals)}"
    if low is not None:
        return f"at least {fixed(low, decimals)}"
    if high is not None:
        return f"at most {fixed(high, decimals)}"
    return NO_INTERVAL if estimate.n <= 1 else "no interval"


def duration_text(estimate: Estimate) -> str:
    """Return the value of an estimate in ms in the unit a person would choose, such as "7.4 us"."""
    if 0 < abs(estimate.value) < 0.1:
        return f"{value_text(estimate.scaled(1e3, 'us'))} us"
    return f"{value_text(estimate)} ms"


def precision_text(estimate: Estimate) -> str:
    """Return the half-width of the interval in percent of the value: "+-1.6 %", "" without one."""
    if estimate.low is None or estimate.high is None or estimate.value == 0:
        return ""
    return f"±{percent((estimate.high - estimate.low) / 2 / abs(estimate.value))}"


def tick(value: float) -> str:
    """Return the label of an axis tick: "0.5", "2,500"; no trailing zeros."""
    text = fixed(value, max(plain_decimals(value, 4), 0))
    return text.rstrip("0").rstrip(".") if "." in text else text


def count(value: int) -> str:
    """Return "340,623"."""
    return f"{value:,}"


def seconds(value_s: float) -> str:
    """Return an elapsed time for people: "30 s", "12.5 s", "18 min", "2 h 05 min"."""
    if value_s < 1:
        return milliseconds(value_s * 1e3)
    if value_s < 120:
        return f"{value_s:.1f}".removesuffix(".0") + " s"
    minutes = round(value_s / 60)
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def byte_size(value_bytes: float) -> str:
    """Return "7.3 GB" with the powers of 1024 that PostgreSQL's own units use."""
    size, index = float(value_bytes), 0
    while abs(size) >= 1024 and index < len(_BYTE_UNITS) - 1:
        size, index = size / 1024, index + 1
    if index == 0:
        return f"{size:.0f} B"
    return (
        f"{size:.1f} {_BYTE_UNITS[index]}"
        if abs(size) < 100
        else f"{size:,.0f} {_BYTE_UNITS[index]}"
    )


def clients_text(clients: int) -> str:
    """Return "1 client" or "64 clients"."""
    return counted(clients, "client")


def signed(value: float, decimals: int) -> str:
    """Return a change with its sign; what rounds to nothing has none."""
    text = fixed(value, decimals)
    return text if value <= 0 or float(text.replace(",", "")) == 0 else f"+{text}"
