"""Simulated experiments with a known truth: how often does an interval contain it?

Every function runs `count` experiments and returns the fraction that came out right.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import scipy
from tests.statistics.noise import autocorrelated

from pgdyno.analysis.arrays import FloatArray
from pgdyno.analysis.change_points import change_points
from pgdyno.analysis.compare import compare
from pgdyno.analysis.contrasts import factorial
from pgdyno.analysis.curve import KNEE_TOLERANCE_RATIO, LoadCurve, load_curve
from pgdyno.analysis.estimate import Estimate, mean_between_runs
from pgdyno.analysis.histogram import Histogram
from pgdyno.analysis.where import where_the_time_goes
from pgdyno.analysis.where_difference import difference
from pgdyno.analysis.where_facts import ServerCounts, TransactionFacts, WaitSamples
from pgdyno.analysis.within_run import latency, throughput

TENTH_NS = 100_000_000
RUN_SECONDS = 8  # 5 s measured + 3 s around it
RUN_DEVIATION = 0.05
DRIFT_PER_HOUR = 0.10
CLIENTS = np.array([1, 2, 4, 8, 16, 32])
CURVES = {
    "one sharp peak": [100, 195, 380, 700, 550, 300],
    "plateau of four": [100, 300, 1000, 1000, 1000, 1000],
    "two near the top": [100, 195, 380, 700, 705, 600],
    "still rising": [100, 190, 350, 600, 900, 1100],
    "knee at the tolerance": [100, 300, 975, 1000, 1000, 990],
    "slow rise to the top": [100, 900, 960, 969, 980, 1000],
}


def holds(estimate: Estimate, truth: float) -> bool:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low <= truth <= estimate.high


def runs_fixed(count: int, rng: np.random.Generator) -> float:
    """Mean of three runs."""
    runs = rng.normal(1000, 50, (count, 3))
    return float(np.mean([holds(mean_between_runs(run_tps, "tps"), 1000) for run_tps in runs]))


def paired_ratios(
    count: int, rng: np.random.Generator, *, pair_count: int, phi: float, effect: float
) -> FloatArray:
    """Log ratios of pairs of runs in pgdyno's order, with lasting noise and drift."""
    noise = autocorrelated(rng, phi, count, 2 * pair_count)
    drift = DRIFT_PER_HOUR * np.arange(2 * pair_count) * RUN_SECONDS / 3600
    runs = (RUN_DEVIATION * noise + drift).reshape(count, pair_count, 2)
    swapped = rng.random((count, pair_count)) < 0.5
    ratios = np.where(swapped, runs[:, :, 0] - runs[:, :, 1], runs[:, :, 1] - runs[:, :, 0])
    return np.asarray(ratios + effect, dtype=np.float64)


def pairs_fixed(count: int, rng: np.random.Generator, *, phi: float) -> float:
    """Twelve pairs, looked at once."""
    effect = math.log(1.03)
    ratios = paired_ratios(count, rng, pair_count=12, phi=phi, effect=effect)
    return float(
        np.mean([holds(compare(log_ratios, looks="fixed").ratio, 1.03) for log_ratios in ratios])
    )


def throughput_within(count: int, rng: np.random.Generator, *, phi: float, length: int) -> float:
    """Counts of 100 ms with noise that lasts."""
    series = 100 + 10 * autocorrelated(rng, phi, count, length)
    return float(np.mean([holds(throughput(values, TENTH_NS), 1000) for values in series]))


def latency_within(
    count: int, rng: np.random.Generator, *, percentile: float, phi: float, seconds: int
) -> float:
    """Lognormal latencies whose level wanders by 20 % from second to second."""
    wander, spread = 0.2, 0.5
    levels = wander * autocorrelated(rng, phi, count, seconds)
    quantile = float(scipy.stats.norm.ppf(percentile / 100))
    truth = math.exp(14 + math.hypot(wander, spread) * quantile)
    right = 0
    for level in levels:
        values = rng.lognormal(14 + level[:, None], spread, (seconds, 200)).astype(np.int64)
        parts = [Histogram.from_values_ns(sample) for sample in values]
        estimates = latency(parts, (percentile,), seed=int(rng.integers(1 << 30)), replicates=200)
        right += holds(estimates.percentile[percentile], truth)
    return right / count


def waits(rng: np.random.Generator, phi: float) -> TransactionFacts:
    """60 s of samples at 10 a second; of 4 sessions a wandering share, about .6, waits for WAL."""
    instants = 600
    share = scipy.stats.norm.cdf(
        scipy.stats.norm.ppf(0.6) + 0.3 * autocorrelated(rng, phi, 1, instants)[0]
    )
    waiting = rng.binomial(4, share)
    at = np.arange(instants) * TENTH_NS
    samples = WaitSamples(
        np.asarray(at),
        np.concatenate([at, at]),
        ["IO:WalSync"] * instants + [""] * instants,
        np.concatenate([waiting, 4 - waiting]),
    )
    mean = Estimate(10e6, 9.9e6, 10.1e6, 10, "ns", "within_run")
    return TransactionFacts(
        latency=mean,
        window_seconds=60.0,
        transaction_count=6000,
        server=ServerCounts(active_ms=60_000.0),
        samples=samples,
    )


def sync_share(phi_scale: float = 0.3) -> float:
    """Mean of cdf(a + s Z) is cdf(a / sqrt(1 + s^2))."""
    return float(scipy.stats.norm.cdf(scipy.stats.norm.ppf(0.6) / math.hypot(1, phi_scale)))


def parts_within(count: int, rng: np.random.Generator, *, phi: float) -> float:
    """The part of one wait event."""
    right = 0
    for _ in range(count):
        facts = waits(rng, phi)
        where = where_the_time_goes(facts, seed=int(rng.integers(1 << 30)), replicates=200)
        part = next(some_part for some_part in where.parts if some_part.name == "IO:WalSync")
        right += holds(part.ms, 10 * sync_share())
    return right / count


def parts_difference(count: int, rng: np.random.Generator, *, phi: float) -> float:
    """The difference of one wait event between two equal runs."""
    right = 0
    for _ in range(count):
        seed = int(rng.integers(1 << 30))
        a = where_the_time_goes(waits(rng, phi), seed=seed, replicates=200)
        b = where_the_time_goes(waits(rng, phi), seed=seed + 1, replicates=200)
        part = next(
            some_part for some_part in difference(a, b).parts if some_part.name == "IO:WalSync"
        )
        right += holds(part.ms, 0.0)
    return right / count


def sweeps(
    count: int, rng: np.random.Generator, *, curve: str, noise: float
) -> Iterator[LoadCurve]:
    """Sweeps of a known curve, 3 runs a level."""
    truth = np.array(CURVES[curve], dtype=np.float64)
    clients = np.repeat(CLIENTS, 3)
    for _ in range(count):
        tps = np.repeat(truth, 3) * np.exp(noise * rng.standard_normal(clients.size))
        yield load_curve(clients, tps, seed=int(rng.integers(1 << 30)))


def levels_held(
    count: int, rng: np.random.Generator, *, noise: tuple[float, float], what: str
) -> float:
    """The intervals of all levels of a sweep of 3 runs, whose noise grows from one to the other."""
    truth = np.array(CURVES["one sharp peak"], dtype=np.float64)
    deviations = np.geomspace(*noise, truth.size)
    held = []
    for _ in range(count):
        runs = truth * np.exp(rng.normal(0, deviations, (3, truth.size)))
        clients = np.tile(CLIENTS, 3)
        curve = load_curve(clients, runs.ravel(), seed=1, latency_ns={"p95": runs.ravel() * 1e6})
        of = [level.tps if what == "tps" else level.latency["p95"] for level in curve.levels]
        unit = 1 if what == "tps" else 1e6
        held += [holds(estimate, value * unit) for estimate, value in zip(of, truth, strict=True)]
    return float(np.mean(held))


def peak_held(count: int, rng: np.random.Generator, *, curve: str, noise: float) -> float:
    """The interval of the peak."""
    curves = sweeps(count, rng, curve=curve, noise=noise)
    return float(np.mean([holds(result.peak.tps, max(CURVES[curve])) for result in curves]))


def knee_held(count: int, rng: np.random.Generator, *, curve: str, noise: float) -> float:
    """The set of levels that may be the knee."""
    truth = np.array(CURVES[curve])
    knee = int(CLIENTS[np.argmax(truth >= (1 - KNEE_TOLERANCE_RATIO) * truth.max())])
    curves = sweeps(count, rng, curve=curve, noise=noise)
    return float(
        np.mean([knee in [c.clients for c in result.knee.candidates] for result in curves])
    )


def loss_held(count: int, rng: np.random.Generator, *, curve: str, noise: float) -> float:
    """The loss of throughput at the largest load."""
    truth = CURVES[curve][-1] / max(CURVES[curve]) - 1
    losses = [sweep.degradation for sweep in sweeps(count, rng, curve=curve, noise=noise)]
    return float(np.mean([loss is not None and holds(loss.change, truth) for loss in losses]))


def usl_coefficient(count: int, rng: np.random.Generator, *, name: str) -> float:
    """Coefficients of a server that obeys the law, 3 % noise between runs."""
    clients = np.array([1, 2, 4, 8, 16, 32, 64])
    truth = {"gamma": 100.0, "alpha": 0.03, "beta": 0.001}
    below = 1 + truth["alpha"] * (clients - 1) + truth["beta"] * clients * (clients - 1)
    repeated = np.repeat(clients, 3)
    right = 0
    for _ in range(count):
        noise = np.exp(0.03 * rng.standard_normal(repeated.size))
        tps = np.repeat(100.0 * clients / below, 3) * noise
        curve = load_curve(repeated, tps, seed=int(rng.integers(1 << 30)))
        right += holds(getattr(curve.usl, name), truth[name])
    return right / count


def changes_false(count: int, rng: np.random.Generator, *, phi: float, length: int) -> float:
    """Fraction of steady runs in which a change is found."""
    series = 1000 + 50 * autocorrelated(rng, phi, count, length)
    are_changed = [
        bool(change_points(values, interval_ns=10 * TENTH_NS, seed=1)) for values in series
    ]
    return float(np.mean(are_changed))


def factors_fixed(count: int, rng: np.random.Generator) -> float:
    """A main effect in a 2 x 2 design of five rounds, with the round's level varying."""
    factors = {"a": ["0", "1"], "b": ["0", "1"]}
    cells = [{"a": a, "b": b} for a in "01" for b in "01"]
    truth = np.log([1000, 1010, 1050, 1060.5])
    logs = (
        truth + 0.1 * rng.standard_normal((count, 5, 1)) + 0.03 * rng.standard_normal((count, 5, 4))
    )
    return float(
        np.mean(
            [
                holds(factorial(factors, cells, np.exp(log_values))[0].ratio, 1.05)
                for log_values in logs
            ]
        )
    )
