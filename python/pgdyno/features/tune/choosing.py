"""Which of the open candidates a round measures: those that may still be the best. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pgdyno.features.tune.arms import Arm, Noise
from pgdyno.features.tune.question import Question
from pgdyno.features.tune.trial import Length

# The candidate with the highest mean plus this number of standard errors is measured next.
_OPTIMISM = 1.5
# The standard error of a pair while no scatter is known, and a usual effect. They only order the
# candidates.
_SCATTER = 0.3
# A value this number of standard deviations above zero is measured again before untried ones.
_OUTSTANDING = 4.0
# A value this number of standard errors above zero takes part in every second round.
_LIKELY = 2.0
# From this number of pairs on, a round has one value of a range: the best.
_PAIRS_OF_BEST = 2


def ranked(open_arms: Sequence[Arm], noises: Mapping[Length, Noise]) -> list[Arm]:
    """Return the arms, the most promising first. Args: noises, by length.

    A mean counts less if its length of run scatters much, and the optimism is that of the length
    that scatters least. So noise makes no arm promising.
    """
    known = [noise.deviation_ratio for noise in noises.values() if noise.is_known]

    def promise(arm: Arm) -> float:
        have, noise = len(arm.log_ratios) + arm.missing_count, noises[arm.length]
        scatter = noise.deviation_ratio if noise.is_known else max(known, default=_SCATTER)
        if have:
            reliable = have / (have + (scatter / _SCATTER) ** 2)
            return arm.mean_ratio * reliable + _OPTIMISM * min(known, default=scatter) / math.sqrt(
                have
            )
        return math.inf if arm.hint_ratio is None else arm.hint_ratio + _OPTIMISM * scatter

    return sorted(open_arms, key=promise, reverse=True)


def chosen(
    alike: list[Arm], count: int, asked: Question, noises: Mapping[Length, Noise]
) -> list[Arm]:
    """Return the candidates of a round from those of a kind, the most promising first."""
    alike = _without_second(alike, asked, noises)
    # The best so far has a pair in each round, so that a large gain is decided soon.
    ahead = [arm for arm in alike if arm.mean_ratio > 0]
    leader = max(ahead, key=lambda arm: arm.mean_ratio, default=None)
    is_listed_next = any(not arm.log_ratios and asked.is_list(arm.setting) for arm in alike[:count])
    if leader is None or leader in alike[:count] or count < 2:
        return alike[:count]
    if is_listed_next and not stands_out(leader, noises):
        return alike[:count]
    return [*alike[: count - 1], leader]


def likely(open_arms: Sequence[Arm], noises: Mapping[Length, Noise]) -> Arm | None:
    """Return the best of the arms that are probably better; None if no arm is."""

    def is_likely(arm: Arm) -> bool:
        scatter, count = noises[arm.length].of_arm(arm), len(arm.log_ratios)
        error_ratio = scatter.deviation_ratio / math.sqrt(max(count, 1))
        return count > 0 and scatter.is_known and arm.mean_ratio > _LIKELY * error_ratio

    return max(filter(is_likely, open_arms), key=lambda arm: arm.mean_ratio, default=None)


def stands_out(arm: Arm, noises: Mapping[Length, Noise]) -> bool:
    """Return whether a second pair will probably decide about this arm."""
    scatter = noises[arm.length].of_arm(arm)
    return scatter.is_known and arm.mean_ratio > _OUTSTANDING * scatter.deviation_ratio


def _without_second(
    alike: Sequence[Arm], asked: Question, noises: Mapping[Length, Noise]
) -> list[Arm]:
    """Leave out the values of a range that are behind another, promising value of this range."""
    best: dict[str, Arm] = {}
    for arm in sorted(alike, key=lambda arm: arm.mean_ratio):
        count = len(arm.log_ratios)
        if count >= _PAIRS_OF_BEST and not asked.is_list(arm.setting):
            error_ratio = noises[arm.length].deviation_ratio / math.sqrt(count)
            if arm.mean_ratio > _OPTIMISM * error_ratio > 0:
                best[arm.setting] = arm
    return [
        arm
        for arm in alike
        if len(arm.log_ratios) < _PAIRS_OF_BEST or best.get(arm.setting, arm) is arm
    ]
