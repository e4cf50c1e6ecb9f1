"""Simulated servers whose best settings are known, to compare the result of a tuning with."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from pgdyno.features.tune.space import Dimension
from pgdyno.features.tune.trial import Candidate, Measured
from pgdyno.features.tune.tuning import Tuning
from pgdyno.spec.setting_rules import snapshot

NAMES = ("max_wal_size", "work_mem", "random_page_cost", "checkpoint_timeout", "shared_buffers")
NAMES += ("bgwriter_delay",)
# The rules change these, too, and none of them has an effect.
IDLE = ("wal_buffers", "default_statistics_target", "maintenance_work_mem")
IDLE += ("effective_io_concurrency", "checkpoint_completion_target")
LEVELS = 24
START = 3
NOW = dict.fromkeys(NAMES, str(START))
# A setting has an effect if the true goal without it is lower by this log ratio.
REAL = 0.005
NOISE, DRIFT_PER_HOUR = 0.05, 0.10
RUN_S = 15

Surface = Callable[[list[float]], float | None]


@dataclass(frozen=True)
class Tuned:
    """One simulated tuning. Gains are log ratios; None: nothing was proved."""

    reason: str
    true_gain: float
    possible_gain: float
    proved: tuple[float, float] | None
    promised: tuple[float, float] | None
    promised_mean: float
    winner_gain: float
    minutes: float
    search_minutes: float
    run_count: int
    kept: frozenset[str]
    without_effect: frozenset[str]
    matters: frozenset[str]
    is_attributed: bool

    @property
    def claims(self) -> bool:
        """Return whether the tuning claims a gain, so that it proposes settings."""
        return self.is_attributed and self.proved is not None and self.proved[0] > 0

    @property
    def reached(self) -> float:
        """Return the share of the possible gain that the proposed settings bring."""
        return self.true_gain / self.possible_gain if self.claims else 0.0

    @property
    def covers(self) -> bool:
        """Return whether the proved interval has the true gain."""
        assert self.proved is not None
        return self.proved[0] <= self.true_gain <= self.proved[1]

    @property
    def promise_covers(self) -> bool:
        """Return whether the interval of the search has the true gain of its winner."""
        return self.promised is not None and (
            self.promised[0] <= self.winner_gain <= self.promised[1]
        )


def surface(rng: np.random.Generator, *, is_flat: bool) -> tuple[Surface, tuple[int, int], float]:
    """Return log tps by position in 0..1, the two settings that matter, and the possible gain.

    Two of six matter, each by a step somewhere in its range, and together by more or less than
    their sum. High values of a third one fail to start, or cost half the throughput.
    """
    first, second = (int(place) for place in rng.choice(6, 2, replace=False))
    heights, places = rng.uniform(0.15, 0.4, 2), rng.uniform(0.3, 0.8, 2)
    together = rng.uniform(-0.05, 0.1)
    cliff = int(rng.choice([i for i in range(6) if i not in (first, second)]))
    fails = rng.random() < 0.5

    def step(x: list[float], setting: int, which: int) -> float:
        return 1 / (1 + math.exp(-(x[setting] - places[which]) / 0.08))

    def log_tps(x: list[float]) -> float | None:
        if is_flat:
            return 0.0
        if x[cliff] > 0.92 and fails:
            return None
        a, b = step(x, first, 0), step(x, second, 1)
        gain = heights[0] * a + heights[1] * b + together * a * b
        return gain - (0.7 if x[cliff] > 0.92 else 0.0)

    start = [START / (LEVELS - 1)] * 6
    best = [1.0 if i in (first, second) else x for i, x in enumerate(start)]
    possible = (log_tps(best) or 0.0) - (log_tps(start) or 0.0)
    return log_tps, (first, second), possible


def _space() -> list[Dimension]:
    # Any setting of whole numbers: the surface knows positions only.
    rule = snapshot(15)["geqo_effort"]
    values = tuple(str(level) for level in range(LEVELS))
    return [Dimension(name, rule, "linear", values, "safe") for name in NAMES]


def _true(log_tps: Surface, candidate: Candidate) -> float | None:
    point = {**NOW, **candidate.settings}
    return log_tps([int(point[name]) / (LEVELS - 1) for name in NAMES])


def _without_effect(proved: Candidate, true: Callable[[Candidate], float | None]) -> frozenset[str]:
    """Return the settings whose old value changes nothing."""
    gain = true(proved) or 0.0
    without = {name: true(proved.without(name)) for name in proved.settings}
    return frozenset(n for n, value in without.items() if value is not None and gain - value < REAL)


def tuned(
    seed: int,
    *,
    is_flat: bool = False,
    minutes: float = 60,
    levels: Sequence[float] = (),
    is_at_once: bool = False,
    lost_after_minutes: float = math.inf,
) -> Tuned:
    """Carry one tuning out in simulated time.

    Args: levels, the throughput of each of several equal servers, as shares; () for one server;
    is_at_once, these servers run at the same time; lost_after_minutes, when the last one
    is gone.
    """
    rng = np.random.default_rng(seed)
    log_tps, two, possible = surface(rng, is_flat=is_flat)
    rules = {name: str(rng.integers(START, 20)) for name in NAMES} | dict.fromkeys(IDLE, "9")
    tuning = Tuning(
        _space(),
        NOW,
        [Candidate("rules", rules)],
        budget_ns=int(minutes * 60e9),
        seed=seed,
        servers=range(1, len(levels) + 1) if levels else (0,),
        is_at_once=is_at_once,
    )
    # Each server drifts by itself, because the machines share nothing.
    drifts = rng.uniform(-DRIFT_PER_HOUR, DRIFT_PER_HOUR, max(1, len(levels)))
    clock_s = 0.0
    run_count = 0

    true = partial(_true, log_tps)
    search_s = 0.0
    while steps := tuning.wave():
        if clock_s / 60 > lost_after_minutes and not tuning.spread.lost:
            tuning.lose(len(levels))
            continue
        search_s = clock_s + RUN_S if tuning.stage.name == "search" else search_s
        for step in steps:
            value = true(step.candidate)
            server = max(0, step.server_number - 1)
            noise = rng.normal(0, NOISE) + drifts[server] * clock_s / 3600
            level = math.log(levels[server]) if levels else 0.0
            goal = None if value is None else value + noise + level
            # A wave takes as long as one run, and each of its runs has a share of that.
            share_ns = RUN_S * 10**9 // len(steps)
            tuning.take(Measured(step, goal, share_ns, run_count=len(steps)))
        run_count += len(steps)
        clock_s += RUN_S
    base = true(tuning.base) or 0.0
    proved, promised = tuning.proved(), tuning.promised()

    return Tuned(
        reason=tuning.reason,
        true_gain=(true(proved[0]) or 0.0) - base if proved else 0.0,
        possible_gain=possible,
        proved=proved[1].interval() if proved else None,
        promised=promised.interval() if len(promised.log_ratios) > 1 else None,
        promised_mean=promised.mean,
        winner_gain=(true(tuning.best) or 0.0) - base,
        minutes=clock_s / 60,
        search_minutes=search_s / 60,
        run_count=run_count,
        kept=frozenset(proved[0].settings) if proved else frozenset(),
        without_effect=_without_effect(proved[0], true) if proved else frozenset(),
        is_attributed=tuning.is_attributed,
        matters=frozenset(NAMES[place] for place in two),
    )
