"""How much faster a variant is than the reference: at each level, the mean, and the maximum."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pgdyno.analysis.arrays import finite
from pgdyno.analysis.estimate import Estimate, t_quantile, without_interval
from pgdyno.analysis.resample import scatter_of
from pgdyno.errors import AnalysisError


@dataclass(frozen=True, slots=True)
class LevelRatio:
    """Throughput of the variant over that of the reference at one load."""

    clients: int
    ratio: Estimate


@dataclass(frozen=True, slots=True)
class SpeedUp:
    """A variant against the reference along the curve.

    `mean` is over the levels up to the reference's knee (geometric); `maximum` is the largest
    ratio among them, at `maximum_clients`.
    """

    levels: tuple[LevelRatio, ...]
    mean: Estimate
    maximum: Estimate
    maximum_clients: int
    knee_clients: int


def speed_up(log_ratios: Mapping[int, Sequence[float]], *, knee_clients: int) -> SpeedUp:
    """Return the speed-up at every level, its mean and its maximum up to the knee.

    Args: log_ratios, log(variant / reference) of the adjacent runs of each round, by clients.
    Raises: AnalysisError without a level up to the knee.
    Source: paired runs; Student's t for one look, with the scatter of a level moderated by that of
    all levels (`scatter_of`). The maximum is the largest of several ratios. Their intervals hold
    together (Bonferroni), so the interval of the maximum holds, too.
    Limits: the number of rounds must be set beforehand; few rounds give wide intervals.
    """
    loads = sorted(log_ratios)
    ratios = [finite(log_ratios[load], what=f"log ratios at {load} clients") for load in loads]
    up_to_knee = [place for place, load in enumerate(loads) if load <= knee_clients]
    if not up_to_knee:
        raise AnalysisError(f"no level up to the knee of {knee_clients} clients was compared")
    means = np.array([values.mean() for values in ratios])
    scatter = scatter_of(ratios)
    runs = sum(values.size for values in ratios)

    def estimate(log_mean: float, error: float, *, count: int, level: float = 0.95) -> Estimate:
        if not scatter.is_known:
            return without_interval(math.exp(log_mean), "1")
        half = t_quantile((1 + level) / 2, scatter.degrees) * error
        ends = math.exp(log_mean - half), math.exp(log_mean + half)
        return Estimate(math.exp(log_mean), *ends, count, "1", "between_runs")

    best = max(up_to_knee, key=lambda place: means[place])
    errors = scatter.error_values
    together = math.sqrt(sum(float(errors[place]) ** 2 for place in up_to_knee))
    count = len(up_to_knee)
    return SpeedUp(
        levels=tuple(
            LevelRatio(load, estimate(float(mean), float(error), count=int(values.size)))
            for load, mean, error, values in zip(loads, means, errors, ratios, strict=True)
        ),
        mean=estimate(float(means[up_to_knee].mean()), together / count, count=runs),
        maximum=estimate(
            float(means[best]),
            float(errors[best]),
            count=int(ratios[best].size),
            level=1 - 0.05 / count,
        ),
        maximum_clients=loads[best],
        knee_clients=knee_clients,
    )
