"""Where the warm-up of a run ends, and whether it ended at all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pgdyno.analysis.arrays import finite

_BATCH = 5  # the 5 of MSER-5
_STEADY_COUNT_MIN = 100


@dataclass(frozen=True, slots=True)
class WarmupCut:
    """How much of the start to leave out.

    `is_steady` is False when the best cut lies at the bound (half of the series), None when the
    series is under 100 counts: there it lies at the bound in one series of ten by chance.
    """

    interval_count: int
    cut_ns: int
    is_steady: bool | None


def warmup_cut(counts: npt.ArrayLike, interval_ns: int) -> WarmupCut:
    """Return the cut that makes the mean of what remains most certain.

    Args: counts, transactions of equal intervals (100 ms) in time order, at least 20 of them;
    interval_ns, the length of each.
    Raises: AnalysisError if there are fewer than 20 counts.
    Source: MSER-5 (White, Cobb and Spratt 2000): batches of 5, the cut d <= half that minimises
    sum((Y - mean)^2) / (k - d)^2 over the k - d batches left.
    Limits: one large outlier near the start can pull the cut; under 10 s of counts the answer is
    rough. A minimum at the bound (half the batches) says: still changing, run longer.
    """
    series = finite(counts, what="warm-up counts", at_least=20)
    batch_count = series.size // _BATCH
    means = series[: batch_count * _BATCH].reshape(batch_count, _BATCH).mean(axis=1)
    bound = batch_count // 2
    # Sums over the tail that begins at each cut, from the end backwards; centred for precision.
    tail = (means - means.mean())[::-1]
    left = np.arange(1, batch_count + 1, dtype=np.float64)
    spread = np.cumsum(tail**2) - np.cumsum(tail) ** 2 / left
    score = (np.maximum(spread, 0.0) / left**2)[::-1][: bound + 1]
    cut = int(np.argmin(score))
    intervals = cut * _BATCH
    is_steady = cut < bound if series.size >= _STEADY_COUNT_MIN else None
    return WarmupCut(intervals, intervals * interval_ns, is_steady)
