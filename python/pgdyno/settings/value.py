"""Values of settings: a text of postgresql.conf, and the number or word that it stands for."""

from __future__ import annotations

import math
import re
from decimal import Decimal

from pgdyno.quantities import written_bytes
from pgdyno.settings.formula import Value
from pgdyno.settings.rule import (
    BYTES_OF_UNIT,
    MICROSECONDS_OF_UNIT,
    SettingRule,
    as_initdb_leaves,
    snapshot,
    unit_amount,
    units_of,
)

# strtol with base 0: octal after a zero, hexadecimal after 0x.
# More than 2^64 has.
_DIGITS_MAX = 24
_WHOLE = re.compile(r"\s*([-+]?)(?:0[xX]([0-9a-fA-F]+)|(0[0-7]*)|([1-9][0-9]*))", re.ASCII)
# strtod: decimal or hexadecimal.
_REAL = re.compile(
    r"\s*([-+]?(?:(0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)(?:[pP][-+]?[0-9]+)?)"
    r"|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|inf(?:inity)?))",
    re.ASCII | re.IGNORECASE,
)
_INTEGER_MAX = (1 << 31) - 1
BLANKS = " \t\n\v\f\r"
TRUE, FALSE = ("on", "true", "yes", "1"), ("off", "false", "no", "0")
OLD_WORDS = {
    "wal_level": {"archive": "replica", "hot_standby": "replica"},
    "client_min_messages": {"debug": "debug2", "info": "info"},
    "trace_recovery_messages": {"debug": "debug2", "info": "info"},
    "log_min_messages": {"debug": "debug2"},
    "log_min_error_statement": {"debug": "debug2"},
    "icu_validation_level": {"debug": "debug2"},
}
_SIZES = tuple(size for size in reversed(BYTES_OF_UNIT.items()) if size[0] != "B")
_TIMES_MS = tuple(
    (name, time_us / 1000)
    for name, time_us in reversed(MICROSECONDS_OF_UNIT.items())
    if name != "us"
)
# A size is written in the largest unit of which it has this many, or that fits exactly.
_UNITS_MIN = 100
_FAR_RATIO = 2.0
# Sizes that people write have at most this number of digits.
_WRITTEN_DIGITS_MAX = 3


def in_units(text: str, rule: SettingRule) -> float | None:
    """Return the number in a text such as "1.5GB" in units of the rule, None for other texts.

    Source: parse_int, parse_real and convert_to_base_unit of guc.c. "010" is octal and "0x10"
    hexadecimal for an integer; a fraction is rounded to the next smaller unit, an integer to
    a whole number of the unit of the setting.
    Limits: not checked against the limits of the rule.
    """
    is_integer = rule.vartype == "integer"
    whole = _WHOLE.match(text) if is_integer else None
    # The server reads the text again as a real number where the integer stops at one of these.
    after = text[whole.end() :] if whole is not None else text.lstrip()
    if is_integer and not after.startswith((".", "e", "E")):
        if whole is None:
            return None
        number = _whole(whole)
    else:
        match = _REAL.match(text)
        if match is None:
            return None
        number = float.fromhex(match[1]) if match[2] else float(match[1])
        if math.isinf(number) and "inf" not in match[1].lower():
            return None
        after = text[match.end() :]
    converted = _in_base_unit(number, after.strip(BLANKS), rule.unit)
    if converted is None or not is_integer:
        return converted
    return float(round(converted)) if abs(converted) <= _INTEGER_MAX + 1 else None


def amount(rule: SettingRule, text: str) -> float | None:
    """Return a text of postgresql.conf in bytes, ms or as a plain number; None for a word."""
    if not rule.is_number:
        return None
    number = in_units(text, rule)
    return None if number is None else float(number) * unit_amount(rule.unit)[0]


def is_far(rule: SettingRule, text: str, other: str) -> bool:
    """Return whether two values differ; numbers, by more than twice."""
    ours, theirs = amount(rule, text), amount(rule, other)
    if ours is None or theirs is None or min(ours, theirs) <= 0:
        return text != other
    return max(ours, theirs) / min(ours, theirs) > _FAR_RATIO


def written_size(rule: SettingRule, text: str) -> str:
    """Return a size rounded down to one that a person writes: "75730kB" is "64MB"."""
    size = amount(rule, text)
    is_size = size is not None and unit_amount(rule.unit)[1] == "bytes"
    if size is None or not is_size or sum(map(str.isdigit, text)) <= _WRITTEN_DIGITS_MAX:
        return text
    return text_of(rule, written_bytes(size))


def text_of(rule: SettingRule, value: Value) -> str:
    """Return a value as text of postgresql.conf, within the server's limits.

    Sizes and times are rounded to about a hundredth: 4.2 GB is "4300MB".
    """
    if isinstance(value, str) or value is None:
        return str(value)
    if not rule.is_number:
        return str(value)
    size, kind = unit_amount(rule.unit)
    units = min(max(float(value) / size, float(rule.low)), float(rule.high))
    if rule.vartype == "integer":
        units = math.floor(units + 1e-9)
    if units <= 0 or not kind:
        return _plain(units)
    return _with_unit(units * size, _SIZES if kind == "bytes" else _TIMES_MS)


def written(rule: SettingRule, raw: str) -> str:
    """Return a value of pg_settings, which is in units of the rule, as postgresql.conf has it."""
    try:
        number = float(raw)
    except ValueError:
        return raw if raw else "''"
    size, kind = unit_amount(rule.unit)
    if not rule.is_number or number <= 0 or not kind:
        return raw
    return _with_unit(number * size, _SIZES if kind == "bytes" else _TIMES_MS)


def defaults_of(major: int) -> dict[str, str]:
    """Return setting -> default value, for every setting of this version."""
    rules = (as_initdb_leaves(rule) for rule in snapshot(major).values())
    return {rule.name.lower(): written(rule, rule.built_in) for rule in rules}


def current_word(text: str, rule: SettingRule) -> str:
    """Return the value of an enum as pg_settings shows it, for the spellings that it hides."""
    word = text.lower()
    word = OLD_WORDS.get(rule.name, {}).get(word, word)
    listed = {value.lower(): value for value in rule.values}
    if word not in listed and "on" in listed:
        # These enums were once booleans, and still accept other spellings of them.
        return "on" if word in TRUE else "off" if word in FALSE else word
    return listed.get(word, word)


def as_boolean(text: str) -> bool | None:
    """Return a boolean as the server reads it: a beginning of a word is enough; None for others."""
    word = text.lower()
    for value, words in ((True, TRUE), (False, FALSE)):
        if word not in ("", "o") and any(known.startswith(word) for known in words):
            return value
    return None


def _whole(match: re.Match[str]) -> float:
    """Return a whole number; infinity for one with more digits than any setting takes."""
    sign, hexadecimal, octal, decimal = match.groups()
    if len(hexadecimal or octal or decimal) > _DIGITS_MAX:
        number = math.inf
    else:
        number = int(hexadecimal, 16) if hexadecimal else int(octal, 8) if octal else int(decimal)
    return -number if sign == "-" else number


def _in_base_unit(number: float, unit: str, base: str) -> float | None:
    """Return a number in the base unit of its setting, None for a unit that does not fit."""
    table, size = units_of(base)
    if not unit:
        return number
    if unit not in table:
        return None
    # The largest multiple of a smaller unit that the number may have, such as 0.5kB = 512B.
    smaller = [factor for factor in table.values() if factor < table[unit]]
    converted = number * table[unit] / size
    if not smaller or math.isinf(converted):
        return converted
    step = max(smaller) / size
    return round(converted / step) * step


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
