"""Which values PostgreSQL allows for a setting, from committed snapshots of pg_settings.

`postgres -C` accepts values that the server then refuses, and it needs the server; a spec is
checked before anything starts. `scripts/settings-snapshot` makes the snapshots.
"""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from importlib.resources import files
from typing import Literal

MAJORS = (14, 15, 16, 17, 18)
_NUMBER = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*([A-Za-z]*)\s*", re.ASCII)
_UNIT = re.compile(r"(\d*)([A-Za-z]+)")
BYTES_OF_UNIT = {"B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
MICROSECONDS_OF_UNIT = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
_TRUE, _FALSE = ("on", "true", "yes", "1"), ("off", "false", "no", "0")


@dataclass(frozen=True, slots=True)
class SettingRule:
    """One row of pg_settings: the allowed values of a setting, and what a change needs.

    `built_in`: the value without any configuration, in units of `unit`; "" for texts.
    """

    name: str
    vartype: str
    context: str
    unit: str
    low: str
    high: str
    values: tuple[str, ...]
    built_in: str


@dataclass(frozen=True, slots=True)
class Objection:
    """An error in a setting; a `doubt` if the snapshot belongs to another version."""

    verdict: Literal["error", "doubt"]
    rule: str


def object_to(name: str, value: str, major: int | None) -> Objection | None:
    """Return the objection to a setting on PostgreSQL `major`, or None.

    Args: major, None if it is not known yet: a setting then passes if any snapshot accepts it.
    Limits: settings of extensions (with a dot) pass; the server checks them.
    """
    if "." in name:
        return None
    wanted = MAJORS if major is None else (min(MAJORS, key=lambda known: abs(known - major)),)
    objections = [_object_to(name.lower(), value, rule) for rule in wanted]
    if None in objections:
        return None
    rule = objections[-1] or ""
    if major is None:
        rule = rule.replace(f"PostgreSQL {wanted[-1]} ", "PostgreSQL ")
    if major is None or major in MAJORS:
        return Objection("error", rule)
    return Objection("doubt", f"{rule} (as of PostgreSQL {wanted[0]})")


def in_units(text: str, rule: SettingRule) -> Decimal | None:
    """Return the number in a text such as "1.5GB", in units of the rule; None for other texts.

    Limits: not rounded, and not checked against the limits of the rule.
    """
    table, size = _units(rule.unit)
    match = _NUMBER.fullmatch(text.strip())
    if match is None or (match[2] and match[2] not in table):
        return None
    number = Decimal(match[1])
    return number * table[match[2]] / size if match[2] else number


def unit_amount(rule: SettingRule) -> tuple[float, Literal["bytes", "ms", ""]]:
    """Return the bytes or ms of one unit of the setting; (1, "") for a setting without a unit."""
    table, size = _units(rule.unit)
    if table is BYTES_OF_UNIT:
        return size, "bytes"
    return (size / 1000, "ms") if table else (1, "")


def nearest(name: str, names: list[str]) -> str:
    """Return the known name most similar to `name`, or "" if no name is similar."""
    return next(iter(difflib.get_close_matches(name, names, n=1, cutoff=0.6)), "")


@lru_cache(maxsize=len(MAJORS))
def snapshot(major: int) -> dict[str, SettingRule]:
    """Return the rules of one major version by lower-case name. Args: major, one of `MAJORS`."""
    text = files("pgdyno.spec").joinpath(f"settings/{major}.json").read_text(encoding="utf-8")
    rules = (
        SettingRule(name, vartype, context, unit, low, high, tuple(values), built_in)
        for name, vartype, context, unit, low, high, values, built_in in json.loads(text)[
            "settings"
        ]
    )
    return {rule.name.lower(): rule for rule in rules}


def _object_to(name: str, value: str, major: int) -> str | None:
    known = snapshot(major)
    rule = known.get(name)
    if rule is None:
        like = nearest(name, list(known))
        meant = f": did you mean {like}?" if like else ""
        return f"PostgreSQL {major} has no setting of that name{meant}"
    if rule.context == "internal":
        return "it cannot be set: it describes the build of the server or its data"
    text = value.strip()
    if rule.vartype == "bool":
        words = (*_TRUE, *_FALSE)
        is_word = bool(text) and any(word.startswith(text.lower()) for word in words)
        return None if is_word and text.lower() != "o" else "must be on or off"
    if rule.vartype == "enum":
        allowed = {allowed_value.lower() for allowed_value in rule.values}
        # These enums were once booleans, and still accept other spellings of them.
        if "on" in allowed:
            allowed |= {*_TRUE, *_FALSE}
        return None if text.lower() in allowed else f"must be one of {', '.join(rule.values)}"
    if rule.vartype in ("integer", "real"):
        return _object_to_number(text, rule)
    return None


def _object_to_number(text: str, rule: SettingRule) -> str | None:
    table, size = _units(rule.unit)
    span = f"{rule.low} to {rule.high}" + (f" in units of {rule.unit}" if rule.unit else "")
    match = _NUMBER.fullmatch(text)
    if match is None:
        if re.fullmatch(r"0[xX][0-9a-fA-F]+", text):
            return None
        return f"must be a number from {span}"
    number = Decimal(match[1])
    if match[2]:
        if match[2] not in table:
            units = f"with one of the units {', '.join(table)}" if table else "without a unit"
            return f"must be a number {units}"
        number = number * table[match[2]] / size
    if rule.vartype == "integer":
        number = Decimal(round(number))
    is_inside = Decimal(rule.low) <= number <= Decimal(rule.high)
    return None if is_inside else f"must be from {span}"


def _units(unit: str) -> tuple[dict[str, int], int]:
    """Return the units that a setting accepts, and its default unit in the smallest of them."""
    match = _UNIT.fullmatch(unit)
    for table in (BYTES_OF_UNIT, MICROSECONDS_OF_UNIT):
        if match is not None and match[2] in table:
            return table, int(match[1] or 1) * table[match[2]]
    return {}, 1
