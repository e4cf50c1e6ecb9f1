"""Axes with ticks at round numbers, for the charts that are drawn without a browser."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pgdyno import quantities

FloatArray = npt.NDArray[np.float64]
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_TIME_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200)


@dataclass(frozen=True, slots=True)
class Axis:
    """A range of values on a range of pixels, with the ticks that have labels."""

    low: float
    high: float
    start_px: float
    end_px: float
    is_log: bool
    ticks: tuple[tuple[float, str], ...]

    def at(self, value: float) -> float:
        """Return the pixel of `value`; values outside the range are at its ends."""
        value = min(max(value, self.low), self.high)
        if self.is_log:
            ratio = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            ratio = (value - self.low) / (self.high - self.low)
        return self.start_px + ratio * (self.end_px - self.start_px)

    def places(self, values: FloatArray) -> FloatArray:
        """Return the pixel of each value, as `at` does; NaN stays NaN."""
        held = np.clip(values, self.low, self.high)
        if self.is_log:
            ratios = np.log(held / self.low) / math.log(self.high / self.low)
        else:
            ratios = (held - self.low) / (self.high - self.low)
        return np.asarray(self.start_px + ratios * (self.end_px - self.start_px))


def linear(low: float, high: float, *, start_px: float, end_px: float, about: int = 4) -> Axis:
    """Return an axis whose ends are ticks at multiples of 1, 2, 2.5 or 5.

    If no value is above `low`, or only by less than 1e-300, the axis ends at `low` + 1.
    """
    high = high if high - low > 1e-300 else low + 1
    step = _step((high - low) / about)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    values = [n * step for n in range(first, max(last, first + 1) + 1)]
    ticks = tuple((value, quantities.tick(value)) for value in values)
    return Axis(values[0], values[-1], start_px, end_px, False, ticks)


def logarithmic(low: float, high: float, *, start_px: float, end_px: float) -> Axis:
    """Return an axis over whole decades, or in 1-2-5 steps if it has fewer than two decades."""
    per_decade = (1, 2, 5) if high / low < 100 else (1,)
    exponents = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
    values = [m * 10.0**e for e in exponents for m in per_decade]
    first = max(v for v in values if v <= low * (1 + 1e-9))
    last = min(v for v in values if v >= high * (1 - 1e-9))
    if first == last:
        last = min(v for v in values if v > first * 1.5)
    shown = [v for v in values if first <= v <= last]
    return Axis(first, last, start_px, end_px, True, tuple((v, quantities.tick(v)) for v in shown))


def levels(measured: list[float], *, is_log: bool, start_px: float, end_px: float) -> Axis:
    """Return an axis whose ticks are the measured loads.

    A tick closer than 30 px to another is left out, because their labels would overlap. The ends
    are kept.
    """
    low, high = min(measured), max(measured)
    if low == high:
        low, high = (low / 2, high * 2) if low > 0 else (low - 1, high + 1)
    is_log = is_log and low > 0
    pad = (high / low) ** 0.03 if is_log else (high - low) * 0.03
    ends = (low / pad, high * pad) if is_log else (low - pad, high + pad)
    bare = Axis(ends[0], ends[1], start_px, end_px, is_log, ())
    kept: list[float] = []
    for value in sorted(set(measured)):
        if kept and abs(bare.at(value) - bare.at(kept[-1])) < 30:
            continue
        kept.append(value)
    ticks = tuple((value, quantities.tick(value)) for value in kept)
    return Axis(ends[0], ends[1], start_px, end_px, is_log, ticks)


def time(
    low_s: float, high_s: float, *, start_px: float, end_px: float, is_clock: bool = False
) -> Axis:
    """Return a time axis from the first to the last value, in s, min:s or h:min.

    Args: is_clock, whether the values count from midnight.
    """
    high_s = high_s if high_s > low_s else low_s + 1
    span = high_s - low_s
    step = next((s for s in _TIME_STEPS_S if span / s <= 8), 86400)
    first = math.ceil(low_s / step - 1e-9)
    values = [n * step for n in range(first, math.floor(high_s / step + 1e-9) + 1)]
    text = day_text if is_clock else clock_text
    ticks = tuple((float(v), text(v, span)) for v in values)
    return Axis(low_s, high_s, start_px, end_px, False, ticks)


def clock_text(value_s: float, span_s: float) -> str:
    """Return "30 s", "2:30" (minutes, seconds) or "1:05 h" for a tick of an axis of `span_s`."""
    whole = round(value_s)
    if span_s <= 180:
        return f"{whole} s"
    if span_s <= 7200:
        return f"{whole // 60}:{whole % 60:02d}"
    return f"{whole // 3600}:{whole % 3600 // 60:02d} h"


def day_text(value_s: float, span_s: float) -> str:
    """Return the time of day "16:42:13", or "16:42" on an axis of more than two hours."""
    minutes, second = divmod(round(value_s) % 86400, 60)
    text = f"{minutes // 60:02d}:{minutes % 60:02d}"
    return text if span_s > 7200 else f"{text}:{second:02d}"


def _step(rough: float) -> float:
    magnitude = 10.0 ** math.floor(math.log10(rough))
    return next(s * magnitude for s in _STEPS if s * magnitude >= rough * (1 - 1e-9))
