"""Correlates speed with waits by the method published as PG_HAZEL, and by a corrected method.

The published method correlates "operational speed", statements and rows a minute, with counts of
sampled waits. It has three faults. If the load rises, both numbers rise, whatever the waits do.
Neighbouring rolling medians are almost the same number. A total is correlated with its own part.
The corrected method uses windows that do not overlap, waits as a share of the server's time, and
only windows of equal load.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from pgdyno.analysis.arrays import FloatArray

WAIT_TYPES = ("BufferPin", "Extension", "IO", "IPC", "Lock", "LWLock", "Timeout")
# The published method samples each session every 10 ms, and looks at the last 60 minutes.
SAMPLES_A_MINUTE = 6000
ROLLING_WINDOWS = 60
_BANDS = ((0.2, "critical"), (0.1, "high"), (0.04, "medium"), (0.01, "low"), (0.0, "ignore"))
_WINDOWS_MIN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One stretch of time that overlaps no other: a run of a sweep, or a minute of a watch.

    `load_count`: number of clients, by which windows are grouped. `rows_per_minute`: None if rows
    were not counted. `waiting`: mean sessions in each type of wait event. `active_count`: mean
    active sessions.
    """

    load_count: int
    calls_per_minute: float
    rows_per_minute: float | None
    waiting: Mapping[str, float]
    active_count: float


@dataclass(frozen=True, slots=True)
class WaitCorrelation:
    """How one type of wait correlates with speed.

    As published: `published` is r(speed, count of waits). `weighted` is the "weighted wait
    correlation", r(all waits, waits of this type) x share, and `band` is its class. Corrected: the
    correlation of speed with the share of the server's time at fixed load, with its 95 % interval;
    None with too few windows.
    """

    wait_type: str
    published_ratio: float | None
    weighted_ratio: float
    band: str
    corrected_ratio: float | None
    low_ratio: float | None
    high_ratio: float | None


@dataclass(frozen=True, slots=True)
class Hazel:
    """Operational speed of each window as published, and every type of wait that occurred.

    `speeds_per_minute`: statements and rows (`has_rows`) a minute, medians of up to 60 windows.
    """

    speeds_per_minute: tuple[float, ...]
    loads_count: tuple[int, ...]
    has_rows: bool
    waits: tuple[WaitCorrelation, ...]


def hazel(windows: Sequence[Window]) -> Hazel | None:
    """Return both answers for windows in time order; None with fewer than four.

    Source: sql/pg_expecto.sql of pg_expecto as described in its texts; partial correlation with
    Fisher's z.
    """
    if len(windows) < _WINDOWS_MIN:
        return None
    has_rows = all(window.rows_per_minute is not None for window in windows)
    calls = _rolling([window.calls_per_minute for window in windows])
    rows = _rolling([window.rows_per_minute or 0.0 for window in windows])
    speeds = [call + row for call, row in zip(calls, rows, strict=True)] if has_rows else calls
    counted = {
        kind: np.asarray(
            _rolling([window.waiting.get(kind, 0.0) * SAMPLES_A_MINUTE for window in windows])
        )
        for kind in WAIT_TYPES
    }
    present = {kind: counts for kind, counts in counted.items() if counts.any()}
    total = sum(present.values(), start=np.zeros(len(windows)))
    waits = [
        _correlation(kind, counts, total, np.asarray(speeds), windows)
        for kind, counts in present.items()
    ]
    waits.sort(key=lambda wait: -wait.weighted_ratio)
    return Hazel(
        speeds_per_minute=tuple(speeds),
        loads_count=tuple(window.load_count for window in windows),
        has_rows=has_rows,
        waits=tuple(waits),
    )


def _correlation(
    kind: str,
    counts: FloatArray,
    total: FloatArray,
    speeds: FloatArray,
    windows: Sequence[Window],
) -> WaitCorrelation:
    middle = float(counts.max() + counts.min()) / float(total.max() + total.min())
    weighted = max(0.0, (_r(total, counts) or 0.0) * middle)
    corrected, low, high = _at_fixed_load(kind, windows)
    return WaitCorrelation(
        wait_type=kind,
        published_ratio=_r(speeds, counts),
        weighted_ratio=weighted,
        band=next(word for least, word in _BANDS if weighted >= least),
        corrected_ratio=corrected,
        low_ratio=low,
        high_ratio=high,
    )


def _at_fixed_load(
    kind: str, windows: Sequence[Window]
) -> tuple[float | None, float | None, float | None]:
    """Return the correlation between windows of equal load, with its interval."""
    used = [window for window in windows if window.active_count > 0]
    loads = np.asarray([window.load_count for window in used])
    speed = np.asarray([window.calls_per_minute for window in used])
    share = np.asarray([window.waiting.get(kind, 0.0) / window.active_count for window in used])
    freedom = len(used) - len(set(loads.tolist())) - 1
    if freedom < 3:
        return None, None, None
    for load in set(loads.tolist()):
        alike = loads == load
        # Relative to the mean of their level, so that a large level does not outweigh the others.
        speed[alike] = speed[alike] / max(speed[alike].mean(), 1e-12) - 1
        share[alike] = share[alike] - share[alike].mean()
    correlation = _r(speed, share)
    if correlation is None:
        return None, None, None
    z = math.atanh(min(max(correlation, -0.999999), 0.999999))
    half = 1.959963984540054 / math.sqrt(freedom - 1)
    return correlation, math.tanh(z - half), math.tanh(z + half)


def _rolling(values: Sequence[float]) -> list[float]:
    """Return the median of each value and those up to 59 windows before it."""
    return [
        float(median(values[max(0, i + 1 - ROLLING_WINDOWS) : i + 1])) for i in range(len(values))
    ]


def _r(x: FloatArray, y: FloatArray) -> float | None:
    """Return Pearson's r; None if x or y does not vary."""
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    return float(np.corrcoef(x, y)[0, 1])
