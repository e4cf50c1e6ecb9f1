"""Formats a review of settings as text or as a JSON document, and published rules as a table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from pgdyno.features.doctor.finding import Verdict
from pgdyno.features.tune.contradictions import Attention
from pgdyno.features.tune.machine import machine_text
from pgdyno.features.tune.memory import MemorySum
from pgdyno.features.tune.review import Explained, Review
from pgdyno.features.tune.review_conf import proposals
from pgdyno.quantities import counted, format_bytes
from pgdyno.report.text_page import WIDTH, TextPage, joined
from pgdyno.settings.formula import Machine
from pgdyno.settings.published import RULES, Recommended, rule_set
from pgdyno.settings.table import Entry

_LABELS: dict[Verdict, str] = {"bad": "BAD", "warn": "WARN", "good": "ok", "unknown": "?"}
_LABEL_WIDTH = 8
_RULES_WIDTH = 46
_RULE = "pgtune"
# The text names at most this number of settings that differ from the rules; --rules lists all.
_NAMED = 5
# The text has at most this number of lines without --all; the names of findings that have no room
# take up to three.
_LINES_MAX, _LINES_OF_NAMES = 25, 3


def text_of(review: Review, *, show_all: bool, width: int = WIDTH) -> str:
    """Return the whole text, in lines of about `width` characters.

    Without `show_all`, it has at most 25 lines: the worst findings, and the names of the others.
    """
    first = [line for row in _first_rows(review) for line in _row(*row, width)]
    last = [line for row in _last_rows(review) for line in _row(*row, width)]
    blocks = [(a.setting, list(_row(*_attention(a, review), width))) for a in review.attention]
    room = _LINES_MAX - len(first) - len(last)
    if not show_all and sum(len(block) for _, block in blocks) > room:
        room -= _LINES_OF_NAMES
    else:
        room = sum(len(block) for _, block in blocks)
    lines: list[str] = []
    named: list[str] = []
    for setting, block in blocks:
        if named or len(lines) + len(block) > room:
            named.append(setting)
        else:
            lines += block
    if named:
        lines += _row("more", f"{', '.join(dict.fromkeys(named))} (--all)", width)
    if show_all:
        last += ["", *(line for row in _explained(review) for line in _row(*row, width))]
    return joined([*first, *lines, *last])


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


def _first_rows(review: Review) -> Iterator[tuple[str, str]]:
    """Yield label and text of the rows above the findings; the first has the answer."""
    count = len({attention.setting for attention in review.attention})
    bad = dict.fromkeys(a.setting for a in review.attention if a.verdict == "bad")
    said = f"{counted(count, 'setting')} need{'s' * (count == 1)}" if count else "no setting needs"
    said += " attention" + (f", {', '.join(bad)} first" if bad else "")
    yield (
        "answer",
        f"{said}; {len(review.changed)} of {review.total_count} differ from the defaults,"
        " without names, paths and languages",
    )
    ready = [proposed for proposed in proposals(review) if not proposed.is_left]
    if ready:
        yield (
            "apply",
            f"--conf FILE writes a file with {counted(len(ready), 'value')} for this machine,"
            " and how to undo it",
        )
    yield "target", review.target
    yield "machine", machine_text(review.machine)


def _last_rows(review: Review) -> Iterator[tuple[str, str]]:
    """Yield label and text of the rows below the findings."""
    yield "memory", _memory(review.memory)
    if review.pending:
        yield "restart", f"changed, but not in force before a restart: {', '.join(review.pending)}"
    if differing := review.against(_RULE):
        yield "rules", _differences(differing)
    if review.fine:
        yield "ok", f"{counted(len(review.fine), 'other')} (--all explains each)"


def _attention(attention: Attention, review: Review) -> tuple[str, str]:
    """Return the label and the text of a finding: setting, what is wrong, the next step."""
    explained = review.every.get(attention.setting)
    value = explained.present.value if explained is not None else "''"
    name = attention.setting + (f" = {value}" if value != "''" else "")
    seen = re.sub(rf"^{re.escape(attention.setting)} = (?:'[^']*'|\S+): ", "", attention.seen)
    said = [f"{name}: {seen}"]
    rule = explained.rules.get(_RULE) if explained is not None else None
    if attention.mend:
        said.append(f"mend: {attention.mend}")
    elif rule is not None and rule.text is not None:
        said.append(f"PGTune: {_by_rule(rule)}")
    if explained is not None and explained.needs == "restart" and "restart" not in said[-1]:
        said.append("needs a restart")
    return _LABELS[attention.verdict], "; ".join(said)


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
        yield label, f"{setting.name} = {setting.present.value}: {said}{price}"


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


def _row(label: str, said: str, width: int) -> Iterator[str]:
    """Yield one row of the text."""
    if said:
        yield from TextPage(width).row(label, said, indent=_LABEL_WIDTH)
