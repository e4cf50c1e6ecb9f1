"""What to apply after a tuning: lines of postgresql.conf and ALTER SYSTEM, with comments."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from pgdyno.analysis.rounding import change_text
from pgdyno.features.tune.findings import SettingEffect, TuneFindings
from pgdyno.settings.rule import Needs
from pgdyno.spec.designs import METRIC_WORDS

_COMMENT_COLUMNS = 96
NEEDS_WORDS: dict[Needs, str] = {
    "session": "needs a reload, or SET in a session",
    "reload": "needs a reload",
    "restart": "needs a restart",
    "new cluster": "needs new tables or a new cluster",
}


def conf_fragment(findings: TuneFindings) -> str:
    """Return the settings as lines of postgresql.conf, each with what it changes."""
    sentence = textwrap.wrap(f"pgdyno tune: {findings.sentence()}", _COMMENT_COLUMNS)
    lines = [*(f"# {line}" for line in sentence), *_restart_comment(findings, "#")]
    for setting in findings.settings:
        lines += [f"# {line}" for line in _comments(findings, setting)]
        mark = "# " if setting.needs == "new cluster" else ""
        lines.append(f"{mark}{setting.name} = {quoted(setting.new)}")
    return "\n".join(lines)


def alter_system(findings: TuneFindings, *, is_short: bool = False) -> str:
    """Return the statements that set everything; a restart is named first.

    Args: is_short, without the comment of each setting.
    """
    lines = [*_restart_comment(findings, "--")]
    for setting in findings.settings:
        if not is_short:
            lines += [f"-- {line}" for line in _comments(findings, setting)]
        if setting.needs == "new cluster":
            lines.append(f"-- {setting.name} = {setting.new}")
        else:
            lines.append(f"ALTER SYSTEM SET {setting.name} = {quoted(setting.new)};")
    names = [setting.name for setting in findings.settings if setting.needs != "new cluster"]
    undo = [f"-- undo: {_resets(names)}"] if names else []
    return "\n".join([*lines, "SELECT pg_reload_conf();", *undo])


def effect_text(findings: TuneFindings, setting: SettingEffect) -> str:
    """Return what a setting brings: "tps +18 % (14 to 22)", or that it was not measured alone."""
    ratio = findings.effect_of(setting)
    if ratio is None:
        return "not measured alone"
    return f"{METRIC_WORDS[findings.metric]} {change_text(ratio)}"


def _resets(names: Iterable[str]) -> str:
    """Return what restores the values of postgresql.conf."""
    resets = "; ".join(f"ALTER SYSTEM RESET {name}" for name in names)
    return f"{resets}; SELECT pg_reload_conf();"


def _restart_comment(findings: TuneFindings, mark: str) -> Iterable[str]:
    if findings.needs_restart:
        yield f"{mark} needs a restart: {', '.join(findings.needs_restart)}"


def _comments(findings: TuneFindings, setting: SettingEffect) -> Iterable[str]:
    words = NEEDS_WORDS[setting.needs]
    yield f"was {setting.old}; {effect_text(findings, setting)}; class {setting.risk}; {words}"
    if setting.price:
        yield " ".join(setting.price.split())


def quoted(value: str) -> str:
    """Return a value as postgresql.conf and SQL write it."""
    return "'" + value.replace("'", "''") + "'"
