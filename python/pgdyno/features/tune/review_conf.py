"""The proposals of a review as a file of postgresql.conf: what to apply, and how to undo it."""

from __future__ import annotations

import re

from pgdyno.features.tune.review import Review
from pgdyno.features.tune.statements import Proposed, conf_text

_RULE = "pgtune"
# The value in the next step of a finding: "ALTER SYSTEM SET work_mem = '8MB' -> 20 GB".
_SETS = re.compile(r"(?:ALTER SYSTEM SET )?([\w.]+) = ('(?:[^']|'')*'|[^\s;,()]+)")
# A server that was built without a library does not start with the value that needs it.
_OF_LIBRARIES = ("io_uring", "lz4", "zstd")
# Settings of these classes weigh a risk against speed, so a person decides.
_DECIDED = ("durability", "availability")


def proposals(review: Review) -> tuple[Proposed, ...]:
    """Return the values that a review proposes: those that mend a finding, then those of rules."""
    proposed: dict[str, Proposed] = {}
    for attention in review.attention:
        setting = review.every.get(attention.setting)
        if setting is None or attention.setting in proposed:
            continue
        asked, rule = _SETS.match(attention.mend), setting.rules.get(_RULE)
        value = ""
        if asked is not None and asked[1] == setting.name:
            value = asked[2].strip("'").replace("''", "'")
        elif rule is not None and rule.text is not None:
            value = rule.text
        is_risk = setting.entry is not None and setting.entry.risk in _DECIDED
        is_left = not value or (is_risk and attention.verdict != "bad")
        why = attention.seen.removeprefix(f"{setting.name} = {setting.present.value}: ")
        if is_left and attention.mend:
            why = f"{why}; decide: {attention.mend}"
        proposed[setting.name] = Proposed(
            setting.name, setting.present.value, value, why, setting.needs, is_left
        )
    for setting in review.against(_RULE):
        rule = setting.rules[_RULE]
        if setting.name not in proposed and rule.text is not None:
            is_known = not review.is_file and rule.text in setting.present.rule.values
            is_left = rule.text in _OF_LIBRARIES and not is_known
            why = f"{setting.meaning} PGTune: {rule.formula}"
            built = "needs a server that was built" if review.is_file else "this server was built"
            why += f"; {built} with{'' if review.is_file else 'out'} it" if is_left else ""
            proposed[setting.name] = Proposed(
                setting.name, setting.present.value, rule.text, why, setting.needs, is_left
            )
    return tuple(proposed.values())


def conf_of(review: Review, machine: str) -> str:
    """Return the file. Args: machine, its facts in words."""
    every = proposals(review)
    head = (
        f"pgdyno settings of {review.target}: {machine}.",
        "Rules of thumb: they know the machine, not your load. pgdyno tune measures the effect.",
    )
    named = {proposed.name for proposed in every}
    rules = {name: setting.rules.get(_RULE) for name, setting in review.known.items()}
    kept = (
        f"{name} stays {review.known[name].present.value}; PGTune: {rule.formula}"
        for name, rule in rules.items()
        if rule is not None and " lowered from " in rule.formula and name not in named
    )
    return conf_text(head, every, kept)
