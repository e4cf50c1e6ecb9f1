"""Finds the moments at which the throughput of a run changed, and tests their significance."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pgdyno.analysis.arrays import FloatArray, finite
from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.resample import correlation_time
from pgdyno.analysis.within_run import throughput

_POINTS_MAX = 240
_PERMUTATIONS = 199
_LEVEL = 0.01
_SEGMENT_MIN = 5
_PIECE_LENGTH = 60
_PIECES_MAX = 8
_BLOCK_TIMES = 2.0
# The correlation time of a shorter series is not known well enough for permutations.
_LONG = 45
_STEP_STRENGTH = 80.0
_CHUNK = 25  # permutations worked on at once: bounds memory


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """Throughput changed its level after `index` values.

    `time_ns`: from the start of the series to the change. `before`, `after`: mean throughput from
    the previous change to this change, and from this change to the next.
    """

    index: int
    time_ns: int
    before: Estimate
    after: Estimate
    p_value_ratio: float


def change_points(counts: npt.ArrayLike, *, interval_ns: int, seed: int) -> tuple[ChangePoint, ...]:
    """Return the moments where throughput changed its distribution, in time order.

    Args: counts, transactions of equal intervals (1 s); interval_ns, the length of each.
    Source: E-divisive (Matteson and James 2014) with exponent 1. The split with the largest energy
    distance is tested by 199 permutations at 1 %, then each side again. Neighbouring values are
    first joined into blocks of two correlation times, so that permuting is fair to autocorrelated
    noise. A run below 45 s has too few of them (`_plain_step`).
    Limits: a change closer than 5 blocks to an end or to another change is not found. A slow drift
    is reported as steps. A series of more than 240 values is joined first, which bounds the cost;
    the moment of the change is then refined on the original values.
    """
    series = finite(counts, what="change points")
    if series.size < 2 * _SEGMENT_MIN:
        return ()
    is_long = series.size >= _LONG
    rng = np.random.default_rng(seed)
    p_values: dict[int, float] = {}
    pending = [(0, int(series.size))]
    while pending:
        start, end = pending.pop()
        stretch = series[start:end]
        split = _significant_split(stretch, rng) if is_long else _plain_step(stretch)
        if split is None:
            continue
        place, p_value = start + split[0], split[1]
        p_values[place] = p_value
        pending += [(place, end), (start, place)]
    bounds = [0, *sorted(p_values), int(series.size)]
    return tuple(
        ChangePoint(
            place,
            place * interval_ns,
            throughput(series[bounds[i] : place], interval_ns),
            throughput(series[place : bounds[i + 2]], interval_ns),
            p_values[place],
        )
        for i, place in enumerate(bounds[1:-1])
    )


def _significant_split(series: FloatArray, rng: np.random.Generator) -> tuple[int, float] | None:
    """Return the best split of a stretch and its p-value; None if the split may be chance."""
    width = max(1, math.ceil(series.size / _POINTS_MAX))
    if _block_count(series, width) < 2 * _SEGMENT_MIN or np.ptp(series) == 0:
        return None
    first = _best_split(_block_means(series, width))[0] * width
    # The correlation time of the rest after the two means are subtracted. It is the median over
    # pieces of the stretch, so that another change in one piece does not increase it.
    rest = np.concatenate([part - part.mean() for part in np.split(series, [first])])
    pieces = np.array_split(rest, min(max(rest.size // _PIECE_LENGTH, 1), _PIECES_MAX))
    lasting = float(np.median([correlation_time(piece) for piece in pieces]))
    if lasting > 1:
        width = max(width, math.ceil(_BLOCK_TIMES * lasting))
    if _block_count(series, width) < 2 * _SEGMENT_MIN:
        return None
    means = _block_means(series, width)
    split, strength = _best_split(means)
    reached_count = _permutations_reaching(strength * (1 - 1e-9), means, rng)
    if reached_count is None:
        return None
    p_value = (1 + reached_count) / (1 + _PERMUTATIONS)
    return _refine(series, split * width, width), p_value


def _plain_step(series: FloatArray) -> tuple[int, float] | None:
    """Return the split of a short run into two levels that are plainly different; else None.

    A run of 20 s has too few blocks for permutations. So the split must explain 80 / n times as
    much as it leaves (n seconds). Noise of 20 to 40 s with a correlation of 0.7 from second to
    second does this in 1 % of runs (8,000 simulated runs). A step of 40 % needs half of it: a dip
    in the same run leaves much, and steady noise has no such steps.
    """
    if series.size < 2 * _SEGMENT_MIN:
        return None
    cuts = np.arange(_SEGMENT_MIN, series.size - _SEGMENT_MIN + 1)
    sums, total = np.cumsum(series)[cuts - 1], float(series.sum())
    before, after = sums / cuts, (total - sums) / (series.size - cuts)
    between = cuts * (series.size - cuts) / series.size * (before - after) ** 2
    best = int(np.argmax(between))
    low, high = sorted((float(before[best]), float(after[best])))
    left = max(float(((series - series.mean()) ** 2).sum()) - float(between[best]), 0.0)
    needed = _STEP_STRENGTH / (2 if low <= 0.6 * high else 1)
    if low > 0.9 * high or between[best] * series.size <= needed * left:
        return None
    return int(cuts[best]), _LEVEL


def _block_count(series: FloatArray, width: int) -> int:
    return series.size // width


def _block_means(series: FloatArray, width: int) -> FloatArray:
    """Return means of blocks of `width`; the last block takes the remainder."""
    starts = np.arange(_block_count(series, width)) * width
    lengths = np.diff(np.append(starts, series.size))
    return np.asarray(np.add.reduceat(series, starts) / lengths, dtype=np.float64)


def _best_split(points: FloatArray) -> tuple[int, float]:
    split, strength = _energy_splits(np.abs(points[:, None] - points[None, :])[None])
    return int(split[0]), float(strength[0])


def _permutations_reaching(
    strength: float, points: FloatArray, rng: np.random.Generator
) -> int | None:
    """Return how many permutations are as strong; None if they are too many for significance."""
    order = rng.permuted(np.tile(np.arange(points.size), (_PERMUTATIONS, 1)), axis=1)
    reached_count = 0
    for begin in range(0, _PERMUTATIONS, _CHUNK):
        shuffled = points[order[begin : begin + _CHUNK]]
        distance = np.abs(shuffled[:, :, None] - shuffled[:, None, :])
        reached_count += int((_energy_splits(distance)[1] >= strength).sum())
        if (1 + reached_count) / (1 + _PERMUTATIONS) > _LEVEL:
            return None  # The other permutations cannot make it significant any more.
    return reached_count


def _energy_splits(distance: FloatArray) -> tuple[npt.NDArray[np.int64], FloatArray]:
    """Return the best split of each matrix of distances (batch, n, n), and its energy."""
    size = distance.shape[1]
    whole = distance.sum(axis=2)
    # Distances among the first t points: for each point, add its distances to the earlier points.
    before = np.cumsum(np.tril(distance).sum(axis=2), axis=1)
    total = whole.sum(axis=1, keepdims=True) / 2
    left = np.arange(1, size + 1, dtype=np.float64)
    right = size - left
    upto = np.cumsum(whole, axis=1)
    between = upto - 2 * before
    after = total - before - between
    cut = slice(_SEGMENT_MIN - 1, size - _SEGMENT_MIN)
    n, m = left[cut], right[cut]
    energy = (n * m / size) * (
        2 * between[:, cut] / (n * m)
        - 2 * before[:, cut] / (n * (n - 1))
        - 2 * after[:, cut] / (m * (m - 1))
    )
    best = np.argmax(energy, axis=1)
    return best.astype(np.int64) + _SEGMENT_MIN, energy[np.arange(energy.shape[0]), best]


def _refine(series: FloatArray, place: int, width: int) -> int:
    """Return the exact value, within a block of `place`, where two means fit best."""
    if width == 1:
        return place
    low, high = max(place - width, 1), min(place + width, series.size - 1)
    cuts = np.arange(low, high + 1)
    sums = np.cumsum(series)[cuts - 1]
    total = float(series.sum())
    between = sums**2 / cuts + (total - sums) ** 2 / (series.size - cuts)
    return int(cuts[np.argmax(between)])
