"""Formats numbers, times, sizes and counts as text, for every room.

If a value has an interval, `analysis.rounding` chooses its digits. This module does not know
estimates.
"""

from __future__ import annotations

import math

PLAIN_DIGITS = 3
DECIMALS_MAX = 8


def fixed(value: float, decimals: int) -> str:
    """Return `value` with thousands separators, rounded at `decimals` (negative: tens)."""
    rounded = round(value, decimals)
    # Adding 0.0 turns -0.0 into 0.0, which would print as "-0".
    return f"{rounded + 0.0:,.{max(decimals, 0)}f}"


def plain(value: float, digits: int = PLAIN_DIGITS) -> str:
    """Return a number that has no interval with at most `digits` significant digits.

    Digits left of the decimal point are never rounded: 340,623 stays the same.
    """
    return fixed(value, max(plain_decimals(value, digits), 0))


def short(value: float) -> str:
    """Return a number for a legend or a tile: three digits, and "< 0.001" for a smaller one."""
    if 0 < abs(value) < 0.0005:
        return "< 0.001"
    return plain(value)


def plain_decimals(value: float, digits: int = PLAIN_DIGITS) -> int:
    """Return the decimals that show `digits` significant digits of a value without interval."""
    if value == 0 or not math.isfinite(value):
        return 0
    return min(digits - 1 - math.floor(math.log10(abs(value))), DECIMALS_MAX)


def tick(value: float) -> str:
    """Return the label of an axis tick: "0.5", "2,500"; no trailing zeros."""
    text = fixed(value, max(plain_decimals(value, 4), 0))
    return text.rstrip("0").rstrip(".") if "." in text else text


def count(value: int) -> str:
    """Return "340,623"."""
    return f"{value:,}"


def counted(value: int, noun: str) -> str:
    """Return "1 doubt", "3,000 doubts" or "2 indexes"."""
    many = noun + ("es" if noun.endswith(("x", "ch", "sh", "ss")) else "s")
    return f"{value:,} {noun if value == 1 else many}"


def clients_text(clients: int) -> str:
    """Return "1 client" or "64 clients"."""
    return counted(clients, "client")


def signed(value: float, decimals: int) -> str:
    """Return a change with its sign; a change that is rounded to 0 has no sign."""
    text = fixed(value, decimals)
    return text if value <= 0 or float(text.replace(",", "")) == 0 else f"+{text}"


def shares_words(calls_ratio: float | None, time_ratio: float | None) -> str:
    """Return "96 % of the calls and 91 % of the time". A log may have no times, or lack calls."""
    if calls_ratio is None:
        return "an unknown share of the calls (the logs lack statements)"
    calls = f"{percent(calls_ratio)} of the calls"
    if time_ratio is None:
        return f"{calls} (their time was not logged)"
    return f"{calls} and {percent(time_ratio)} of the time"


def percent(ratio: float) -> str:
    """Return a share in 0..1 as "62 %", "0.5 %", "< 0.1 %"; "99.97 %" rather than 100."""
    value = ratio * 100
    if 0 < abs(value) < 0.1:
        return "< 0.1 %"
    if 99 < value < 100:
        return f"{value:.1f} %" if value < 99.95 else f"{min(value, 99.99):.2f} %"
    return f"{value:.1f} %" if abs(value) < 9.95 and value != round(value) else f"{value:.0f} %"


def milliseconds(value_ms: float) -> str:
    """Return a duration in a unit that suits its size: "7.4 us", "8.46 ms", "1.25 s"."""
    size = abs(value_ms)
    if size == 0:
        return "0 ms"
    if size < 0.1:
        return f"{plain(value_ms * 1e3, 2)} us"
    if size < 1e4:
        return f"{plain(value_ms)} ms"
    return f"{plain(value_ms / 1e3)} s"


def seconds(value_s: float) -> str:
    """Return an elapsed time for a reader: "30 s", "12.5 s", "18 min", "2 h 05 min"."""
    if value_s < 1:
        return milliseconds(value_s * 1e3)
    if value_s < 120:
        return f"{value_s:.1f}".removesuffix(".0") + " s"
    minutes = round(value_s / 60)
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def duration_text(nanoseconds: int) -> str:
    """Return a duration with two or three digits: `90 s`, `12 min`, `1.5 h`."""
    seconds = nanoseconds / 1e9
    if seconds < 0.95:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 180:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.3g} s"
    if seconds < 3 * 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def format_bytes(size_bytes: int) -> str:
    """Return a size with three digits and PostgreSQL's units: 1 kB is 1024 bytes.

    A whole number of units has no decimals, as a setting is written: 4 MB rather than 4.0 MB.
    """
    size, unit = float(size_bytes), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            break
        size /= 1024
    has_decimals = size < 10 and not size.is_integer()
    return f"{size:.1f} {unit}" if has_decimals else f"{size:.0f} {unit}"


def written_bytes(size_bytes: float) -> int:
    """Return a size that a person would write, a little smaller: 64 MB for 74 MB, 6 GB for 5.9."""
    step = 1 << max(int(size_bytes).bit_length() - 3, 0)
    return int(1.03 * size_bytes) // step * step


def significant(value: float, digits: int = PLAIN_DIGITS) -> str:
    """Return a number with `digits` significant digits, without trailing zeros."""
    return f"{value:.{digits}g}"


def compact_ms(value_ms: float) -> str:
    """Return milliseconds without unit in at most five characters: "0.25", "12", "1,250"."""
    if value_ms >= 99.5:
        return f"{value_ms:,.0f}"
    return significant(value_ms, 2) if value_ms >= 0.01 else "<0.01"


def difference_ms(value_ms: float) -> str:
    """Return the size of a difference in milliseconds without unit, from 3 decimals to none."""
    size = abs(value_ms)
    decimals = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 0.1 else 3
    return f"{size:.{decimals}f}"


def gigabytes(size_bytes: float) -> str:
    """Return a disk size in GB of 10^9 bytes, as `df -H` does."""
    return f"{size_bytes / 1e9:.1f} GB"


def is_whole(text: str) -> bool:
    """Return whether a text is a whole number as programs in C read it: ASCII digits alone.

    Python also accepts the digits of other scripts.
    """
    return text.isascii() and text.isdecimal()


def validity_words(*, valid: int, total: int) -> str:
    """Return the first words of an answer if not every run is valid, else ""."""
    if valid == total:
        return ""
    if total == 1:
        return "NOT VALID: "
    return f"NOT VALID, none of {total} runs: " if not valid else f"{valid} of {total} runs valid: "
