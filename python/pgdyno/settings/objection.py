"""What the server objects to in a setting: an unknown name, or a value that it refuses."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from pgdyno.settings.rule import MAJORS, SettingRule, current_name, nearest, snapshot, units_of
from pgdyno.settings.value import BLANKS, FALSE, OLD_WORDS, TRUE, as_boolean, current_word, in_units

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
_HIDDEN = {"default_with_oids": FALSE, "ssl_renegotiation_limit": ("0",)}
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
        allowed = {*rule.values, *OLD_WORDS.get(rule.name, {}).values()}
        is_word = current_word(value, rule) in allowed
        return None if is_word else f"must be one of {', '.join(rule.values)}"
    if rule.is_number:
        return _object_to_number(value, rule)
    return _object_to_text(value, rule)


def _object_to_text(value: str, rule: SettingRule) -> str | None:
    """Return the objection to a text of a known form: a list of words, or another grammar."""
    form, words = _FORMS.get(rule.name, (None, ""))
    if form is not None:
        return None if form.fullmatch(value) else words
    allowed = _LISTS.get(rule.name.lower(), "").split()
    # log_connections was a boolean before 18.
    was_boolean = rule.name == "log_connections" and value.lower() in TRUE + FALSE
    if not allowed or not value.strip(BLANKS) or was_boolean:
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
    table, _ = units_of(rule.unit)
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
