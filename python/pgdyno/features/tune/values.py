"""Converts values of settings between amounts (bytes, ms, numbers) and text of postgresql.conf."""

from __future__ import annotations

import math
from decimal import Decimal

from pgdyno.features.tune.formula import Value
from pgdyno.spec.setting_rules import SettingRule, in_units, unit_amount

_SIZES = (("TB", 1 << 40), ("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10))
_TIMES_MS = (("d", 86.4e6), ("h", 3.6e6), ("min", 60e3), ("s", 1e3), ("ms", 1.0))
# A size is written in the largest unit of which it has this many, or that fits exactly.
_UNITS_MIN = 100
_FAR_RATIO = 2.0


def amount(rule: SettingRule, text: str) -> float | None:
    """Return a text of postgresql.conf in bytes, ms or as a plain number; None for a word."""
    if rule.vartype not in ("integer", "real"):
        return None
    number = in_units(text, rule)
    return None if number is None else float(number) * unit_amount(rule)[0]


def is_far(rule: SettingRule, text: str, other: str) -> bool:
    """Return whether two values differ; numbers, by more than twice."""
    ours, theirs = amount(rule, text), amount(rule, other)
    if ours is None or theirs is None or min(ours, theirs) <= 0:
        return text != other
    return max(ours, theirs) / min(ours, theirs) > _FAR_RATIO


def text_of(rule: SettingRule, value: Value) -> str:
    """Return a value as text of postgresql.conf, within the server's limits.

    Sizes and times are rounded to about a hundredth: 4.2 GB is "4300MB".
    """
    if isinstance(value, str) or value is None:
        return str(value)
    if rule.vartype not in ("integer", "real"):
        return str(value)
    size, kind = unit_amount(rule)
    units = min(max(float(value) / size, float(rule.low)), float(rule.high))
    if rule.vartype == "integer":
        units = math.floor(units + 1e-9)
    if units <= 0 or not kind:
        return _plain(units)
    return _with_unit(units * size, _SIZES if kind == "bytes" else _TIMES_MS)


def shown(rule: SettingRule, raw: str) -> str:
    """Return a value of pg_settings, which is in units of the rule, as postgresql.conf has it."""
    try:
        number = float(raw)
    except ValueError:
        return raw if raw else "''"
    size, kind = unit_amount(rule)
    if rule.vartype not in ("integer", "real") or number <= 0 or not kind:
        return raw
    return _with_unit(number * size, _SIZES if kind == "bytes" else _TIMES_MS)


def _with_unit(value: float, units: tuple[tuple[str, float], ...]) -> str:
    for name, size in units:
        count = value / size
        if count >= 1 and (count == int(count) or count >= _UNITS_MIN):
            return f"{int(count)}{name}"
    name, size = units[-1]
    return f"{_plain(value / size)}{name}"


def _plain(number: float) -> str:
    """Return 0.005 as "0.005", 8.0 as "8", 1e7 as "10000000"."""
    if number == int(number):
        return str(int(number))
    return f"{Decimal(f'{number:.4g}'):f}"
