"""The promise of every estimator, one line for each case; run as a module, it prints a summary.

`python -m tests.statistics.cases 1.0` runs the full set, `0.05` a twentieth of it.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from tests.statistics import families as fam
from tests.statistics import last_look as last
from tests.statistics import simulations as sim

CLOSED = (0.93, 0.97)
BOOTSTRAP = (0.925, 0.975)
AT_LEAST_95 = (0.95, 1.0)
AT_LEAST_90 = (0.90, 1.0)
# A search ends where it knows enough, so its interval may hold more often than it says, not less.
SEARCHED = (0.925, 1.0)
AT_MOST_5 = (0.0, 0.05)
AT_MOST_8 = (0.0, 0.08)
FOUR_OF_FIVE = (0.78, 0.82)
CLOSED_COUNT = 10_000
BOOTSTRAP_COUNT = 1_000
LAST_COUNT = 4_000
# The peak reaches from 93.5 to 96.7 % over curves: 1,000 experiments are off by up to 1.5 %.
PEAK_COUNT = 3_000
# Bonferroni's level is a little above 95 %. Therefore 94.9 % of 5,000 do not contradict it.
FAMILY_COUNT = 5_000


@dataclass(frozen=True, slots=True)
class Case:
    """One simulation: how often the full set runs it, and the bounds of its fraction."""

    name: str
    count: int
    bounds: tuple[float, float]
    run: Callable[[int, np.random.Generator], float]

    def seen(self, count: int) -> float:
        """Return the fraction over `count` experiments; the seed is that of the name."""
        return self.run(count, np.random.default_rng([20261120, *self.name.encode()]))

    def bounds_for(self, count: int) -> tuple[float, float]:
        """Return the bounds with 3 standard errors of a fraction of `count` experiments."""
        low, high = (3 * math.sqrt(bound * (1 - bound) / count) for bound in self.bounds)
        return max(self.bounds[0] - low, 0.0), min(self.bounds[1] + high, 1.0)


def closed_cases() -> Iterator[Case]:
    """Intervals with a formula."""
    yield Case("mean of 3 runs", CLOSED_COUNT, CLOSED, sim.runs_fixed)
    yield Case("main effect, 5 rounds", CLOSED_COUNT, CLOSED, sim.factors_fixed)
    for phi in (0.0, 0.3, 0.6):
        run = partial(sim.pairs_fixed, phi=phi)
        yield Case(f"12 pairs, phi {phi}", CLOSED_COUNT, CLOSED, run)
    for phi, length in ((0.0, 100), (0.5, 100), (0.0, 600), (0.8, 600), (0.9, 600), (0.9, 3000)):
        run = partial(sim.throughput_within, phi=phi, length=length)
        yield Case(f"tps of {length // 10} s, phi {phi}", CLOSED_COUNT, CLOSED, run)


NOISES: dict[str, last.Noise] = {
    "normal noise": last.quiet,
    "drift": last.drifting,
    "heavy tails": last.heavy,
    "lasting noise": last.lasting,
    "random walk": last.walking,
    "slow spells": last.in_spells,
    **{f"period {period:g}": partial(last.periodic, period=period) for period in last.PERIODS},
}


def watched_cases() -> Iterator[Case]:
    """Comparisons with looks on the way and planned looks."""
    for name, noise in NOISES.items():
        for pairs in (5, 22, 110):
            wrong = partial(last.false_verdicts, noise=noise, pairs=pairs)
            count = _last_count(pairs)
            yield Case(f"false verdicts, {pairs} rounds, {name}", count, AT_MOST_5, wrong)
        for pairs in (6, 110):
            held = partial(last.covered, noise=noise, pairs=pairs)
            count = _last_count(pairs)
            yield Case(f"5 % held, {pairs} rounds, {name}", count, AT_LEAST_95, held)
    power = partial(last.seen, ratio=0.7, noise=last.noisy, pairs=6)
    yield Case("-30 % seen, noise of a pair 20 %, 6 rounds", CLOSED_COUNT, AT_LEAST_90, power)


def _last_count(pairs: int) -> int:
    """Return how many experiments; many short ones, because some rates are 4.7 % of at most 5 %."""
    return LAST_COUNT * 10 if pairs < 10 else LAST_COUNT


def bootstrap_cases() -> Iterator[Case]:
    """Intervals by resampling within a run."""
    for percentile, phi, seconds in ((50, 0.0, 60), (50, 0.5, 60), (99, 0.0, 60), (99, 0.5, 120)):
        run = partial(sim.latency_within, percentile=percentile, phi=phi, seconds=seconds)
        yield Case(f"p{percentile} of {seconds} s, phi {phi}", BOOTSTRAP_COUNT, BOOTSTRAP, run)
    for phi in (0.0, 0.8):
        part, apart = partial(sim.parts_within, phi=phi), partial(sim.parts_difference, phi=phi)
        yield Case(f"a wait event, phi {phi}", BOOTSTRAP_COUNT, BOOTSTRAP, part)
        yield Case(f"difference of a wait event, phi {phi}", BOOTSTRAP_COUNT, BOOTSTRAP, apart)
    for phi in (0.0, 0.3, 0.6):
        run = partial(sim.changes_false, phi=phi, length=120)
        yield Case(f"false change points in 120 s, phi {phi}", BOOTSTRAP_COUNT, AT_MOST_8, run)


def curve_cases() -> Iterator[Case]:
    """Answers of a sweep with 3 runs per level."""
    for curve in sim.CURVES:
        for noise in (0.01, 0.03):
            where = f"{curve}, noise {noise:.0%}"
            peak = partial(sim.peak_held, curve=curve, noise=noise)
            knee = partial(sim.knee_held, curve=curve, noise=noise)
            yield Case(f"peak: {where}", PEAK_COUNT, BOOTSTRAP, peak)
            yield Case(f"knee: {where}", BOOTSTRAP_COUNT, AT_LEAST_95, knee)
    for noise, what in (((0.02, 0.02), "tps"), ((0.1, 0.1), "p95"), ((0.05, 0.2), "p95")):
        run = partial(sim.levels_held, noise=noise, what=what)
        label = f"levels: {what}, noise {noise[0]:.0%} to {noise[1]:.0%}"
        yield Case(label, BOOTSTRAP_COUNT, BOOTSTRAP, run)
    for curve in ("one sharp peak", "two near the top"):
        run = partial(sim.loss_held, curve=curve, noise=0.03)
        yield Case(f"loss past the peak: {curve}", BOOTSTRAP_COUNT, BOOTSTRAP, run)
    for name in ("gamma", "alpha", "beta"):
        run = partial(sim.usl_coefficient, name=name)
        yield Case(f"USL {name}", BOOTSTRAP_COUNT, BOOTSTRAP, run)


def family_cases() -> Iterator[Case]:
    """Several contrasts at once, A against A, the search for a load."""
    together = FAMILY_COUNT, AT_LEAST_95
    yield Case("4 passes, 8 rounds: all intervals hold together", *together, fam.passes_together)
    yield Case("4 variants, 12 pairs: all intervals hold", *together, fam.variants_together)
    yield Case(
        "2 x 2 x 2 without effects: any called sure", FAMILY_COUNT, AT_MOST_5, fam.any_false_effect
    )
    yield Case("noise floor: its difference is seen", CLOSED_COUNT, FOUR_OF_FIVE, fam.floor_is_seen)
    for noise in (0.02, 0.1, 0.3):
        search = partial(fam.capacity_held, noise_ratio=noise)
        yield Case(f"capacity, p99 noise {noise:.0%}", BOOTSTRAP_COUNT, SEARCHED, search)


CASES = (
    *closed_cases(),
    *watched_cases(),
    *bootstrap_cases(),
    *curve_cases(),
    *family_cases(),
)


def summarise(scale: float) -> int:
    """Print one line for each case; return how many are outside their bounds."""
    outside = 0
    for case in CASES:
        count = max(int(case.count * scale), 20)
        began = time.perf_counter()
        seen = case.seen(count)
        low, high = case.bounds
        outside += not low <= seen <= high
        print(
            f"{'ok ' if low <= seen <= high else 'OUT'} {seen:7.4f} in [{low:.3f}, {high:.3f}]"
            f" {count:6d} {time.perf_counter() - began:6.1f} s  {case.name}",
            flush=True,
        )
    return outside


if __name__ == "__main__":
    sys.exit(min(summarise(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0), 1))
