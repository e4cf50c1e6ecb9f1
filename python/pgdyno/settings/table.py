"""The table of settings: what each does, what it risks, which values are good, what to search.

People wrote the meaning, the risk and the range (`catalogue/*.toml`), and the values that need no
attention on any server (`accepted.toml`: every core setting of the supported versions). Type, unit,
limits and what a change needs come from `rule.py`, and formulas for a machine from `published.py`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal

from pgdyno.settings.formula import Machine, Value, number
from pgdyno.settings.rule import SettingRule, rule_of
from pgdyno.settings.value import amount, text_of

Risk = Literal["safe", "memory", "planner", "durability", "availability"]
RISKS: tuple[Risk, ...] = ("safe", "memory", "planner", "durability", "availability")
Scale = Literal["linear", "log", "choice"]
_FILES = ("memory", "wal", "durability", "planner", "io", "sessions")
ANY = "*"

EVIDENCE: Mapping[str, str] = {
    "backend_writes": "sessions write data pages themselves",
    "buffer_misses": "pages are not found in shared_buffers",
    "checkpoint_writes": "checkpoints write while the load runs",
    "dead_rows": "dead rows are left in tables",
    "forced_checkpoints": "WAL volume forces checkpoints",
    "full_page_images": "much of the WAL is full-page images",
    "jit_time": "statements are compiled",
    "lock_waits": "sessions wait for locks",
    "parallel": "long statements run while cores are idle",
    "plan_costs": "the planner's costs and the measured times disagree",
    "read_waits": "sessions wait for reads of data files",
    "sequential_scans": "tables are read from end to end for few rows",
    "temporary_bytes": "sorts and hashes write temporary files",
    "wal_buffers_full": "WAL buffers are full",
    "wal_flush": "sessions wait for WAL to reach the disk",
}
"""Evidence of a measured run -> its description in words."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One setting of the catalogue.

    `low` and `high`: formulas of the range, None if no range is searched. `special`: values outside
    the range with a special meaning, such as -1. `price`: what a change costs; `price_of_less`:
    what a lower value costs instead, None if the price holds for every change.
    """

    name: str
    meaning: str
    risk: Risk
    source: str
    scale: Scale | None = None
    low: str | None = None
    high: str | None = None
    values: tuple[str, ...] = ()
    special: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    price: str = ""
    price_of_less: str | None = None

    def price_of(self, old: str, new: str, rule: SettingRule | None) -> str:
        """Return what the change from `old` to `new` costs, "" if no cost is known."""
        if self.price_of_less is None or rule is None:
            return self.price
        before, after = amount(rule, old), amount(rule, new)
        is_less = before is not None and after is not None and after < before
        return self.price_of_less if is_less else self.price

    def span(self, machine: Machine, names: Mapping[str, Value]) -> tuple[float, float] | None:
        """Return the range worth searching, in bytes, ms or a plain number.

        Args: names, the values that formulas may use.
        Returns: a range within the server's limits; None for a choice, or if the range is empty.
        Raises: FactMissing if a formula needs a fact that is not known.
        """
        rule = rule_of(self.name, machine.major)
        if self.low is None or self.high is None or rule is None:
            return None
        known = {**machine.names(), **names}
        ends = [text_of(rule, number(formula, known)) for formula in (self.low, self.high)]
        low, high = (amount(rule, text) for text in ends)
        return None if low is None or high is None or low >= high else (low, high)

    def choices(self, machine: Machine) -> tuple[str, ...]:
        """Return the values worth trying that this version knows; empty for a range."""
        rule = rule_of(self.name, machine.major)
        if rule is None:
            return ()
        if rule.vartype == "bool":
            return tuple(value for value in self.values if value in ("on", "off"))
        if rule.vartype != "enum":
            return self.values
        # `on` is another name of pglz since 15.
        others = {"on"} if "pglz" in rule.values and "pglz" in self.values else set()
        return tuple(value for value in self.values if value in rule.values and value not in others)


@dataclass(frozen=True, slots=True)
class AcceptedValues:
    """The values of one setting that need no attention; `harm` is what the others do."""

    about: str
    harm: str
    verdict: Literal["warn", "bad"]
    values: tuple[str, ...]

    def has(self, rule: SettingRule, text: str) -> bool:
        """Return whether the value is accepted. Args: text, in the form of postgresql.conf."""
        return any(_is_within(rule, text, accepted) for accepted in self.values)

    @property
    def shown(self) -> str:
        """Return the accepted values as words: "0 or at least 1s"."""
        return " or ".join(_in_words(value) for value in self.values)


@lru_cache(maxsize=1)
def catalogue() -> dict[str, Entry]:
    """Return every setting of the catalogue by name, in the order of the files."""
    return {entry.name: entry for name in _FILES for entry in _read(name)}


@lru_cache(maxsize=1)
def accepted_values() -> dict[str, AcceptedValues]:
    """Return setting in lower case -> the accepted values, for every core setting."""
    text = files("pgdyno.settings").joinpath("accepted.toml").read_text(encoding="utf-8")
    return {
        name.lower(): AcceptedValues(
            about=group["about"],
            harm=group["harm"],
            verdict=group.get("verdict", "warn"),
            values=tuple(values.split(" | ")),
        )
        for group in tomllib.loads(text).values()
        for name, values in group["accepted"].items()
    }


def _read(name: str) -> Iterator[Entry]:
    text = files("pgdyno.settings").joinpath(f"catalogue/{name}.toml").read_text(encoding="utf-8")
    for setting, fields in tomllib.loads(text).items():
        yield _entry(setting, dict(fields))


def _entry(name: str, fields: dict[str, Any]) -> Entry:
    lists = {key: tuple(fields.pop(key, ())) for key in ("values", "special", "evidence")}
    return Entry(name=name, risk=fields.pop("class"), **{**fields, **lists})


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
