"""Values of settings that have a cost on every server, by the ranges of `values.toml`.

A contradiction needs two settings and a check of the doctor needs facts about the machine. These
rules need the value alone, and they cover every core setting of the supported versions.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import cast

from pgdyno.features.doctor.finding import Verdict
from pgdyno.features.tune.values import amount
from pgdyno.spec.setting_rules import SettingRule

ANY = "*"


@dataclass(frozen=True, slots=True)
class Accepted:
    """The values of one setting that need no attention; `harm` is what the others do."""

    about: str
    harm: str
    verdict: Verdict
    values: tuple[str, ...]

    def has(self, rule: SettingRule, text: str) -> bool:
        """Return whether the value is accepted. Args: text, in the form of postgresql.conf."""
        return any(_is_within(rule, text, accepted) for accepted in self.values)

    @property
    def shown(self) -> str:
        """Return the accepted values as words: "0 or at least 1s"."""
        return " or ".join(_in_words(value) for value in self.values)


@lru_cache(maxsize=1)
def accepted_values() -> dict[str, Accepted]:
    """Return setting in lower case -> the accepted values, for every core setting."""
    text = files("pgdyno.features.tune").joinpath("values.toml").read_text(encoding="utf-8")
    return {
        name.lower(): Accepted(
            about=group["about"],
            harm=group["harm"],
            verdict=cast("Verdict", group.get("verdict", "warn")),
            values=tuple(values.split(" | ")),
        )
        for group in tomllib.loads(text).values()
        for name, values in group["accepted"].items()
    }


def _is_within(rule: SettingRule, text: str, accepted: str) -> bool:
    if accepted == ANY:
        return True
    number = amount(rule, text)
    if number is None:
        return text.lower() == accepted.lower()
    low, is_range, high = accepted.partition("..")
    if not is_range:
        return number == amount(rule, accepted)
    lowest, highest = (amount(rule, end) if end else None for end in (low, high))
    return (lowest is None or number >= lowest) and (highest is None or number <= highest)


def _in_words(accepted: str) -> str:
    low, is_range, high = accepted.partition("..")
    if not is_range:
        return accepted
    if not high:
        return f"at least {low}"
    return f"{low} to {high}" if low else f"at most {high}"
