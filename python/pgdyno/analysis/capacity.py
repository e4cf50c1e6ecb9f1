"""The load that can be held under a latency target: from runs that met it or did not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pgdyno.analysis.arrays import FloatArray
from pgdyno.analysis.estimate import Estimate
from pgdyno.errors import AnalysisError

HELD_RATIO = 0.99
_GRID_POINTS = 600
# How far apart "nearly always" and "nearly never" lie, as the scale of ln(rate): the truth of a
# server is somewhere in it, and all of it is averaged over.
_SPREADS = np.geomspace(0.006, 0.15, 8)
# A run that says the opposite of what its load would give: a machine that stopped for a moment.
_LAPSE = 0.04


@dataclass(frozen=True, slots=True)
class Trial:
    """One run: what was offered, in the unit of the target, and what came of it.

    `latency_ms` is the target's.
    """

    offered_count: float
    achieved_ratio: float
    latency_ms: float


@dataclass(frozen=True, slots=True)
class Target:
    """What a trial must meet: the latency, and that what was offered was done.

    `unit` of the load: transactions a second are offered in an open loop, terminals in a closed
    one, where they wait for each other and everything offered is done.
    """

    name: str
    limit_ms: float
    unit: Literal["tps", "terminals"] = "tps"

    def is_met(self, trial: Trial) -> bool:
        """Return whether a trial met both."""
        return trial.achieved_ratio >= HELD_RATIO and trial.latency_ms <= self.limit_ms

    @property
    def rule(self) -> str:
        """Return the rule in words."""
        if self.unit == "terminals":
            return f"{self.name} <= {self.limit_ms:g} ms (closed loop)"
        return (
            f"{self.name} <= {self.limit_ms:g} ms, and at least {HELD_RATIO * 100:g} % of the "
            "offered transactions completed (open loop)"
        )


@dataclass(frozen=True, slots=True)
class Capacity:
    """The highest load that meets a target as often as not, and what it was judged by.

    Loads are in the target's unit: transactions a second, or terminals.

    `end`: "found"; "above": every trial met it, the value is the highest load tried; "below": none
    did, the value is the lowest. `failed_by`: what trials that did not meet it failed by.
    `confirmed_count`: the highest load that met it twice and never failed, None if none did.
    """

    load: Estimate
    end: Literal["found", "above", "below"]
    rule: str
    failed_by: str
    confirmed_count: float | None
    trials: tuple[Trial, ...]


def capacity(trials: Sequence[Trial], target: Target) -> Capacity:
    """Return the capacity that the trials show, with its 95 % interval.

    Source: the chance of meeting the target is a logistic curve of ln(load) with unknown place and
    spread and a few percent of lapses, a flat prior on both; median and quantiles of the place
    (Bayesian psychometric function, Watson and Pelli 1983; Kontsevich and Tyler 1999).
    Limits: the place is where half of such runs meet the target, for runs of the length that was
    measured. Holds over where trials were placed by `next_rate`.
    """
    if not trials:
        raise AnalysisError("no load was tried for the target")
    met = [target.is_met(trial) for trial in trials]
    rates = [trial.offered_count for trial in trials]
    reasons = _reasons(trials, target)
    confirmed = _confirmed(trials, met)
    if all(met) or not any(met):
        edge = max(rates) if all(met) else min(rates)
        low, high = (edge, None) if all(met) else (0.0, edge)
        value = Estimate(
            edge, low, high, len(trials), target.unit, "between_runs", censored=all(met)
        )
        end: Literal["above", "below"] = "above" if all(met) else "below"
        return Capacity(value, end, target.rule, reasons, confirmed, tuple(trials))
    low, middle, high = quantiles(rates, met, (0.025, 0.5, 0.975))
    if target.unit == "terminals":  # There are no halves.
        low, middle, high = math.floor(low), math.floor(middle), math.ceil(high)
    estimate = Estimate(middle, low, high, len(trials), target.unit, "between_runs")
    return Capacity(estimate, "found", target.rule, reasons, confirmed, tuple(trials))


def quantiles(
    rates_tps: Sequence[float], met: Sequence[bool], probabilities: Sequence[float]
) -> tuple[float, ...]:
    """Return quantiles of the capacity's distribution, given which loads met the target.

    Args: at least one load that met it and one that did not.
    """
    grid, weight = _posterior(np.log(np.asarray(rates_tps)), np.asarray(met))
    total = np.cumsum(weight)
    return tuple(float(np.exp(np.interp(p, total / total[-1], grid))) for p in probabilities)


def _posterior(loads: FloatArray, met: FloatArray) -> tuple[FloatArray, FloatArray]:
    margin = math.log(1.5)
    grid = np.linspace(loads.min() - margin, loads.max() + margin, _GRID_POINTS)
    distance = grid[:, None, None] - loads[None, None, :]
    chance = 1 / (1 + np.exp(-np.clip(distance / _SPREADS[None, :, None], -60, 60)))
    chance = _LAPSE / 2 + (1 - _LAPSE) * chance
    likelihood = np.where(met[None, None, :], chance, 1 - chance).prod(axis=2)
    return grid, np.asarray(likelihood.sum(axis=1), dtype=np.float64)


def _reasons(trials: Sequence[Trial], target: Target) -> str:
    failed = [trial for trial in trials if not target.is_met(trial)]
    slow = any(trial.latency_ms > target.limit_ms for trial in failed)
    short = any(trial.achieved_ratio < HELD_RATIO for trial in failed)
    words = [target.name] * slow + ["offered load that was not achieved"] * short
    return " and ".join(words)


def _confirmed(trials: Sequence[Trial], met: Sequence[bool]) -> float | None:
    failed_at = [
        trial.offered_count for trial, is_met in zip(trials, met, strict=True) if not is_met
    ]
    least = min(failed_at, default=math.inf)
    held = sorted(
        trial.offered_count
        for trial, is_met in zip(trials, met, strict=True)
        if is_met and trial.offered_count < least
    )
    # What was held at a higher load is held at a lower one too: the second highest was met twice.
    return held[-2] if len(held) > 1 else None
