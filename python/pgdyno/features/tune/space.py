"""The settings that are searched, their ranges, and the values to measure next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from pgdyno.errors import RefusedError, SpecError
from pgdyno.features.tune.storage import STORAGE, rule_of_choice, variant_of
from pgdyno.settings.formula import FactMissing, Machine, Value
from pgdyno.settings.objection import object_to
from pgdyno.settings.rule import SettingRule, nearest, rule_of, snapshot, unit_amount
from pgdyno.settings.table import RISKS, Entry, Risk, Scale, catalogue
from pgdyno.settings.value import amount, text_of

SETTINGS_MAX = 6
# The classes of risk that are allowed by default.
DEFAULT_RISKS: tuple[Risk, ...] = ("safe", "memory", "planner")
# A range has at most this number of values, because runs cannot tell smaller differences.
_STEPS = 24
# The first candidate of each setting goes this far towards the farther end of its range.
_FIRST_STEP = 0.7
# Values of a range that are measured lie at least this number of steps apart.
_APART = 2

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
    if "," in name:
        raise SpecError(
            f"--setting {text} names several settings, and one option names one.",
            hint=" ".join(f"--setting {part.strip()}" for part in text.split(",") if part.strip()),
        )
    if name in STORAGE:
        return _storage(text, name, span, now, risks)
    entry, rule = catalogue().get(name), rule_of(name, machine.major)
    if rule is None:
        like = nearest(name, list(snapshot(machine.major)))
        raise SpecError(
            f"--setting {text}: PostgreSQL {machine.major} has no setting of that name.",
            hint=f"did you mean {like}?" if like else "see pgdyno settings --all",
        )
    if entry is None:
        raise SpecError(
            f"--setting {text}: {name} is not in the catalogue, so its risk is not known.",
            hint="settings of the catalogue are in docs/settings.md",
        )
    if rule.needs == "new cluster":
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
    is_size = unit_amount(rule.unit)[1] == "bytes"
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


def values_to_try(
    dimension: Dimension, present: str, tried: Iterable[str], hints: Iterable[str]
) -> tuple[str, ...]:
    """Return the values of a setting to measure next, the most promising first.

    Hints (values of published rules, defaults) come first. Of a list, all other values. Of a
    range, a large step; if values were tried, those halfway to their neighbours.
    Args: present, the value of the best settings; tried, other values that were measured.
    """
    known = {present, *tried}
    if dimension.scale == "choice":
        left = [value for value in dimension.values if value not in known]
        first = [value for value in hints if value in left]
        return tuple(dict.fromkeys([*first, *left]))
    values, place = dimension.values, dimension.position(present)
    before = {dimension.position(value) for value in tried}
    if before:
        below = max((other for other in before if other < place), default=0)
        above = min((other for other in before if other > place), default=len(values) - 1)
        wanted = [(place + above + 1) // 2, (below + place) // 2]
    else:
        wanted = [dimension.position(hint) for hint in hints if _is_within(dimension, hint)]
        wanted.append(_far_from(dimension, present))
    places: list[int] = []
    for other in wanted:
        if all(abs(other - seen) >= _APART for seen in (place, *before, *places)):
            places.append(other)
    return tuple(values[other] for other in places)


def widest_gap(dimension: Dimension, tried: Iterable[str]) -> str | None:
    """Return the value of a range that is farthest from all that were tried; None without one."""
    if dimension.scale == "choice":
        return None
    places = {dimension.position(value) for value in tried}
    gaps = [min(abs(place - seen) for seen in places) for place in range(len(dimension.values))]
    return dimension.values[gaps.index(max(gaps))] if max(gaps) >= _APART else None


def _is_within(dimension: Dimension, text: str) -> bool:
    ends = (amount(dimension.rule, dimension.values[place]) for place in (0, -1))
    low, high = ends
    wanted = amount(dimension.rule, text)
    return None not in (low, high, wanted) and low <= wanted <= high  # type: ignore[operator]


def _far_from(dimension: Dimension, present: str) -> int:
    """Return the place of a value far from the present one."""
    values, place = dimension.values, dimension.position(present)
    room = max(len(values) - 1 - place, -place, key=abs)
    return place + round(_FIRST_STEP * room)


def check_risks(risks: Iterable[str]) -> tuple[Risk, ...]:
    """Return the allowed classes of risk: the default ones and `risks`.

    Raises: SpecError for an unknown class.
    """
    unknown = [risk for risk in risks if risk not in RISKS]
    if unknown:
        raise SpecError(f"--class {unknown[0]} is not a class.", hint=f"one of {', '.join(RISKS)}")
    return tuple(risk for risk in RISKS if risk in {*DEFAULT_RISKS, *risks})
