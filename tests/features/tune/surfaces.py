"""Simulated servers whose best settings are known, to compare the result of a tuning with."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from pgdyno.features.tune.question import Question
from pgdyno.features.tune.space import Dimension
from pgdyno.features.tune.trial import TrialResult, TrialStep
from pgdyno.features.tune.tuning import Tuning
from pgdyno.settings.rule import snapshot

# Any setting of whole numbers: a surface knows values only.
RULE = snapshot(15)["geqo_effort"]
LISTS = ("work_mem", "maintenance_work_mem", "wal_buffers")
RANGES = ("max_wal_size", "checkpoint_timeout", "random_page_cost", "bgwriter_delay")
RANGES += ("shared_buffers", "commit_delay")
RANGE = tuple(str(level) for level in range(24))
Disturbance = Literal["drift", "walk", "spells", "sine"]
Surface = Callable[[Mapping[str, str]], float]
"""Log tps by the value of each setting."""


@dataclass(frozen=True)
class Simulated:
    """A server to tune. `lists`: how many values each listed setting has, yours included.

    `range_count`: settings with a range. `noise_ratio`: of one run. `run_s`: what a run takes.
    `disturbance`: how the speed of the machine changes with time. `turn_s`: what a turn takes, 0 if
    each candidate needs a separate run; a load with turns takes `run_s` more than its turns.
    `together`: values that run as one candidate first.
    `apart`: settings that need a restart, so no turns; `slow`: settings that need long runs.
    """

    surface: Surface
    lists: Sequence[int] = ()
    range_count: int = 0
    rules: Mapping[str, str] | None = None
    noise_ratio: float = 0.05
    has_tails: bool = False
    budget_s: float = 720
    run_s: float = 8
    disturbance: Disturbance = "drift"
    turn_s: float = 0
    apart: frozenset[str] = frozenset()
    slow: frozenset[str] = frozenset()
    long_s: float = 33
    turn_noise: float = 1
    together: Mapping[str, str] = field(default_factory=dict)

    @property
    def space(self) -> list[Dimension]:
        """Return the settings: those with a list first."""
        listed = [
            Dimension(name, RULE, "choice", RANGE[:count], "safe")
            for name, count in zip(LISTS, self.lists, strict=False)
        ]
        ranges = RANGES[: self.range_count]
        return [*listed, *(Dimension(name, RULE, "linear", RANGE, "safe") for name in ranges)]

    @property
    def now(self) -> dict[str, str]:
        """Return the values of the server as it is."""
        return {dim.name: "0" if dim.scale == "choice" else "3" for dim in self.space}


@dataclass(frozen=True)
class Tuned:
    """One simulated tuning. `true_gain`: of the proposed settings, 0 without any."""

    tuning: Tuning
    true_gain: float
    proposed: dict[str, str]
    spent_s: float
    round_cost_s: float

    @property
    def claims(self) -> bool:
        """Return whether it proposes settings."""
        return bool(self.proposed)

    @property
    def covers(self) -> bool:
        """Return whether the interval of the gain has the true gain."""
        gain = self.tuning.gain()
        assert gain is not None
        return gain.low_ratio <= self.true_gain <= gain.high_ratio


def tuned(server: Simulated, seed: int) -> Tuned:
    """Carry one tuning out in simulated time; runs differ by a tenth in what they cost."""
    rng = np.random.default_rng(seed)
    at_once = frozenset(server.now if server.turn_s else ()) - server.apart - server.slow
    asked = Question(
        server.space,
        server.now,
        _ns(server.budget_s),
        seed,
        server.rules or {},
        {},
        together=server.together,
        at_once=at_once,
        slow=server.slow,
        restarting=server.apart,
        step_ns={
            "turn": _ns(server.turn_s or 2.5),
            "run": _ns(server.run_s),
            "long run": _ns(server.long_s),
        },
    )
    tuning, spent_s, costs = Tuning(asked), 0.0, {}
    machine, round_before, left = _machine(server, rng), 0, 0
    while (step := tuning.next()) is not None:
        usual_s = server.long_s if step.length == "long run" else server.run_s
        cost_s = usual_s * rng.uniform(0.9, 1.1)
        if step.in_turns:
            around_s = cost_s if round_before != step.round and not left else 0.0
            left = len(tuning.due()) - 1
            cost_s = server.turn_s + around_s
        round_before = step.round
        tuning.take(TrialResult(step, _goal(server, step, rng, machine(spent_s)), _ns(cost_s)))
        spent_s += cost_s
        costs[step.round] = costs.get(step.round, 0.0) + cost_s
    base = server.surface(server.now)
    proposed = dict(tuning.best.settings)
    gain = server.surface({**server.now, **proposed}) - base
    return Tuned(tuning, gain, proposed, spent_s, max(costs.values()))


def _goal(server: Simulated, step: TrialStep, rng: np.random.Generator, drift: float) -> float:
    noise = rng.standard_t(3) / math.sqrt(3) if server.has_tails else rng.normal()
    true = server.surface({**server.now, **step.candidate.settings})
    noise *= server.noise_ratio * (server.turn_noise if step.in_turns else 1)
    return true + noise + drift


def _machine(server: Simulated, rng: np.random.Generator) -> Callable[[float], float]:
    """Return the log speed of the machine by the time in seconds."""
    drift, phase = rng.uniform(-0.1, 0.1), rng.uniform(0, 2 * math.pi)
    period_s = server.run_s * rng.uniform(2, 12)
    times = np.arange(0, server.budget_s + 4 * server.run_s)
    walk = np.cumsum(rng.normal(0, server.noise_ratio / math.sqrt(4 * server.run_s), times.size))
    # A spell of 4 runs on average, a fifth of the time, in which all is slower.
    slow, state = np.zeros(times.size), False
    for second in range(times.size):
        state ^= bool(rng.random() < (0.25 if state else 0.0625) / server.run_s)
        slow[second] = -3 * server.noise_ratio * state

    def speed(spent_s: float) -> float:
        second = min(int(spent_s), times.size - 1)
        if server.disturbance == "walk":
            return float(walk[second])
        if server.disturbance == "spells":
            return float(slow[second])
        if server.disturbance == "sine":
            return server.noise_ratio * math.sin(2 * math.pi * spent_s / period_s + phase)
        return drift * spent_s / 3600

    return speed


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def flat(_point: Mapping[str, str]) -> float:
    """No setting matters."""
    return 0.0


def one_value(point: Mapping[str, str]) -> float:
    """The second value of the first list is a third faster."""
    return 0.3 * (point["work_mem"] == "2")


def two_ranges(point: Mapping[str, str]) -> float:
    """Two of the ranges matter, each by a step."""
    return 0.25 * (int(point["checkpoint_timeout"]) > 10) + 0.2 * (int(point["shared_buffers"]) > 8)


def either_range(point: Mapping[str, str]) -> float:
    """Either of two settings is enough."""
    return 0.3 * (int(point["checkpoint_timeout"]) > 10 or int(point["shared_buffers"]) > 8)


def only_together(point: Mapping[str, str]) -> float:
    """Two settings help together; each alone costs a little."""
    longer, larger = int(point["checkpoint_timeout"]) > 10, int(point["shared_buffers"]) > 8
    return 0.5 if longer and larger else -0.02 * (longer or larger)


def planted(gain: float, name: str = "random_page_cost") -> Surface:
    """Return a surface on which half of the range of one setting is better by this log ratio."""
    return lambda point: gain * (int(point[name]) > 8)
