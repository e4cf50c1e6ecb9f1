"""Is B better than A? Adjacent pairs of runs give log ratios, an interval and a verdict."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt

from pgdyno.analysis.arrays import FloatArray, finite
from pgdyno.analysis.estimate import Estimate, t_quantile, without_interval
from pgdyno.analysis.intervals import SEQUENTIAL_PAIRS_MIN, Looks, half_width, interval_of_mean
from pgdyno.errors import AnalysisError

MARGIN_RATIO = 0.02
_PAIRS_MAX = 1000
_Item = TypeVar("_Item")

Verdict = Literal["faster", "slower", "lower", "higher", "no difference", "cannot tell"]
Better = Literal["more", "less"]  # more tps is faster; less latency is lower


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of B against A.

    `ratio`: B / A with the interval that decides. `looks`: the kind of this interval.
    `deviation_ratio`: standard deviation of the log ratio of one pair.
    """

    verdict: Verdict
    ratio: Estimate
    level_ratio: float
    margin_ratio: float
    pair_count: int
    looks: Looks
    deviation_ratio: float


def shuffled(items: Sequence[_Item], seed: int, turn: int | str) -> list[_Item]:
    """Return the order in which the items of a pair or round are measured: random, by the seed.

    Noise that lasts, drift and disturbances with a period then change the sign of a ratio at
    random. Their mean is 0, and the scatter of the ratios contains them. A fixed order has a
    period, and a disturbance of the same period looks like a difference: with AB BA BA AB, a sine
    of 7.7 runs and 5 % gives false verdicts in 14 to 81 % of experiments. If only the order of two
    pairs is random, AB BA or BA AB, a period of 4 runs still gives 6 to 38 %.
    Args: turn, of the pair or round: each has another order.
    """
    order = list(items)
    random.Random(f"{seed}/{turn}").shuffle(order)
    return order


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


def family_level(variant_count: int, error_ratio: float = 0.05) -> float:
    """Return the level of each interval when k variants are compared with one reference.

    Args: error_ratio, the share of experiments in which any of the intervals may be wrong.
    Source: Bonferroni; all k - 1 intervals hold together.
    """
    if variant_count < 2:
        raise AnalysisError(f"a comparison needs at least 2 variants, got {variant_count}")
    return 1 - error_ratio / (variant_count - 1)


def compare(
    ratios: FloatArray,
    *,
    looks: Looks,
    better: Better = "more",
    level: float = 0.95,
    margin_ratio: float = MARGIN_RATIO,
) -> Comparison:
    """Return ratio and verdict of B against A.

    Args: ratios, log(B / A) by pair, in time order; looks, `fixed` when the number of pairs was
    set beforehand, `sequential` when the result is watched; level, from `family_level`.
    Returns: a direction when the interval excludes "equal"; "no difference" when it lies within
    the margin; else "cannot tell".
    Source: a pair as block, Student's t or its anytime-valid mixture (`sequential_t`); equivalence
    by interval inclusion, Schuirmann 1987 (at the level shown, which is stricter than two
    one-sided tests).
    Limits: a layout of the data that differs between A and B for the whole experiment stays in the
    ratio. With 3 or 4 pairs, noise that returns exactly every 2 or 4 runs and hides all other noise
    looks like a difference in up to 20 % of experiments.
    """
    values = finite(ratios, what="log ratios of pairs")
    mean, half = interval_of_mean(values, level=level, looks=looks)
    count = int(values.size)
    deviation = float(values.std(ddof=1)) if count > 1 else 0.0
    verdict: Verdict = "cannot tell"
    if math.isinf(half):
        ratio = without_interval(math.exp(mean), "1")
    else:
        low, high = mean - half, mean + half
        ends = math.exp(low), math.exp(high)
        ratio = Estimate(math.exp(mean), *ends, count, "1", "between_runs")
        verdict = _verdict(low, high, better, math.log1p(margin_ratio))
    return Comparison(verdict, ratio, level, margin_ratio, count, looks, deviation)


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
