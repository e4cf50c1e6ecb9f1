"""Formats a review of settings as text or as a JSON document, and published rules as a table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from pgdyno.features.doctor.finding import Verdict
from pgdyno.features.tune.catalogue import Entry
from pgdyno.features.tune.machine import Machine
from pgdyno.features.tune.memory import MemorySum
from pgdyno.features.tune.review import Attention, Explained, Review
from pgdyno.features.tune.rules import RULES, Recommended, rule_set
from pgdyno.quantities import format_bytes
from pgdyno.report.text_page import WIDTH, TextPage, joined

_LABELS: dict[Verdict, str] = {"bad": "BAD", "warn": "WARN", "good": "ok", "unknown": "?"}
_LABEL_WIDTH = 8
_RULES_WIDTH = 46
_NAME_WIDTH = 38
_RULE = "pgtune"
# The text names at most this many settings that differ from the rules; --rules lists all.
_NAMED = 5


def text_of(review: Review, *, show_all: bool, width: int = WIDTH) -> str:
    """Return the whole text, in lines of about `width` characters."""
    rows = list(_rows(review))
    if show_all:
        rows += [("", ""), *_explained(review)]
    return joined(line for label, said in rows for line in _row(label, said, width))


def rules_text(review: Review, width: int = WIDTH) -> str:
    """Return the values of each published set of rules for this machine, with their formulas."""
    lines = [*_row("machine", machine_text(review.machine), width)]
    for rule_id in RULES:
        rules = rule_set(rule_id)
        lines += ["", f"{rules.name}: {rules.source}"]
        named = [setting for setting in review.known.values() if rule_id in setting.rules]
        for setting in named:
            said = setting.rules[rule_id]
            head = f"  {setting.name:32} {setting.present.value:>9}  "
            kept = "already set: " if said.text == setting.present.value else ""
            page = TextPage(max(width, _RULES_WIDTH + 24))
            lines += page.row(head, f"{kept}{_by_rule(said)}", indent=_RULES_WIDTH)
    lines.append("")
    lines += _row(
        "note",
        "Rules of thumb use facts about the machine, not about your load. To measure the effect:"
        " pgdyno compare --variant 'new: NAME=VALUE'.",
        width,
    )
    return joined(lines)


def entry_text(setting: Explained, machine: Machine, width: int = WIDTH) -> str:
    """Return the text about one setting: meaning, value, range, risk and rules."""
    rule, entry = setting.present.rule, setting.entry
    unit = f" in units of {rule.unit}" if rule.unit else ""
    limits = f"{rule.low} to {rule.high}{unit}" if rule.low else ", ".join(rule.values)
    rows = [
        (setting.name, setting.meaning),
        (
            "value",
            f"{setting.present.value} (default {setting.present.built_in},"
            f" from: {setting.present.source})",
        ),
        ("change", f"needs a {setting.needs}" if setting.needs != "session" else "in any session"),
        ("limits", limits or rule.vartype),
    ]
    if entry is not None:
        rows += [("class", entry.risk), ("price", entry.price)]
        rows += [("if lower", entry.price_of_less or ""), ("search", _span(entry, machine))]
        rows += [("manual", entry.source)]
    for rule_id, said in setting.rules.items():
        rows.append((rule_set(rule_id).name, _by_rule(said)))
    lines = [line for label, text in rows if text for line in _row(label, text, width)]
    return joined(lines)


def machine_text(machine: Machine) -> str:
    """Return the facts about the machine that the rules use.

    If a fact is missing, the text names the option that gives it.
    """
    known = {
        "RAM": format_bytes(machine.ram_bytes) if machine.ram_bytes else "not known (--ram)",
        "cores": str(machine.cores) if machine.cores else "not known (--cores)",
        "disk": machine.disk or "not known (--disk)",
        "max_connections": str(machine.connections),
        "load": machine.load,
        "database": format_bytes(machine.database_bytes)
        if machine.database_bytes
        else "taken as large",
    }
    return ", ".join(f"{name} {value}" for name, value in known.items())


def document_of(review: Review) -> dict[str, Any]:
    """Return the review as a JSON document in the format pgdyno.settings/1."""
    return {
        "format": "pgdyno.settings/1",
        "target": review.target,
        "verdict": review.worst,
        "machine": asdict(review.machine),
        "setting_count": review.total_count,
        "changed_count": len(review.changed),
        "attention": [asdict(attention) for attention in review.attention],
        "pending_restart": list(review.pending),
        "memory": {
            "low_bytes": review.memory.low_bytes,
            "high_bytes": review.memory.high_bytes,
            "ram_bytes": review.memory.ram_bytes,
            "parts": [asdict(part) for part in review.memory.parts],
        },
        "settings": [_setting_document(setting) for setting in _listed(review)],
        "warnings": [],
    }


def _setting_document(setting: Explained) -> dict[str, Any]:
    return {
        "name": setting.name,
        "value": setting.present.value,
        "default": setting.present.built_in,
        "is_changed": setting.present.is_changed,
        "source": setting.present.source,
        "needs": setting.needs,
        "class": setting.entry.risk if setting.entry else None,
        "meaning": setting.meaning,
        "price": setting.price,
        "rules": {
            rule: {"value": said.text, "formula": said.formula}
            for rule, said in setting.rules.items()
        },
    }


def _listed(review: Review) -> list[Explained]:
    """Return the settings of the catalogue, and those that differ from their default, each once."""
    names = {**review.known, **{setting.name: setting for setting in review.changed}}
    return [names[name] for name in sorted(names)]


def _rows(review: Review) -> Iterator[tuple[str, str]]:
    """Yield label and text of every row of the review."""
    count, changed = len({attention.setting for attention in review.attention}), len(review.changed)
    yield "target", review.target
    yield "machine", machine_text(review.machine)
    yield (
        "",
        f"{_counted(changed, 'setting differs', 'settings differ')} from the defaults;"
        + (
            f" {_counted(count, 'setting needs', 'settings need')} attention"
            if count
            else " none needs attention"
        ),
    )
    for attention in review.attention:
        yield from _attention(attention, review)
    yield "memory", _memory(review.memory)
    if review.pending:
        yield "restart", f"changed, but not in force before a restart: {', '.join(review.pending)}"
    if differing := review.against(_RULE):
        yield "rules", _differences(differing)
    if review.fine:
        yield "ok", f"{_counted(len(review.fine), 'other', 'others')} (--all explains each)"


def _attention(attention: Attention, review: Review) -> Iterator[tuple[str, str]]:
    explained = review.known.get(attention.setting)
    present = next((c.present for c in review.changed if c.name == attention.setting), None)
    present = explained.present if explained is not None else present
    value = f" = {present.value}" if present is not None and present.value != "''" else ""
    label = f"{_LABELS[attention.verdict]:{_LABEL_WIDTH}}{attention.setting}{value}"
    yield label, re.sub(rf"^{re.escape(attention.setting)} = (?:'[^']*'|\S+): ", "", attention.seen)
    steps = [f"mend: {attention.mend}"] if attention.mend else []
    rule = explained.rules.get(_RULE) if explained is not None else None
    if rule is not None and rule.text is not None and explained is not None:
        steps.append(f"PGTune: {_by_rule(rule)}")
        if explained.needs == "restart":
            steps.append("needs a restart")
    if steps:
        yield " " * _LABEL_WIDTH, "; ".join(steps)


def _by_rule(rule: Recommended) -> str:
    """Return "7GB = ram / 4", or the value alone if the formula is only the value."""
    if rule.text is None:
        return f"? = {rule.formula} (give --{rule.lacks})"
    return rule.text if rule.text == rule.formula else f"{rule.text} = {rule.formula}"


def _explained(review: Review) -> Iterator[tuple[str, str]]:
    """Yield one row for each setting that differs from its default."""
    verdicts: dict[str, Verdict] = {}
    for attention in review.attention:
        verdicts.setdefault(attention.setting, attention.verdict)  # The worst comes first.
    for setting in review.changed:
        label = _LABELS[verdicts.get(setting.name, "good")]
        risk = f"{setting.entry.risk}, " if setting.entry is not None else ""
        said = f"{setting.meaning} (default {setting.present.built_in}; {risk}{setting.needs})"
        price = f" {setting.price}" if setting.price else ""
        yield f"{label:{_LABEL_WIDTH}}{setting.name} = {setting.present.value}", said + price


def _memory(memory: MemorySum) -> str:
    ram_text = (
        f", {format_bytes(memory.ram_bytes)} RAM" if memory.ram_bytes else ", RAM not known (--ram)"
    )
    parts = ", ".join(
        f"{part.name} {_range(part.low_bytes, part.high_bytes)}" for part in memory.parts
    )
    return f"{_range(memory.low_bytes, memory.high_bytes)}{ram_text}: {parts}"


def _range(low_bytes: int, high_bytes: int) -> str:
    low, high = format_bytes(low_bytes), format_bytes(high_bytes)
    if low_bytes == high_bytes:
        return high
    return f"up to {high}" if low_bytes == 0 else f"{low} to {high}"


def _differences(differing: list[Explained]) -> str:
    named = [
        f"{setting.name} {setting.present.value} (PGTune {setting.rules[_RULE].text})"
        for setting in differing
    ]
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return f"far from the rules of thumb: {', '.join(named[:_NAMED])}{more}; see --rules"


def _span(entry: Entry, machine: Machine) -> str:
    choices = entry.choices(machine)
    if choices:
        return f"one of {', '.join(choices)}"
    return f"{entry.low} to {entry.high}, {entry.scale}" if entry.low else ""


def _counted(count: int, singular: str, plural: str) -> str:
    return f"{count} {singular if count == 1 else plural}"


def _row(label: str, said: str, width: int) -> Iterator[str]:
    """Yield one row of the review. Rows about settings start their text in one column."""
    if label.strip() and not said:
        return
    is_named = label.startswith(tuple(_LABELS.values())) and len(label) > _LABEL_WIDTH
    is_under = label == " " * _LABEL_WIDTH
    indent = _NAME_WIDTH if is_named or is_under else _LABEL_WIDTH if label else 0
    page = TextPage(max(width, indent + 24))
    if len(label) >= indent > _LABEL_WIDTH:
        yield label
        label = ""
    yield from page.row(label, said, indent=indent)
