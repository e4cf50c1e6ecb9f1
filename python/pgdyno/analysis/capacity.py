"""The highest load that meets a latency target, from runs that met it or did not."""

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
# When the rate grows, the chance of meeting the target falls from nearly 1 to nearly 0. These are
# possible widths of the fall, in ln(rate). The width for a server is not known, so the result is an
# average over all of them.
_SPREADS = np.geomspace(0.006, 0.15, 8)
# The probability of a run with the wrong result, such as after a short stop of the machine.
_LAPSE = 0.04


@dataclass(frozen=True, slots=True)
class LoadTrial:
    """One run: the offered load in the unit of the target, and the result.

    `latency_ms`: the figure that the target limits.
    """

    offered_count: float
    achieved_ratio: float
    latency_ms: float


@dataclass(frozen=True, slots=True)
class LoadLimit:
    """What a trial must meet: a limit of the latency, and the share of the offered load.

    `unit` of the load: "tps" in an open loop. In a closed loop it is the word for clients,
    such as "clients", and the whole offered load is always done.
    """

    name: str
    limit_ms: float
    unit: str = "tps"

    def is_met(self, trial: LoadTrial) -> bool:
        """Return whether a trial met the limit and did the offered load."""
        return trial.achieved_ratio >= HELD_RATIO and trial.latency_ms <= self.limit_ms

    @property
    def is_closed(self) -> bool:
        """Return whether the load is a number of clients, in a closed loop."""
        return self.unit != "tps"

    @property
    def rule(self) -> str:
        """Return the target in words, for a reader."""
        if self.is_closed:
            return f"{self.name} <= {self.limit_ms:g} ms (closed loop)"
        return (
            f"{self.name} <= {self.limit_ms:g} ms, and at least {HELD_RATIO * 100:g} % of the "
            "offered transactions completed (open loop)"
        )


@dataclass(frozen=True, slots=True)
class Capacity:
    """The load at which half of the runs meet a target, in the target's unit.

    `end`: "found"; "above": every trial met the target, and the value is the highest load tried;
    "below": no trial met it, and the value is the lowest load tried. `failed_by`: why trials failed
    the target, in words. `confirmed_count`: the highest load that met the target twice and never
    failed, None if there is no such load.
    """

    load: Estimate
    end: Literal["found", "above", "below"]
    rule: str
    failed_by: str
    confirmed_count: float | None
    trials: tuple[LoadTrial, ...]


def capacity(trials: Sequence[LoadTrial], target: LoadLimit) -> Capacity:
    """Return the capacity that the trials show, with its 95 % interval.

    Source: Bayesian psychometric function (Watson and Pelli 1983; Kontsevich and Tyler 1999). The
    chance of meeting the target is a logistic curve of ln(load) with a few percent of lapses. Its
    place and spread are unknown, with a flat prior. The answer is the median of the place.
    Limits: at this load half of the runs of the measured length meet the target. The interval holds
    if `next_rate` chose the loads of the trials.
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
    if target.is_closed:  # A client cannot be divided.
        low, middle, high = math.floor(low), math.floor(middle), math.ceil(high)
    estimate = Estimate(middle, low, high, len(trials), target.unit, "between_runs")
    return Capacity(estimate, "found", target.rule, reasons, confirmed, tuple(trials))


def quantiles(
    rates_tps: Sequence[float], met: Sequence[bool], probabilities: Sequence[float]
) -> tuple[float, ...]:
    """Return quantiles of the capacity's distribution, given which loads met the target.

    Args: at least one load that met the target and one that did not.
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


def _reasons(trials: Sequence[LoadTrial], target: LoadLimit) -> str:
    failed = [trial for trial in trials if not target.is_met(trial)]
    slow = any(trial.latency_ms > target.limit_ms for trial in failed)
    short = any(trial.achieved_ratio < HELD_RATIO for trial in failed)
    words = [target.name] * slow + ["offered load that was not achieved"] * short
    return " and ".join(words)


def _confirmed(trials: Sequence[LoadTrial], met: Sequence[bool]) -> float | None:
    failed_at = [
        trial.offered_count for trial, is_met in zip(trials, met, strict=True) if not is_met
    ]
    least = min(failed_at, default=math.inf)
    held = sorted(
        trial.offered_count
        for trial, is_met in zip(trials, met, strict=True)
        if is_met and trial.offered_count < least
    )
    # If a higher load meets the target, a lower load does, too. So two trials show that the second
    # highest load meets it.
    return held[-2] if len(held) > 1 else None
