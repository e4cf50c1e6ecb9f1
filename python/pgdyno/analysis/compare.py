"""Is B better than A? Adjacent pairs of runs give log ratios, an interval and a verdict."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from pgdyno.analysis.arrays import FloatArray, finite
from pgdyno.analysis.estimate import Estimate, t_quantile, without_interval
from pgdyno.analysis.intervals import (
    SEQUENTIAL_PAIRS_MIN,
    Looks,
    half_width,
    interval_of_mean,
)
from pgdyno.errors import AnalysisError

MARGIN_RATIO = 0.02
_PAIRS_MAX = 1000

Verdict = Literal["faster", "slower", "lower", "higher", "no difference", "cannot tell"]
Better = Literal["more", "less"]  # more tps is faster; less latency is lower


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of B against A.

    `ratio`: B / A with the interval that decides. `pairs_left`: how many more pairs the verdict
    needs if mean and scatter stay the same; 0 after the verdict, None if there is no estimate.
    `deviation_ratio`: standard deviation of the log ratio of one pair.
    """

    verdict: Verdict
    ratio: Estimate
    level_ratio: float
    margin_ratio: float
    pair_count: int
    pairs_left: int | None
    deviation_ratio: float


def is_reversed(pair: int) -> bool:
    """Return whether B runs before A in this pair (0-based): AB BA BA AB AB BA BA AB ...

    Two pairs in a row cancel a straight drift. Half of the neighbouring pairs have the same order,
    the other half have opposite orders. Therefore noise that lasts from run to run correlates
    neighbouring ratios as often negatively as positively. With ABBA ABBA the correlation is always
    positive: 400 looks at the sequential interval then err in 5.7 % of experiments instead of 4.0 %
    (correlation 0.5 from run to run, 20,000 simulated experiments).
    """
    return pair % 4 in (1, 2)


def log_ratios(a: npt.ArrayLike, b: npt.ArrayLike) -> FloatArray:
    """Return log(B / A) of each pair of adjacent runs.

    Args: a and b, shape (pairs,), the metric of the two runs of each pair, > 0.
    Raises: AnalysisError if the lengths differ or a value is not above 0.
    """
    first, second = finite(a, what="metric of A"), finite(b, what="metric of B")
    if first.size != second.size:
        raise AnalysisError(
            f"pairs need as many runs of A as of B, got {first.size} and {second.size}"
        )
    if (first <= 0).any() or (second <= 0).any():
        raise AnalysisError("a ratio needs metrics above 0")
    return np.log(second / first)


def family_level(variant_count: int) -> float:
    """Return the level of each interval when k variants are compared with one reference.

    Source: Bonferroni; all k - 1 intervals hold together with 95 % confidence.
    """
    if variant_count < 2:
        raise AnalysisError(f"a comparison needs at least 2 variants, got {variant_count}")
    return 1 - 0.05 / (variant_count - 1)


def compare(
    ratios: FloatArray,
    *,
    looks: Looks,
    better: Better = "more",
    level: float = 0.95,
    margin_ratio: float = MARGIN_RATIO,
) -> Comparison:
    """Return ratio, verdict and outlook of B against A.

    Args: ratios, log(B / A) by pair, in time order; looks, `fixed` when the number of pairs was
    set beforehand, `sequential` when the result is watched; level, from `family_level`.
    Returns: a direction when the interval excludes "equal"; "no difference" when it lies within
    the margin; else "cannot tell".
    Source: a pair as block, Student's t or its anytime-valid mixture (`sequential_t`); equivalence
    by interval inclusion, Schuirmann 1987 (at the level shown, which is stricter than two
    one-sided tests).
    Limits: two errors stay in the ratio: drift that is not straight over two pairs, and a layout of
    the data that differs between A and B for the whole experiment.
    """
    values = finite(ratios, what="log ratios of pairs")
    mean, half = interval_of_mean(values, level=level, looks=looks)
    deviation = float(values.std(ddof=1)) if values.size > 1 else 0.0
    if math.isinf(half):
        ratio = without_interval(math.exp(mean), "1")
        left = (
            None
            if values.size < 2
            else predict_pairs(values, looks=looks, level=level, margin_ratio=margin_ratio)
        )
        return Comparison(
            "cannot tell", ratio, level, margin_ratio, int(values.size), left, deviation
        )
    ratio = Estimate(
        math.exp(mean),
        math.exp(mean - half),
        math.exp(mean + half),
        int(values.size),
        "1",
        "between_runs",
    )
    verdict = _verdict(mean - half, mean + half, better, math.log1p(margin_ratio))
    left = 0
    if verdict == "cannot tell":
        left = predict_pairs(values, looks=looks, level=level, margin_ratio=margin_ratio)
    return Comparison(verdict, ratio, level, margin_ratio, int(values.size), left, deviation)


def predict_pairs(
    ratios: FloatArray,
    *,
    looks: Looks,
    level: float = 0.95,
    margin_ratio: float = MARGIN_RATIO,
    half_width_ratio: float | None = None,
) -> int | None:
    """Return how many more pairs are needed if mean and scatter stay the same.

    Args: half_width_ratio, the wanted precision (0.03 is +-3 %), None for a verdict; the others as
    for `compare`.
    Returns: 0 if no more pairs are needed; None for more than 1,000.
    Limits: with few pairs, the error of this forecast is as large as the forecast.
    """
    values = finite(ratios, what="log ratios of pairs", at_least=2)
    deviation, shift = float(values.std(ddof=1)), abs(float(values.mean()))
    margin = math.log1p(margin_ratio)
    if half_width_ratio is not None:
        enough = math.log1p(half_width_ratio)
    else:
        # Enough to exclude "equal", or to lie within the margin.
        enough = max(shift, margin - shift)
    if enough <= 0:
        return None
    smallest = max(int(values.size), SEQUENTIAL_PAIRS_MIN if looks == "sequential" else 2)

    def is_decided(count: int) -> bool:
        return half_width(deviation, count, level, looks) < enough

    if not is_decided(_PAIRS_MAX):
        return None
    low, high = smallest, _PAIRS_MAX
    while low < high:  # The half-width never grows with the count.
        middle = (low + high) // 2
        low, high = (low, middle) if is_decided(middle) else (middle + 1, high)
    return low - int(values.size)


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """The result of A against A: the scatter of a pair, and the smallest effect to be found.

    `detectable_ratio`: `pair_count` pairs find it with a probability of 80 % (0.03 is 3 %).
    """

    deviation_ratio: float
    pair_count: int
    detectable_ratio: float
    comparison: Comparison


def noise_floor(ratios: FloatArray, *, pair_count: int | None = None) -> NoiseFloor:
    """Return the noise floor from A/A pairs, for experiments of `pair_count` pairs.

    Source: power of the t test, (t_{0.975} + t_{0.80}) * s / sqrt(n).
    Limits: the scatter of few pairs is itself uncertain; with 10 pairs its error is about 25 %.
    """
    values = finite(ratios, what="log ratios of A/A pairs", at_least=3)
    count = pair_count or int(values.size)
    deviation = float(values.std(ddof=1))
    degrees = count - 1
    reach = (t_quantile(0.975, degrees) + t_quantile(0.8, degrees)) * deviation
    detectable = math.expm1(reach / math.sqrt(count))
    return NoiseFloor(deviation, count, detectable, compare(values, looks="fixed"))


def holm(p_values: npt.ArrayLike) -> FloatArray:
    """Return p-values adjusted for their number: all rejections at 5 % hold together.

    Source: Holm 1979.
    """
    raw = finite(p_values, what="p-values")
    order = np.argsort(raw, kind="stable")
    steps = raw[order] * np.arange(raw.size, 0, -1)
    adjusted = np.empty_like(raw)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


def _verdict(low: float, high: float, better: Better, margin: float) -> Verdict:
    if low > 0:
        return "faster" if better == "more" else "higher"
    if high < 0:
        return "slower" if better == "more" else "lower"
    if -margin <= low and high <= margin:
        return "no difference"
    return "cannot tell"
