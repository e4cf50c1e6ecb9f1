"""Which values of the searched settings a tuning tries: first, near a good one, far away. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pgdyno.features.tune.arms import Arm
from pgdyno.features.tune.question import Question
from pgdyno.features.tune.space import values_to_try, widest_gap

Value = tuple[str, str]
"""A setting and a value of it."""


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
