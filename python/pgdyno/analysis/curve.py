"""The load curve of a sweep: throughput and latency by number of clients.

It also gives the peak, the knee, and the loss of throughput after the peak.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pgdyno.analysis.arrays import FloatArray, finite
from pgdyno.analysis.estimate import (
    Estimate,
    mean_between_runs,
    on_log_scale,
    t_quantile,
    without_interval,
)
from pgdyno.analysis.resample import LevelScatter, scatter_of
from pgdyno.analysis.usl import Usl, fit_usl
from pgdyno.errors import AnalysisError

KNEE_TOLERANCE_RATIO = 0.03
_REPLICATES = 4000


@dataclass(frozen=True, slots=True)
class CurveLevel:
    """One load: mean over its runs with an interval between runs; latencies in "ns".

    The scatter of a level is moderated by the scatter of all levels (`resample.scatter_of`),
    because the scatter of 3 runs is very uncertain. The scale is logarithmic, so no interval
    reaches 0.
    """

    clients: int
    tps: Estimate
    latency: Mapping[str, Estimate]
    runs_tps: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Peak:
    """The highest mean throughput.

    `is_at_edge`: the peak is at the largest load, so a larger load may give more.
    """

    clients: int
    tps: Estimate
    is_at_edge: bool


@dataclass(frozen=True, slots=True)
class KneeCandidate:
    """A level and the probability that the knee is there."""

    clients: int
    probability_ratio: float


@dataclass(frozen=True, slots=True)
class Knee:
    """The smallest load within the tolerance of the peak.

    `candidates`: every level that the data cannot exclude, by rising load, with its probability.
    One of them is the knee with a probability of at least 95 %. Empty if levels have one run.
    """

    clients: int
    tps: Estimate
    tolerance_ratio: float
    candidates: tuple[KneeCandidate, ...]


@dataclass(frozen=True, slots=True)
class Degradation:
    """Throughput at the largest load relative to the peak: -0.2 is a fifth lost."""

    clients: int
    change: Estimate


@dataclass(frozen=True, slots=True)
class LoadCurve:
    """All results of a sweep. `degradation` is None if the peak is at the largest load."""

    levels: tuple[CurveLevel, ...]
    peak: Peak
    knee: Knee
    degradation: Degradation | None
    usl: Usl | None


def load_curve(
    clients: npt.ArrayLike,
    tps: npt.ArrayLike,
    *,
    seed: int,
    latency_ns: Mapping[str, npt.ArrayLike] | None = None,
    tolerance_ratio: float = KNEE_TOLERANCE_RATIO,
) -> LoadCurve:
    """Return the load curve of a sweep.

    Args: clients and tps, one entry per run in any order; latency_ns, by name ("p99"), one entry
    per run in the same order. With 3 runs a level intervals are useful; with 1 run there are none.
    Raises: AnalysisError if the arrays differ in length, throughput is not above 0, or some levels
    have one run and others several.
    Source: intervals of levels: Student's t on the logarithmic scale, with the variance of a level
    moderated by that of all levels (Smyth 2004). Peak: bias-corrected ("basic") bootstrap
    of the maximum (Efron and Tibshirani 1993), moved towards the ends that hold for any rivals.
    Knee: probabilities by the same bootstrap, the set by inverting t tests.
    Limits: coverage was established by simulation (docs/method.md) for 3 to 5 runs a level.
    """
    load, speed = finite(clients, what="clients"), finite(tps, what="throughput of runs")
    if load.size != speed.size:
        raise AnalysisError(f"got {load.size} loads but {speed.size} throughputs")
    if (speed <= 0).any():
        raise AnalysisError("a run without committed transactions cannot be on a load curve")
    latency = {name: finite(of, what=name) for name, of in (latency_ns or {}).items()}
    for name, of in latency.items():
        if of.size != load.size:
            raise AnalysisError(f"got {load.size} runs but {of.size} values of {name}")
    loads = np.unique(load)
    speeds, scatter = _estimates(loads, load, speed, "tps")
    latencies = {name: _estimates(loads, load, of, "ns")[0] for name, of in latency.items()}
    levels = tuple(
        CurveLevel(
            int(level),
            speeds[place],
            {name: of[place] for name, of in latencies.items()},
            tuple(float(value) for value in speed[load == level]),
        )
        for place, level in enumerate(loads)
    )
    means = np.array([level.tps.value for level in levels])
    draws = _draws(means, scatter, np.random.default_rng(seed))
    counts = np.array([level.clients for level in levels], dtype=np.float64)
    return LoadCurve(
        levels,
        _peak(levels, means, scatter, draws),
        _knee(levels, means, scatter, draws, tolerance_ratio),
        _degradation(levels, means, draws),
        fit_usl(counts, means, draws, run_count=int(load.size)),
    )


def _estimates(
    loads: FloatArray, load: FloatArray, values: FloatArray, unit: str
) -> tuple[list[Estimate], LevelScatter]:
    """Return the mean of each level with its interval, and the scatter behind the intervals.

    A latency of 0 ns has no logarithm. Such a metric has intervals from each level's runs alone.
    """
    by_level = [values[load == level] for level in loads]
    if (values <= 0).any():
        alone = [mean_between_runs(runs, unit) for runs in by_level]
        return alone, LevelScatter(np.zeros(loads.size), 0)
    scatter = scatter_of([np.log(runs) for runs in by_level])
    means = [float(runs.mean()) for runs in by_level]
    if not scatter.is_known:
        return [without_interval(mean, unit) for mean in means], scatter
    halves = t_quantile(0.975, scatter.degrees) * scatter.error_values
    return [
        on_log_scale(mean, float(half), runs.size, unit)
        for mean, half, runs in zip(means, halves, by_level, strict=True)
    ], scatter


def _draws(means: FloatArray, scatter: LevelScatter, rng: np.random.Generator) -> FloatArray:
    """Return bootstrap draws of every level's mean, shape (replicates, levels).

    They are drawn from Student's t. Runs are not resampled, because 3 runs have only 10 distinct
    resamples, and these lack a third of the variance.
    """
    if not scatter.is_known:
        return np.zeros((0, means.size))
    noise = rng.standard_t(scatter.degrees, size=(_REPLICATES, means.size))
    # With 1 or 2 degrees of freedom a draw can be absurdly large. e^5 is outside every interval.
    moved = np.clip(noise * scatter.error_values, -5, 5)
    return np.asarray(means * np.exp(moved), dtype=np.float64)


def _peak(
    levels: tuple[CurveLevel, ...], means: FloatArray, scatter: LevelScatter, draws: FloatArray
) -> Peak:
    best = int(np.argmax(means))
    value = float(means[best])
    is_at_edge = best == len(levels) - 1
    if not scatter.is_known:
        return Peak(levels[best].clients, without_interval(value, "tps"), is_at_edge)
    # The highest of several noisy means is too high on average. The draws show by how much.
    bias = np.log(draws.max(axis=1) / value)
    above, below = (float(bound) for bound in np.quantile(bias, (0.975, 0.025)))
    # On a plateau this correction is uncertain. So the ends move a part of the way to two limits
    # without correction: the upper end of the best level, and its lower end if all levels share
    # 2.5 %. With a third and a half of the way, the coverage is 93.5 to 96.7 % on flat and steep
    # curves (simulated).
    single_high = float(np.quantile(draws, 0.975, axis=0).max())
    rivals = np.log(value / means) < 2 * np.hypot(scatter.error_values, scatter.error_values[best])
    shared = t_quantile(1 - 0.025 / max(int(rivals.sum()), 1), scatter.degrees)
    single_low = float((means * np.exp(-shared * scatter.error_values)).max())
    high = (value * math.exp(-below)) ** (2 / 3) * single_high ** (1 / 3)
    low = math.sqrt(value * math.exp(-above) * single_low)
    runs = sum(len(level.runs_tps) for level in levels)
    tps = Estimate(value, min(low, value), max(high, value), runs, "tps", "between_runs")
    return Peak(levels[best].clients, tps, is_at_edge)


def _knee(
    levels: tuple[CurveLevel, ...],
    means: FloatArray,
    scatter: LevelScatter,
    draws: FloatArray,
    tolerance_ratio: float,
) -> Knee:
    enough = 1 - tolerance_ratio
    knee = int(np.argmax(means >= enough * means.max()))
    candidates: tuple[KneeCandidate, ...] = ()
    if scatter.is_known:
        place = np.argmax(draws >= enough * draws.max(axis=1, keepdims=True), axis=1)
        probability = np.bincount(place, minlength=means.size) / place.size
        possible = _possible_knees(np.log(means), scatter, math.log(enough))
        candidates = tuple(
            KneeCandidate(level.clients, float(ratio))
            for level, ratio, is_possible in zip(levels, probability, possible, strict=True)
            if is_possible
        )
    return Knee(levels[knee].clients, levels[knee].tps, tolerance_ratio, candidates)


def _possible_knees(
    log_means: FloatArray, scatter: LevelScatter, log_enough: float
) -> npt.NDArray[np.bool_]:
    """Return which levels the data cannot exclude as the knee, with 95 % confidence.

    A level is excluded in two cases. Another level is significantly higher by more than the
    tolerance; the tests of all other levels share 2.5 %. Or a smaller load is significantly within
    the tolerance of every other level; each test has 2.5 %, because all must agree (Berger 1982).
    """
    others = max(log_means.size - 1, 1)
    error = np.hypot(scatter.error_values[:, None], scatter.error_values[None, :])
    lead = log_means[None, :] - log_means[:, None] + log_enough  # of column over row
    is_too_low = (lead > error * t_quantile(1 - 0.025 / others, scatter.degrees)).any(axis=1)
    is_enough = -lead > error * t_quantile(0.975, scatter.degrees)
    np.fill_diagonal(is_enough, True)
    reaches = is_enough.all(axis=1)
    possible: npt.NDArray[np.bool_] = np.logical_not(np.asarray(is_too_low))
    if reaches.any():
        possible[int(np.argmax(reaches)) + 1 :] = False
    possible[int(np.argmax(log_means >= log_means.max() + log_enough))] = True
    return possible


def _degradation(
    levels: tuple[CurveLevel, ...], means: FloatArray, draws: FloatArray
) -> Degradation | None:
    best = int(np.argmax(means))
    if best == len(levels) - 1:
        return None
    value = float(means[-1] / means[best]) - 1
    if draws.shape[0] == 0:
        return Degradation(levels[-1].clients, without_interval(value, "1"))
    # Bias-corrected like the peak, because the best level was chosen for its high value.
    moved = np.log(draws[:, -1] / draws.max(axis=1)) - math.log1p(value)
    above, below = (float(bound) for bound in np.quantile(moved, (0.975, 0.025)))
    low = min(math.expm1(math.log1p(value) - above), value)
    high = max(math.expm1(math.log1p(value) - below), value)
    runs = sum(len(level.runs_tps) for level in levels)
    return Degradation(levels[-1].clients, Estimate(value, low, high, runs, "1", "between_runs"))
