"""Settings that may help only together: one trial of all, then each is left out in turn. Pure.

The trial has, of each setting, the value that did best alone and is not proved harmful. If all
together are better, each setting is left out once: what then becomes worse is credited. A setting
without a proved part does not stay, and what is left must be proved again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pgdyno.features.tune.arms import Arm
from pgdyno.features.tune.question import Question
from pgdyno.features.tune.space import Point
from pgdyno.features.tune.trial import TOGETHER, Candidate, candidate_of

# A setting takes part after this number of pairs of its values.
_PAIRS_ALONE = 2
# From this number of pairs on, a part is small if it is less than this part of the whole gain.
_PAIRS_OF_PART, _SMALL_RATIO = 3, 0.25


def members_of(asked: Question, best: Candidate, seen: Sequence[Arm]) -> Point | None:
    """Return the changes to try together on top of the best settings.

    None: a setting was not tried by itself often enough, or fewer than two are left.
    """
    changes = {}
    for dimension in asked.space:
        name = dimension.name
        own = [arm for arm in seen if arm.role == "alone" and arm.setting == name]
        if name in best.settings or not own:
            continue
        known = [arm for arm in own if not arm.failure and arm.decision != "worse"]
        if known and sum(len(arm.log_ratios) for arm in known) < _PAIRS_ALONE:
            return None
        if known:
            changes[name] = max(known, key=lambda arm: arm.mean_ratio).value
    return changes if len(changes) > 1 else None


def set_arm(asked: Question, best: Candidate, changes: Point, planned_looks: int) -> Arm:
    """Return the question whether these changes are better together; it may be a single one."""
    [first, *others] = sorted(changes.items())
    listed = ", ".join(f"{name}={value}" for name, value in (first, *others))
    return Arm(
        *((TOGETHER, listed) if others else first),
        candidate_of(asked.settings_of(best.settings, changes)),
        best,
        0.0,
        planned_looks,
        restarts=not asked.restarting.isdisjoint(changes),
        length=asked.length_of(changes),
        role="together",
        changes=changes,
    )


def parts_of(whole: Arm) -> list[Arm]:
    """Return one question for each setting of a set: is the set better with it than without?"""
    return [
        Arm(
            name,
            value,
            whole.candidate,
            candidate_of(_without(whole.candidate.settings, name)),
            0.0,
            whole.planned_looks,
            restarts=whole.restarts,
            length=whole.length,
            role="part",
        )
        for name, value in whole.changes.items()
    ]


def is_shown(whole: Arm, parts: Iterable[Arm]) -> bool:
    """Return whether the parts tell enough to go on.

    A part that is small after some pairs is not waited for: without it, the others are proved
    again.
    """
    return not any(
        arm.is_open
        and (
            len(arm.log_ratios) < _PAIRS_OF_PART or arm.mean_ratio > _SMALL_RATIO * whole.mean_ratio
        )
        for arm in parts
    )


def _without(settings: Point, name: str) -> Point:
    return {other: value for other, value in settings.items() if other != name}
