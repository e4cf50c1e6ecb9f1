"""Which values PostgreSQL allows for a setting, from committed snapshots of pg_settings.

`postgres -C` accepts values that the server then refuses, and it needs the server; a spec is
checked before anything starts. `scripts/settings-snapshot` makes the snapshots.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Literal

MAJORS = (14, 15, 16, 17, 18)
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
_UNIT = re.compile(r"(\d*)([A-Za-z]+)")
_BLANKS = " \t\n\v\f\r"
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
# Names that the server still takes for newer ones (map_old_guc_names), and its hidden spellings.
_OLD_NAMES = {
    "sort_mem": ("work_mem", MAJORS),
    "vacuum_mem": ("maintenance_work_mem", MAJORS),
    "force_parallel_mode": ("debug_parallel_query", (16,)),
    "ssl_ecdh_curve": ("ssl_groups", (18,)),
}
_OLD_WORDS = {
    "wal_level": {"archive": "replica", "hot_standby": "replica"},
    "client_min_messages": {"debug": "debug2", "info": "info"},
    "trace_recovery_messages": {"debug": "debug2", "info": "info"},
    "log_min_messages": {"debug": "debug2"},
    "log_min_error_statement": {"debug": "debug2"},
    "icu_validation_level": {"debug": "debug2"},
}
# Texts that are lists of these words, or one of them alone.
_LISTS = {
    "createrole_self_grant": "set inherit",
    "debug_io_direct": "data wal wal_init",
    "log_destination": "stderr csvlog jsonlog syslog",
    "restrict_nonsystem_relation_kind": "view foreign-table",
    "log_connections": "receipt authentication authorization setup_durations all",
    "datestyle": "iso sql postgres german ymd mdy dmy us noneuro noneuropean euro european default",
}
_LISTED = re.compile(
    r'\s*(?:"((?:[^"]|"")*)"|([^\s,"][^\s,]*))\s*(?:,(?=.)|$)', re.ASCII | re.DOTALL
)
_STANDBY = r'\s*(?:\*|(?!(?:any|first)\b)[a-z_\x80-\U0010ffff][\w$]*|[0-9]+|"(?:[^"]|"")*")\s*'
_STANDBYS = f"{_STANDBY}(?:,{_STANDBY})*"
_FORMS = {
    "recovery_target": (re.compile("|immediate"), "must be immediate or empty"),
    "synchronous_standby_names": (
        re.compile(
            rf"|{_STANDBYS}|\s*(?:(?:any|first)\s+)?0*[1-9][0-9]*\s*\({_STANDBYS}\)\s*",
            re.IGNORECASE,
        ),
        "must be names of standbys, or FIRST or ANY with a number and names in parentheses",
    ),
}
# The server takes only multiples of 16 for its caches of transaction states.
_MULTIPLES = re.compile(
    r"(?:commit_timestamp|multixact_\w+|notify|serializable|\w*transaction)_buffers"
)
# Settings that pg_settings hides, with the only value that the server takes.
_HIDDEN = {"default_with_oids": _FALSE, "ssl_renegotiation_limit": ("0",)}
# Settings that were removed before the first snapshot -> the last version that had them.
_REMOVED = {
    "13": "operator_precedence_warning vacuum_cleanup_index_scale_factor",
    "12": "wal_keep_segments",
    "11": "standby_mode trigger_file",
    "10": "replacement_sort_tuples",
    "9.6": "min_parallel_relation_size sql_inheritance",
    "9.4": "checkpoint_segments",
    "9.3": "krb_srvname",
    "9.2": "unix_socket_directory replication_timeout",
    "9.1": "custom_variable_classes silent_mode wal_sender_delay",
    "8.4": "add_missing_from regex_flavor",
    "8.3": "explain_pretty_print max_fsm_pages max_fsm_relations",
    "8.2": "bgwriter_all_maxpages bgwriter_all_percent bgwriter_lru_percent redirect_stderr"
    " stats_block_level stats_command_string stats_reset_on_server_start stats_row_level"
    " stats_start_collector",
    "7.4": "syslog",
}


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


def in_units(text: str, rule: SettingRule) -> float | None:
    """Return the number in a text such as "1.5GB" in units of the rule, None for other texts.

    Source: parse_int, parse_real and convert_to_base_unit of guc.c. "010" is octal and "0x10"
    hexadecimal for an integer; a fraction is rounded to the next smaller unit, an integer to a
    whole number of its own unit.
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
    converted = _with_unit(number, after.strip(_BLANKS), rule.unit)
    if converted is None or not is_integer:
        return converted
    return float(round(converted)) if abs(converted) <= _INTEGER_MAX + 1 else None


def current_name(name: str, major: int) -> str:
    """Return the name of a setting in lower case; of an old name, the one that it stands for."""
    current, majors = _OLD_NAMES.get(name.lower(), (name.lower(), ()))
    return current if major in majors and name.lower() not in snapshot(major) else name.lower()


def current_word(text: str, rule: SettingRule) -> str:
    """Return the value of an enum as pg_settings shows it, for the spellings that it hides."""
    word = text.lower()
    word = _OLD_WORDS.get(rule.name, {}).get(word, word)
    listed = {value.lower(): value for value in rule.values}
    if word not in listed and "on" in listed:
        # These enums were once booleans, and still accept other spellings of them.
        return "on" if word in _TRUE else "off" if word in _FALSE else word
    return listed.get(word, word)


def as_boolean(text: str) -> bool | None:
    """Return a boolean as the server reads it: a beginning of a word is enough; None for others."""
    word = text.lower()
    for value, words in ((True, _TRUE), (False, _FALSE)):
        if word not in ("", "o") and any(known.startswith(word) for known in words):
            return value
    return None


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
    rule = known.get(current_name(name, major))
    if rule is None:
        return _unknown(name, value, major)
    if rule.context == "internal":
        return "it cannot be set: it describes the build of the server or its data"
    if rule.vartype == "bool":
        return None if as_boolean(value) is not None else "must be on or off"
    if rule.vartype == "enum":
        allowed = {*rule.values, *_OLD_WORDS.get(rule.name, {}).values()}
        is_word = current_word(value, rule) in allowed
        return None if is_word else f"must be one of {', '.join(rule.values)}"
    if rule.vartype in ("integer", "real"):
        return _object_to_number(value, rule)
    return _object_to_text(value, rule)


def _object_to_text(value: str, rule: SettingRule) -> str | None:
    """Return the objection to a text of a known form: a list of words, or another grammar."""
    form, words = _FORMS.get(rule.name, (None, ""))
    if form is not None:
        return None if form.fullmatch(value) else words
    allowed = _LISTS.get(rule.name.lower(), "").split()
    # log_connections was a boolean before 18.
    was_boolean = rule.name == "log_connections" and value.lower() in _TRUE + _FALSE
    if not allowed or not value.strip(_BLANKS) or was_boolean:
        return None
    at = 0
    while at < len(value):
        match = _LISTED.match(value, at)
        if match is None or (match[1] or match[2]).lower() not in allowed:
            return f"must be a list of {', '.join(allowed)}"
        at = match.end()
    return None


def _unknown(name: str, value: str, major: int) -> str | None:
    """Return the objection to a name that pg_settings of this version does not have."""
    if name in _HIDDEN:
        word = value.lower()
        return None if word in _HIDDEN[name] else f"must be {_HIDDEN[name][0]}"
    having = [str(other) for other in MAJORS if name in snapshot(other)]
    last = next((last for last, names in _REMOVED.items() if name in names.split()), None)
    if having:
        span = having[0] if len(having) == 1 else f"{having[0]} to {having[-1]}"
        meant = f": PostgreSQL {span} {'has' if len(having) == 1 else 'have'} it"
    elif last is not None:
        meant = f": it was removed after PostgreSQL {last}"
    else:
        like = nearest(name, list(snapshot(major)))
        meant = f": did you mean {like}?" if like else ""
    return f"PostgreSQL {major} has no setting of that name{meant}"


def _object_to_number(text: str, rule: SettingRule) -> str | None:
    table, _ = _units(rule.unit)
    span = f"{rule.low} to {rule.high}" + (f" in units of {rule.unit}" if rule.unit else "")
    number = in_units(text, rule)
    if number is None:
        units = (
            f", with one of the units {', '.join(table)} or none" if table else " without a unit"
        )
        return f"must be a number from {span}{units}"
    if not float(rule.low) <= number <= float(rule.high):
        return f"must be from {span}"
    is_multiple = number % 16 == 0 or _MULTIPLES.fullmatch(rule.name) is None
    return None if is_multiple else "must be a multiple of 16"


def _whole(match: re.Match[str]) -> float:
    """Return a whole number; infinity for one with more digits than any setting takes."""
    sign, hexadecimal, octal, decimal = match.groups()
    if len(hexadecimal or octal or decimal) > _DIGITS_MAX:
        number = math.inf
    else:
        number = int(hexadecimal, 16) if hexadecimal else int(octal, 8) if octal else int(decimal)
    return -number if sign == "-" else number


def _with_unit(number: float, unit: str, base: str) -> float | None:
    """Return a number in the base unit of its setting, None for a unit that does not fit."""
    table, size = _units(base)
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


def _units(unit: str) -> tuple[dict[str, int], int]:
    """Return the units that a setting accepts, and its default unit in the smallest of them."""
    match = _UNIT.fullmatch(unit)
    for table in (BYTES_OF_UNIT, MICROSECONDS_OF_UNIT):
        if match is not None and match[2] in table:
            return table, int(match[1] or 1) * table[match[2]]
    return {}, 1
