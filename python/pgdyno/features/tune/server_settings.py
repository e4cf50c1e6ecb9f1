"""All settings of a server, or of a postgresql.conf, with their built-in values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pgdyno.features.doctor.check_facts import CheckFacts
from pgdyno.features.doctor.examine import Subject, examine, judged
from pgdyno.features.doctor.finding import Finding
from pgdyno.features.doctor.server_seen import ServerSeen
from pgdyno.server.configuration import Setting
from pgdyno.settings.conf_file import ConfLine, conf_lines
from pgdyno.settings.objection import object_to
from pgdyno.settings.rule import SettingRule, as_initdb_leaves, current_name, snapshot
from pgdyno.settings.value import as_boolean, current_word, in_units


@dataclass(frozen=True, slots=True)
class Reviewed:
    """The settings of a server or a file, ready for a review. `findings`: of the doctor."""

    target: str
    facts: CheckFacts
    settings: Mapping[str, Setting]
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
    facts = replace(examined.facts, known_cores=known_cores, known_bytes=known_bytes)
    return _reviewed(examined.target, facts, facts.on_server().settings)


def read_file(path: Path, major: int, facts: CheckFacts, *, target: str = "") -> Reviewed:
    """Return a postgresql.conf as a server of this version would take it.

    Args: target, what is reviewed, in words.
    Raises: SpecError with file and line for what the server could not read.
    """
    rules = {name: as_initdb_leaves(rule) for name, rule in snapshot(major).items()}
    settings = {name: Setting(rule, rule.built_in) for name, rule in rules.items()}
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


def _in_file(line: ConfLine, rule: SettingRule | None, major: int) -> Setting:
    """Return a setting of a file; one that the server refuses counts as its default."""
    objection = object_to(line.name, line.value, major)
    rule = rule or SettingRule(line.name.lower(), "string", "user", "", "", "", (), "")
    if objection is None:
        return Setting(rule, _raw(rule, line.value), source="configuration file")
    return Setting(
        rule,
        rule.built_in,
        show=line.value,
        source="configuration file",
        objection=f"{line.place}: {objection.rule}",
    )


def _reviewed(
    target: str,
    facts: CheckFacts,
    settings: Mapping[str, Setting],
    *,
    major: int | None = None,
) -> Reviewed:
    """Return the doctor's findings on all these settings."""
    for_doctor = {
        name: replace(setting, source="default")  # A review has a column for the source.
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
        server = replace(server, settings=for_doctor)
    known = replace(facts, server=server)
    return Reviewed(target, known, settings, judged(target, known).findings)


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
