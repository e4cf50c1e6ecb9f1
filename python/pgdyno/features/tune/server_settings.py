"""All settings of a server, or of a postgresql.conf, with their built-in values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pgdyno.features.doctor.check_facts import CheckFacts
from pgdyno.features.doctor.examine import Subject, examine, judged
from pgdyno.features.doctor.finding import Finding
from pgdyno.features.doctor.server_seen import ServerSeen, Setting
from pgdyno.features.doctor.session import read_only
from pgdyno.settings.conf_file import ConfLine, conf_lines
from pgdyno.settings.objection import object_to
from pgdyno.settings.rule import SettingRule, as_initdb_leaves, current_name, snapshot
from pgdyno.settings.value import as_boolean, current_word, in_units, shown

# reset_val: the value for other sessions of this role and database. This session sets limits.
SETTINGS_SQL = (
    "SELECT name, reset_val, coalesce(unit, ''), source, coalesce(boot_val, ''), pending_restart,"
    " context, vartype, coalesce(min_val, ''), coalesce(max_val, ''), coalesce(enumvals, '{}'),"
    " short_desc FROM pg_catalog.pg_settings"
)
_NOT_SET = ("default", "override", "client")
# Folders and languages differ on each server and are not reviewed.
_PLACE = re.compile(
    r"lc_\w+|timezone|log_timezone|datestyle|default_text_search_config|.*_file|.*_director(y|ies)"
    r"|.*_directory|port|listen_addresses|cluster_name|unix_socket_\w+|ssl.*|application_name"
    r"|client_encoding|server_\w+|in_hot_standby|transaction_\w+|krb_\w+|dynamic_library_path"
)
_SECRET = re.compile(r"conninfo|password|passphrase|command")


@dataclass(frozen=True, slots=True)
class ServerSetting:
    """One setting of a server. `value` and `built_in` have the form of postgresql.conf.

    `objection`: why the server refuses the value, "" if it accepts it. `description`: the server's
    description, for settings that are not in the catalogue.
    """

    rule: SettingRule
    raw: str
    value: str
    built_in: str
    source: str
    is_pending: bool = False
    objection: str = ""
    description: str = ""

    @property
    def is_changed(self) -> bool:
        """Return whether the value differs from PostgreSQL's default."""
        is_place = _PLACE.fullmatch(self.rule.name.lower()) is not None
        return self.is_set and self.value != self.built_in and not is_place

    @property
    def is_set(self) -> bool:
        """Return whether somebody set the value: in a file, or for a role or a database."""
        return self.source not in _NOT_SET and self.rule.context != "internal"


@dataclass(frozen=True, slots=True)
class Reviewed:
    """The settings of a server or a file, ready for a review. `findings`: of the doctor."""

    target: str
    facts: CheckFacts
    settings: Mapping[str, ServerSetting]
    findings: tuple[Finding, ...]


def read_live(
    asked: Subject, *, known_cores: int | None = None, known_bytes: int | None = None
) -> Reviewed:
    """Read the settings of a server in about a second, with one connection at a time.

    Args: known_cores, known_bytes, cores and size of all data, if the user gave them.
    Raises: ServerError if the server cannot be reached.
    """
    assert asked.target is not None, "settings are a server's"
    examined = examine(asked)
    with read_only(asked.target, asked.verb) as (session, _):
        rows = session.fetch(SETTINGS_SQL)
        settings = {}
        for name, raw, unit, source, built_in, is_pending, context, kind, *rest in rows:
            low, high, values, description = rest
            rule = SettingRule(
                str(name), kind, context, unit, low, high, tuple(values), str(built_in)
            )
            if rule.name == "max_stack_depth":
                rule = as_initdb_leaves(rule)
            settings[str(name).lower()] = _setting(
                rule, str(raw or ""), str(source), bool(is_pending), str(description)
            )
    facts = replace(examined.facts, known_cores=known_cores, known_bytes=known_bytes)
    return _reviewed(examined.target, facts, settings)


def read_file(path: Path, major: int, facts: CheckFacts, *, target: str = "") -> Reviewed:
    """Return a postgresql.conf as a server of this version would take it.

    Args: target, what is reviewed, in words.
    Raises: SpecError with file and line for what the server could not read.
    """
    rules = {name: as_initdb_leaves(rule) for name, rule in snapshot(major).items()}
    settings = {name: _setting(rule, rule.built_in, "default") for name, rule in rules.items()}
    # Of the lines that spell a name in the same way, the server reads only the last one, there.
    lines = conf_lines(path)
    last = {line.name: place for place, line in enumerate(lines)}
    for line in (line for place, line in enumerate(lines) if last[line.name] == place):
        name = current_name(line.name, major)
        before = settings.get(name)
        if before is None or not before.objection:
            settings[name] = _in_file(line, rules.get(name), major)
    target = target or f"{path.name}, as PostgreSQL {major} would take it"
    return _reviewed(target, facts, settings, major=major)


def _in_file(line: ConfLine, rule: SettingRule | None, major: int) -> ServerSetting:
    """Return a setting of a file; one that the server refuses counts as its default."""
    objection = object_to(line.name, line.value, major)
    rule = rule or SettingRule(line.name.lower(), "string", "user", "", "", "", (), "")
    if objection is None:
        return _setting(rule, _raw(rule, line.value), "configuration file")
    setting = _setting(rule, rule.built_in, "configuration file")
    return replace(setting, value=line.value, objection=f"{line.place}: {objection.rule}")


def _reviewed(
    target: str,
    facts: CheckFacts,
    settings: Mapping[str, ServerSetting],
    *,
    major: int | None = None,
) -> Reviewed:
    """Return the doctor's findings on all these settings."""
    for_doctor = {
        name: Setting(setting.raw, setting.rule.unit, setting.is_pending)
        for name, setting in settings.items()
        # The doctor's checks read no name that this server does not have.
        if not (setting.objection and setting.rule.vartype == "string")
    }
    server = facts.server
    if server is None:
        assert major is not None, "a file has a version"
        # A file does not have the settings that describe build and host of a server.
        of_file = {n: s for n, s in for_doctor.items() if settings[n].rule.context != "internal"}
        server = ServerSeen(major, of_file)
    else:
        server = replace(server, settings={**server.settings, **for_doctor})
    known = replace(facts, server=server)
    return Reviewed(target, known, settings, judged(target, known).findings)


def _setting(
    rule: SettingRule, raw: str, source: str, is_pending: bool = False, description: str = ""
) -> ServerSetting:
    # A word out of a list, such as the value of password_encryption, is not a secret.
    is_text = rule.vartype == "string"
    is_hidden = "." in rule.name or (is_text and _SECRET.search(rule.name) is not None)
    value = "(not shown)" if is_hidden and raw else shown(rule, raw)
    built_in = shown(rule, rule.built_in)
    return ServerSetting(rule, raw, value, built_in, source, is_pending, "", description)


def _raw(rule: SettingRule, text: str) -> str:
    """Return a value of postgresql.conf as pg_settings shows it, which must be one it takes."""
    if rule.vartype == "bool":
        return "on" if as_boolean(text) else "off"
    if rule.vartype == "enum":
        return current_word(text, rule)
    number = in_units(text, rule) if rule.vartype in ("integer", "real") else None
    if number is None:
        return text
    if rule.name == "wal_buffers" and number >= 0:
        number = max(number, 4.0)  # The server takes no less.
    return str(round(number)) if rule.vartype == "integer" else f"{number:g}"
