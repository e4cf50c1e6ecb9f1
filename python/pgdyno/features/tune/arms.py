"""The values that a tuning measures, each with its pairs, its interval and what is decided. Pure.

All intervals of a tuning hold together: each arm has a share of the error of 5 %. A small part of
the share is for looks after a few pairs, so that a clear effect ends early. The larger part is for
the planned looks, whose times the budget sets.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from pgdyno.analysis.estimate import t_quantile
from pgdyno.features.tune.trial import Candidate, Decision, Length, PairEffect, Role, Trial

MARGIN_RATIO = 0.05
"""A value that is better by less than this is "no better"."""
_ERROR_RATIO = 0.05
# The part of an arm's error for looks after these numbers of pairs; the rest is for planned looks.
_EARLY_SHARE = 0.2
_EARLY_PAIRS = frozenset((2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192))
_EARLY_LOOKS = 9
# A single slow run must not decide, so an interval needs two pairs, and this number of degrees of
# freedom.
_PAIRS_MIN = 2
_FREEDOM_MIN = 2.0
# From this number of degrees of freedom on, repeated pairs alone tell the scatter.
_FREEDOM_ENOUGH = 6.0
# A value is tried only if there is time for this number of pairs: fewer tell hardly anything. For
# more values than a round has, there must be time for a pair more of each.
PAIRS_PLANNED = 3
# Candidates of a round.
ABREAST = 3
# They share the run of the best settings, so the pairs of a round are correlated.
_SHARED_RATIO = 2 / 3
_MISSING_PAIRS_MAX = 1000

Look = Literal["early", "planned"]
Kind = tuple[Length, bool]
"""How long the runs of a round are, and whether they restart the server."""


@dataclass
class Arm:
    """One value of one setting on top of the best settings, and its pairs against these.

    `error_ratio`: its share of the error. `planned_looks`: how many planned looks there are.
    `hint_ratio`: the mean that it had against earlier settings, None if it was not measured before.
    `restarts`: its setting needs a restart of the server. `length`: a turn is enough for a
    setting that acts at once. `role`: one value of a setting, or the values of all formulas.
    """

    setting: str
    value: str
    candidate: Candidate
    against: Candidate
    error_ratio: float
    planned_looks: int
    hint_ratio: float | None = None
    restarts: bool = False
    length: Length = "run"
    looked_count: int = 0
    log_ratios: list[float] = field(default_factory=list)
    missing_count: int = 0
    failure: str = ""
    decision: Decision = "not tried"
    decided_by: PairEffect | None = None
    role: Role = "alone"

    @property
    def kind(self) -> Kind:
        """Return what the arms of a round have in common."""
        return self.length, self.restarts

    @property
    def in_turns(self) -> bool:
        """Return whether it takes turns with others within a load."""
        return self.length == "turn"

    @property
    def is_open(self) -> bool:
        """Return whether more pairs may decide about it."""
        return not self.failure and self.decision in ("not tried", "not known")

    @property
    def mean_ratio(self) -> float:
        """Return the mean of its log ratios, 0 without a pair."""
        return float(np.mean(self.log_ratios)) if self.log_ratios else 0.0

    def effect(self, noise: Noise, look: Look = "planned") -> PairEffect:
        """Return its effect; the interval holds at all looks of this kind together."""
        count = len(self.log_ratios)
        return PairEffect(self.mean_ratio, self._half(noise, count, look), count)

    def decide(self, noise: Noise, look: Look) -> None:
        """Decide by its interval at this look, or leave it open."""
        if not self.is_open or not self.log_ratios:
            return
        if look == "early":
            looks = sum(len(self.log_ratios) >= pairs for pairs in _EARLY_PAIRS)
            if looks == self.looked_count:
                return
            self.looked_count = looks
        effect = self.effect(noise, look)
        decision: Decision = "not known"
        if effect.low_ratio > 0:
            decision = "better"
        elif effect.high_ratio < 0:
            decision = "worse"
        elif effect.high_ratio <= math.log1p(MARGIN_RATIO):
            decision = "no better"
        self.decision = decision
        self.decided_by = None if decision == "not known" else effect

    def pairs_missing(self, noise: Noise) -> int | None:
        """Return how many more pairs would decide; 0 if it is decided, None for too many."""
        if not self.is_open:
            return 0
        if not (self.error_ratio and noise.is_known_for(self)):
            return max(1, PAIRS_PLANNED - len(self.log_ratios))
        have, mean = len(self.log_ratios), self.mean_ratio
        enough = max(mean, math.log1p(MARGIN_RATIO) - mean)

        def is_decided(count: int) -> bool:
            return self._half(noise, count, "planned") < enough

        if not is_decided(have + _MISSING_PAIRS_MAX):
            return None
        low, high = have + 1, have + _MISSING_PAIRS_MAX
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if is_decided(middle) else (middle + 1, high)
        return low - have

    def trial(self, noise: Noise) -> Trial:
        """Return what is known of it."""
        return Trial(
            self.setting,
            self.value,
            self.candidate,
            self.against,
            self.decided_by or self.effect(noise),
            "failed" if self.failure else self.decision,
            self.failure,
            self.role,
        )

    def _half(self, noise: Noise, count: int, look: Look) -> float:
        if count < _PAIRS_MIN or not noise.is_known_for(self):
            return math.inf
        if look == "early":
            error = _EARLY_SHARE * self.error_ratio / _EARLY_LOOKS
        else:
            error = (1 - _EARLY_SHARE) * self.error_ratio / self.planned_looks
        own = float(np.std(self.log_ratios, ddof=1)) if len(self.log_ratios) > 1 else 0.0
        scatter = noise.of_arm(self)
        deviation = max(scatter.deviation_ratio, own)
        # Further pairs than those measured would also tell more about the scatter.
        freedom = scatter.freedom_count + _SHARED_RATIO * (count - len(self.log_ratios))
        return t_quantile(1 - error / 2, freedom) * deviation / math.sqrt(count)


@dataclass(frozen=True, slots=True)
class PairScatter:
    """A standard deviation of a pair, and how well it is known."""

    deviation_ratio: float
    freedom_count: float

    @property
    def is_known(self) -> bool:
        """Return whether enough pairs were measured."""
        return self.freedom_count >= _FREEDOM_MIN


@dataclass(frozen=True, slots=True)
class Noise:
    """The scatter of a pair on this machine, known in two ways.

    `repeated`: from values with several pairs, around the mean of each. `of_others`: for each
    setting, from all pairs of the other settings, around zero. The second is known after one
    round. It is too large if other settings have an effect, and never too small. The pairs of all
    formulas together are not among these: they are expected to have an effect.
    """

    repeated: PairScatter
    of_others: Mapping[str, PairScatter]

    @property
    def deviation_ratio(self) -> float:
        """Return the scatter of repeated pairs; before the first of these, the least of others."""
        if self.repeated.freedom_count:
            return self.repeated.deviation_ratio
        known = [scatter.deviation_ratio for scatter in self.of_others.values()]
        return min(known, default=0.0)

    @property
    def is_known(self) -> bool:
        """Return whether enough pairs were repeated."""
        return self.repeated.is_known

    def of_arm(self, arm: Arm) -> PairScatter:
        """Return the scatter for the interval of this arm, known or not yet.

        The number of pairs chooses, never what they showed: the narrower of two is too narrow.
        """
        others = self.of_others.get(arm.setting)
        is_enough = others is None or self.repeated.freedom_count >= _FREEDOM_ENOUGH
        return self.repeated if is_enough or others is None else others

    def is_known_for(self, arm: Arm) -> bool:
        """Return whether this arm can have an interval."""
        return self.of_arm(arm).is_known

    @classmethod
    def of(cls, arms: Iterable[Arm]) -> Noise:
        """Return the noise that the log ratios of these arms show; all are of one length."""
        listed = list(arms)
        several = [np.array(arm.log_ratios) for arm in listed if len(arm.log_ratios) > 1]
        spread = sum(float(np.sum((ratios - ratios.mean()) ** 2)) for ratios in several)
        free = sum(ratios.size - 1 for ratios in several)
        share = 1.0 if len(several) < 2 else _SHARED_RATIO
        repeated = PairScatter(math.sqrt(spread / free) if free else 0.0, share * free)
        listed = [arm for arm in listed if arm.role != "set"]
        settings = dict.fromkeys(arm.setting for arm in listed)
        if len(settings) < 2:
            return cls(repeated, {})
        others = {setting: _of_others(listed, setting) for setting in settings}
        return cls(repeated, others)


def _of_others(arms: Iterable[Arm], setting: str) -> PairScatter:
    """Return the root mean square of all log ratios of the other settings."""
    ratios = [ratio for arm in arms if arm.setting != setting for ratio in arm.log_ratios]
    spread = sum(ratio * ratio for ratio in ratios)
    deviation = math.sqrt(spread / len(ratios)) if ratios else 0.0
    return PairScatter(deviation, _SHARED_RATIO * len(ratios))


def error_of_generation(number: int, *, is_only: bool) -> float:
    """Return the error that the arms against the same best settings share.

    Each time better settings are found, the other values are new questions. Their error becomes
    smaller each time, and the sum over all generations is 5 %. Args: number, from 0; is_only,
    whether there is one list of values, which are all measured against yours.
    """
    first = 0.8 if is_only else 0.6
    return _ERROR_RATIO * first * (1 - first) ** number


def share_error(arms: Sequence[Arm], error_ratio: float) -> None:
    """Give the r-th setting a part of the error like 1 / r, shared equally by its values.

    The arms are in the order of the expected gain, so the promising settings are decided sooner.
    """
    settings = list(dict.fromkeys(arm.setting for arm in arms))
    parts = {setting: 1 / rank for rank, setting in enumerate(settings, start=1)}
    for arm in arms:
        values = sum(other.setting == arm.setting for other in arms)
        arm.error_ratio = error_ratio * parts[arm.setting] / sum(parts.values()) / values
