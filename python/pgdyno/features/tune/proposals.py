"""Which values a tuning tries: all formulas at once, first, near a good one, far away. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pgdyno.features.tune.arms import Arm
from pgdyno.features.tune.question import Question
from pgdyno.features.tune.space import values_to_try, widest_gap
from pgdyno.features.tune.trial import SET, Candidate, candidate_of

Value = tuple[str, str]
"""A setting and a value of it."""


def set_arm(asked: Question, base: Candidate, planned_looks: int) -> Arm:
    """Return the question whether all values of the formulas are better than your settings."""
    changes = asked.settings_of({}, asked.together)
    return Arm(
        SET,
        f"{len(changes)} settings",
        candidate_of(changes, SET),
        base,
        0.0,
        planned_looks,
        restarts=not asked.restarting.isdisjoint(changes),
        length=asked.length_of(changes),
        role="set",
    )


def first_values(asked: Question) -> Iterator[Value]:
    """Yield the first value of each setting, then the second of each."""
    listed = {}
    for dimension in asked.space:
        name = dimension.name
        hints = [*filter(None, [asked.rules.get(name)]), *asked.hints.get(name, ())]
        listed[name] = values_to_try(dimension, asked.now[name], (), hints)
    return _by_turns(listed)


def near_values(asked: Question, adopted: Arm, seen: Sequence[Arm]) -> Iterator[Value]:
    """Yield values of a range near the one that was adopted."""
    listed = {}
    for dimension in asked.space:
        name = dimension.name
        if name == adopted.setting and dimension.scale != "choice":
            tried = [arm.value for arm in seen if arm.setting == name]
            near = [asked.now[name], *(value for value in tried if value != adopted.value)]
            listed[name] = values_to_try(dimension, adopted.value, near, ())
    return _by_turns(listed)


def further_values(asked: Question, seen: Sequence[Arm]) -> Iterator[Value]:
    """Yield a value of each range in the widest gap that no value was tried in."""
    for dimension in asked.space:
        name = dimension.name
        tried = [arm.value for arm in seen if arm.setting == name]
        value = widest_gap(dimension, [asked.now[name], *tried])
        if value is not None:
            yield name, value


def _by_turns(listed: Mapping[str, Sequence[str]]) -> Iterator[Value]:
    for place in range(max(map(len, listed.values()), default=0)):
        for name, values in listed.items():
            if place < len(values):
                yield name, values[place]
