"""The settings that are searched, their ranges, and the sampler that proposes the next values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import ValidationError

from pgdyno.errors import RefusedError, SpecError
from pgdyno.features.tune.catalogue import RISKS, Entry, Risk, Scale, catalogue, needs_of, rule_of
from pgdyno.features.tune.formula import FactMissing, Value
from pgdyno.features.tune.machine import Machine
from pgdyno.features.tune.storage import STORAGE, rule_of_choice, variant_of
from pgdyno.features.tune.values import amount, text_of
from pgdyno.spec.setting_rules import SettingRule, object_to, unit_amount

SETTINGS_MAX = 6
# The classes of risk that are allowed by default.
DEFAULT_RISKS: tuple[Risk, ...] = ("safe", "memory", "planner")
# A range has at most this number of values, because runs cannot tell smaller differences.
_STEPS = 24
_DRAWS_MAX = 50
# The first candidate of each setting goes this far towards the farther end of its range.
_FIRST_STEP = 0.7
# Later candidates change one setting of the best so far, or two with this chance.
_TWO = 0.2
# A setting that the best so far changes has this number of candidates for one of another setting.
_PAYING = 4.0

Point = Mapping[str, str]
"""Setting -> value as postgresql.conf has it."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """One setting of the search: its values, smallest first, or its choices."""

    name: str
    rule: SettingRule
    scale: Scale
    values: tuple[str, ...]
    risk: Risk

    def position(self, text: str) -> int:
        """Return which of the values is nearest to a text; 0 for a choice that is not there."""
        if text in self.values:
            return self.values.index(text)
        wanted = amount(self.rule, text)
        if wanted is None or self.scale == "choice":
            return 0
        gaps = [abs((amount(self.rule, value) or 0.0) - wanted) for value in self.values]
        return gaps.index(min(gaps))


def dimensions(
    wanted: Sequence[str], machine: Machine, now: Point, risks: Iterable[Risk] = DEFAULT_RISKS
) -> tuple[Dimension, ...]:
    """Return the dimensions of settings named as "work_mem" or "work_mem=1MB..1GB".

    Args: now, the present values, which formulas of ranges may use.
    Raises: SpecError for an unknown setting or a range outside the server's limits; RefusedError
    for a class of settings that is not allowed.
    """
    if len(wanted) > SETTINGS_MAX:
        raise SpecError(
            f"{len(wanted)} settings shall be searched, at most {SETTINGS_MAX} can be.",
            hint="name those that matter most with --setting",
        )
    names = [text.partition("=")[0].strip().lower() for text in wanted]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SpecError(
            f"--setting {twice} is named twice.", hint="give it once, with one range or one list"
        )
    return tuple(_dimension(text, machine, now, frozenset(risks)) for text in wanted)


def _dimension(text: str, machine: Machine, now: Point, risks: frozenset[Risk]) -> Dimension:
    name, equals, span = text.partition("=")
    name = name.strip().lower()
    if equals and not span.strip():
        raise SpecError(
            f"--setting {text} names no values to search.",
            hint=f"--setting {name}=LOW..HIGH, or {name}=A,B,C; --setting {name} alone takes the"
            " range of the catalogue",
        )
    if name in STORAGE:
        return _storage(text, name, span, now, risks)
    entry, rule = catalogue().get(name), rule_of(name, machine.major)
    if rule is None:
        raise SpecError(
            f"--setting {text}: PostgreSQL {machine.major} has no setting of that name.",
            hint="see pgdyno settings --all",
        )
    if entry is None:
        raise SpecError(
            f"--setting {text}: {name} is not in the catalogue, so its risk is not known.",
            hint="settings of the catalogue are in docs/settings.md",
        )
    if needs_of(rule) == "new cluster":
        raise SpecError(
            f"--setting {text}: {name} is decided when a cluster is made.",
            hint="compare clusters: pgdyno compare --variant",
        )
    if entry.risk not in risks:
        raise RefusedError(
            f"--setting {text}: {name} is of the class {entry.risk}, which is not allowed.",
            hint=f"add --class {entry.risk}; {entry.price or 'read its price first'}",
        )
    scale, values = _values(entry, rule, span, machine, now)
    return Dimension(name, rule, scale, values, entry.risk)


def _storage(text: str, name: str, span: str, now: Point, risks: frozenset[Risk]) -> Dimension:
    """Return a choice of tables or cluster, with the present value first."""
    choice, present = STORAGE[name], now.get(name, "")
    named = tuple(value.strip() for value in span.split(",") if value.strip())
    values = tuple(dict.fromkeys((present, *(named or choice.values))))
    if len(values) < 2 or ".." in span:
        raise SpecError(
            f"--setting {text}: at least two values are needed, got {', '.join(values) or 'none'}.",
            hint=f"--setting {name}=A,B",
        )
    risk = max((choice.risk_of(value) for value in values if value != present), key=RISKS.index)
    if risk not in risks:
        raise RefusedError(
            f"--setting {text}: {name} is of the class {risk}, which is not allowed.",
            hint=f"add --class {risk}; {choice.price}",
        )
    for value in values:
        try:
            variant_of("probe", {name: value})
        except ValidationError as error:
            raise SpecError(
                f"--setting {text}: {value} is not possible: {error.errors()[0]['msg']}.",
                hint=f"--setting {name}=A,B",
            ) from None
    return Dimension(name, rule_of_choice(name), "choice", values, risk)


def _values(
    entry: Entry, rule: SettingRule, span: str, machine: Machine, now: Point
) -> tuple[Scale, tuple[str, ...]]:
    name = entry.name
    if not span:
        choices = entry.choices(machine)
        if choices:
            return "choice", choices
        names: dict[str, Value] = {
            setting: amount_of(setting, text, machine) for setting, text in now.items()
        }
        try:
            low_high = entry.span(machine, names)
        except FactMissing as missing:
            raise SpecError(
                f"--setting {name}: its range needs {missing.name}, which is not known here.",
                hint=f"give --{missing.name}, or a range: --setting {name}=LOW..HIGH",
            ) from None
        if low_high is None:
            raise SpecError(
                f"--setting {name}: there is no range worth searching on this machine.",
                hint=f"give one: --setting {name}=LOW..HIGH",
            )
        return entry.scale or "linear", _steps(rule, *low_high, is_log=entry.scale == "log")
    ends = span.split("..") if ".." in span else span.split(",")
    for end in ends:
        objection = object_to(name, end.strip(), machine.major)
        if objection is not None:
            raise SpecError(
                f"--setting {name}={span}: {end.strip()} is not possible: {objection.rule}.",
                hint=f"--setting {name}=LOW..HIGH, or {name}=A,B,C",
            )
    if ".." not in span:
        return "choice", tuple(end.strip() for end in ends)
    low, high = (amount(rule, end.strip()) for end in ends[:2])
    if low is None or high is None or low >= high:
        raise SpecError(
            f"--setting {name}={span}: the first value must be below the second.",
            hint=f"--setting {name}=LOW..HIGH",
        )
    is_log = entry.scale == "log" and low > 0
    return ("log" if is_log else "linear"), _steps(rule, low, high, is_log=is_log)


def amount_of(name: str, text: str, machine: Machine) -> Value:
    """Return a setting's value for formulas: bytes, ms or a plain number; a word stays text."""
    rule = rule_of(name, machine.major)
    number = amount(rule, text) if rule is not None else None
    return text if number is None else number


def _steps(rule: SettingRule, low: float, high: float, *, is_log: bool) -> tuple[str, ...]:
    """Return at most `_STEPS` values from low to high, each as postgresql.conf has it."""
    texts = []
    is_size = unit_amount(rule)[1] == "bytes"
    for step in range(_STEPS):
        share = step / (_STEPS - 1)
        value = low * (high / low) ** share if is_log else low + (high - low) * share
        texts.append(text_of(rule, min(max(_readable(value, is_size=is_size), low), high)))
    return tuple(dict.fromkeys(texts))


def _readable(value: float, *, is_size: bool) -> float:
    """Return the value with two digits, binary ones for a size: 96 MB rather than 97.3 MB."""
    if is_size and value >= 1024:
        unit = 2.0 ** (int(value).bit_length() - 4)
        return round(value / unit) * unit
    return float(f"{value:.2g}")


class Sampler:
    """Proposes points that were not tried yet. The same sequence of calls gives the same points.

    A point differs from the best so far in one setting or two. First each setting takes a large
    step by itself, the first dimension first. Then the settings that already pay have the most
    candidates: the ends of their range, and values halfway to the neighbours that were tried.
    """

    def __init__(self, space: Sequence[Dimension], now: Point, seed: int) -> None:
        self._space = space
        self._now = now
        self._rng = np.random.default_rng(seed)
        self._first = list(space)
        self._known = {_key(space, now)}
        # Setting -> positions that were tried.
        self._tried = {dim.name: {dim.position(now[dim.name])} for dim in space}

    def know(self, point: Point) -> None:
        """Take in a point that somebody else proposed."""
        self._is_new(point)

    def propose(self, best: Point) -> Point | None:
        """Return a point near the best so far that was not tried yet; None if none is found."""
        while self._first:
            dimension = self._first.pop(0)
            point = {**best, dimension.name: _far_from(dimension, best[dimension.name])}
            if self._is_new(point):
                return point
        for _ in range(_DRAWS_MAX):
            point = {**best, **{dim.name: self._near(dim, best) for dim in self._drawn(best)}}
            if self._is_new(point):
                return point
        return None

    def _drawn(self, best: Point) -> list[Dimension]:
        """Return one dimension or two."""
        weights = np.array(
            [_PAYING if best[dim.name] != self._now[dim.name] else 1.0 for dim in self._space]
        )
        count = min(2 if self._rng.random() < _TWO else 1, len(self._space))
        share = weights / weights.sum()
        places = self._rng.choice(len(self._space), count, replace=False, p=share)
        return [self._space[place] for place in sorted(places)]

    def _near(self, dimension: Dimension, best: Point) -> str:
        """Return another value: an end of the range, or one halfway to a neighbour."""
        values, place = dimension.values, dimension.position(best[dimension.name])
        others = [other for other in range(len(values)) if other != place]
        tried = self._tried[dimension.name]
        below = max((other for other in tried if other < place), default=0)
        above = min((other for other in tried if other > place), default=len(values) - 1)
        wanted = {0, len(values) - 1, (below + place) // 2, (place + above + 1) // 2}
        untried = [other for other in wanted if other in others and other not in tried]
        if dimension.scale == "choice" or not untried:
            untried = [other for other in others if other not in tried] or others
        return values[int(self._rng.choice(sorted(untried)))] if untried else values[place]

    def _is_new(self, point: Point) -> bool:
        """Return whether a point was never proposed; its result may come after the next one."""
        key = _key(self._space, point)
        is_new = key not in self._known
        self._known.add(key)
        for dimension, place in zip(self._space, key, strict=True):
            self._tried[dimension.name].add(place)
        return is_new


def _far_from(dimension: Dimension, present: str) -> str:
    """Return a value far from the present one; of choices, the next one."""
    values, place = dimension.values, dimension.position(present)
    if dimension.scale == "choice":
        return values[(place + 1) % len(values)]
    room = max(len(values) - 1 - place, -place, key=abs)
    return values[place + round(_FIRST_STEP * room)]


def _key(space: Sequence[Dimension], point: Point) -> tuple[int, ...]:
    return tuple(dimension.position(point[dimension.name]) for dimension in space)


def check_risks(risks: Iterable[str]) -> tuple[Risk, ...]:
    """Return the allowed classes of risk: the default ones and `risks`.

    Raises: SpecError for an unknown class.
    """
    unknown = [risk for risk in risks if risk not in RISKS]
    if unknown:
        raise SpecError(f"--class {unknown[0]} is not a class.", hint=f"one of {', '.join(RISKS)}")
    return tuple(risk for risk in RISKS if risk in {*DEFAULT_RISKS, *risks})
