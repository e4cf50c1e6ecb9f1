"""Simulated experiments of several contrasts at once, of A against A, and against a target."""

from __future__ import annotations

import math

import numpy as np
from tests.plan.slo_server import SloServer, searched
from tests.statistics.simulations import RUN_DEVIATION, holds

from pgdyno.analysis.arrays import FloatArray
from pgdyno.analysis.capacity import LoadLimit, capacity
from pgdyno.analysis.compare import compare, family_level, noise_floor
from pgdyno.analysis.contrasts import factorial, passes

TRUTH = (1.0, 1.05, 1.05, 1.2)


def passes_together(count: int, rng: np.random.Generator) -> float:
    """Four passes in eight rounds: every interval, to the base and to the pass before, holds."""
    logs = np.log(TRUTH) + _rounds(rng, count, 8, len(TRUTH))
    names = ["base", "one", "two", "three"]
    held = 0
    for log_values in logs:
        effects = passes(names, np.exp(log_values))
        held += all(
            holds(effects[i - 1].to_base.ratio, TRUTH[i] / TRUTH[0])
            and holds(effects[i - 1].to_previous.ratio, TRUTH[i] / TRUTH[i - 1])
            for i in range(1, len(TRUTH))
        )
    return held / count


def variants_together(count: int, rng: np.random.Generator) -> float:
    """Three variants against one reference in twelve pairs each: all three intervals hold."""
    level = family_level(len(TRUTH))
    logs = np.log(TRUTH) + _rounds(rng, count, 12, len(TRUTH))
    held = 0
    for log_values in logs:
        held += all(
            holds(
                compare(log_values[:, i] - log_values[:, 0], looks="fixed", level=level).ratio,
                TRUTH[i],
            )
            for i in range(1, len(TRUTH))
        )
    return held / count


def any_false_effect(count: int, rng: np.random.Generator) -> float:
    """A 2 x 2 x 2 design without effects: the share in which Holm's p finds one."""
    factors = {name: ["0", "1"] for name in "abc"}
    cells = [{"a": a, "b": b, "c": c} for a in "01" for b in "01" for c in "01"]
    wrong = 0
    for log_values in _rounds(rng, count, 5, len(cells)):
        effects = factorial(factors, cells, np.exp(log_values))
        wrong += any(effect.p_adjusted_ratio < 0.05 for effect in effects)
    return wrong / count


def floor_is_seen(count: int, rng: np.random.Generator) -> float:
    """The smallest difference that the noise floor of many A/A pairs promises is seen."""
    aa = RUN_DEVIATION * math.sqrt(2) * rng.standard_normal(100_000)
    promised = noise_floor(aa, pair_count=20).detectable_ratio
    ratios = RUN_DEVIATION * math.sqrt(2) * rng.standard_normal((count, 20)) + math.log1p(promised)
    return float(
        np.mean([compare(log_ratios, looks="fixed").verdict == "faster" for log_ratios in ratios])
    )


def capacity_held(count: int, rng: np.random.Generator, *, noise_ratio: float) -> float:
    """The highest load that keeps a latency target, searched on random servers."""
    target = LoadLimit("p99", 20.0)
    held = 0
    for _ in range(count):
        server = SloServer.any(int(rng.integers(1 << 30)), noise_ratio)
        load = capacity(searched(server, target), target).load
        assert load.low is not None
        is_below = load.high is None or server.capacity_tps <= load.high
        held += load.low <= server.capacity_tps and is_below
    return held / count


def _rounds(rng: np.random.Generator, count: int, rounds: int, cells: int) -> FloatArray:
    """Noise of runs, with a level of each round that all cells share."""
    level = 0.1 * rng.standard_normal((count, rounds, 1))
    return np.asarray(level + RUN_DEVIATION * rng.standard_normal((count, rounds, cells)))
